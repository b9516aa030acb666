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
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	switch h.State {
	case job.Dead, job.Cancelled, job.Completed:
		err = x.startOver(c.NS, c.ID, &h)
	case job.Scheduled, job.Retrying: // As when its time comes: its attempts count on.
		err = x.leave(c.NS, c.ID, &h)
	default:
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	if err != nil {
		return Result{}, err
	}
	if err := x.enterPending(c.NS, c.ID, &h); err != nil {
		return Result{}, err
	}
	h.Note(records.WasRetried, x.now)
	x.event(feed.Retried, c.NS, c.ID, &h)
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}

// startOver takes a job out of its end with fresh counters, without the result and the
// last lease of its former life; the checkpoint stays, to go on from. A unique key it once held
// is not taken again: another job may have it by now.
func (x *entry) startOver(ns job.Namespace, id job.ID, h *records.Head) error {
	if err := x.leave(ns, id, h); err != nil {
		return err
	}
	x.renewExpiry(ns, id, h)
	if err := x.revived(ns, id, h); err != nil {
		return err
	}
	if h.Crashes > 0 || h.Has(records.FlagReclaimed) {
		h.Flags |= records.FlagRanOut // Who lost it may still come back.
	}
	h.Attempt, h.Crashes, h.Reason, h.Finished, h.Epoch = 0, 0, records.NotDead, 0, keys.Position{}
	if h.Has(records.FlagResult) {
		x.txn.Delete(x.m.space.Job(ns, keys.Result, id))
		h.Flags &^= records.FlagResult
	}
	return nil
}
