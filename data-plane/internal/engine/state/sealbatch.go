package state

import "github.com/corvo-cloud/corvo/data-plane/internal/engine/command"

// sealBatch says that nothing joins any more. Again is the same answer.
func (x *entry) sealBatch(c *command.SealBatch) (Result, error) {
	b, ok, err := x.batch(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	if b.Sealed {
		return Result{Batch: c.ID}, nil
	}
	n, err := x.tally(x.m.space.OpenBatches(c.NS))
	if err != nil {
		return Result{}, err
	}
	x.setTally(x.m.space.OpenBatches(c.NS), n-1)
	b.Sealed = true
	if err := x.fireBatch(c.NS, c.ID, &b); err != nil {
		return Result{}, err
	}
	x.putBatch(c.NS, c.ID, &b)
	return Result{Batch: c.ID}, nil
}
