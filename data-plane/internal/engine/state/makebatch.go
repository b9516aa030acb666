package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// makeBatch opens a batch.
func (x *entry) makeBatch(c *command.MakeBatch) (Result, error) {
	if refusal, err := x.refusesBatch(c); err != nil || refusal != Accepted {
		return Result{Refusal: refusal}, err
	}
	n, err := x.tally(x.m.space.OpenBatches(c.NS))
	if err != nil {
		return Result{}, err
	}
	x.setTally(x.m.space.OpenBatches(c.NS), n+1)
	b := records.Batch{CreatedAt: x.now}
	if c.Callback != nil && c.Callback.Queue != "" {
		b.Callback = c.Callback.Queue
		x.txn.Set(x.m.space.Callback(c.NS, c.ID), records.EncodeCallback(c.Callback.Payload))
	}
	x.putBatch(c.NS, c.ID, &b)
	return Result{Batch: c.ID}, nil
}

// refusesBatch reports why a batch may not be made.
func (x *entry) refusesBatch(c *command.MakeBatch) (Refusal, error) {
	if _, there, err := x.batch(c.NS, c.ID); err != nil || there {
		return Exists, err
	}
	n, err := x.tally(x.m.space.OpenBatches(c.NS))
	if err == nil && n >= OpenBatchesMax {
		return TooMany, nil
	}
	return Accepted, err
}
