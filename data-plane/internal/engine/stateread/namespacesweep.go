package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// NamespaceSweep is a walk over the rows of the group for what an ended namespace left
// among them. Its place is only in memory: a new leader begins again.
type NamespaceSweep struct {
	NS   job.Namespace
	due  keys.Due // The last one that was looked at.
	feed uint64
	dues bool // The due rows are done.
}

// Next walks on and returns the next command to propose, or nil if this part had nothing
// of the namespace. The last one is Done.
func (s *NamespaceSweep) Next(g *statedb.Group) (*command.SweepNamespace, error) {
	c := &command.SweepNamespace{NS: s.NS}
	var err error
	if s.dues {
		err = s.nextEvents(g, c)
	} else {
		err = s.nextDue(g, c)
	}
	if err != nil || len(c.Due)+len(c.Feed) == 0 && !c.Done {
		return nil, err
	}
	return c, nil
}

func (s *NamespaceSweep) nextDue(g *statedb.Group, c *command.SweepNamespace) error {
	space := keys.In(g.Prefix())
	walked, more := 0, false
	from, to := space.Dues(s.due)
	err := g.Scan(from, to, func(key, _ []byte) (bool, error) {
		if more = walked == HeadsWalked || len(c.Due) == command.SweepMax; more {
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
	s.dues = !more
	return err
}

func (s *NamespaceSweep) nextEvents(g *statedb.Group, c *command.SweepNamespace) error {
	space := keys.In(g.Prefix())
	walked, more := 0, false
	from, to := space.FeedFrom(s.feed + 1)
	err := g.Scan(from, to, func(key, value []byte) (bool, error) {
		if more = walked == HeadsWalked || len(c.Feed) == command.SweepMax; more {
			return false, nil
		}
		walked++
		index, err := space.FeedIndex(key)
		if err != nil {
			return false, err
		}
		s.feed = index
		names, err := feed.Has(value, s.NS)
		if names {
			c.Feed = append(c.Feed, index)
		}
		return err == nil, err
	})
	c.Done = !more
	return err
}
