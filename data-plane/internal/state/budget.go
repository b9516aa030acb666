package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// A budget is enforced by apply from counters in the state, which every replica and
// every later leader has (trap 111); each check reads one counter a budget (trap 99).

const (
	// BudgetsMax bounds the budgets of a namespace.
	BudgetsMax = 1000
	// pursesCached bounds the namespaces whose budgets are kept decoded.
	pursesCached = 10_000
)

// purse is the budgets of a namespace.
type purse struct {
	budgets map[records.BudgetKey]records.Budget
	// Of them: on tags and closing; refusing new jobs; with a limit per job.
	closingTags, rejecting, perJob int
}

func (p *purse) set(b records.Budget) {
	p.drop(b.Key())
	p.budgets[b.Key()] = b
	p.count(&b, 1)
}

func (p *purse) drop(k records.BudgetKey) {
	if b, ok := p.budgets[k]; ok {
		p.count(&b, -1)
		delete(p.budgets, k)
	}
}

func (p *purse) count(b *records.Budget, n int) {
	if b.Closes() && b.Scope == command.BudgetTag {
		p.closingTags += n
	}
	if b.Closes() && b.On == command.ExceedReject {
		p.rejecting += n
	}
	if b.PerJob > 0 {
		p.perJob += n
	}
}

// of lists the budgets that count the jobs of a queue with some tags, in a fixed order.
func (p *purse) of(queue string, tags []command.Tag) []records.Budget {
	var out []records.Budget
	add := func(k records.BudgetKey) {
		if b, ok := p.budgets[k]; ok {
			out = append(out, b)
		}
	}
	add(records.NamespaceBudget())
	add(records.QueueBudget(queue))
	for _, t := range tags {
		add(records.TagBudget(t))
	}
	return out
}

