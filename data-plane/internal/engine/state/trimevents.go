package state

import "github.com/corvo-cloud/corvo/data-plane/internal/engine/command"

// trimEvents deletes the events of a namespace before a number. Their numbers stay used,
// so that a reader that still needed them finds out.
func (x *entry) trimEvents(c *command.TrimEvents) Result {
	if c.Before > x.eventsEnd(c.NS).Seq+1 {
		return Result{Refusal: WrongState}
	}
	x.txn.DeleteRange(x.m.space.EventsBetween(c.NS, 0, c.Before))
	return Result{}
}
