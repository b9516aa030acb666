package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReadBudgets lists the budgets of a namespace, by scope and target.
func ReadBudgets(g *statedb.Group, ns job.Namespace, now int64) ([]records.Budget, error) {
	space := keys.In(g.Prefix())
	var out []records.Budget
	from, to := space.Budgets(ns)
	err := g.Scan(from, to, func(_, v []byte) (bool, error) {
		b, err := records.DecodeBudget(v)
		if err == nil {
			var d records.BudgetDay
			d, err = readBudgetDay(g, space, ns, records.DayOf(now), b.Key())
			b.Spent = d.Cost
		}
		out = append(out, b)
		return true, err
	})
	return out, err
}

func readBudgetDay(r Reader, space keys.Space, ns job.Namespace, day uint64, k records.BudgetKey) (records.BudgetDay, error) {
	d, _, err := Get(r, space.BudgetDay(ns, day, byte(k.Scope), k.Target), records.DecodeBudgetDay)
	return d, err
}

// readShut is shutUntil of committed state.
func readShut(r Reader, space keys.Space, ns job.Namespace, queue string) (int64, error) {
	_, until, err := readSpent(r, space, ns, []records.BudgetKey{records.NamespaceBudget(), records.QueueBudget(queue)})
	return until, err
}

// readShutTag finds the first tag of which the spent budget holds the jobs that would
// start, and until when; 0 if there is none.
func readShutTag(r Reader, space keys.Space, ns job.Namespace, tags []command.Tag) (target string, until int64, err error) {
	ks := make([]records.BudgetKey, len(tags))
	for i, t := range tags {
		ks[i] = records.TagBudget(t)
	}
	by, until, err := readSpent(r, space, ns, ks)
	return by.Target, until, err
}

// readSpent finds the first of some budgets that is spent and lets nothing start, and
// until when; 0 if there is none. Only one day is ever kept; if it is over, so is what
// it shut.
func readSpent(r Reader, space keys.Space, ns job.Namespace, ks []records.BudgetKey) (by records.BudgetKey, until int64, err error) {
	if len(ks) == 0 {
		return records.BudgetKey{}, 0, nil
	}
	var day uint64
	found := false
	from, to := space.BudgetDays(ns, 1<<62)
	err = r.Scan(from, to, func(key, _ []byte) (bool, error) {
		var err error
		day, err = space.BudgetDayOf(key)
		found = err == nil
		return false, err
	})
	if err != nil || !found {
		return records.BudgetKey{}, 0, err
	}
	for _, k := range ks {
		b, there, err := Get(r, space.Budget(ns, byte(k.Scope), k.Target), records.DecodeBudget)
		if err != nil {
			return records.BudgetKey{}, 0, err
		}
		if !there {
			continue
		}
		d, err := readBudgetDay(r, space, ns, day, k)
		if err != nil {
			return records.BudgetKey{}, 0, err
		}
		if b.Closes() && d.Cost >= b.Daily {
			return k, records.BeginOfDay(day + 1), nil
		}
	}
	return records.BudgetKey{}, 0, nil
}
