package server

import (
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Budgets and approval policies. Their shapes are strict: a misspelt limit that is
// passed over would be no limit.

type policyRequest struct {
	id string
	in queue.Policy
}

var (
	budgetShape = shape.New("BudgetRequest",
		shape.Enum("scope", "global, queue or tag.", wire.BudgetScopes(), func(in *queue.Budget) *wire.BudgetScope { return &in.Scope }).Must(),
		shape.Text("target", "A queue name, a tag as key:value, or * for the whole namespace.", func(in *queue.Budget) *string { return &in.Target }),
		dollarsField("daily_usd", "Maximum model cost per UTC day; 0 means no limit.", func(in *queue.Budget) *int64 { return &in.Daily }),
		dollarsField("per_job_usd", "Maximum model cost per job; 0 means no limit.", func(in *queue.Budget) *int64 { return &in.PerJob }),
		shape.Enum("on_exceed", "hold (default: start no jobs), reject (also refuse new jobs) or alert_only.", wire.OnExceeds(),
			func(in *queue.Budget) *wire.OnExceed { return &in.OnExceed }),
	).Strictly()

	policyShape = shape.New("ApprovalPolicyRequest",
		shape.Text("id", "Id of the policy to update; leave out to create one.", func(in *policyRequest) *string { return &in.id }),
		shape.Text("name", "Name shown to people.", func(in *policyRequest) *string { return &in.in.Name }).Must(),
		shape.Enum("mode", "any (default: one condition is enough) or all.", wire.PolicyModes(), func(in *policyRequest) *wire.PolicyMode { return &in.in.Mode }),
		shape.Bool("enabled", "Default true.", func(in *policyRequest) *bool { return &in.in.Enabled }),
		shape.Text("queue", "Jobs of this queue.", func(in *policyRequest) *string { return &in.in.Queue }),
		shape.Text("tag_key", "Jobs with this tag.", func(in *policyRequest) *string { return &in.in.TagKey }),
		shape.Text("tag_value", "With this value; leave out for any value.", func(in *policyRequest) *string { return &in.in.TagValue }),
		shape.Texts("approvers", "Ids of the keys or users that can decide; if empty, everybody with the operator role.",
			func(in *policyRequest) *[]string { return &in.in.Approvers }),
		shape.Duration("expires_after", "How long a job waits for a decision; leave out for no limit.", func(in *policyRequest, d time.Duration) { in.in.Expires = d }),
		shape.Enum("on_expire", "What happens when it expires: reject (default) or approve.", wire.OnExpires(), func(in *policyRequest) *wire.OnExpire { return &in.in.OnExpire }),
	).Strictly()
)

func (c *call) setBudget() error {
	var in queue.Budget
	d, err := decodeAll(c, budgetShape, &in)
	if err != nil {
		return err
	}
	d.Also("", in.CheckBudget(), shape.AsIs)
	if err := d.Err(); err != nil {
		return err
	}
	return c.answer(c.place.Local.SetBudget(c.r.Context(), c.who.Caller, in))
}

func (c *call) deleteBudget() error {
	return c.done("deleted", c.place.Local.DeleteBudget(c.r.Context(), c.who.Caller, wire.BudgetScope(c.r.PathValue("scope")), c.r.PathValue("target")))
}

// deleteBudgetByID is for targets that no address can hold: a proxy refuses a path with
// an encoded slash, as a tag may have one.
func (c *call) deleteBudgetByID() error {
	all, err := c.place.Local.Budgets(c.r.Context(), c.who.Caller)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(b wire.Budget) bool { return b.ID == c.r.PathValue("budget") })
	if i < 0 {
		return fault.New(fault.NotFound, "NOT_FOUND", "the budget does not exist in this namespace")
	}
	return c.done("deleted", c.place.Local.DeleteBudget(c.r.Context(), c.who.Caller, all[i].Scope, all[i].Target))
}

func (c *call) setPolicy() error {
	req := policyRequest{in: queue.Policy{Enabled: true}}
	d, err := decodeAll(c, policyShape, &req)
	if err != nil {
		return err
	}
	if req.id != "" {
		if req.in.ID, err = job.ParsePolicyID(req.id); err != nil {
			return fault.New(fault.NotFound, "NOT_FOUND", noPolicy)
		}
	}
	d.Also("", req.in.CheckPolicy(), shape.AsIs)
	if err := d.Err(); err != nil {
		return err
	}
	return c.answer(c.place.Local.SetPolicy(c.r.Context(), c.who.Caller, req.in))
}

const noPolicy = "the approval policy does not exist in this namespace"
