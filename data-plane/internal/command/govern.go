package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// BudgetScope says what a budget counts. Stored: append only.
type BudgetScope uint8

const (
	BudgetGlobal BudgetScope = iota + 1 // The namespace.
	BudgetQueue
	BudgetTag // Jobs with a tag; the target is key=value.
	budgetScopesEnd
)

// OnExceed says what a budget does when it is spent. Stored: append only.
type OnExceed uint8

const (
	ExceedHold   OnExceed = iota // Nothing more starts.
	ExceedReject                 // Nothing more is enqueued either.
	ExceedAlert                  // An event, no more.
	exceedsEnd
)

// Budget limits what models may cost.
type Budget struct {
	ID     job.BudgetID
	Scope  BudgetScope
	Target string // Queue name, key=value, or "*" for the namespace.
	Daily  int64  // Nano-dollars a UTC day; 0: no limit.
	PerJob int64  // Nano-dollars; 0: no limit.
	On     OnExceed
}

// EncodeBudget and DecodeBudget are shared with the records of state.
func EncodeBudget(w *codec.Writer, b *Budget) {
	w.ID(b.ID)
	w.Byte(byte(b.Scope))
	w.Text(b.Target)
	w.Int(b.Daily)
	w.Int(b.PerJob)
	w.Byte(byte(b.On))
}

// DecodeBudget reads what EncodeBudget wrote.
func DecodeBudget(r *codec.Reader) Budget {
	return Budget{
		ID: r.ID(), Scope: BudgetScope(r.Enum(byte(budgetScopesEnd))), Target: r.Text(), Daily: r.Time(), PerJob: r.Time(),
		On: OnExceed(r.Enum(byte(exceedsEnd))),
	}
}

// PutBudget makes a budget, or changes the one of the same scope and target.
type PutBudget struct {
	NS     job.Namespace
	Budget Budget
}

func (c *PutBudget) encode(w *codec.Writer) {
	w.ID(c.NS)
	EncodeBudget(w, &c.Budget)
}

func (c *PutBudget) decode(r *codec.Reader) { c.NS, c.Budget = r.ID(), DecodeBudget(r) }

// DeleteBudget removes a budget; what was counted for it is forgotten.
type DeleteBudget struct {
	NS     job.Namespace
	Scope  BudgetScope
	Target string
}

func (c *DeleteBudget) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Byte(byte(c.Scope))
	w.Text(c.Target)
}

func (c *DeleteBudget) decode(r *codec.Reader) {
	c.NS, c.Scope, c.Target = r.ID(), BudgetScope(r.Enum(byte(budgetScopesEnd))), r.Text()
}

// Policy says which jobs wait for a person's approval before they first run.
type Policy struct {
	ID      job.PolicyID
	Name    string
	Enabled bool
	// Any: one of the conditions below is enough; otherwise all that are set must hold.
	Any      bool
	Queue    string // "" is no condition.
	TagKey   string // "" is no condition.
	TagValue string
	// Approvers may decide, as their keys or users are called; none: every operator.
	Approvers []string
	// Expires is how long a job waits at most; 0: for ever. Then it is approved or, as
	// a rule, rejected.
	Expires       time.Duration
	ApproveAtLast bool
}

// EncodePolicy and DecodePolicy are shared with the records of state.
func EncodePolicy(w *codec.Writer, p *Policy) {
	w.ID(p.ID)
	w.Text(p.Name)
	w.Bool(p.Enabled)
	w.Bool(p.Any)
	w.Text(p.Queue)
	w.Text(p.TagKey)
	w.Text(p.TagValue)
	encodeTexts(w, p.Approvers)
	w.Uint(uint64(p.Expires))
	w.Bool(p.ApproveAtLast)
}

// DecodePolicy reads what EncodePolicy wrote.
func DecodePolicy(r *codec.Reader) Policy {
	return Policy{
		ID: r.ID(), Name: r.Text(), Enabled: r.Bool(), Any: r.Bool(), Queue: r.Text(), TagKey: r.Text(), TagValue: r.Text(),
		Approvers: decodeTexts(r), Expires: duration(r), ApproveAtLast: r.Bool(),
	}
}

// PutPolicy makes an approval policy, or changes the one of that id.
type PutPolicy struct {
	NS     job.Namespace
	Policy Policy
}

func (c *PutPolicy) encode(w *codec.Writer) {
	w.ID(c.NS)
	EncodePolicy(w, &c.Policy)
}

func (c *PutPolicy) decode(r *codec.Reader) { c.NS, c.Policy = r.ID(), DecodePolicy(r) }

// DeletePolicy removes an approval policy; jobs that it holds stay held.
type DeletePolicy struct {
	NS job.Namespace
	ID job.PolicyID
}

func (c *DeletePolicy) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
}

func (c *DeletePolicy) decode(r *codec.Reader) { c.NS, c.ID = r.ID(), r.ID() }
