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
	j, ok, err := x.job(d.NS, d.ID)
	if err != nil {
		return Result{}, err
	}
	if !ok || j.Due == 0 || j.Due != d.At || dueKind(j.State) != d.Kind {
		// Settled earlier in this entry. Deleting also makes sure that a row nobody
		// answers for cannot fire for ever.
		x.txn.Delete(x.m.space.Due(d))
		return Result{Refusal: WrongState, State: j.State}, nil
	}
	was := j.State
	if err := x.leave(&j); err != nil {
		return Result{}, err
	}
	switch was {
	case job.Scheduled, job.Retrying:
		err = x.promote(&j)
	case job.Cancelling:
		j.Flags |= records.FlagReclaimed
		if j.Has(records.FlagHoldNext) {
			j.Flags |= records.FlagRanOut // It goes on, and without a crash.
		}
		err = x.endLetGo(&j, "")
	case job.Held:
		err = x.holdTimedOut(&j)
	default:
		err = x.endLease(d, &j)
	}
	if err != nil {
		return Result{}, err
	}
	x.put(&j)
	return Result{ID: d.ID, State: j.State}, nil
}

func (x *entry) promote(j *subject) error {
	if err := x.enterPending(j); err != nil {
		return err
	}
	x.happened(feed.Promoted, j)
	return nil
}
