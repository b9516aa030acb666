package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
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
		err = x.endLetGo(d.NS, d.ID, &h, "")
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
