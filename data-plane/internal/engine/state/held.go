package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// hold puts a job that left its former state, or is new, into held.
func (x *entry) hold(j *subject, why records.Hold) error {
	x.putHold(j, &why)
	if why.Until != 0 {
		j.Due = max(why.Until, x.now)
		x.addDue(j.due(j.Due, keys.DueHold), nil)
	}
	if err := x.enter(j, job.Held); err != nil {
		return err
	}
	x.happened(feed.Held, j)
	return nil
}

// holdNext asks the worker of an active job to let go of it; then it is held.
func (x *entry) holdNext(j *subject, why records.Hold) error {
	x.putHold(j, &why)
	if err := x.askToLetGo(j); err != nil {
		return err
	}
	j.Flags |= records.FlagHoldNext
	return nil
}

// holdLetGo holds a job whose worker was asked to let go of it for that. The attempt
// was not the job's fault: it does not count.
func (x *entry) holdLetGo(j *subject) error {
	why, err := x.heldFor(j.ns, j.id)
	if err != nil {
		return err
	}
	j.Attempt--
	return x.hold(j, why)
}

func (x *entry) putHold(j *subject, why *records.Hold) {
	j.Flags |= records.FlagHold
	x.txn.Set(x.m.space.Job(j.ns, keys.Hold, j.id), why.Encode())
}

// heldFor reads the hold record of a job that has one.
func (x *entry) heldFor(ns job.Namespace, id job.ID) (records.Hold, error) {
	v, err := x.txn.Get(x.m.space.Job(ns, keys.Hold, id))
	if err != nil {
		return records.Hold{}, fmt.Errorf("hold of job %s: %w", id, err)
	}
	return records.DecodeHold(v)
}

// endHold lets a job that left held run, or ends it.
func (x *entry) endHold(j *subject, why records.Hold, approve bool) error {
	why.DecidedAt = x.now
	if approve {
		why.Decision = records.Approved
		x.putHold(j, &why)
		if err := x.enterPending(j); err != nil {
			return err
		}
		x.happened(feed.Approved, j)
		return nil
	}
	why.Decision = records.Rejected
	x.putHold(j, &why)
	j.Note(feed.Rejected, x.now)
	if err := x.endDead(j, records.DeadRejected, ""); err != nil {
		return err
	}
	x.event(feed.Rejected, j)
	x.event(feed.Dead, j)
	return nil
}

// holdTimedOut does what was said for the case that nobody decides.
func (x *entry) holdTimedOut(j *subject) error {
	why, err := x.heldFor(j.ns, j.id)
	if err != nil {
		return err
	}
	return x.endHold(j, why, why.ApproveAtLast)
}
