package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// EndedNamespace is a namespace that was ended and not yet forgotten.
type EndedNamespace struct {
	NS    job.Namespace
	At    int64
	Swept bool
}

// ReadEndedNamespaces lists the namespaces that were ended, by id.
func ReadEndedNamespaces(g *statedb.Group) ([]EndedNamespace, error) {
	space := keys.In(g.Prefix())
	var out []EndedNamespace
	from, to := space.Endeds()
	err := g.Scan(from, to, func(key, value []byte) (bool, error) {
		ns, err := space.EndedOf(key)
		if err != nil {
			return false, err
		}
		m, err := records.DecodeEndedMark(value)
		out = append(out, EndedNamespace{ns, m.At, m.Swept})
		return err == nil, err
	})
	return out, err
}

// IsEnded reports whether a namespace was ended.
func IsEnded(g *statedb.Group, ns job.Namespace) (bool, error) {
	v, err := optional(g.Get(keys.In(g.Prefix()).Ended(ns)))
	return v != nil, err
}

// IsAudited reports whether audit records of a namespace are kept: some that were not
// taken yet, or lately.
func IsAudited(g *statedb.Group, ns job.Namespace) (bool, error) {
	space := keys.In(g.Prefix())
	found := false
	from, to := space.AuditFrom(0)
	err := g.Scan(from, to, func(key, value []byte) (bool, error) {
		number, err := space.AuditNumber(key)
		if err != nil {
			return false, err
		}
		rec, err := records.DecodeAudit(number, value)
		found = found || rec.NS == ns
		return err == nil && !found, err
	})
	return found, err
}
