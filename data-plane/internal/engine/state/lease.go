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
func (x *entry) askToLetGo(j *subject) error {
	until := j.Due
	if err := x.leave(j); err != nil {
		return err
	}
	if err := x.enterTimed(j, job.Cancelling, until); err != nil {
		return err
	}
	x.happened(feed.CancelRequested, j)
	return nil
}

// leaseLimit is when a lease ends at the latest, in lease time, however often it is renewed.
func (x *entry) leaseLimit(j *subject) (int64, error) {
	if !j.Has(records.FlagAgent) {
		return math.MaxInt64, nil
	}
	limits, err := x.agentLimits(j.ns, j.id)
	return records.LeaseLimit(&j.Head, limits), err
}

// CrashLimit expired leases make a job dead with reason crash_loop (R-L5).
const CrashLimit = 3

// endLease is about a lease that nobody settled: its worker is lost, or, at the limit
// of an iteration, too slow.
func (x *entry) endLease(d keys.Due, j *subject) error {
	limit, err := x.leaseLimit(j)
	if err != nil {
		return err
	}
	if d.At >= limit {
		return x.timeOut(j)
	}
	return x.expireLease(j)
}

// expireLease counts a crash of the attempt: the job is ready again at once, or
// dead when it has taken CrashLimit workers with it.
func (x *entry) expireLease(j *subject) error {
	j.Crashes++
	j.Flags |= records.FlagReclaimed
	j.Note(feed.LeaseExpired, x.now)
	x.addError(j, records.AttemptError{
		Attempt: j.Attempt, At: x.now, Cause: records.LeaseRanOut, Worker: j.Worker,
	})
	err := x.countFailure(j)
	if err != nil {
		return err
	}
	done := j.Crashes >= CrashLimit
	if done {
		err = x.endDead(j, records.DeadCrashes, records.LeaseRanOut.String())
	} else {
		done, err = x.endOverspent(j, records.LeaseRanOut.String())
	}
	if !done && err == nil {
		err = x.enterPending(j)
	}
	x.event(feed.LeaseExpired, j)
	if j.State == job.Dead {
		x.event(feed.Dead, j)
	}
	return err
}

// leased finds the job whose lease by wants to settle. If there is none, the
// refusal says why.
func (x *entry) leased(ns job.Namespace, id job.ID, by command.Holder) (subject, Result, error) {
	j, ok, err := x.job(ns, id)
	res := Result{ID: id, State: j.State, Epoch: j.Epoch, Lease: j.Lease}
	switch {
	case err != nil:
	case !ok:
		res.Refusal = NotFound
	case !j.State.Leased() && by.Token.IsZero():
		res.Refusal = NotActive
	case !j.State.Leased(), !records.Holds(&j.Head, by):
		res.Refusal = LeaseLost
	}
	return j, res, err
}

// endLetGo does with a job that its worker let go of, with an error or with none, what it
// was asked to do so for.
func (x *entry) endLetGo(j *subject, failure string) error {
	switch {
	case j.Has(records.FlagHoldNext):
		return x.holdLetGo(j)
	case j.Has(records.FlagDeadNext):
		err := x.endDead(j, records.DeadBudget, failure)
		x.tellDead(j)
		return err
	case j.Has(records.FlagExpired):
		if err := x.endDead(j, records.DeadExpired, failure); err != nil {
			return err
		}
		x.event(feed.Dead, j)
		return nil
	default:
		return x.endCancelled(j)
	}
}
