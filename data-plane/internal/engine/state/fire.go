package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// fire does what a due row announces. A row whose job moved on is gone or does
// not match the head any more: then nothing happens.
func (x *entry) fire(c *command.Fire) Result {
	if c.Due.At > x.nowOf(c.Due.Kind) {
		return Result{Refusal: WrongState}
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
		statedb.Check(fmt.Errorf("%w: due kind %d", command.ErrMalformed, c.Due.Kind))
		return Result{}
	}
}

func (x *entry) fireJob(d keys.Due) Result {
	j, ok := x.job(d.NS, d.ID)
	if !ok || j.Due == 0 || j.Due != d.At || dueKind(j.State) != d.Kind {
		// Settled earlier in this entry. Deleting also makes sure that a row nobody
		// answers for cannot fire for ever.
		x.txn.Delete(x.m.space.Due(d))
		return Result{Refusal: WrongState, State: j.State}
	}
	was := j.State
	x.leave(&j)
	switch was {
	case job.Scheduled, job.Retrying:
		x.promote(&j)
	case job.Cancelling:
		x.meterExecution(&j)
		j.Flags |= records.FlagReclaimed
		if j.Has(records.FlagHoldNext) {
			j.Flags |= records.FlagRanOut // It goes on, and without a crash.
		}
		x.endLetGo(&j, "")
	case job.Held:
		x.holdTimedOut(&j)
	default:
		x.endLease(d, &j)
	}
	x.put(&j)
	return Result{ID: d.ID, State: j.State}
}

func (x *entry) promote(j *subject) {
	x.enterPending(j)
	x.happened(feed.Promoted, j)
}
