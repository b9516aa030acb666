package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// deleteEnded deletes what ended long enough ago. Each is looked at again: a job that was
// retried since the leader saw it stays.
func (x *entry) deleteEnded(c *command.DeleteEnded) Result {
	for _, id := range c.Jobs {
		if j, ok := x.job(c.NS, id); ok && j.State.Terminal() && j.Finished <= c.Before {
			x.remove(&j)
		}
	}
	for _, id := range c.Batches {
		x.deleteEndedBatch(c.NS, id, c.Before)
	}
	for _, id := range c.Chains {
		x.deleteEndedChain(c.NS, id, c.Before)
	}
	if c.UsageBefore != 0 {
		x.txn.DeleteRange(x.m.space.UsageBetween(c.NS, 0, c.UsageBefore))
	}
	return Result{}
}

// deleteEndedBatch deletes a batch and who its members were. Those that are still there
// keep its id, and may be retried: it fired, so nothing more is counted.
func (x *entry) deleteEndedBatch(ns job.Namespace, id job.BatchID, before int64) {
	if b, ok := x.batch(ns, id); !ok || !b.Fired() || b.FinishedAt > before {
		return
	}
	x.txn.Delete(x.m.space.Batch(ns, id))
	x.txn.DeleteRange(x.m.space.Members(ns, id, job.ID{}))
}

// deleteEndedChain deletes a chain that does not run. A step that is retried later runs by
// itself.
func (x *entry) deleteEndedChain(ns job.Namespace, id job.ChainID, before int64) {
	if s, ok := x.chainState(ns, id); !ok || s.Status == records.ChainRunning || s.FinishedAt > before {
		return
	}
	x.txn.Delete(x.m.space.Chain(ns, id))
	x.txn.Delete(x.m.space.ChainState(ns, id))
}
