package state

import (
	"maps"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// The oracle: its commands, and what people do with jobs and queues.

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

func remove[K comparable, V any](from map[K]V, k K) Refusal {
	if _, there := from[k]; !there {
		return NotFound
	}
	delete(from, k)
	return Accepted
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

func (m *oracle) cancel(j *modelJob) Refusal {
	switch {
	case j.state == job.Completed || j.state == job.Dead:
		return WrongState
	case j.state == job.Active || j.state == job.Cancelling && j.then == job.Held:
		j.ask(job.Cancelled, NotDead)
	case j.state != job.Cancelled && j.state != job.Cancelling:
		m.end(j, job.Cancelled, NotDead)
	}
	return Accepted
}

// retry lets a job run again that had ended or waits for its time.
func (m *oracle) retry(j *modelJob) Refusal {
	if j.state == job.Pending || j.state.Leased() || j.state == job.Held {
		return WrongState
	}
	c := m.chains[j.chain]
	if c != nil && j.state.Terminal() && c.last() == j.ID && (c.status == ChainFailed || c.status == ChainCancelled) {
		c.status = ChainRunning
	}
	m.ready(j)
	j.attempt, j.crashes, j.epoch, j.reason, j.outcome, j.untold = 0, 0, keys.Position{}, NotDead, NoOutcome, 0
	if j.expire <= m.now {
		j.expire = 0
	}
	return Accepted
}

func (m *oracle) delete(j *modelJob) Refusal {
	if j.state.Leased() {
		return WrongState
	}
	m.remove(j)
	return Accepted
}

func (m *oracle) remove(j *modelJob) {
	if j.gone, j.removed = true, true; !j.state.Terminal() {
		m.ended = append(m.ended, j)
	}
}

func (m *oracle) holdJob(j *modelJob) Refusal {
	switch {
	case j.state.Terminal() || j.state == job.Cancelling && j.then != job.Held:
		return WrongState
	case j.state == job.Active:
		j.ask(job.Held, NotDead)
	case j.state != job.Held && j.state != job.Cancelling:
		m.hold(j, 0, false, nil)
	}
	return Accepted
}

func (m *oracle) decide(j *modelJob, approve bool) Refusal {
	switch {
	case j.state != job.Held:
		return WrongState
	case approve:
		m.ready(j)
	default:
		m.end(j, job.Dead, DeadRejected)
	}
	return Accepted
}

func (m *oracle) move(j *modelJob, queue string) Refusal {
	to := queueKey{j.NS, queue}
	switch {
	case j.state.Leased():
		return WrongState
	case j.Queue == queue:
		return Accepted
	case m.holder(j.queue(), j.UniqueKey) == j && m.holder(to, j.UniqueKey) != nil:
		return Exists
	}
	j.Queue = queue
	if m.queue(to); j.state == job.Pending {
		m.ready(j)
	}
	return Accepted
}

func (m *oracle) setQueue(c *command.SetQueue, q *modelQueue) {
	if c.Set&command.SetPaused != 0 {
		q.paused = c.Paused
	}
	if c.Set&command.SetConcurrency != 0 {
		q.max = c.MaxConcurrency
	}
	if c.Set&command.SetThrottle != 0 {
		if q.rate = c.Throttle; q.rate.IsZero() {
			q.starts = nil
		}
	}
	if c.Set&command.SetDraining != 0 {
		q.draining = c.More.Draining
	}
	if c.Set&command.SetRetry != 0 {
		q.retry, q.retrySet = c.More.Retry, c.More.RetrySet
	}
}

// empty takes the jobs of a queue away: all with the queue itself, or those that no
// worker holds. What they leave is swept later.
func (m *oracle) empty(k queueKey, whole bool) Refusal {
	if m.queues[k] == nil {
		return NotFound
	}
	for _, j := range m.jobs {
		j.gone = j.gone || j.queue() == k && (whole || !j.state.Leased())
	}
	if whole {
		delete(m.queues, k)
		maps.DeleteFunc(m.answers, func(a answerKey, _ modelAnswer) bool { return a.queueKey == k })
	}
	return Accepted
}

func (m *oracle) sweep(c *command.Sweep) {
	for _, id := range c.Jobs {
		for _, j := range m.jobs {
			if j.ID == id && j.queue() == (queueKey{c.NS, c.Queue}) && j.gone && !j.removed {
				m.remove(j)
			}
		}
	}
}
