package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// The oracle: cron schedules.

type scheduleKey struct {
	ns job.Namespace
	id job.ScheduleID
}

type modelSchedule struct {
	command.Schedule
	version, missed uint64
	next, since     int64
	last            job.ID
}

func (m *oracle) putSchedule(c *command.PutSchedule) Refusal {
	k := scheduleKey{c.NS, c.ID}
	s := m.schedules[k]
	switch {
	case s != nil && !c.Change:
		return Exists
	case s == nil && c.Change:
		return NotFound
	case s != nil && s.version != c.Version:
		return WrongState
	}
	for of, other := range m.schedules {
		if of.ns == c.NS && other != s && other.Name == c.Schedule.Name {
			return Exists
		}
	}
	begins := s == nil || s.Paused || s.Cron != c.Schedule.Cron || s.Zone != c.Schedule.Zone
	if s == nil {
		s = &modelSchedule{}
		m.schedules[k] = s
	}
	s.Schedule, s.version = c.Schedule, s.version+1
	if s.Paused {
		s.next = 0
	} else if begins {
		s.next, s.since = c.Next, max(min(s.since, m.now+1), c.Next)
	}
	return Accepted
}

// tick makes the jobs of the instants that a schedule waits for, or one by hand.
func (m *oracle) tick(c *command.Tick, byHand job.ID) Refusal {
	s := m.schedules[scheduleKey{c.NS, c.ID}]
	switch {
	case s == nil:
		return NotFound
	case c.Manual:
		return m.run(s, &command.Enqueue{NS: c.NS, ID: byHand})
	case s.next == 0 || c.Version != s.version || c.Due != s.next || c.Due > m.now:
		return WrongState
	}
	s.missed += c.Missed
	for _, at := range c.Ticks {
		if at < s.since {
			continue
		}
		id := job.Derived(at, c.ID, uint64(at))
		if m.run(s, &command.Enqueue{NS: c.NS, ID: id, ScheduledAt: at + lateBy(id, s.Jitter)}) != Accepted {
			s.missed++
		}
		s.since = at + 1 // No tick twice (INV-12).
	}
	if len(c.Ticks) > 0 || c.Missed > 0 {
		s.since = max(s.since, c.Next)
	}
	s.next = c.Next
	return Accepted
}

// run makes one job of a schedule, unless the one before, the queue or a key is
// against it.
func (m *oracle) run(s *modelSchedule, c *command.Enqueue) Refusal {
	last := m.find(c.NS, s.last)
	running := last != nil && !last.state.Terminal()
	if running && s.Overlap == command.OverlapSkip {
		return WrongState
	}
	t := &s.Job
	c.Queue, c.Priority, c.Retry, c.Tags, c.UniqueKey, c.UniqueFor = t.Queue, t.Priority, t.Retry, t.Tags, t.UniqueKey, t.UniqueFor
	if c.RetryOpen = t.RetryOpen; t.ExpireAfter > 0 {
		c.ExpireAt = m.now + int64(t.ExpireAfter)
	}
	res := m.enqueue(c, false)
	if res.Duplicate {
		return Exists
	}
	if res.Refusal != Accepted {
		return res.Refusal
	}
	if running && s.Overlap == command.OverlapCancel {
		m.cancel(last)
	}
	s.last = c.ID
	return Accepted
}
