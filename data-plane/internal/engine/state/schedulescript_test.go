package state

import (
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

// How scripts write schedules, and how they are audited.

// schedule makes one, or changes the one of version=.
func (l *scriptLine) schedule() command.Command {
	c := &command.PutSchedule{NS: l.ns(), ID: job.ScheduleID(l.id()), Next: l.time("next"), Version: l.uint("version", 0)}
	c.Change = c.Version > 0
	c.Schedule = command.Schedule{
		Name: l.text("name", idText(c.ID)), Cron: l.text("cron", "@daily"), Zone: l.text("zone", "UTC"),
		Paused: l.text("paused", "") == "true", Jitter: l.duration("jitter", 0), Overlap: overlaps[l.text("overlap", "")],
		Job: command.Template{
			Queue: l.text("queue", "q"), Payload: []byte(l.text("payload", "{}")), Retry: command.DefaultRetry(),
			UniqueKey: l.text("unique", ""), UniqueFor: l.duration("unique-for", 0),
		},
	}
	return c
}

var overlaps = map[string]command.Overlap{"skip": command.OverlapSkip, "cancel": command.OverlapCancel}

// tick answers a due row: due=, version=, the ticks with commas between them, next=.
func (l *scriptLine) tick() command.Command {
	c := &command.Tick{
		NS: l.ns(), ID: job.ScheduleID(l.id()), Due: l.time("due"), Version: l.uint("version", 1), Missed: l.uint("missed", 0), Next: l.time("next"),
	}
	if v := l.text("ticks", ""); v != "" {
		for at := range strings.SplitSeq(v, ",") {
			n, err := parseTime(at)
			if err != nil {
				l.fail("ticks: %w", err)
			}
			c.Ticks = append(c.Ticks, n)
		}
	}
	return c
}

// schedulesOf checks that every schedule has its name's row and its due row, and no
// other schedule has some.
func (a *auditor) schedulesOf() {
	for of := range a.schedules {
		a.schedTally[of.NS]--
	}
	for ns, n := range a.schedTally {
		if n != 0 {
			a.t.Fatalf("the tally of %s is %d from the number of its schedules", ns, int64(n))
		}
	}
	for of, s := range a.schedules {
		name := string(a.space.ScheduleName(of.NS, s.Name))
		if a.schedNames[name] != job.ScheduleID(of.ID) {
			a.t.Fatalf("schedule %s is called %q, which leads to %s", of.ID, s.Name, a.schedNames[name])
		}
		delete(a.schedNames, name)
		d := keys.Due{At: s.Next, Kind: keys.DueSchedule, NS: of.NS, ID: of.ID}
		if _, ok := a.due[d]; ok != (s.Next != 0) || s.Paused && s.Next != 0 {
			a.t.Fatalf("schedule %s (paused: %v) waits for %d, due row: %v", of.ID, s.Paused, s.Next, ok)
		}
		delete(a.due, d)
	}
	if len(a.schedNames) > 0 {
		a.t.Fatalf("names of no schedule: %q", a.schedNames)
	}
}
