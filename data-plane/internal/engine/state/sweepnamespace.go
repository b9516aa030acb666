package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
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
