package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

func (x *entry) budgetDay(ns job.Namespace, k records.BudgetKey) (d records.BudgetDay, there bool) {
	return find(x, x.m.space.BudgetDay(ns, records.DayOf(x.now), byte(k.Scope), k.Target), "budget day", records.DecodeBudgetDay)
}

func (x *entry) putBudgetDay(ns job.Namespace, k records.BudgetKey, d *records.BudgetDay) {
	x.txn.Set(x.m.space.BudgetDay(ns, records.DayOf(x.now), byte(k.Scope), k.Target), d.Encode())
}

// spend adds a cost to the day of the namespace and of the queue, which are counted
// whether there is a budget or not, so that one that is made at noon knows the
// morning; and to the days of the job's tags that have a budget.
func (x *entry) spend(j *subject, cost int64) {
	p := x.budgets(j.ns)
	if began := x.addDay(j, p, records.NamespaceBudget(), cost); began {
		x.forgetDays(j.ns)
	}
	x.addDay(j, p, records.QueueBudget(j.Queue), cost)
	if len(p.budgets) == 0 {
		return
	}
	body := x.body(j.ns, j.id)
	for _, t := range body.Tags {
		if k := records.TagBudget(t); p.has(k) {
			x.addDay(j, p, k, cost)
		}
	}
}

// addDay adds to the day's count of a scope, and tells once a day that its budget is
// spent. Began tells that the day had no count.
func (x *entry) addDay(j *subject, p *budgetSet, k records.BudgetKey, cost int64) (began bool) {
	d, there := x.budgetDay(j.ns, k)
	was := d.Cost
	d.Cost = records.SaturatingAdd(d.Cost, cost)
	if b, ok := p.budgets[k]; ok && b.Daily > 0 {
		if d.Cost >= b.Daily && !d.Told {
			d.Told = true
			x.event(feed.BudgetExceeded, j)
		}
		if b.Closes() && (was >= b.Daily) != (d.Cost >= b.Daily) {
			x.out.Budgets = append(x.out.Budgets, BudgetOf{j.ns, k})
		}
	}
	x.putBudgetDay(j.ns, k, &d)
	return !there
}

// forgetDays removes, with the first cost of a new day, the days before it: a range,
// however much is in it.
func (x *entry) forgetDays(ns job.Namespace) {
	x.txn.DeleteRange(x.m.space.BudgetDays(ns, records.DayOf(x.now)))
}

// spent reports whether the day of a budget is spent.
func (x *entry) spent(ns job.Namespace, b *records.Budget) bool {
	d, _ := x.budgetDay(ns, b.Key())
	return d.Cost >= b.Daily
}

// shutUntil is until when spent budgets let no job of a queue start; 0 if they do.
func (x *entry) shutUntil(ns job.Namespace, queue string) int64 {
	p := x.budgets(ns)
	if len(p.budgets) == 0 {
		return 0
	}
	for _, b := range p.of(queue, nil) {
		if b.Closes() && x.spent(ns, &b) {
			return records.EndOfDay(x.now)
		}
	}
	return 0
}

// holdForTag holds a job that is about to start, until the day ends, if the budget of
// one of its tags is spent. The job is still in its ready order.
func (x *entry) holdForTag(j *subject) (held bool) {
	p := x.budgets(j.ns)
	if p.closingTags == 0 {
		return false
	}
	body := x.body(j.ns, j.id)
	for _, b := range p.of(j.Queue, body.Tags) {
		if !b.Closes() || b.Scope != command.BudgetTag || !x.spent(j.ns, &b) {
			continue
		}
		x.leavingReady(j)
		x.leave(j)
		why := records.Hold{
			Cause: records.HoldCause{Rule: records.HeldForTag, Text: b.Target}, At: x.now, Until: records.EndOfDay(x.now), ApproveAtLast: true,
		}
		x.hold(j, why)
		x.put(j)
		return true
	}
	return false
}

// budgetRefuses reports whether a spent budget refuses a new job.
func (x *entry) budgetRefuses(c *command.Enqueue) bool {
	p := x.budgets(c.NS)
	if p.rejecting == 0 {
		return false
	}
	for _, b := range p.of(c.Queue, c.Tags) {
		if b.Closes() && b.On == command.ExceedReject && x.spent(c.NS, &b) {
			return true
		}
	}
	return false
}
