package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// decide ends the hold of a job by what a person says.
func (x *entry) decide(c *command.Decide) (Result, error) {
	j, ok, err := x.job(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	if j.State != job.Held {
		return Result{Refusal: WrongState, State: j.State}, nil
	}
	why, err := x.heldFor(c.NS, c.ID)
	if err != nil {
		return Result{}, err
	}
	if len(why.Approvers) > 0 && !slices.Contains(why.Approvers, c.By) {
		return Result{Refusal: NotApprover, State: j.State}, nil
	}
	if err := x.leave(&j); err != nil {
		return Result{}, err
	}
	why.DecidedBy, why.Comment = c.By, c.Comment
	if err := x.endHold(&j, why, c.Approve); err != nil {
		return Result{}, err
	}
	x.put(&j)
	return Result{State: j.State}, nil
}
