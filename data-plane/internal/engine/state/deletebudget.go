package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

func (x *entry) deleteBudget(c *command.DeleteBudget) Result {
	p := x.budgets(c.NS)
	k := records.BudgetKey{Scope: c.Scope, Target: c.Target}
	b, there := p.budgets[k]
	if !there {
		return Result{Refusal: NotFound}
	}
	p.drop(k)
	x.txn.Delete(x.m.space.Budget(c.NS, byte(c.Scope), c.Target))
	if c.Scope == command.BudgetTag { // Counted only for the budget.
		x.txn.Delete(x.m.space.BudgetDay(c.NS, records.DayOf(x.now), byte(c.Scope), c.Target))
	} else {
		x.reportAgain(c.NS, &b)
	}
	x.out.Budgets = append(x.out.Budgets, BudgetOf{c.NS, k})
	return Result{}
}
