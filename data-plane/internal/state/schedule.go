package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// SchedulesMax bounds the schedules of a namespace.
const SchedulesMax = 1000

func (x *entry) schedule(ns job.Namespace, id job.ScheduleID) (s records.Schedule, ok bool, err error) {
	v, err := x.txn.Get(x.m.space.Schedule(ns, id))
	if errors.Is(err, statedb.ErrNotFound) {
		return records.Schedule{}, false, nil
	}
	if err != nil {
		return records.Schedule{}, false, err
	}
	if s, err = records.DecodeSchedule(v); err != nil {
		return records.Schedule{}, false, fmt.Errorf("schedule %s: %w", id, err)
	}
	return s, true, nil
}

// putSchedule makes a schedule or changes it. A change that leaves the ticks where
// they are leaves the one that is due, too.
func (x *entry) putSchedule(c *command.PutSchedule) (Result, error) {
	old, there, err := x.schedule(c.NS, c.ID)
	switch {
	case err != nil:
		return Result{}, err
	case there && !c.Change:
		return Result{Refusal: Exists}, nil
	case c.Change && !there:
		return Result{Refusal: NotFound}, nil
	case there && old.Version != c.Version:
		return Result{Refusal: WrongState}, nil
	}
	n, err := x.tally(x.m.space.ScheduleTally(c.NS))
	if err != nil {
		return Result{}, err
	}
	if !there && n >= SchedulesMax {
		return Result{Refusal: TooMany}, nil
	}
	free, err := x.renameSchedule(c.NS, c.ID, old.Name, c.Schedule.Name)
	if err != nil || !free {
		return Result{Refusal: Exists}, err
	}
	s := old
	s.Schedule, s.Version, s.UpdatedAt = c.Schedule, old.Version+1, x.now
	if !there {
		s.CreatedAt = x.now
		x.setTally(x.m.space.ScheduleTally(c.NS), n+1)
	}
	switch {
	case s.Paused:
		x.waitFor(c.NS, c.ID, &s, 0)
	case !there || old.Paused || old.Cron != s.Cron || old.Zone != s.Zone:
		// What lies ahead was planned by the old rule; up to now it was dealt with.
		s.Since = max(min(s.Since, x.now+1), c.Next)
		x.waitFor(c.NS, c.ID, &s, c.Next)
	}
	x.putScheduleRecord(c.NS, c.ID, &s)
	return Result{}, nil
}

// renameSchedule gives a schedule its name, if no other one has it.
func (x *entry) renameSchedule(ns job.Namespace, id job.ScheduleID, old, name string) (free bool, err error) {
	k := x.m.space.ScheduleName(ns, name)
	v, err := x.txn.Get(k)
	if err == nil {
		owner, err := records.DecodeScheduleID(v)
		if err != nil || owner != id {
			return false, err
		}
	} else if !errors.Is(err, statedb.ErrNotFound) {
		return false, err
	}
	if old != name && old != "" {
		x.txn.Delete(x.m.space.ScheduleName(ns, old))
	}
	x.txn.Set(k, id[:])
	return true, nil
}

