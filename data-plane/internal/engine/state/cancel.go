package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// cancel ends a waiting job, or asks the worker of a leased one to let go; the
// slot stays taken until it does or its lease ends. Again is the same answer.
func (x *entry) cancel(c *command.Cancel) Result {
	j, ok := x.job(c.NS, c.ID)
	if !ok {
		return Result{Refusal: NotFound}
	}
	switch j.State {
	case job.Cancelled:
		return Result{State: j.State}
	case job.Completed, job.Dead:
		return Result{Refusal: WrongState, State: j.State}
	case job.Cancelling:
		j.Flags &^= records.FlagHoldNext // It ends instead.
	case job.Active:
		x.askToLetGo(&j)
	default:
		x.cancelWaiting(&j)
	}
	x.put(&j)
	return Result{State: j.State}
}

func (x *entry) cancelWaiting(j *subject) {
	x.leavingReady(j)
	x.leave(j)
	x.endCancelled(j)
}
