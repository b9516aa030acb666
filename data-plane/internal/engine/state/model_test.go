package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// oracle is the job machine as one would explain it: plain lists, no index and no
// counter, and everything derived is computed each time. Only places in the log come from
// the engine: leases, and the id of a job that a schedule makes by hand.
//
// The life of one job is in modeljob, all of it, in less than 400 lines. The others
// add what is not about one job: admission (modelenqueue), queues (modelqueue), what
// the end of a job does to others (modelgroups), cron (modelschedule), and what models
// cost, approvals and agents (modelmoney), and what is billed (modelmeter). How the model is compared with the engine
// (modelpair) and what is drawn (generator) is not part of it. Which command does which of
// these is a list in commands_test.go, beside the other lists of commands.
type oracle struct {
	now       int64       // Calendar time.
	lease     int64       // Lease time.
	turn      int         // Counts jobs that become ready.
	jobs      []*modelJob // All that ever were, the oldest first.
	queues    map[queueKey]*modelQueue
	answers   map[answerKey]modelAnswer // To enqueues with an idempotency key.
	batches   map[job.BatchID]*modelBatch
	chains    map[job.ChainID]*modelChain
	schedules map[scheduleKey]*modelSchedule
	budgets   map[budgetAt]*modelBudget
	policies  []*command.PutPolicy // The oldest first.
	reports   []modelReport        // Of what models were used for, the oldest first.
	ended     []*modelJob          // By this command: what follows on it comes after it.
	stored    []modelStored        // What was stored and removed, the oldest first.
	attempts  []modelAttempt       // That ended, the oldest first.
}

func newOracle() *oracle {
	return &oracle{
		now: epoch, queues: map[queueKey]*modelQueue{}, answers: map[answerKey]modelAnswer{}, batches: map[job.BatchID]*modelBatch{},
		chains: map[job.ChainID]*modelChain{}, schedules: map[scheduleKey]*modelSchedule{}, budgets: map[budgetAt]*modelBudget{},
	}
}

// group is the commands of an Atomic.
func (m *oracle) group(cmds []command.Command) []Result {
	why, again := m.atomic(cmds)
	out := make([]Result, len(cmds))
	for i, c := range cmds {
		e, enqueue := c.(*command.Enqueue)
		switch {
		case why != Accepted:
			out[i].Refusal = why
		case enqueue:
			out[i] = m.enqueue(e, true)
			m.follow()
		case !again:
			out[i] = m.apply(c, Result{})
		}
	}
	return out
}

func (m *oracle) person(ns job.Namespace, id job.ID, do func(j *modelJob) Refusal) Refusal {
	j := m.find(ns, id)
	if j == nil {
		return NotFound
	}
	return do(j)
}

func remove[K comparable, V any](from map[K]V, k K) Refusal {
	if _, there := from[k]; !there {
		return NotFound
	}
	delete(from, k)
	return Accepted
}
