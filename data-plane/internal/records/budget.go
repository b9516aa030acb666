package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
)

// AllTarget is the target of the budget of a whole namespace.
const AllTarget = "*"

// Budget is one budget as stored.
type Budget struct {
	command.Budget
	CreatedAt int64
	Spent     int64 // Nano-dollars, of the latest day that was counted; not stored here.
}

func (b *Budget) Encode() []byte {
	w := newRecord(64)
	w.Int(b.CreatedAt)
	command.EncodeBudget(&w, &b.Budget)
	return w.Buf
}

func DecodeBudget(v []byte) (Budget, error) {
	r, err := openRecord("budget", v)
	if err != nil {
		return Budget{}, err
	}
	b := Budget{CreatedAt: r.Time(), Budget: command.DecodeBudget(r)}
	return b, closeRecord("budget", r)
}

// Closes reports whether the budget lets nothing start once its day is spent.
func (b *Budget) Closes() bool { return b.Daily > 0 && b.On != command.ExceedAlert }

// BudgetKey names a budget: a namespace has one of a scope and a target.
type BudgetKey struct {
	Scope  command.BudgetScope
	Target string
}

func (b *Budget) Key() BudgetKey { return BudgetKey{b.Scope, b.Target} }

// NamespaceBudget, QueueBudget and TagBudget name the budgets that there can be of a thing.
func NamespaceBudget() BudgetKey { return BudgetKey{command.BudgetGlobal, AllTarget} }

func QueueBudget(queue string) BudgetKey { return BudgetKey{command.BudgetQueue, queue} }

func TagBudget(t command.Tag) BudgetKey { return BudgetKey{command.BudgetTag, t.Key + ":" + t.Value} }

// BudgetDay is what a scope cost in a UTC day.
type BudgetDay struct {
	Cost int64 // Nano-dollars.
	Told bool  // That the budget is spent.
}

func (d *BudgetDay) Encode() []byte {
	w := newRecord(16)
	d.write(&w)
	return w.Buf
}

func (d *BudgetDay) write(w *codec.Writer) {
	w.Int(d.Cost)
	w.Bool(d.Told)
}

func DecodeBudgetDay(v []byte) (BudgetDay, error) {
	r, err := openRecord("budget day", v)
	if err != nil {
		return BudgetDay{}, err
	}
	d := BudgetDay{Cost: r.Int(), Told: r.Bool()}
	return d, closeRecord("budget day", r)
}
