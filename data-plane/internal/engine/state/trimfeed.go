package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
)

// trimFeed removes the events of entries before an index, and notes it so that a
// reader that still needed them finds out.
func (x *entry) trimFeed(c *command.TrimFeed) Result {
	mark := x.m.space.Feed(0)
	if c.Before <= 1 || c.Before > x.index {
		return Result{Refusal: WrongState}
	}
	if v, there := find(x, mark, "trim mark", asIs); there && string(v) >= string(feed.TrimRecord(c.Before)) {
		return Result{Refusal: WrongState}
	}
	x.txn.DeleteRange(x.m.space.Feed(1), x.m.space.Feed(c.Before))
	x.txn.Set(mark, feed.TrimRecord(c.Before))
	return Result{}
}
