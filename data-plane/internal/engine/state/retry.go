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
func (x *entry) retry(c *command.Retry) (Result, error) {
	j, ok, err := x.job(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	switch j.State {
	case job.Dead, job.Cancelled, job.Completed:
		err = x.startOver(&j)
	case job.Scheduled, job.Retrying: // As when its time comes: its attempts count on.
		err = x.leave(&j)
	default:
		return Result{Refusal: WrongState, State: j.State}, nil
	}
	if err != nil {
		return Result{}, err
	}
	if err := x.enterPending(&j); err != nil {
		return Result{}, err
	}
	x.happened(feed.Retried, &j)
	x.put(&j)
	return Result{State: j.State}, nil
}

// startOver takes a job out of its end with fresh counters, without the result and the
// last lease of its former life; the checkpoint stays, to go on from. A unique key it once held
// is not taken again: another job may have it by now.
func (x *entry) startOver(j *subject) error {
	if err := x.leave(j); err != nil {
		return err
	}
	x.renewExpiry(j)
	if err := x.revived(j); err != nil {
		return err
	}
	if j.Crashes > 0 || j.Has(records.FlagReclaimed) {
		j.Flags |= records.FlagRanOut // Who lost it may still come back.
	}
	j.Attempt, j.Crashes, j.Reason, j.Finished, j.Epoch = 0, 0, records.NotDead, 0, keys.Position{}
	if j.Has(records.FlagResult) {
		x.txn.Delete(x.m.space.Job(j.ns, keys.Result, j.id))
		j.Flags &^= records.FlagResult
	}
	return nil
}
