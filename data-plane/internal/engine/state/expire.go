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
func (x *entry) fireExpiry(d keys.Due) Result {
	x.txn.Delete(x.m.space.Due(d))
	j, ok := x.job(d.NS, d.ID)
	if !ok || j.State.Terminal() || j.ExpireAt != d.At || j.State == job.Cancelling && !j.Has(records.FlagHoldNext) {
		return Result{Refusal: WrongState, State: j.State}
	}
	if j.State.Leased() {
		x.expireLeased(&j)
	} else {
		x.expireWaiting(&j)
	}
	x.put(&j)
	return Result{ID: d.ID, State: j.State}
}

func (x *entry) expireLeased(j *subject) {
	if j.State == job.Active {
		x.askToLetGo(j)
	}
	j.Flags = j.Flags&^records.FlagHoldNext | records.FlagExpired
	x.happened(feed.Expired, j)
}

func (x *entry) expireWaiting(j *subject) {
	x.leavingReady(j)
	x.leave(j)
	j.Note(feed.Expired, x.now)
	x.endDead(j, records.DeadExpired, "")
	x.event(feed.Expired, j)
	x.event(feed.Dead, j)
}
