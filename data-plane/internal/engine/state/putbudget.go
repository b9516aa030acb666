package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

func (x *entry) putBudget(c *command.PutBudget) (Result, error) {
	p, err := x.budgets(c.NS)
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
		err = x.reportAgain(c.NS, &b)
	}
	x.out.Budgets = append(x.out.Budgets, c.NS)
	return Result{}, err
}

// reportAgain lets a budget that is changed tell once more today that it is spent.
func (x *entry) reportAgain(ns job.Namespace, b *records.Budget) error {
	d, _, err := x.budgetDay(ns, b.Key())
	if err == nil && d.Told {
		d.Told = false
		x.putBudgetDay(ns, b.Key(), &d)
	}
	return err
}
