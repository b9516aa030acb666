package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// requeue retries those of the named jobs that are dead in the queue now. Who is alive
// again, or elsewhere, since the leader looked is left alone.
func (x *entry) requeue(c *command.Requeue) Result {
	var res Result
	for _, id := range c.Jobs {
		j, ok := x.job(c.NS, id)
		if !ok || j.State != job.Dead || j.Queue != c.Queue {
			continue
		}
		x.retry(&command.Retry{NS: c.NS, ID: id})
		res.Requeued++
	}
	return res
}
