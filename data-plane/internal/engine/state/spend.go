package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

func (x *entry) budgetDay(ns job.Namespace, k records.BudgetKey) (d records.BudgetDay, there bool, err error) {
	d, there, err = stateread.Get(x.txn, x.m.space.BudgetDay(ns, records.DayOf(x.now), byte(k.Scope), k.Target), records.DecodeBudgetDay)
	if err != nil {
		return records.BudgetDay{}, false, fmt.Errorf("budget day of %q: %w", k.Target, err)
	}
	return d, there, nil
}

func (x *entry) putBudgetDay(ns job.Namespace, k records.BudgetKey, d *records.BudgetDay) {
	x.txn.Set(x.m.space.BudgetDay(ns, records.DayOf(x.now), byte(k.Scope), k.Target), d.Encode())
}

// spend adds a cost to the day of the namespace and of the queue, which are counted
// whether there is a budget or not, so that one that is made at noon knows the
// morning; and to the days of the job's tags that have a budget.
func (x *entry) spend(j *subject, cost int64) error {
	p, err := x.budgets(j.ns)
	if err != nil {
		return err
	}
	began, err := x.addDay(j, p, records.NamespaceBudget(), cost)
	if err != nil {
		return err
	}
	if began {
		x.forgetDays(j.ns)
	}
	if _, err := x.addDay(j, p, records.QueueBudget(j.Queue), cost); err != nil {
		return err
	}
	if len(p.budgets) == 0 {
		return nil
	}
	body, err := x.body(j.ns, j.id)
	if err != nil {
		return err
	}
	for _, t := range body.Tags {
		k := records.TagBudget(t)
		if _, ok := p.budgets[k]; !ok {
			continue
		}
		if _, err := x.addDay(j, p, k, cost); err != nil {
			return err
		}
	}
	return nil
}

// addDay adds to the day's count of a scope, and tells once a day that its budget is
// spent. Began tells that the day had no count.
func (x *entry) addDay(j *subject, p *budgetSet, k records.BudgetKey, cost int64) (began bool, err error) {
	d, there, err := x.budgetDay(j.ns, k)
	if err != nil {
		return false, err
	}
	was := d.Cost
	d.Cost = records.SaturatingAdd(d.Cost, cost)
	if b, ok := p.budgets[k]; ok && b.Daily > 0 {
		if d.Cost >= b.Daily && !d.Told {
			d.Told = true
			x.event(feed.BudgetExceeded, j)
		}
		if b.Closes() && (was >= b.Daily) != (d.Cost >= b.Daily) {
			x.out.Budgets = append(x.out.Budgets, j.ns)
		}
	}
	x.putBudgetDay(j.ns, k, &d)
	return !there, nil
}

// forgetDays removes, with the first cost of a new day, the days before it and the
// hours that are kept no longer: two ranges, however much is in them.
func (x *entry) forgetDays(ns job.Namespace) {
	x.txn.DeleteRange(x.m.space.BudgetDays(ns, records.DayOf(x.now)))
	kept := uint64(UsageKept.Hours())
	if hour := records.HourOf(x.now); hour > kept {
		x.txn.DeleteRange(x.m.space.UsageBetween(ns, 0, hour-kept))
	}
}

// spent reports whether the day of a budget is spent.
func (x *entry) spent(ns job.Namespace, b *records.Budget) (bool, error) {
	d, _, err := x.budgetDay(ns, b.Key())
	return d.Cost >= b.Daily, err
}

// shutUntil is until when spent budgets let no job of a queue start; 0 if they do.
func (x *entry) shutUntil(ns job.Namespace, queue string) (int64, error) {
	p, err := x.budgets(ns)
	if err != nil || len(p.budgets) == 0 {
		return 0, err
	}
	for _, b := range p.of(queue, nil) {
		if !b.Closes() {
			continue
		}
		if spent, err := x.spent(ns, &b); spent || err != nil {
			return records.EndOfDay(x.now), err
		}
	}
	return 0, nil
}

// holdForTag holds a job that is about to start, until the day ends, if the budget of
// one of its tags is spent. The job is still in its ready order.
func (x *entry) holdForTag(j *subject) (held bool, err error) {
	p, err := x.budgets(j.ns)
	if err != nil || p.closingTags == 0 {
		return false, err
	}
	body, err := x.body(j.ns, j.id)
	if err != nil {
		return false, err
	}
	for _, b := range p.of(j.Queue, body.Tags) {
		if !b.Closes() || b.Scope != command.BudgetTag {
			continue
		}
		spent, err := x.spent(j.ns, &b)
		if err != nil {
			return false, err
		}
		if !spent {
			continue
		}
		x.leavingReady(j)
		if err := x.leave(j); err != nil {
			return false, err
		}
		why := records.Hold{
			Cause: records.HoldCause{Rule: records.HeldForTag, Text: b.Target}, At: x.now, Until: records.EndOfDay(x.now), ApproveAtLast: true,
		}
		if err := x.hold(j, why); err != nil {
			return false, err
		}
		x.put(j)
		return true, nil
	}
	return false, nil
}

// budgetRefuses reports whether a spent budget refuses a new job.
func (x *entry) budgetRefuses(c *command.Enqueue) (bool, error) {
	p, err := x.budgets(c.NS)
	if err != nil || p.rejecting == 0 {
		return false, err
	}
	for _, b := range p.of(c.Queue, c.Tags) {
		if !b.Closes() || b.On != command.ExceedReject {
			continue
		}
		if spent, err := x.spent(c.NS, &b); spent || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}
