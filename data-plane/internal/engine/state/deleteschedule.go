package state

import "github.com/corvo-cloud/corvo/data-plane/internal/engine/command"

func (x *entry) deleteSchedule(c *command.DeleteSchedule) Result {
	s, ok := x.schedule(c.NS, c.ID)
	if !ok {
		return Result{Refusal: NotFound}
	}
	x.waitFor(c.NS, c.ID, &s, 0)
	x.txn.Delete(x.m.space.ScheduleName(c.NS, s.Name))
	x.txn.Delete(x.m.space.Schedule(c.NS, c.ID))
	n := x.tally(x.m.space.ScheduleTally(c.NS))
	if n > 0 { // None of those of a folder from before schedules were counted.
		x.setTally(x.m.space.ScheduleTally(c.NS), n-1)
	}
	return Result{}
}
