package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// A job with a time to live has a due row for its end until it is finished, whatever
// its state is meanwhile.

func (x *entry) watchExpiry(j *subject) {
	if j.ExpireAt != 0 {
		x.addDue(j.due(j.ExpireAt, keys.DueExpire), nil)
	}
}

func (x *entry) dropExpiry(j *subject) {
	if j.ExpireAt != 0 {
		x.txn.Delete(x.m.space.Due(j.due(j.ExpireAt, keys.DueExpire)))
	}
}

// renewExpiry is for a job that a person lets run again: what is left of its time
// counts, and an end that is past does not.
func (x *entry) renewExpiry(j *subject) {
	x.dropExpiry(j)
	if j.ExpireAt <= x.now {
		j.ExpireAt = 0
	}
	x.watchExpiry(j)
}

// fireExpiry ends a job whose time is over: at once if it waits, else when its worker
// lets go of it. What is to be cancelled then is cancelled all the same.
func (x *entry) fireExpiry(d keys.Due) (Result, error) {
	x.txn.Delete(x.m.space.Due(d))
	j, ok, err := x.job(d.NS, d.ID)
	if err != nil {
		return Result{}, err
	}
	if !ok || j.State.Terminal() || j.ExpireAt != d.At || j.State == job.Cancelling && !j.Has(records.FlagHoldNext) {
		return Result{Refusal: WrongState, State: j.State}, nil
	}
	if j.State.Leased() {
		err = x.expireLeased(&j)
	} else {
		err = x.expireWaiting(&j)
	}
	if err != nil {
		return Result{}, err
	}
	x.put(&j)
	return Result{ID: d.ID, State: j.State}, nil
}

func (x *entry) expireLeased(j *subject) error {
	if j.State == job.Active {
		if err := x.askToLetGo(j); err != nil {
			return err
		}
	}
	j.Flags = j.Flags&^records.FlagHoldNext | records.FlagExpired
	x.happened(feed.Expired, j)
	return nil
}

func (x *entry) expireWaiting(j *subject) error {
	x.leavingReady(j)
	if err := x.leave(j); err != nil {
		return err
	}
	j.Note(feed.Expired, x.now)
	if err := x.endDead(j, records.DeadExpired, ""); err != nil {
		return err
	}
	x.event(feed.Expired, j)
	x.event(feed.Dead, j)
	return nil
}
