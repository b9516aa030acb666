package state

import (
	"math"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// askToLetGo keeps the lease and its due row: both states use the same kind.
func (x *entry) askToLetGo(ns job.Namespace, id job.ID, h *records.Head) error {
	until := h.Due
	if err := x.leave(ns, id, h); err != nil {
		return err
	}
	if err := x.enterTimed(ns, id, h, job.Cancelling, until); err != nil {
		return err
	}
	h.Note(records.WasCancelRequested, x.now)
	x.event(feed.CancelRequested, ns, id, h)
	return nil
}

// leaseLimit is when a lease ends at the latest, in lease time, however often it is renewed.
func (x *entry) leaseLimit(ns job.Namespace, id job.ID, h *records.Head) (int64, error) {
	if !h.Has(records.FlagAgent) {
		return math.MaxInt64, nil
	}
	limits, err := x.agentLimits(ns, id)
	return records.LeaseLimit(h, limits), err
}

// CrashLimit expired leases make a job dead with reason crash_loop (R-L5).
const CrashLimit = 3

// endLease is about a lease that nobody settled: its worker is lost, or, at the limit
// of an iteration, too slow.
func (x *entry) endLease(d keys.Due, h *records.Head) error {
	limit, err := x.leaseLimit(d.NS, d.ID, h)
	if err != nil {
		return err
	}
	if d.At >= limit {
		return x.timeOut(d.NS, d.ID, h)
	}
	return x.expireLease(d.NS, d.ID, h)
}

// expireLease counts a crash of the attempt: the job is ready again at once, or
// dead when it has taken CrashLimit workers with it.
func (x *entry) expireLease(ns job.Namespace, id job.ID, h *records.Head) error {
	h.Crashes++
	h.Flags |= records.FlagReclaimed
	h.Note(records.WasLeaseExpired, x.now)
	x.addError(ns, id, h, records.AttemptError{
		Attempt: h.Attempt, At: x.now, Cause: records.LeaseRanOut, Worker: h.Worker,
	})
	err := x.countFailure(ns, h)
	if err != nil {
		return err
	}
	done := h.Crashes >= CrashLimit
	if done {
		err = x.endDead(ns, id, h, records.DeadCrashes, records.LeaseRanOut.String())
	} else {
		done, err = x.endOverspent(ns, id, h, records.LeaseRanOut.String())
	}
	if !done && err == nil {
		err = x.enterPending(ns, id, h)
	}
	x.event(feed.LeaseExpired, ns, id, h)
	if h.State == job.Dead {
		x.event(feed.Dead, ns, id, h)
	}
	return err
}

// leased finds the job whose lease by wants to settle. If there is none, the
// refusal says why.
func (x *entry) leased(ns job.Namespace, id job.ID, by command.Holder) (records.Head, Result, error) {
	h, ok, err := x.head(ns, id)
	res := Result{ID: id, State: h.State, Epoch: h.Epoch, Lease: h.Lease}
	switch {
	case err != nil:
	case !ok:
		res.Refusal = NotFound
	case !h.State.Leased() && by.Token.IsZero():
		res.Refusal = NotActive
	case !h.State.Leased(), !records.Holds(&h, by):
		res.Refusal = LeaseLost
	}
	return h, res, err
}

// endLetGo does with a job that its worker let go of, with an error or with none, what it
// was asked to do so for.
func (x *entry) endLetGo(ns job.Namespace, id job.ID, h *records.Head, failure string) error {
	switch {
	case h.Has(records.FlagHoldNext):
		return x.holdLetGo(ns, id, h)
	case h.Has(records.FlagDeadNext):
		err := x.endDead(ns, id, h, records.DeadBudget, failure)
		x.tellDead(ns, id, h)
		return err
	case h.Has(records.FlagExpired):
		if err := x.endDead(ns, id, h, records.DeadExpired, failure); err != nil {
			return err
		}
		x.event(feed.Dead, ns, id, h)
		return nil
	default:
		return x.endCancelled(ns, id, h)
	}
}
