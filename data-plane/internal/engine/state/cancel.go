package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// cancel ends a waiting job, or asks the worker of a leased one to let go; the
// slot stays taken until it does or its lease ends. Again is the same answer.
func (x *entry) cancel(c *command.Cancel) (Result, error) {
	j, ok, err := x.job(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	switch j.State {
	case job.Cancelled:
		return Result{State: j.State}, nil
	case job.Completed, job.Dead:
		return Result{Refusal: WrongState, State: j.State}, nil
	case job.Cancelling:
		j.Flags &^= records.FlagHoldNext // It ends instead.
	case job.Active:
		err = x.askToLetGo(&j)
	default:
		err = x.cancelWaiting(c, &j)
	}
	if err != nil {
		return Result{}, err
	}
	x.put(&j)
	return Result{State: j.State}, nil
}

func (x *entry) cancelWaiting(c *command.Cancel, j *subject) error {
	x.leavingReady(j)
	if err := x.leave(j); err != nil {
		return err
	}
	return x.endCancelled(j)
}
