package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// decide ends the hold of a job by what a person says.
func (x *entry) decide(c *command.Decide) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	if h.State != job.Held {
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	why, err := x.heldFor(c.NS, c.ID)
	if err != nil {
		return Result{}, err
	}
	if len(why.Approvers) > 0 && !slices.Contains(why.Approvers, c.By) {
		return Result{Refusal: NotApprover, State: h.State}, nil
	}
	if err := x.leave(c.NS, c.ID, &h); err != nil {
		return Result{}, err
	}
	why.DecidedBy, why.Comment = c.By, c.Comment
	if err := x.endHold(c.NS, c.ID, &h, why, c.Approve); err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}
