package state

import (
	"maps"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// The oracle: queues, and how many jobs they let start.

type modelQueue struct {
	paused, draining bool
	max              uint32
	rate             command.Throttle
	starts           []records.StartRun
	retry            command.RetryPolicy
	retrySet         command.RetryParts
}

func (m *oracle) queue(k queueKey) *modelQueue {
	if m.queues[k] == nil {
		m.queues[k] = &modelQueue{}
	}
	return m.queues[k]
}

// room reports whether a queue may hand out one more job.
func (m *oracle) room(k queueKey) bool {
	q, leased, started := m.queue(k), uint32(0), uint32(0)
	for _, j := range m.jobs {
		if !j.gone && j.queue() == k && j.state.Leased() {
			leased++
		}
	}
	for _, s := range q.starts {
		if m.lease-s.Last < int64(q.rate.Window) {
			started += s.N
		}
	}
	return !q.paused && (q.max == 0 || leased < q.max) && (q.rate.IsZero() || started < q.rate.Limit) && !m.spent(k.ns, k.name, nil, false)
}

// start counts a lease. Those closer together than a 32nd of the window leave it
// together, with the last, so that none counts for less than the window (INV-7).
func (q *modelQueue) start(now int64) {
	if q.rate.IsZero() {
		return
	}
	q.starts = slices.DeleteFunc(q.starts, func(s records.StartRun) bool { return now-s.Last >= int64(q.rate.Window) })
	if n := len(q.starts); n > 0 && now-q.starts[n-1].First <= int64(q.rate.Window)/records.StartGrain {
		q.starts[n-1].Last, q.starts[n-1].N = now, q.starts[n-1].N+1
		return
	}
	q.starts = append(q.starts, records.StartRun{First: now, Last: now, N: 1})
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
		q.draining = c.Draining
	}
	if c.Set&command.SetRetry != 0 {
		q.retry, q.retrySet = c.Retry, c.RetrySet
	}
}

// empty removes the jobs of a queue: all with the queue itself, or those that no
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

// prioritize is about one job; what it changes is its place in the queue.
func (m *oracle) prioritize(j *modelJob, p job.Priority) Refusal {
	if j.state.Leased() || j.state.Terminal() {
		return WrongState
	}
	if j.Priority != p {
		if j.Priority = p; j.state == job.Pending {
			m.ready(j)
		}
	}
	return Accepted
}
