package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// A job with a time to live has a due row for its end until it is finished, whatever
// its state is meanwhile.

func expiry(ns job.Namespace, id job.ID, h *records.Head) keys.Due {
	return keys.Due{At: h.ExpireAt, Kind: keys.DueExpire, NS: ns, ID: id}
}

func (x *entry) watchExpiry(ns job.Namespace, id job.ID, h *records.Head) {
	if h.ExpireAt != 0 {
		x.addDue(expiry(ns, id, h), nil)
	}
}

func (x *entry) dropExpiry(ns job.Namespace, id job.ID, h *records.Head) {
	if h.ExpireAt != 0 {
		x.txn.Delete(x.m.space.Due(expiry(ns, id, h)))
	}
}

// renewExpiry is for a job that a person lets run again: what is left of its time
// counts, and an end that is past does not.
func (x *entry) renewExpiry(ns job.Namespace, id job.ID, h *records.Head) {
	x.dropExpiry(ns, id, h)
	if h.ExpireAt <= x.now {
		h.ExpireAt = 0
	}
	x.watchExpiry(ns, id, h)
}

// fireExpiry ends a job whose time is over: at once if it waits, else when its worker
// lets go of it. What is to be cancelled then is cancelled all the same.
func (x *entry) fireExpiry(d keys.Due) (Result, error) {
	x.txn.Delete(x.m.space.Due(d))
	h, ok, err := x.head(d.NS, d.ID)
	if err != nil {
		return Result{}, err
	}
	if !ok || h.State.Terminal() || h.ExpireAt != d.At || h.State == job.Cancelling && !h.Has(records.FlagHoldNext) {
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	if h.State.Leased() {
		err = x.expireLeased(d.NS, d.ID, &h)
	} else {
		err = x.expireWaiting(d.NS, d.ID, &h)
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(d.NS, d.ID, &h)
	return Result{ID: d.ID, State: h.State}, nil
}

func (x *entry) expireLeased(ns job.Namespace, id job.ID, h *records.Head) error {
	if h.State == job.Active {
		if err := x.askToLetGo(ns, id, h); err != nil {
			return err
		}
	}
	h.Flags = h.Flags&^records.FlagHoldNext | records.FlagExpired
	h.Note(records.WasExpired, x.now)
	x.event(feed.Expired, ns, id, h)
	return nil
}

func (x *entry) expireWaiting(ns job.Namespace, id job.ID, h *records.Head) error {
	x.leavingReady(ns, id, h)
	if err := x.leave(ns, id, h); err != nil {
		return err
	}
	h.Note(records.WasExpired, x.now)
	if err := x.endDead(ns, id, h, records.DeadExpired, ""); err != nil {
		return err
	}
	x.event(feed.Expired, ns, id, h)
	x.event(feed.Dead, ns, id, h)
	return nil
}
