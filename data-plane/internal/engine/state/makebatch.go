package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// makeBatch opens a batch.
func (x *entry) makeBatch(c *command.MakeBatch) Result {
	if refusal := x.refusesBatch(c); refusal != Accepted {
		return Result{Refusal: refusal}
	}
	open := x.m.space.OpenBatches(c.NS)
	x.setTally(open, x.tally(open)+1)
	b := records.Batch{CreatedAt: x.now}
	if c.Callback != nil && c.Callback.Queue != "" {
		b.Callback = c.Callback.Queue
		x.txn.Set(x.m.space.Callback(c.NS, c.ID), records.EncodeCallback(c.Callback.Payload))
	}
	x.putBatch(c.NS, c.ID, &b)
	return Result{Batch: c.ID}
}

// refusesBatch reports why a batch may not be made.
func (x *entry) refusesBatch(c *command.MakeBatch) Refusal {
	if _, there := x.batch(c.NS, c.ID); there {
		return Exists
	}
	if x.tally(x.m.space.OpenBatches(c.NS)) >= OpenBatchesMax {
		return TooMany
	}
	return Accepted
}
