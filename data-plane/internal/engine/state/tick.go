package state

import (
	"encoding/binary"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// tick makes the jobs of a schedule whose time has come, or one by hand. A tick that
// was proposed for another version or another time is late or a repetition.
func (x *entry) tick(c *command.Tick) Result {
	s, ok := x.schedule(c.NS, c.ID)
	if !ok {
		return Result{Refusal: NotFound}
	}
	if c.Manual {
		return x.runByHand(c, &s)
	}
	if c.Version != s.Version || c.Due != s.Next || c.Due > x.now || s.Next == 0 {
		return Result{Refusal: WrongState}
	}
	s.Missed += c.Missed
	var last Result
	for _, at := range c.Ticks {
		if at < s.Since {
			continue
		}
		res := x.run(c.NS, c.ID, &s, at)
		if res.Refusal == Accepted {
			last = res
		} else {
			s.Missed++
		}
		s.Since = at + 1
	}
	if len(c.Ticks) > 0 || c.Missed > 0 { // Otherwise it was put off.
		s.Since = max(s.Since, c.Next)
	}
	x.waitFor(c.NS, c.ID, &s, c.Next)
	x.putScheduleRecord(c.NS, c.ID, &s)
	return last
}

func (x *entry) runByHand(c *command.Tick, s *records.Schedule) Result {
	res := x.run(c.NS, c.ID, s, 0)
	if res.Refusal == Accepted {
		x.putScheduleRecord(c.NS, c.ID, s)
	}
	return res
}

// run makes one job of a schedule, for a tick or (0) by hand, unless its policy of
// overlaps, its queue or its unique key is against it. Then the refusal says so, and
// the answer names the job that is in the way.
func (x *entry) run(ns job.Namespace, id job.ScheduleID, s *records.Schedule, at int64) Result {
	before, running := x.lastRun(ns, s)
	if running && s.Overlap == command.OverlapSkip {
		return Result{Refusal: WrongState, ID: s.LastJob, State: before.State}
	}
	c := &command.Enqueue{
		NS: ns, Queue: s.Job.Queue, Payload: s.Job.Payload, Priority: s.Job.Priority, Retry: s.Job.Retry, Tags: s.Job.Tags,
		UniqueKey: s.Job.UniqueKey, UniqueFor: s.Job.UniqueFor, RetryOpen: s.Job.RetryOpen,
	}
	if s.Job.ExpireAfter > 0 {
		c.ExpireAt = x.after(int64(s.Job.ExpireAfter))
	}
	if at == 0 {
		p := x.place()
		c.ID = job.Derived(x.now, id, p.Index<<24|uint64(p.Ordinal)) // Far below every tick.
	} else {
		c.ID = job.Derived(at, id, uint64(at))
		c.ScheduledAt = at + lateBy(c.ID, s.Jitter)
	}
	res := x.enqueue(c)
	if res.Refusal != Accepted {
		return res
	}
	if res.Duplicate {
		res.Refusal = Exists
		return res
	}
	if running && s.Overlap == command.OverlapCancel {
		x.cancel(&command.Cancel{NS: ns, ID: s.LastJob})
	}
	s.LastRun, s.LastJob = x.now, c.ID
	x.noteSchedule(ns, c.ID, id, at)
	return res
}

// lastRun finds the job of the tick before, if it is not finished and matters.
func (x *entry) lastRun(ns job.Namespace, s *records.Schedule) (subject, bool) {
	if s.Overlap == command.OverlapAllow || s.LastJob.IsZero() {
		return subject{}, false
	}
	j, ok := x.job(ns, s.LastJob)
	return j, ok && !j.State.Terminal()
}

// lateBy is by how much the job of a tick is late: the same on every replica, and not
// the same for all schedules of a minute.
func lateBy(id job.ID, jitter time.Duration) int64 {
	if jitter <= 0 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(id[8:]) % uint64(jitter))
}

// noteSchedule writes into a new job which tick of which schedule it is for.
func (x *entry) noteSchedule(ns job.Namespace, id job.ID, of job.ScheduleID, tick int64) {
	b := x.body(ns, id)
	b.Schedule, b.Tick = of, tick
	x.txn.Set(x.m.space.Job(ns, keys.Body, id), b.Encode())
}
