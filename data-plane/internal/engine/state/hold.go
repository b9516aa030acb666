package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// holdJob stops a job: at once if it waits, else when its worker lets go of it. Again
// is the same answer.
func (x *entry) holdJob(c *command.Hold) (Result, error) {
	j, ok, err := x.job(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	why := records.Hold{Cause: records.HoldCause{Text: c.Reason}, By: c.By, At: x.now}
	switch j.State {
	case job.Held:
		return Result{State: j.State}, nil
	case job.Cancelling:
		if j.Has(records.FlagHoldNext) {
			return Result{State: j.State}, nil
		}
		return Result{Refusal: WrongState, State: j.State}, nil
	case job.Active:
		err = x.holdNext(&j, why)
	case job.Pending, job.Scheduled, job.Retrying:
		x.leavingReady(&j)
		if err = x.leave(&j); err == nil {
			err = x.hold(&j, why)
		}
	default:
		return Result{Refusal: WrongState, State: j.State}, nil
	}
	if err != nil {
		return Result{}, err
	}
	x.put(&j)
	return Result{State: j.State}, nil
}
