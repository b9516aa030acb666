package records

import (
	"fmt"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// A held job waits for a person. Its record says why, and in the end who decided;
// it stays with the job, so that one can read later what was decided.

// Decision ends a hold. Stored: append only.
type Decision uint8

const (
	Undecided Decision = iota
	Approved
	Rejected
)

var decisions = [...]string{"", "approved", "rejected"}

func (d Decision) String() string {
	if int(d) < len(decisions) {
		return decisions[d]
	}
	return "unknown"
}

// HoldRule says what made a job wait. Stored: append only.
type HoldRule uint8

const (
	HeldAsAsked      HoldRule = iota // By a person or a worker, in their words.
	HeldByPolicy                     // An approval policy.
	HeldForTag                       // The budget of a tag is spent for today.
	HeldForCost                      // The job cost more than a budget allows for one.
	HeldAtIterations                 // The agent's own limit of iterations.
	HeldAtCost                       // The agent's own limit of cost.
	holdRulesEnd
)

// HoldCause is the rule that made a job wait, and what it went by: no words but those of
// callers are stored, so that programs with other words store the same.
type HoldCause struct {
	Rule           HoldRule
	Text           string              // The reason that was given; of a rule the name of its policy, or what its budget is for.
	Scope          command.BudgetScope // HeldForCost: of the budget.
	Reached, Limit int64               // HeldAtIterations, HeldAtCost; HeldForCost has a limit.
}

func (c *HoldCause) Fields(f *codec.Fields) {
	codec.Enum(f, &c.Rule, holdRulesEnd)
	switch c.Rule {
	case HeldForCost:
		codec.Byte(f, &c.Scope)
		f.Text(&c.Text)
		f.Natural(&c.Limit)
	case HeldAtIterations, HeldAtCost:
		f.Natural(&c.Reached)
		f.Natural(&c.Limit)
	default:
		f.Text(&c.Text)
	}
}

// String is why the job is held, for people.
func (c *HoldCause) String() string {
	switch c.Rule {
	case HeldByPolicy:
		return `approval policy "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(c.Text) + `"`
	case HeldForTag:
		return "the budget of tag " + c.Text + " is spent for today"
	case HeldForCost:
		return "cost more than " + job.FormatDollars(c.Limit) + " dollars, the limit for one job of " + c.budget()
	case HeldAtIterations:
		return fmt.Sprintf("max_iterations reached: %d of %d", c.Reached, c.Limit)
	case HeldAtCost:
		return "max_cost_usd reached: " + job.FormatDollars(c.Reached) + " of " + job.FormatDollars(c.Limit)
	default:
		return c.Text
	}
}

func (c *HoldCause) budget() string {
	switch c.Scope {
	case command.BudgetQueue:
		return "queue " + c.Text
	case command.BudgetTag:
		return "tag " + c.Text
	default:
		return "the namespace"
	}
}

// Hold is why a job is or was held, and what was decided.
type Hold struct {
	Cause HoldCause
	By    string // Who asked; "" if a rule did.
	At    int64
	// Until is when the wait is over at the latest, 0 for never; then the job is
	// approved if ApproveAtLast, else rejected.
	Until         int64
	ApproveAtLast bool
	Policy        job.PolicyID // That asked for it; zero if none did.
	Approvers     []string     // Who may decide; empty: everybody who may operate.

	Decision  Decision
	DecidedBy string // "" if the time was over.
	Comment   string
	DecidedAt int64
}

func (h *Hold) Fields(f *codec.Fields) {
	h.Cause.Fields(f)
	f.Text(&h.By)
	f.Natural(&h.At)
	f.Natural(&h.Until)
	f.Bool(&h.ApproveAtLast)
	codec.ID(f, &h.Policy)
	f.Texts(&h.Approvers)
	codec.Byte(f, &h.Decision)
	f.Text(&h.DecidedBy)
	f.Text(&h.Comment)
	f.Natural(&h.DecidedAt)
}

func (h *Hold) Encode() []byte { return encode(64+len(h.Cause.Text)+len(h.Comment), h) }

// DecodeHold reads what Hold.Encode wrote.
func DecodeHold(v []byte) (Hold, error) { return decode[Hold]("hold", v) }
