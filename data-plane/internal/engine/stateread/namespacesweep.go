package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// NamespaceSweep is a walk over the due rows of the group for those of an ended namespace.
// Its place is only in memory: a new leader begins again.
type NamespaceSweep struct {
	NS  job.Namespace
	due keys.Due // The last one that was looked at.
}

// Next walks on and returns the next command to propose, or nil if this part had nothing
// of the namespace. The last one is Done.
func (s *NamespaceSweep) Next(g *statedb.Group) (*command.SweepNamespace, error) {
	c := &command.SweepNamespace{NS: s.NS, Done: true}
	space := keys.In(g.Prefix())
	walked := 0
	from, to := space.Dues(s.due)
	err := g.Scan(from, to, func(key, _ []byte) (bool, error) {
		if walked == HeadsWalked || len(c.Due) == command.SweepMax {
			c.Done = false
			return false, nil
		}
		walked++
		d, err := space.ParseDue(key)
		if err != nil {
			return false, err
		}
		if s.due = d; d.NS == s.NS && d.Kind != keys.DueAudit {
			c.Due = append(c.Due, d)
		}
		return true, nil
	})
	if err != nil || len(c.Due) == 0 && !c.Done {
		return nil, err
	}
	return c, nil
}
