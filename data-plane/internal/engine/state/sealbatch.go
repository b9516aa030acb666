package state

import "github.com/corvo-cloud/corvo/data-plane/internal/engine/command"

// sealBatch says that nothing joins any more. Again is the same answer.
func (x *entry) sealBatch(c *command.SealBatch) Result {
	b, ok := x.batch(c.NS, c.ID)
	if !ok {
		return Result{Refusal: NotFound}
	}
	if b.Sealed {
		return Result{Batch: c.ID}
	}
	open := x.m.space.OpenBatches(c.NS)
	x.setTally(open, x.tally(open)-1)
	b.Sealed = true
	x.fireBatch(c.NS, c.ID, &b)
	x.putBatch(c.NS, c.ID, &b)
	return Result{Batch: c.ID}
}
