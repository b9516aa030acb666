package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// sweepNamespaceThatStands is a sweep of a namespace that was never ended, or of which that
// is forgotten.
func (x *entry) sweepNamespaceThatStands(*command.SweepNamespace) (Result, error) {
	return Result{Refusal: WrongState}, nil
}

// sweepNamespace removes rows that the leader found, in pieces; in the end nothing tells
// of the namespace any more.
func (x *entry) sweepNamespace(c *command.SweepNamespace) (Result, error) {
	for i := range c.Due {
		x.txn.Delete(x.m.space.Due(c.Due[i]))
	}
	for _, index := range c.Feed {
		if err := x.dropEvents(c.NS, index); err != nil {
			return Result{}, err
		}
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
	return Result{}, nil
}

// dropEvents takes the events of a namespace out of an entry of the feed.
func (x *entry) dropEvents(ns job.Namespace, index uint64) error {
	key := x.m.space.Feed(index)
	v, err := x.txn.Get(key)
	if errors.Is(err, statedb.ErrNotFound) || index == 0 || index >= x.index {
		return nil // Trimmed since.
	}
	if err != nil {
		return fmt.Errorf("read feed entry %d: %w", index, err)
	}
	rest, err := feed.Without(v, ns)
	if err != nil {
		return fmt.Errorf("feed entry %d: %w", index, err)
	}
	if rest == nil {
		x.txn.Delete(key)
		return nil
	}
	x.txn.Set(key, rest)
	return nil
}