func (x *entry) deleteSchedule(c *command.DeleteSchedule) (Result, error) {
	s, ok, err := x.schedule(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	x.waitFor(c.NS, c.ID, &s, 0)
	x.txn.Delete(x.m.space.ScheduleName(c.NS, s.Name))
	x.txn.Delete(x.m.space.Schedule(c.NS, c.ID))
	n, err := x.tally(x.m.space.ScheduleTally(c.NS))
	if n > 0 { // None of those of a folder from before schedules were counted.
		x.setTally(x.m.space.ScheduleTally(c.NS), n-1)
	}
	return Result{}, err
}

// tick makes the jobs of a schedule whose time has come, or one by hand. A tick that
// was proposed for another version or another time is late or a repetition.
func (x *entry) tick(c *command.Tick) (Result, error) {
	s, ok, err := x.schedule(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	if c.Manual {
		return x.runByHand(c, &s)
	}
	if c.Version != s.Version || c.Due != s.Next || c.Due > x.now || s.Next == 0 {
		return Result{Refusal: WrongState}, nil
	}
	s.Missed += c.Missed
	var last Result
	for _, at := range c.Ticks {
		if at < s.Since {
			continue
		}
		res, err := x.run(c.NS, c.ID, &s, at)
		if err != nil {
			return Result{}, err
		}
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
	return last, nil
}

func (x *entry) runByHand(c *command.Tick, s *records.Schedule) (Result, error) {
	res, err := x.run(c.NS, c.ID, s, 0)
	if err != nil || res.Refusal != Accepted {
		return res, err
	}
	x.putScheduleRecord(c.NS, c.ID, s)
	return res, nil
}

// run makes one job of a schedule, for a tick or (0) by hand, unless its policy of
// overlaps, its queue or its unique key is against it. Then the refusal says so, and
// the answer names the job that is in the way.
func (x *entry) run(ns job.Namespace, id job.ScheduleID, s *records.Schedule, at int64) (Result, error) {
	before, running, err := x.lastRun(ns, s)
	if err != nil {
		return Result{}, err
	}
	if running && s.Overlap == command.OverlapSkip {
		return Result{Refusal: WrongState, ID: s.LastJob, State: before.State}, nil
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
	res, err := x.enqueue(c)
	if err != nil || res.Refusal != Accepted {
		return res, err
	}
	if res.Duplicate {
		res.Refusal = Exists
		return res, nil
	}
	if running && s.Overlap == command.OverlapCancel {
		if _, err := x.cancel(&command.Cancel{NS: ns, ID: s.LastJob}); err != nil {
			return Result{}, err
		}
	}
	s.LastRun, s.LastJob = x.now, c.ID
	return res, x.noteSchedule(ns, c.ID, id, at)
}

// lastRun finds the job of the tick before, if it is not finished and matters.
func (x *entry) lastRun(ns job.Namespace, s *records.Schedule) (records.Head, bool, error) {
	if s.Overlap == command.OverlapAllow || s.LastJob.IsZero() {
		return records.Head{}, false, nil
	}
	h, ok, err := x.head(ns, s.LastJob)
	return h, ok && !h.State.Terminal(), err
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
func (x *entry) noteSchedule(ns job.Namespace, id job.ID, of job.ScheduleID, tick int64) error {
	b, err := x.body(ns, id)
	if err != nil {
		return err
	}
	b.Schedule, b.Tick = of, tick
	x.txn.Set(x.m.space.Job(ns, keys.Body, id), b.Encode())
	return nil
}

// waitFor replaces the due row of a schedule; 0 waits for nothing.
func (x *entry) waitFor(ns job.Namespace, id job.ScheduleID, s *records.Schedule, next int64) {
	if s.Next != 0 {
		x.txn.Delete(x.m.space.Due(keys.Due{At: s.Next, Kind: keys.DueSchedule, NS: ns, ID: job.ID(id)}))
	}
	if s.Next = next; next != 0 {
		x.addDue(keys.Due{At: next, Kind: keys.DueSchedule, NS: ns, ID: job.ID(id)}, nil)
	}
}

func (x *entry) putScheduleRecord(ns job.Namespace, id job.ScheduleID, s *records.Schedule) {
	x.txn.Set(x.m.space.Schedule(ns, id), s.Encode())
}

// fireSchedule removes a due row that no schedule answers for. One that does has its
// Tick.
func (x *entry) fireSchedule(d keys.Due) (Result, error) {
	s, ok, err := x.schedule(d.NS, job.ScheduleID(d.ID))
	if err != nil {
		return Result{}, err
	}
	if !ok || s.Next != d.At {
		x.txn.Delete(x.m.space.Due(d))
	}
	return Result{Refusal: WrongState}, nil
}
