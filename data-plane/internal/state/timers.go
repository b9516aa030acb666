package state

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// fire does what a due row announces. A row whose job moved on is gone or does
// not match the head any more: then nothing happens.
func (x *entry) fire(c *command.Fire) (Result, error) {
	if c.Due.At > x.nowOf(c.Due.Kind) {
		return Result{Refusal: WrongState}, nil
	}
	switch c.Due.Kind {
	case keys.DueUnique:
		return x.fireLock(c.Due, keys.Unique)
	case keys.DueIdempotency:
		return x.fireLock(c.Due, keys.Idempotency)
	case keys.DueExpire:
		return x.fireExpiry(c.Due)
	case keys.DueScheduled, keys.DueRetry, keys.DueLease, keys.DueHold:
		return x.fireJob(c.Due)
	case keys.DueDeliver:
		return x.fireDeliver(c.Due)
	case keys.DueAudit:
		return x.fireAudit(c.Due)
	case keys.DueSchedule:
		return x.fireSchedule(c.Due)
	default:
		return Result{}, fmt.Errorf("%w: due kind %d", command.ErrMalformed, c.Due.Kind)
	}
}

// nowOf is the entry's time on the clock that a due row waits for.
func (x *entry) nowOf(k keys.DueKind) int64 {
	if k.OnLeaseTime() {
		return x.lease
	}
	return x.now
}

func (x *entry) fireJob(d keys.Due) (Result, error) {
	h, ok, err := x.head(d.NS, d.ID)
	if err != nil {
		return Result{}, err
	}
	if !ok || h.Due == 0 || h.Due != d.At || dueKind(h.State) != d.Kind {
		// Settled earlier in this entry. Deleting also makes sure that a row nobody
		// answers for cannot fire for ever.
		x.txn.Delete(x.m.space.Due(d))
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	was := h.State
	if err := x.leave(d.NS, d.ID, &h); err != nil {
		return Result{}, err
	}
	switch was {
	case job.Scheduled, job.Retrying:
		err = x.promote(d.NS, d.ID, &h)
	case job.Cancelling:
		h.Flags |= records.FlagReclaimed
		if h.Has(records.FlagHoldNext) {
			h.Flags |= records.FlagRanOut // It goes on, and without a crash.
		}
		err = x.endLetGo(d.NS, d.ID, &h)
	case job.Held:
		err = x.holdTimedOut(d.NS, d.ID, &h)
	default:
		err = x.endLease(d, &h)
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(d.NS, d.ID, &h)
	return Result{ID: d.ID, State: h.State}, nil
}

func (x *entry) promote(ns job.Namespace, id job.ID, h *records.Head) error {
	if err := x.enterPending(ns, id, h); err != nil {
		return err
	}
	h.Note(records.WasPromoted, x.now)
	x.event(feed.Promoted, ns, id, h)
	return nil
}

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
		Attempt: h.Attempt, At: x.now, Error: "lease expired: the worker did not renew it in time", Worker: h.Worker,
	})
	err := x.countFailure(ns, h)
	if err != nil {
		return err
	}
	done := h.Crashes >= CrashLimit
	if done {
		err = x.endDead(ns, id, h, records.DeadCrashes)
	} else {
		done, err = x.endOverspent(ns, id, h)
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

// fireLock removes a lock that ran out, if it is still the one of the due row.
func (x *entry) fireLock(d keys.Due, family byte) (Result, error) {
	k := x.m.space.Due(d)
	v, err := x.txn.Get(k)
	if errors.Is(err, statedb.ErrNotFound) {
		return Result{Refusal: WrongState}, nil
	}
	if err != nil {
		return Result{}, err
	}
	queue, key, err := records.DecodeLockName(v)
	if err != nil {
		return Result{}, err
	}
	x.txn.Delete(k)
	lockKey := x.m.space.Lock(d.NS, family, queue, key)
	v, err = x.txn.Get(lockKey)
	if errors.Is(err, statedb.ErrNotFound) {
		return Result{}, nil
	}
	if err != nil {
		return Result{}, err
	}
	l, err := records.DecodeLock(v)
	if err != nil {
		return Result{}, err
	}
	if l.By == d.ID && l.Expires == d.At {
		x.txn.Delete(lockKey)
	}
	return Result{}, nil
}
