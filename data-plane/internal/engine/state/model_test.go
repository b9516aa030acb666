package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// oracle is the job machine as one would explain it: lists of what there is, no index
// and no counter, and what can be computed from them is computed anew each time. Only
// places in the log are the engine's own: leases, and the id of a job that a schedule
// makes by hand.
//
// What becomes of one job is modeljob, all of it, in less than 400 lines. The others
// add what is not about one job: who comes in (modelenqueue), queues (modelqueue), what
// the end of a job does to others (modelgroups), cron (modelschedule), and what models
// cost, approvals and agents (modelmoney). How the model is compared with the engine
// (modelpair) and what is drawn (generator) is no part of it.
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
}

func newOracle() *oracle {
	return &oracle{
		now: epoch, queues: map[queueKey]*modelQueue{}, answers: map[answerKey]modelAnswer{}, batches: map[job.BatchID]*modelBatch{},
		chains: map[job.ChainID]*modelChain{}, schedules: map[scheduleKey]*modelSchedule{}, budgets: map[budgetAt]*modelBudget{},
	}
}

// apply is one command; got is what the engine answered.
func (m *oracle) apply(c command.Command, got Result) (want Result) {
	switch c := c.(type) {
	case *command.Enqueue:
		want = m.enqueue(c, false)
	case *command.Fetch:
		want.Grants = m.fetch(c, got.Grants)
	case *command.Ack:
		want.Refusal = m.ack(c)
	case *command.Fail:
		want.Refusal = m.fail(c)
	case *command.Heartbeat:
		want.Refusal = m.heartbeat(c)
	case *command.Extend:
		want.Refusal = m.extend(c)
	case *command.Fire:
		m.fire(c.Due)
	case *command.Cancel:
		want.Refusal = m.person(c.NS, c.ID, m.cancel)
	case *command.Retry:
		want.Refusal = m.person(c.NS, c.ID, m.retry)
	case *command.Requeue:
		for _, id := range c.Jobs {
			if j := m.find(c.NS, id); j != nil && j.state == job.Dead && j.Queue == c.Queue {
				m.retry(j)
				want.Requeued++
			}
		}
	case *command.Delete:
		want.Refusal = m.person(c.NS, c.ID, m.delete)
	case *command.Hold:
		want.Refusal = m.person(c.NS, c.ID, m.holdJob)
	case *command.Decide:
		want.Refusal = m.person(c.NS, c.ID, func(j *modelJob) Refusal {
			if j.state == job.Held && len(j.approvers) > 0 && !slices.Contains(j.approvers, c.By) {
				return NotApprover
			}
			return m.decide(j, c.Approve)
		})
	case *command.Move:
		want.Refusal = m.person(c.NS, c.ID, func(j *modelJob) Refusal { return m.move(j, c.Queue) })
	case *command.Prioritize:
		want.Refusal = m.person(c.NS, c.ID, func(j *modelJob) Refusal { return m.prioritize(j, c.Priority) })
	case *command.Pause:
		q := m.queue(queueKey{c.NS, c.Queue})
		q.paused, q.draining = c.Paused, q.draining && c.Paused // A resume ends both.
	case *command.SetQueue:
		m.setQueue(c, m.queue(queueKey{c.NS, c.Queue}))
	case *command.DeleteQueue:
		want.Refusal = m.empty(queueKey{c.NS, c.Queue}, true)
	case *command.ClearQueue:
		want.Refusal = m.empty(queueKey{c.NS, c.Queue}, false)
	case *command.Sweep:
		m.sweep(c)
	case *command.MakeBatch:
		if m.batches[c.ID] != nil {
			want.Refusal = Exists
		} else {
			m.batches[c.ID] = &modelBatch{ns: c.NS, callback: c.Callback}
		}
	case *command.SealBatch:
		if b := m.batches[c.ID]; b == nil || b.ns != c.NS {
			want.Refusal = NotFound
		} else {
			b.sealed = true
			m.fireBatch(c.ID)
		}
	case *command.PutBudget:
		m.putBudget(c.NS, c.Budget)
	case *command.DeleteBudget:
		want.Refusal = remove(m.budgets, budgetAt{c.NS, c.Scope, c.Target})
	case *command.PutPolicy:
		if i := m.policy(c.NS, c.Policy.ID); i >= 0 {
			m.policies[i] = c
		} else {
			m.policies = append(m.policies, c)
		}
	case *command.DeletePolicy:
		if i := m.policy(c.NS, c.ID); i >= 0 {
			m.policies = slices.Delete(m.policies, i, i+1)
		} else {
			want.Refusal = NotFound
		}
	case *command.PutSchedule:
		want.Refusal = m.putSchedule(c)
	case *command.DeleteSchedule:
		want.Refusal = remove(m.schedules, scheduleKey{c.NS, c.ID})
	case *command.Tick:
		want.Refusal = m.tick(c, got.ID)
	}
	m.follow()
	return want
}

// group is the commands of a Together.
func (m *oracle) group(cmds []command.Command) []Result {
	why, again := m.together(cmds)
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
