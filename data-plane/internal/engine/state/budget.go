package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// A budget is enforced by apply from counters in the state, which every replica and
// every later leader has (trap 111); each check reads one counter a budget (trap 99).

const (
	// BudgetsMax bounds the budgets of a namespace.
	BudgetsMax = 1000
	// budgetsCached bounds the namespaces whose budgets are kept decoded.
	budgetsCached = 10_000
)

// budgetSet is the budgets of a namespace.
type budgetSet struct {
	budgets map[records.BudgetKey]records.Budget
	// Of them: on tags and closing; refusing new jobs; with a limit per job.
	closingTags, rejecting, perJob int
}

func (p *budgetSet) set(b records.Budget) {
	p.drop(b.Key())
	p.budgets[b.Key()] = b
	p.count(&b, 1)
}

func (p *budgetSet) drop(k records.BudgetKey) {
	if b, ok := p.budgets[k]; ok {
		p.count(&b, -1)
		delete(p.budgets, k)
	}
}

func (p *budgetSet) has(k records.BudgetKey) bool { _, ok := p.budgets[k]; return ok }

func (p *budgetSet) count(b *records.Budget, n int) {
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
func (p *budgetSet) of(queue string, tags []command.Tag) []records.Budget {
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

// budgets returns the budgets of a namespace. They are read as of the last commit, which
// is the truth: a command that changes one asks for them first, and nothing is
// forgotten before the next commit.
func (x *entry) budgets(ns job.Namespace) *budgetSet {
	if p, ok := x.m.budgets[ns]; ok {
		return p
	}
	p := &budgetSet{budgets: make(map[records.BudgetKey]records.Budget)}
	from, to := x.m.space.Budgets(ns)
	statedb.Check(x.m.store.Scan(from, to, func(_, v []byte) (bool, error) {
		b, err := records.DecodeBudget(v)
		if err == nil {
			p.set(b)
		}
		return true, err
	}))
	x.m.budgets[ns] = p
	return p
}

// trimBudgets bounds the cache, between two commits.
func (m *Machine) trimBudgets() {
	if len(m.budgets) > budgetsCached {
		clear(m.budgets)
	}
	if len(m.policies) > budgetsCached {
		clear(m.policies)
	}
}
