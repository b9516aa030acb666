package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// hold puts a job that left its former state, or is new, into held.
func (x *entry) hold(j *subject, why records.Hold) {
	x.putHold(j, &why)
	if why.Until != 0 {
		j.Due = max(why.Until, x.now)
		x.addDue(j.due(j.Due, keys.DueHold), nil)
	}
	x.enter(j, job.Held)
	x.happened(feed.Held, j)
}

// holdNext asks the worker of an active job to let go of it; then it is held.
func (x *entry) holdNext(j *subject, why records.Hold) {
	x.putHold(j, &why)
	x.askToLetGo(j)
	j.Flags |= records.FlagHoldNext
}

// holdLetGo holds a job whose worker was asked to let go of it for that. The attempt
// was not the job's fault: it does not count.
func (x *entry) holdLetGo(j *subject) {
	why := x.heldFor(j.ns, j.id)
	j.Attempt--
	x.hold(j, why)
}

func (x *entry) putHold(j *subject, why *records.Hold) {
	j.Flags |= records.FlagHold
	x.txn.Set(x.m.space.Job(j.ns, keys.Hold, j.id), why.Encode())
}

// heldFor reads the hold record of a job that has one.
func (x *entry) heldFor(ns job.Namespace, id job.ID) records.Hold {
	return read(x, x.m.space.Job(ns, keys.Hold, id), "hold", records.DecodeHold)
}

// endHold lets a job that left held run, or ends it.
func (x *entry) endHold(j *subject, why records.Hold, approve bool) {
	why.DecidedAt = x.now
	if approve {
		why.Decision = records.Approved
		x.putHold(j, &why)
		x.enterPending(j)
		x.happened(feed.Approved, j)
		return
	}
	why.Decision = records.Rejected
	x.putHold(j, &why)
	j.Note(feed.Rejected, x.now)
	x.endDead(j, records.DeadRejected, "")
	x.event(feed.Rejected, j)
	x.event(feed.Dead, j)
}

// holdTimedOut does what was said for the case that nobody decides.
func (x *entry) holdTimedOut(j *subject) {
	why := x.heldFor(j.ns, j.id)
	x.endHold(j, why, why.ApproveAtLast)
}
