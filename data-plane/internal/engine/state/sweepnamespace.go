package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// sweepNamespaceThatStands is a sweep of a namespace that was never ended, or of which that
// is forgotten.
func (x *entry) sweepNamespaceThatStands(*command.SweepNamespace) Result {
	return Result{Refusal: WrongState}
}

// sweepNamespace removes rows that the leader found, in pieces; in the end nothing tells
// of the namespace any more.
func (x *entry) sweepNamespace(c *command.SweepNamespace) Result {
	for i := range c.Due {
		x.txn.Delete(x.m.space.Due(c.Due[i]))
	}
	for _, index := range c.Feed {
		x.dropEvents(c.NS, index)
	}
	mark := x.m.ended[c.NS]
	switch {
	case c.Forget && mark.Swept:
		x.txn.DeleteRange(x.m.space.NamespaceSpan(c.NS)) // Where its audit records were.
		x.txn.Delete(x.m.space.Ended(c.NS))
		delete(x.m.ended, c.NS)
	case c.Done && !mark.Swept:
		mark.Swept = true
		x.txn.Set(x.m.space.Ended(c.NS), mark.Encode())
		x.m.ended[c.NS] = mark
	}
	return Result{}
}

// dropEvents takes the events of a namespace out of an entry of the feed.
func (x *entry) dropEvents(ns job.Namespace, index uint64) {
	key := x.m.space.Feed(index)
	v, there := find(x, key, "feed entry", asIs)
	if !there || index == 0 || index >= x.index {
		return // Trimmed since.
	}
	if rest := statedb.Must(feed.Without(v, ns)); rest != nil {
		x.txn.Set(key, rest)
	} else {
		x.txn.Delete(key)
	}
}
