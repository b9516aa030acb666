package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
)

// clearQueue removes all jobs of a queue that no worker holds, the way deleteQueue
// removes all: the generation passes, and jobs that are held outlive it.
func (x *entry) clearQueue(c *command.ClearQueue) Result {
	q := x.queue(c.NS, c.Queue)
	if !q.hasConfig {
		return Result{Refusal: NotFound}
	}
	removed := q.counts.ForgetWaiting()
	if removed == 0 {
		return Result{}
	}
	x.touched(q)
	if q.config.Kept == 0 {
		q.config.Kept = q.gen + 1
	}
	x.passGeneration(q)
	q.config.Gen = q.gen
	x.queueEvent(feed.QueueCleared, q)
	return Result{Removed: removed}
}
