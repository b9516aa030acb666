package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// decide ends the hold of a job by what a person says.
func (x *entry) decide(c *command.Decide) Result {
	j, ok := x.job(c.NS, c.ID)
	if !ok {
		return Result{Refusal: NotFound}
	}
	if j.State != job.Held {
		return Result{Refusal: WrongState, State: j.State}
	}
	why := x.heldFor(c.NS, c.ID)
	if len(why.Approvers) > 0 && !slices.Contains(why.Approvers, c.By) {
		return Result{Refusal: NotApprover, State: j.State}
	}
	x.leave(&j)
	why.DecidedBy, why.Comment = c.By, c.Comment
	x.endHold(&j, why, c.Approve)
	x.put(&j)
	return Result{State: j.State}
}
