package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
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

func (b *Budget) Fields(f *codec.Fields) {
	codec.ID(f, &b.ID)
	codec.Enum(f, &b.Scope, budgetScopesEnd)
	f.Text(&b.Target)
	f.Natural(&b.Daily)
	f.Natural(&b.PerJob)
	codec.Enum(f, &b.On, exceedsEnd)
}

// PutBudget makes a budget, or changes the one of the same scope and target.
type PutBudget struct {
	NS     job.Namespace
	Budget Budget
}

func (c *PutBudget) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	c.Budget.Fields(f)
}

// DeleteBudget removes a budget; what was counted for it is forgotten.
type DeleteBudget struct {
	NS     job.Namespace
	Scope  BudgetScope
	Target string
}

func (c *DeleteBudget) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.Enum(f, &c.Scope, budgetScopesEnd)
	f.Text(&c.Target)
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

func (p *Policy) Fields(f *codec.Fields) {
	codec.ID(f, &p.ID)
	f.Text(&p.Name)
	f.Bool(&p.Enabled)
	f.Bool(&p.Any)
	f.Text(&p.Queue)
	f.Text(&p.TagKey)
	f.Text(&p.TagValue)
	f.Texts(&p.Approvers)
	f.Duration(&p.Expires)
	f.Bool(&p.ApproveAtLast)
}

// PutPolicy makes an approval policy, or changes the one of that id.
type PutPolicy struct {
	NS     job.Namespace
	Policy Policy
}

func (c *PutPolicy) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	c.Policy.Fields(f)
}

// DeletePolicy removes an approval policy; jobs that it holds stay held.
type DeletePolicy struct {
	NS job.Namespace
	ID job.PolicyID
}

func (c *DeletePolicy) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
}
