package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/records"
)

// clearQueue removes all jobs of a queue that no worker holds, the way deleteQueue
// removes all: the generation passes, and jobs that are held outlive it.
func (x *entry) clearQueue(c *command.ClearQueue) (Result, error) {
	q, err := x.queue(c.NS, c.Queue)
	if err != nil {
		return Result{}, err
	}
	if !q.hasConfig {
		return Result{Refusal: NotFound}, nil
	}
	removed := q.counts.ForgetWaiting()
	if removed == 0 {
		return Result{}, nil
	}
	x.touched(q)
	if q.config.Kept == 0 {
		q.config.Kept = q.gen + 1
	}
	x.passGeneration(q)
	q.config.Gen = q.gen
	x.queueEvent(feed.QueueCleared, q)
	return Result{Removed: removed}, nil
}

// passGeneration makes what is there of a queue's name a thing of the past; the rows
// are removed piece by piece.
func (x *entry) passGeneration(q *queueRecord) {
	q.gen = max(x.index, q.gen+1) // Never used before: it grows with the log.
	mark := records.SweepMark{Gen: q.gen, At: x.now}
	x.txn.Set(x.m.space.Sweep(q.key.ns, q.key.name), mark.Encode())
	x.txn.DeleteRange(x.m.space.ReadyOf(q.key.ns, q.key.name))
	x.out.Sweep = true
}
