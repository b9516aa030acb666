package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReadNamespaces lists up to limit namespaces that have anything in the store,
// after ns, by id. It costs one seek each, however much they have.
func ReadNamespaces(g *statedb.Group, after job.Namespace, limit int) ([]job.Namespace, error) {
	space := keys.In(g.Prefix())
	var out []job.Namespace
	next, more := successor(after)
	for more && len(out) < limit {
		found := false
		var ns job.Namespace
		from, to := space.Namespaces(next)
		err := g.Scan(from, to, func(key, _ []byte) (bool, error) {
			var err error
			ns, err = space.NamespaceOf(key)
			found = err == nil
			return false, err
		})
		if err != nil {
			return nil, err
		}
		if !found {
			break
		}
		out = append(out, ns)
		next, more = successor(ns)
	}
	return out, nil
}

// successor is the next namespace in byte order; false after the last.
func successor(ns job.Namespace) (job.Namespace, bool) {
	for i := len(ns) - 1; i >= 0; i-- {
		ns[i]++
		if ns[i] != 0 {
			return ns, true
		}
	}
	return ns, false
}
