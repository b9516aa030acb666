package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// deleteQueue removes a queue with all its jobs in one small entry, however many
// there are: the queue's generation passes, and whatever carries another generation
// than its queue is not there for any command or reader. The ready order goes at
// once, as a range; the rest waits for sweep. The name is free at once.
func (x *entry) deleteQueue(c *command.DeleteQueue) Result {
	q := x.queue(c.NS, c.Queue)
	if !q.hasConfig {
		return Result{Refusal: NotFound}
	}
	if q.hasCounts { // Also what only passed through may have left a key.
		x.passGeneration(q)
	} else if _, pending := x.sweepMark(c.NS, c.Queue); !pending {
		q.gen = 0 // Nothing of any generation is left.
	}
	x.forgetQueue(q)
	x.events = append(x.events, feed.Event{Type: feed.QueueDeleted, NS: c.NS, Queue: c.Queue})
	return Result{}
}

// forgetQueue removes the queue's own records.
func (x *entry) forgetQueue(q *queueRecord) {
	q.config, q.counts = records.QueueConfig{}, records.Counts{}
	q.hasConfig, q.hasCounts, q.dirty, q.dirtyConf = false, false, false, false
	x.txn.Delete(x.m.space.Queue(q.key.ns, keys.QueueConfig, q.key.name))
	x.txn.Delete(x.m.space.Queue(q.key.ns, keys.QueueCounts, q.key.name))
	x.tell(q)
}
