package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// holdJob stops a job: at once if it waits, else when its worker lets go of it. Again
// is the same answer.
func (x *entry) holdJob(c *command.Hold) Result {
	j, ok := x.job(c.NS, c.ID)
	if !ok {
		return Result{Refusal: NotFound}
	}
	why := records.Hold{Cause: records.HoldCause{Text: c.Reason}, By: c.By, At: x.now}
	switch j.State {
	case job.Held:
		return Result{State: j.State}
	case job.Cancelling:
		if j.Has(records.FlagHoldNext) {
			return Result{State: j.State}
		}
		return Result{Refusal: WrongState, State: j.State}
	case job.Active:
		x.holdNext(&j, why)
	case job.Pending, job.Scheduled, job.Retrying:
		x.leavingReady(&j)
		x.leave(&j)
		x.hold(&j, why)
	default:
		return Result{Refusal: WrongState, State: j.State}
	}
	x.put(&j)
	return Result{State: j.State}
}
