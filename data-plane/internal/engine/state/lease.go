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
func (x *entry) askToLetGo(j *subject) {
	until := j.Due
	x.leave(j)
	x.enterTimed(j, job.Cancelling, until)
	x.happened(feed.CancelRequested, j)
}

// leaseLimit is when a lease ends at the latest, in lease time, however often it is renewed.
func (x *entry) leaseLimit(j *subject) int64 {
	if !j.Has(records.FlagAgent) {
		return math.MaxInt64
	}
	return records.LeaseLimit(&j.Head, x.agentLimits(j.ns, j.id))
}

// CrashLimit expired leases make a job dead with reason crash_loop (R-L5).
const CrashLimit = 3

// endLease is about a lease that nobody settled: its worker is lost, or, at the limit
// of an iteration, too slow.
func (x *entry) endLease(d keys.Due, j *subject) {
	x.meterExecution(j)
	if d.At >= x.leaseLimit(j) {
		x.timeOut(j)
	} else {
		x.expireLease(j)
	}
}

// expireLease counts a crash of the attempt: the job is ready again at once, or
// dead when it has taken CrashLimit workers with it.
func (x *entry) expireLease(j *subject) {
	j.Crashes++
	j.Flags |= records.FlagReclaimed
	j.Note(feed.LeaseExpired, x.now)
	x.addError(j, records.AttemptError{
		Attempt: j.Attempt, At: x.now, Cause: records.LeaseRanOut, Worker: j.Worker,
	})
	x.countFailure(j)
	done := j.Crashes >= CrashLimit
	if done {
		x.endDead(j, records.DeadCrashes, records.LeaseRanOut.String())
	} else {
		done = x.endOverspent(j, records.LeaseRanOut.String())
	}
	if !done {
		x.enterPending(j)
	}
	x.event(feed.LeaseExpired, j)
	if j.State == job.Dead {
		x.event(feed.Dead, j)
	}
}

// leased finds the job whose lease by wants to settle. If there is none, the
// refusal says why.
func (x *entry) leased(ns job.Namespace, id job.ID, by command.Holder) (subject, Result) {
	j, ok := x.job(ns, id)
	res := Result{ID: id, State: j.State, Epoch: j.Epoch, Lease: j.Lease}
	switch {
	case !ok:
		res.Refusal = NotFound
	case !j.State.Leased() && by.Token.IsZero():
		res.Refusal = NotActive
	case !j.State.Leased(), !records.Holds(&j.Head, by):
		res.Refusal = LeaseLost
	}
	return j, res
}

// endLetGo does with a job that its worker let go of, with an error or with none, what it
// was asked to do so for.
func (x *entry) endLetGo(j *subject, failure string) {
	switch {
	case j.Has(records.FlagHoldNext):
		x.holdLetGo(j)
	case j.Has(records.FlagDeadNext):
		x.endDead(j, records.DeadBudget, failure)
		x.tellDead(j)
	case j.Has(records.FlagExpired):
		x.endDead(j, records.DeadExpired, failure)
		x.event(feed.Dead, j)
	default:
		x.endCancelled(j)
	}
}
