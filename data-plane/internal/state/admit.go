package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// admits reports whether a new job may come in, by what its queue and the things it
// names allow; Accepted if so. Asking changes nothing. It is asked about jobs of
// producers only: what follows from a job that is there always comes in.
func (x *entry) admits(c *command.Enqueue) (Refusal, error) {
	if x.bond.asked {
		return Accepted, nil
	}
	x.refusedFor = job.ID{}
	q, err := x.queue(c.NS, c.Queue)
	if err != nil {
		return Accepted, err
	}
	if q.config.Draining {
		return Draining, nil
	}
	if refused, err := x.budgetRefuses(c); refused || err != nil {
		return BudgetSpent, err
	}
	return x.admitsTies(c)
}

// admitsTies is admits for the batch that a job joins and the jobs that it waits for.
func (x *entry) admitsTies(c *command.Enqueue) (why Refusal, err error) {
	if !c.Batch.IsZero() && !x.bond.made[batchKey{c.NS, c.Batch}] {
		if why, err = x.joinable(c.NS, c.Batch); err != nil || why != Accepted {
			return why, err
		}
	}
	x.refusedFor, why, err = x.dependable(c.NS, c.DependsOn)
	return why, err
}
