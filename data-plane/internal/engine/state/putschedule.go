package state

import (
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

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
