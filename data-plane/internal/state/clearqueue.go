package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
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
	removed := q.counts.forgetWaiting()
	if removed == 0 {
		return Result{}, nil
	}
	x.touched(q)
	if q.config.kept == 0 {
		q.config.kept = q.gen + 1
	}
	x.passGeneration(q)
	q.config.gen = q.gen
	x.queueEvent(feed.QueueCleared, q)
	return Result{Removed: removed}, nil
}

// passGeneration makes what is there of a queue's name a thing of the past; the rows
// are removed piece by piece.
func (x *entry) passGeneration(q *queueRecord) {
	q.gen = max(x.index, q.gen+1) // Never used before: it grows with the log.
	mark := sweepMark{gen: q.gen, at: x.now}
	x.txn.Set(x.m.space.Sweep(q.key.ns, q.key.name), mark.encode())
	x.txn.DeleteRange(x.m.space.ReadyOf(q.key.ns, q.key.name))
	x.out.Sweep = true
}

// forgetWaiting counts the jobs that no worker holds down to none.
func (c *Counts) forgetWaiting() (n int64) {
	for _, s := range job.States() {
		if !s.Leased() {
			n += c.Jobs[s]
			c.Jobs[s] = 0
		}
	}
	return n
}
