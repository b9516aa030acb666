package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// overspent finds the strictest budget that a job alone is over; nil if there is none.
func (x *entry) overspent(j *subject) (*records.Budget, error) {
	p, err := x.budgets(j.ns)
	if err != nil || p.perJob == 0 || !j.Has(records.FlagUsage) {
		return nil, err
	}
	body, err := x.body(j.ns, j.id)
	if err != nil {
		return nil, err
	}
	u, err := x.jobUsage(j)
	if err != nil {
		return nil, err
	}
	var worst *records.Budget
	for _, b := range p.of(j.Queue, body.Tags) {
		if b.PerJob > 0 && u.Sum().Cost > b.PerJob && (worst == nil || severity(b.On) > severity(worst.On)) {
			worst = &b
		}
	}
	return worst, nil
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
func (x *entry) tellOverspent(j *subject) error {
	if j.Has(records.FlagOverBudget) {
		return nil
	}
	over, err := x.overspent(j)
	if err != nil || over == nil {
		return err
	}
	j.Flags |= records.FlagOverBudget
	x.event(feed.BudgetExceeded, j)
	return nil
}

// stopOverspent asks the worker of a job to let go of it, because of a budget.
func (x *entry) stopOverspent(j *subject, over *records.Budget) error {
	switch over.On {
	case command.ExceedHold:
		return x.holdNext(j, x.heldForCost(over))
	case command.ExceedReject:
		if err := x.askToLetGo(j); err != nil {
			return err
		}
		j.Flags |= records.FlagDeadNext
	}
	return nil
}

// endOverspent holds or ends a job that left its state, and would run again, if it is
// over its budget; done tells that it did. A death is still to be told.
func (x *entry) endOverspent(j *subject, failure string) (done bool, err error) {
	over, err := x.overspent(j)
	if err != nil || over == nil {
		return false, err
	}
	switch over.On {
	case command.ExceedHold:
		return true, x.hold(j, x.heldForCost(over))
	case command.ExceedReject:
		return true, x.endDead(j, records.DeadBudget, failure)
	}
	return false, nil
}
