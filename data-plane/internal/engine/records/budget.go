package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// AllTarget is the target of the budget of a whole namespace.
const AllTarget = "*"

// Budget is one budget as stored.
type Budget struct {
	command.Budget
	CreatedAt int64
	Spent     int64 // Nano-dollars, of the latest day that was counted; not stored here.
}

func (b *Budget) Fields(f *codec.Fields) {
	f.Natural(&b.CreatedAt)
	b.Budget.Fields(f)
}

func (b *Budget) Encode() []byte { return encode(64, b) }

// DecodeBudget reads what Budget.Encode wrote.
func DecodeBudget(v []byte) (Budget, error) { return decode[Budget]("budget", v) }

// Closes reports whether the budget lets nothing start once its day is spent.
func (b *Budget) Closes() bool { return b.Daily > 0 && b.On != command.ExceedAlert }

// BudgetKey names a budget: a namespace has one of a scope and a target.
type BudgetKey struct {
	Scope  command.BudgetScope
	Target string
}

// Key names the budget.
func (b *Budget) Key() BudgetKey { return BudgetKey{b.Scope, b.Target} }

// NamespaceBudget names the budget of a whole namespace.
func NamespaceBudget() BudgetKey { return BudgetKey{command.BudgetGlobal, AllTarget} }

// QueueBudget names the budget of a queue.
func QueueBudget(queue string) BudgetKey { return BudgetKey{command.BudgetQueue, queue} }

// TagBudget names the budget of the jobs with a tag.
func TagBudget(t command.Tag) BudgetKey { return BudgetKey{command.BudgetTag, t.Key + ":" + t.Value} }

// BudgetDay is what a scope cost in a UTC day.
type BudgetDay struct {
	Cost int64 // Nano-dollars.
	Told bool  // That the budget is spent.
}

func (d *BudgetDay) Fields(f *codec.Fields) {
	f.Int(&d.Cost)
	f.Bool(&d.Told)
}

func (d *BudgetDay) Encode() []byte { return encode(16, d) }

// DecodeBudgetDay reads what BudgetDay.Encode wrote.
func DecodeBudgetDay(v []byte) (BudgetDay, error) { return decode[BudgetDay]("budget day", v) }
