package state

import (
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// What people do with jobs and queues, as the oracle sees it.

// admin is what people do with jobs and queues.
func (m *oracle) admin(c command.Command) Refusal {
	switch c := c.(type) {
	case *command.Cancel:
		return m.act(c.NS, c.ID, func(j *shadow) Refusal {
			switch {
			case j.state == job.Completed || j.state == job.Dead:
				return WrongState
			case j.state.Leased():
				j.state, j.holdNext = job.Cancelling, false
			case j.state != job.Cancelled:
				m.end(c.ID, j, OutcomeCancelled, NotDead, false)
			}
			return Accepted
		})
	case *command.Retry:
		return m.act(c.NS, c.ID, func(j *shadow) Refusal {
			if j.state == job.Pending || j.state.Leased() || j.state == job.Held {
				return WrongState
			}
			m.revive(c.ID, j)
			return Accepted
		})
	case *command.Delete:
		return m.act(c.NS, c.ID, func(j *shadow) Refusal {
			if j.state.Leased() {
				return WrongState
			}
			m.end(c.ID, j, OutcomeDeleted, NotDead, false)
			delete(m.jobs, c.ID)
			return Accepted
		})
	case *command.Hold:
		return m.act(c.NS, c.ID, func(j *shadow) Refusal {
			switch {
			case j.state.Terminal() || j.state == job.Cancelling && !j.holdNext:
				return WrongState
			case j.state.Leased():
				j.state, j.holdNext = job.Cancelling, true
			case j.state != job.Held:
				j.state, j.due = job.Held, 0
			}
			return Accepted
		})
	case *command.Decide:
		return m.act(c.NS, c.ID, func(j *shadow) Refusal {
			if j.state != job.Held {
				return WrongState
			}
			if m.ready(j); !c.Approve {
				m.end(c.ID, j, OutcomeDead, DeadRejected, false)
			}
			j.causes++
			return Accepted
		})
	case *command.Move:
		return m.act(c.NS, c.ID, func(j *shadow) Refusal { return m.move(c, j) })
	case *command.MakeBatch:
		if m.batches[c.ID] != nil {
			return Exists
		}
		m.batches[c.ID] = &shadowBatch{ns: c.NS, callback: c.Callback, members: map[job.ID]Outcome{}}
	case *command.SealBatch:
		b := m.batches[c.ID]
		if b == nil || b.ns != c.NS {
			return NotFound
		}
		b.sealed = true
		m.fireBatch(c.NS, c.ID, b)
	case *command.Pause:
		q := m.queue(queueKey{c.NS, c.Queue})
		q.paused, q.draining = c.Paused, q.draining && c.Paused // A resume ends both.
	case *command.SetQueue:
		m.setQueue(c)
	case *command.DeleteQueue:
		return m.empty(queueKey{c.NS, c.Queue}, true)
	case *command.ClearQueue:
		return m.empty(queueKey{c.NS, c.Queue}, false)
	case *command.Sweep:
		for _, id := range c.Jobs {
			if j := m.left[id]; j != nil && j.queueKey == (queueKey{c.NS, c.Queue}) {
				delete(m.left, id)
				m.end(id, j, OutcomeDeleted, NotDead, false)
			}
		}
	}
	return Accepted
}

func (m *oracle) act(ns job.Namespace, id job.ID, do func(j *shadow) Refusal) Refusal {
	j, why := m.find(ns, id, nil)
	if why == Accepted {
		why = do(j)
	}
	return why
}

// revive lets a job run again that had ended or waited.
func (m *oracle) revive(id job.ID, j *shadow) {
	ended := j.state.Terminal()
	m.ready(j)
	j.attempt, j.crashes, j.token, j.reason, j.causes = 0, 0, command.Token{}, NotDead, j.causes+1
	if j.expire <= m.now {
		j.expire = 0
	}
	if c := m.chains[j.chain]; ended && c != nil && c.jobs[len(c.jobs)-1] == id && (c.status == ChainFailed || c.status == ChainCancelled) {
		c.status = ChainRunning
	}
	if b := m.batches[j.batch]; ended && b != nil && !b.fired {
		b.members[id] = NoOutcome
	}
}

func (m *oracle) move(c *command.Move, j *shadow) Refusal {
	to := queueKey{c.NS, c.Queue}
	lock := strings.Replace(j.unique, "/"+j.name+"/", "/"+c.Queue+"/", 1)
	switch l, held := m.locks[j.unique], m.locks[lock]; {
	case j.state.Leased():
		return WrongState
	case j.queueKey == to:
		return Accepted
	case l.owner == c.ID && l.expires <= m.now:
		delete(m.locks, j.unique) // Its time is over: it stays behind.
		j.unique = ""
	case l.owner == c.ID && held.expires > m.now:
		return Exists
	case l.owner == c.ID:
		delete(m.locks, j.unique)
		m.locks[lock], j.unique = l, lock
	}
	if m.queue(to); j.state == job.Pending {
		m.ready(j)
	}
	j.queueKey = to
	return Accepted
}

func (m *oracle) setQueue(c *command.SetQueue) {
	q := m.queue(queueKey{c.NS, c.Queue})
	if c.Set&command.SetPaused != 0 {
		q.paused = c.Paused
	}
	if c.Set&command.SetConcurrency != 0 {
		q.max = c.MaxConcurrency
	}
	if c.Set&command.SetThrottle != 0 {
		if q.rate, m.grain = c.Throttle, max(m.grain, c.Throttle.Window/startGrain); q.rate.IsZero() {
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
// worker holds.
func (m *oracle) empty(k queueKey, whole bool) Refusal {
	if m.queues[k] == nil {
		return NotFound
	}
	for id, j := range m.jobs {
		if j.queueKey == k && (whole || !j.state.Leased()) {
			m.left[id] = j
			delete(m.jobs, id)
		}
	}
	for name, l := range m.locks {
		mine := strings.HasPrefix(name, lockOf("u", k, "/")[:len(lockOf("u", k, "/"))-1]) && m.jobs[l.owner] == nil
		if mine || whole && strings.HasPrefix(name[1:], lockOf("", k, "/")[:len(lockOf("", k, "/"))-1]) {
			delete(m.locks, name)
		}
	}
	if whole {
		delete(m.queues, k)
	}
	return Accepted
}
