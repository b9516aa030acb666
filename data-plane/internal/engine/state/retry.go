package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// retry makes a job pending that has ended, from its first attempt, or that waits for its
// time, which it then does not wait for.
func (x *entry) retry(c *command.Retry) Result {
	j, ok := x.job(c.NS, c.ID)
	if !ok {
		return Result{Refusal: NotFound}
	}
	switch j.State {
	case job.Dead, job.Cancelled, job.Completed:
		x.startOver(&j)
	case job.Scheduled, job.Retrying: // As when its time comes: its attempts count on.
		x.leave(&j)
	default:
		return Result{Refusal: WrongState, State: j.State}
	}
	x.enterPending(&j)
	x.happened(feed.Retried, &j)
	x.put(&j)
	return Result{State: j.State}
}

// startOver takes a job out of its end with fresh counters, without the result and the
// last lease of its former life; the checkpoint stays, to go on from. A unique key it once held
// is not taken again: another job may have it by now.
func (x *entry) startOver(j *subject) {
	x.leave(j)
	x.renewExpiry(j)
	x.revived(j)
	if j.Crashes > 0 || j.Has(records.FlagReclaimed) {
		j.Flags |= records.FlagRanOut // Who lost it may still come back.
	}
	j.Attempt, j.Crashes, j.Reason, j.Finished, j.Epoch = 0, 0, records.NotDead, 0, keys.Position{}
	x.meterReopened(j)
	if j.Has(records.FlagResult) {
		x.unmeterResult(j, read(x, x.m.space.Job(j.ns, keys.Result, j.id), "result", asIs))
		x.txn.Delete(x.m.space.Job(j.ns, keys.Result, j.id))
		j.Flags &^= records.FlagResult
	}
}
