package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// putSchedule makes a schedule or changes it. A change that leaves the ticks where
// they are leaves the one that is due, too.
func (x *entry) putSchedule(c *command.PutSchedule) Result {
	old, there := x.schedule(c.NS, c.ID)
	switch {
	case there && !c.Change:
		return Result{Refusal: Exists}
	case c.Change && !there:
		return Result{Refusal: NotFound}
	case there && old.Version != c.Version:
		return Result{Refusal: WrongState}
	}
	n := x.tally(x.m.space.ScheduleTally(c.NS))
	if !there && n >= SchedulesMax {
		return Result{Refusal: TooMany}
	}
	if !x.renameSchedule(c.NS, c.ID, old.Name, c.Schedule.Name) {
		return Result{Refusal: Exists}
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
	return Result{}
}

// renameSchedule gives a schedule its name, if no other one has it.
func (x *entry) renameSchedule(ns job.Namespace, id job.ScheduleID, old, name string) (free bool) {
	k := x.m.space.ScheduleName(ns, name)
	if owner, taken := find(x, k, "name of a schedule", records.DecodeScheduleID); taken && owner != id {
		return false
	}
	if old != name && old != "" {
		x.txn.Delete(x.m.space.ScheduleName(ns, old))
	}
	x.txn.Set(k, id[:])
	return true
}
