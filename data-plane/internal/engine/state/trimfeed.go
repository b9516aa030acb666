package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// trimFeed removes the events of entries before an index, and notes it so that a
// reader that still needed them finds out.
func (x *entry) trimFeed(c *command.TrimFeed) (Result, error) {
	mark := x.m.space.Feed(0)
	if c.Before <= 1 || c.Before > x.index {
		return Result{Refusal: WrongState}, nil
	}
	v, err := x.txn.Get(mark)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return Result{}, fmt.Errorf("read trim mark: %w", err)
	}
	if err == nil && string(v) >= string(feed.TrimRecord(c.Before)) {
		return Result{Refusal: WrongState}, nil
	}
	x.txn.DeleteRange(x.m.space.Feed(1), x.m.space.Feed(c.Before))
	x.txn.Set(mark, feed.TrimRecord(c.Before))
	return Result{}, nil
}