// purse returns the budgets of a namespace. They are read as of the last commit, which
// is the truth: a command that changes one asks for them first, and nothing is
// forgotten before the next commit.
func (x *entry) purse(ns job.Namespace) (*purse, error) {
	if p, ok := x.m.purses[ns]; ok {
		return p, nil
	}
	p := &purse{budgets: make(map[records.BudgetKey]records.Budget)}
	from, to := x.m.space.Budgets(ns)
	err := x.m.store.Scan(from, to, func(_, v []byte) (bool, error) {
		b, err := records.DecodeBudget(v)
		if err == nil {
			p.set(b)
		}
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("budgets of %s: %w", ns, err)
	}
	x.m.purses[ns] = p
	return p, nil
}

// forgetPurses bounds the cache, between two commits.
func (m *Machine) forgetPurses() {
	if len(m.purses) > pursesCached {
		clear(m.purses)
	}
	if len(m.policies) > pursesCached {
		clear(m.policies)
	}
}

func (x *entry) putBudget(c *command.PutBudget) (Result, error) {
	p, err := x.purse(c.NS)
	if err != nil {
		return Result{}, err
	}
	b := records.Budget{Budget: c.Budget, CreatedAt: x.now}
	was, there := p.budgets[b.Key()]
	switch {
	case there:
		b.ID, b.CreatedAt = was.ID, was.CreatedAt
	case len(p.budgets) >= BudgetsMax:
		return Result{Refusal: TooMany}, nil
	}
	p.set(b)
	x.txn.Set(x.m.space.Budget(c.NS, byte(b.Scope), b.Target), b.Encode())
	if was.Daily != b.Daily {
		err = x.untell(c.NS, &b)
	}
	x.out.Budgets = append(x.out.Budgets, c.NS)
	return Result{}, err
}

func (x *entry) deleteBudget(c *command.DeleteBudget) (Result, error) {
	p, err := x.purse(c.NS)
	if err != nil {
		return Result{}, err
	}
	k := records.BudgetKey{Scope: c.Scope, Target: c.Target}
	b, there := p.budgets[k]
	if !there {
		return Result{Refusal: NotFound}, nil
	}
	p.drop(k)
	x.txn.Delete(x.m.space.Budget(c.NS, byte(c.Scope), c.Target))
	if c.Scope == command.BudgetTag { // Counted only for the budget.
		x.txn.Delete(x.m.space.BudgetDay(c.NS, records.DayOf(x.now), byte(c.Scope), c.Target))
	} else {
		err = x.untell(c.NS, &b)
	}
	x.out.Budgets = append(x.out.Budgets, c.NS)
	return Result{}, err
}

func (x *entry) budgetDay(ns job.Namespace, k records.BudgetKey) (d records.BudgetDay, there bool, err error) {
	v, err := x.txn.Get(x.m.space.BudgetDay(ns, records.DayOf(x.now), byte(k.Scope), k.Target))
	if errors.Is(err, statedb.ErrNotFound) {
		return records.BudgetDay{}, false, nil
	}
	if err == nil {
		d, err = records.DecodeBudgetDay(v)
	}
	if err != nil {
		return records.BudgetDay{}, false, fmt.Errorf("budget day of %q: %w", k.Target, err)
	}
	return d, true, nil
}

func (x *entry) putBudgetDay(ns job.Namespace, k records.BudgetKey, d *records.BudgetDay) {
	x.txn.Set(x.m.space.BudgetDay(ns, records.DayOf(x.now), byte(k.Scope), k.Target), d.Encode())
}

// untell lets a budget that is changed tell once more today that it is spent.
func (x *entry) untell(ns job.Namespace, b *records.Budget) error {
	d, _, err := x.budgetDay(ns, b.Key())
	if err == nil && d.Told {
		d.Told = false
		x.putBudgetDay(ns, b.Key(), &d)
	}
	return err
}

// spend adds a cost to the day of the namespace and of the queue, which are counted
// whether there is a budget or not, so that one that is made at noon knows the
// morning; and to the days of the job's tags that have a budget.
func (x *entry) spend(ns job.Namespace, id job.ID, h *records.Head, cost int64) error {
	p, err := x.purse(ns)
	if err != nil {
		return err
	}
	began, err := x.addDay(ns, id, h, p, records.NamespaceBudget(), cost)
	if err != nil {
		return err
	}
	if began {
		x.forgetDays(ns)
	}
	if _, err := x.addDay(ns, id, h, p, records.QueueBudget(h.Queue), cost); err != nil {
		return err
	}
	if len(p.budgets) == 0 {
		return nil
	}
	body, err := x.body(ns, id)
	if err != nil {
		return err
	}
	for _, t := range body.Tags {
		k := records.TagBudget(t)
		if _, ok := p.budgets[k]; !ok {
			continue
		}
		if _, err := x.addDay(ns, id, h, p, k, cost); err != nil {
			return err
		}
	}
	return nil
}

// addDay adds to the day's count of a scope, and tells once a day that its budget is
// spent. Began tells that the day had no count.
func (x *entry) addDay(ns job.Namespace, id job.ID, h *records.Head, p *purse, k records.BudgetKey, cost int64) (began bool, err error) {
	d, there, err := x.budgetDay(ns, k)
	if err != nil {
		return false, err
	}
	was := d.Cost
	d.Cost = records.SaturatingAdd(d.Cost, cost)
	if b, ok := p.budgets[k]; ok && b.Daily > 0 {
		if d.Cost >= b.Daily && !d.Told {
			d.Told = true
			x.event(feed.BudgetExceeded, ns, id, h)
		}
		if b.Closes() && (was >= b.Daily) != (d.Cost >= b.Daily) {
			x.out.Budgets = append(x.out.Budgets, ns)
		}
	}
	x.putBudgetDay(ns, k, &d)
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
	p, err := x.purse(ns)
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
func (x *entry) holdForTag(ns job.Namespace, id job.ID, h *records.Head) (held bool, err error) {
	p, err := x.purse(ns)
	if err != nil || p.closingTags == 0 {
		return false, err
	}
	body, err := x.body(ns, id)
	if err != nil {
		return false, err
	}
	for _, b := range p.of(h.Queue, body.Tags) {
		if !b.Closes() || b.Scope != command.BudgetTag {
			continue
		}
		spent, err := x.spent(ns, &b)
		if err != nil {
			return false, err
		}
		if !spent {
			continue
		}
		x.leavingReady(ns, id, h)
		if err := x.leave(ns, id, h); err != nil {
			return false, err
		}
		why := records.Hold{Reason: fmt.Sprintf("the budget of tag %s is spent for today", b.Target), At: x.now, Until: records.EndOfDay(x.now), ApproveAtLast: true}
		if err := x.hold(ns, id, h, why); err != nil {
			return false, err
		}
		x.putHead(ns, id, h)
		return true, nil
	}
	return false, nil
}

// budgetRefuses reports whether a spent budget refuses a new job.
func (x *entry) budgetRefuses(c *command.Enqueue) (bool, error) {
	p, err := x.purse(c.NS)
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

// overspent finds the strictest budget that a job alone is over; nil if there is none.
func (x *entry) overspent(ns job.Namespace, id job.ID, h *records.Head) (*records.Budget, error) {
	p, err := x.purse(ns)
	if err != nil || p.perJob == 0 || !h.Has(records.FlagUsage) {
		return nil, err
	}
	body, err := x.body(ns, id)
	if err != nil {
		return nil, err
	}
	u, err := x.jobUsage(ns, id, h)
	if err != nil {
		return nil, err
	}
	var worst *records.Budget
	for _, b := range p.of(h.Queue, body.Tags) {
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

func whyHeld(b *records.Budget) string {
	of := map[command.BudgetScope]string{command.BudgetGlobal: "the namespace", command.BudgetQueue: "queue " + b.Target, command.BudgetTag: "tag " + b.Target}
	return fmt.Sprintf("cost more than %s dollars, the limit for one job of %s", job.FormatDollars(b.PerJob), of[b.Scope])
}

// tellOverspent tells, once, that a job costs more than a budget allows for one.
func (x *entry) tellOverspent(ns job.Namespace, id job.ID, h *records.Head) error {
	if h.Has(records.FlagOverBudget) {
		return nil
	}
	over, err := x.overspent(ns, id, h)
	if err != nil || over == nil {
		return err
	}
	h.Flags |= records.FlagOverBudget
	x.event(feed.BudgetExceeded, ns, id, h)
	return nil
}

// reportRunning counts what the worker of a running job reports, and stops the job with
// the report that makes it too dear, or dearer than a stricter budget allows. Once a
// person let it run again, it may end its attempt.
func (x *entry) reportRunning(c *command.Heartbeat, h *records.Head) error {
	told := h.Has(records.FlagOverBudget)
	before, err := x.overspent(c.NS, c.ID, h)
	if err != nil {
		return err
	}
	if err := x.report(c.NS, c.ID, h, c.Usage); err != nil || !h.Has(records.FlagOverBudget) {
		return err
	}
	over, err := x.overspent(c.NS, c.ID, h)
	if err != nil || over == nil || h.State != job.Active {
		return err
	}
	if told && before != nil && severity(before.On) >= severity(over.On) {
		return nil
	}
	return x.stopOverspent(c.NS, c.ID, h, over)
}

// stopOverspent asks the worker of a job to let go of it, because of a budget.
func (x *entry) stopOverspent(ns job.Namespace, id job.ID, h *records.Head, over *records.Budget) error {
	switch over.On {
	case command.ExceedHold:
		return x.holdNext(ns, id, h, records.Hold{Reason: whyHeld(over), At: x.now})
	case command.ExceedReject:
		if err := x.askToLetGo(ns, id, h); err != nil {
			return err
		}
		h.Flags |= records.FlagDeadNext
	}
	return nil
}

// endOverspent holds or ends a job that left its state, and would run again, if it is
// over its budget; done tells that it did. A death is still to be told.
func (x *entry) endOverspent(ns job.Namespace, id job.ID, h *records.Head) (done bool, err error) {
	over, err := x.overspent(ns, id, h)
	if err != nil || over == nil {
		return false, err
	}
	switch over.On {
	case command.ExceedHold:
		return true, x.hold(ns, id, h, records.Hold{Reason: whyHeld(over), At: x.now})
	case command.ExceedReject:
		return true, x.endDead(ns, id, h, records.DeadBudget)
	}
	return false, nil
}

// tellDead is the last event of a job that may have died.
func (x *entry) tellDead(ns job.Namespace, id job.ID, h *records.Head) {
	if h.State == job.Dead {
		x.event(feed.Dead, ns, id, h)
	}
}
