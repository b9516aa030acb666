package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

func (x *entry) putBudget(c *command.PutBudget) Result {
	p := x.budgets(c.NS)
	b := records.Budget{Budget: c.Budget, CreatedAt: x.now}
	was, there := p.budgets[b.Key()]
	switch {
	case there:
		b.ID, b.CreatedAt = was.ID, was.CreatedAt
	case len(p.budgets) >= BudgetsMax:
		return Result{Refusal: TooMany}
	}
	p.set(b)
	x.txn.Set(x.m.space.Budget(c.NS, byte(b.Scope), b.Target), b.Encode())
	if was.Daily != b.Daily {
		x.reportAgain(c.NS, &b)
	}
	x.out.Budgets = append(x.out.Budgets, BudgetOf{c.NS, b.Key()})
	return Result{}
}

// reportAgain lets a budget that is changed tell once more today that it is spent.
func (x *entry) reportAgain(ns job.Namespace, b *records.Budget) {
	d, _ := x.budgetDay(ns, b.Key())
	if d.Told {
		d.Told = false
		x.putBudgetDay(ns, b.Key(), &d)
	}
}
