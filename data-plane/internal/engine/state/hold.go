package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// holdJob stops a job: at once if it waits, else when its worker lets go of it. Again
// is the same answer.
func (x *entry) holdJob(c *command.Hold) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	why := records.Hold{Cause: records.HoldCause{Text: c.Reason}, By: c.By, At: x.now}
	switch h.State {
	case job.Held:
		return Result{State: h.State}, nil
	case job.Cancelling:
		if h.Has(records.FlagHoldNext) {
			return Result{State: h.State}, nil
		}
		return Result{Refusal: WrongState, State: h.State}, nil
	case job.Active:
		err = x.holdNext(c.NS, c.ID, &h, why)
	case job.Pending, job.Scheduled, job.Retrying:
		x.leavingReady(c.NS, c.ID, &h)
		if err = x.leave(c.NS, c.ID, &h); err == nil {
			err = x.hold(c.NS, c.ID, &h, why)
		}
	default:
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}
