package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// cancel ends a waiting job, or asks the worker of a leased one to let go; the
// slot stays taken until it does or its lease ends. Again is the same answer.
func (x *entry) cancel(c *command.Cancel) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	switch h.State {
	case job.Cancelled:
		return Result{State: h.State}, nil
	case job.Completed, job.Dead:
		return Result{Refusal: WrongState, State: h.State}, nil
	case job.Cancelling:
		h.Flags &^= records.FlagHoldNext // It ends instead.
	case job.Active:
		err = x.askToLetGo(c.NS, c.ID, &h)
	default:
		err = x.cancelWaiting(c, &h)
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}

func (x *entry) cancelWaiting(c *command.Cancel, h *records.Head) error {
	x.leavingReady(c.NS, c.ID, h)
	if err := x.leave(c.NS, c.ID, h); err != nil {
		return err
	}
	return x.endCancelled(c.NS, c.ID, h)
}
