package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// hold puts a job that left its former state, or is new, into held.
func (x *entry) hold(ns job.Namespace, id job.ID, h *records.Head, why records.Hold) error {
	x.putHold(ns, id, h, &why)
	if why.Until != 0 {
		h.Due = max(why.Until, x.now)
		x.addDue(keys.Due{At: h.Due, Kind: keys.DueHold, NS: ns, ID: id}, nil)
	}
	if err := x.enter(ns, h, job.Held); err != nil {
		return err
	}
	h.Note(records.WasHeld, x.now)
	x.event(feed.Held, ns, id, h)
	return nil
}

// holdNext asks the worker of an active job to let go of it; then it is held.
func (x *entry) holdNext(ns job.Namespace, id job.ID, h *records.Head, why records.Hold) error {
	x.putHold(ns, id, h, &why)
	if err := x.askToLetGo(ns, id, h); err != nil {
		return err
	}
	h.Flags |= records.FlagHoldNext
	return nil
}

// holdLetGo holds a job whose worker was asked to let go of it for that. The attempt
// was not the job's fault: it does not count.
func (x *entry) holdLetGo(ns job.Namespace, id job.ID, h *records.Head) error {
	why, err := x.heldFor(ns, id)
	if err != nil {
		return err
	}
	h.Attempt--
	return x.hold(ns, id, h, why)
}

func (x *entry) putHold(ns job.Namespace, id job.ID, h *records.Head, why *records.Hold) {
	h.Flags |= records.FlagHold
	x.txn.Set(x.m.space.Job(ns, keys.Hold, id), why.Encode())
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
func (x *entry) endHold(ns job.Namespace, id job.ID, h *records.Head, why records.Hold, approve bool) error {
	why.DecidedAt = x.now
	if approve {
		why.Decision = records.Approved
		x.putHold(ns, id, h, &why)
		if err := x.enterPending(ns, id, h); err != nil {
			return err
		}
		h.Note(records.WasApproved, x.now)
		x.event(feed.Approved, ns, id, h)
		return nil
	}
	why.Decision = records.Rejected
	x.putHold(ns, id, h, &why)
	h.Note(records.WasRejected, x.now)
	if err := x.endDead(ns, id, h, records.DeadRejected, ""); err != nil {
		return err
	}
	x.event(feed.Rejected, ns, id, h)
	x.event(feed.Dead, ns, id, h)
	return nil
}

// holdTimedOut does what was said for the case that nobody decides.
func (x *entry) holdTimedOut(ns job.Namespace, id job.ID, h *records.Head) error {
	why, err := x.heldFor(ns, id)
	if err != nil {
		return err
	}
	return x.endHold(ns, id, h, why, why.ApproveAtLast)
}
