package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// overspent finds the strictest budget that a job alone is over; nil if there is none.
func (x *entry) overspent(j *subject) *records.Budget {
	p := x.budgets(j.ns)
	if p.perJob == 0 || !j.Has(records.FlagUsage) {
		return nil
	}
	body := x.body(j.ns, j.id)
	u := x.jobUsage(j)
	var worst *records.Budget
	for _, b := range p.of(j.Queue, body.Tags) {
		if b.PerJob > 0 && u.Sum().Cost > b.PerJob && (worst == nil || severity(b.On) > severity(worst.On)) {
			worst = &b
		}
	}
	return worst
}

func severity(on command.OnExceed) int {
	switch on {
	case command.ExceedReject:
		return 2
	case command.ExceedHold:
		return 1
	default:
		return 0
	}
}

func (x *entry) heldForCost(b *records.Budget) records.Hold {
	return records.Hold{Cause: records.HoldCause{Rule: records.HeldForCost, Text: b.Target, Scope: b.Scope, Limit: b.PerJob}, At: x.now}
}

// tellOverspent tells, once, that a job costs more than a budget allows for one.
func (x *entry) tellOverspent(j *subject) {
	if j.Has(records.FlagOverBudget) {
		return
	}
	if x.overspent(j) != nil {
		j.Flags |= records.FlagOverBudget
		x.event(feed.BudgetExceeded, j)
	}
}

// stopOverspent asks the worker of a job to let go of it, because of a budget.
func (x *entry) stopOverspent(j *subject, over *records.Budget) {
	switch over.On {
	case command.ExceedHold:
		x.holdNext(j, x.heldForCost(over))
	case command.ExceedReject:
		x.askToLetGo(j)
		j.Flags |= records.FlagDeadNext
	}
}

// endOverspent holds or ends a job that left its state, and would run again, if it is
// over its budget; done tells that it did. A death is still to be told.
func (x *entry) endOverspent(j *subject, failure string) (done bool) {
	over := x.overspent(j)
	if over == nil {
		return false
	}
	switch over.On {
	case command.ExceedHold:
		x.hold(j, x.heldForCost(over))
		return true
	case command.ExceedReject:
		x.endDead(j, records.DeadBudget, failure)
		return true
	}
	return false
}
