package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// admits reports whether a new job may come in, by what its queue and the things it
// names allow; Accepted if so. Asking changes nothing. It is asked about jobs of
// producers only: what follows from a job that is there always comes in. Batches that are
// made along with it count as there; of is the job for which another one is refused.
func (x *entry) admits(c *command.Enqueue, made batches) (why Refusal, of job.ID) {
	q := x.queue(c.NS, c.Queue)
	if q.config.Draining {
		return Draining, of
	}
	if x.budgetRefuses(c) {
		return BudgetSpent, of
	}
	if !c.Batch.IsZero() && !made[batchKey{c.NS, c.Batch}] {
		if why = x.joinable(c.NS, c.Batch); why != Accepted {
			return why, of
		}
	}
	return x.dependable(c.NS, c.DependsOn)
}
