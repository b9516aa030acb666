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

// pause stops or resumes handing out a queue's jobs; a queue that is resumed takes
// jobs again, too. Pausing a queue that has never been used makes it exist: an
// operator may prepare it.
func (x *entry) pause(c *command.Pause) (Result, error) {
	q, err := x.queue(c.NS, c.Queue)
	if err != nil {
		return Result{}, err
	}
	made := !q.hasConfig
	x.exist(q)
	draining := q.config.Draining && c.Paused
	if !made && q.config.Paused == c.Paused && q.config.Draining == draining {
		return Result{}, nil
	}
	q.config.Paused, q.config.Draining = c.Paused, draining
	x.queueEvent(pauseEvent(c.Paused), q)
	return Result{}, nil
}

// cancel ends a waiting job, or asks the worker of a leased one to let go; the
// slot stays taken until it does or its lease ends. Again is the same answer.
func (x *entry) cancel(c *command.Cancel) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	switch h.State {
	case job.Cancelled:
		return Result{State: h.State}, nil
	case job.Completed, job.Dead:
		return Result{Refusal: WrongState, State: h.State}, nil
	case job.Cancelling:
		h.Flags &^= records.FlagHoldNext // It ends instead.
	case job.Active:
		err = x.askToLetGo(c.NS, c.ID, &h)
	default:
		err = x.cancelWaiting(c, &h)
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}

// askToLetGo keeps the lease and its due row: both states use the same kind.
func (x *entry) askToLetGo(ns job.Namespace, id job.ID, h *records.Head) error {
	until := h.Due
	if err := x.leave(ns, id, h); err != nil {
		return err
	}
	if err := x.enterTimed(ns, id, h, job.Cancelling, until); err != nil {
		return err
	}
	h.Note(records.WasCancelRequested, x.now)
	x.event(feed.CancelRequested, ns, id, h)
	return nil
}

func (x *entry) cancelWaiting(c *command.Cancel, h *records.Head) error {
	x.leavingReady(c.NS, c.ID, h)
	if err := x.leave(c.NS, c.ID, h); err != nil {
		return err
	}
	return x.endCancelled(c.NS, c.ID, h)
}

// leavingReady tells the leader's memory that a pending job goes by another way
// than a fetch.
func (x *entry) leavingReady(ns job.Namespace, id job.ID, h *records.Head) {
	if !h.Pos.IsZero() {
		x.out.Unready = append(x.out.Unready, Ready{NS: ns, Queue: h.Queue, Priority: h.Priority, Pos: h.Pos, ID: id})
	}
}

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

// delete removes every trace of a job that no worker holds. Its idempotency
// record stays until it ends: a late repetition must not create the job again.
func (x *entry) delete(c *command.Delete) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil || !ok {
		return Result{Refusal: NotFound}, err
	}
	if h.State.Leased() {
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	x.leavingReady(c.NS, c.ID, &h)
	if err := x.leave(c.NS, c.ID, &h); err != nil {
		return Result{}, err
	}
	x.dropExpiry(c.NS, c.ID, &h)
	if h.Has(records.FlagUnique) {
		if err := x.releaseUnique(c.NS, c.ID, &h); err != nil {
			return Result{}, err
		}
	}
	if !h.State.Terminal() {
		if err := x.deliver(c.NS, c.ID, &h, records.OutcomeDeleted, nil); err != nil {
			return Result{}, err
		}
	}
	h.State = 0
	x.event(feed.Deleted, c.NS, c.ID, &h)
	return Result{}, x.removeRecords(c.NS, c.ID, &h)
}

func (x *entry) removeRecords(ns job.Namespace, id job.ID, h *records.Head) error {
	families := []byte{keys.Body, keys.Head}
	for _, f := range []struct {
		flag   uint32
		family byte
	}{
		{records.FlagResult, keys.Result}, {records.FlagCheckpoint, keys.Checkpoint}, {records.FlagProgress, keys.Progress}, {records.FlagHold, keys.Hold}, {records.FlagUsage, keys.JobUsage},
		{records.FlagBlocked, keys.Waits},
	} {
		if h.Has(f.flag) {
			families = append(families, f.family)
		}
	}
	for _, f := range families {
		x.txn.Delete(x.m.space.Job(ns, f, id))
	}
	if h.Has(records.FlagErrors) {
		x.txn.DeleteRange(x.m.space.AttemptErrors(ns, id))
	}
	if h.Has(records.FlagIterations) {
		x.txn.DeleteRange(x.m.space.Iterations(ns, id))
	}
	return nil
}

// trimFeed removes the events of entries before an index, and notes it so that a
// reader that still needed them finds out.
func (x *entry) trimFeed(c *command.TrimFeed) (Result, error) {
	mark := x.m.space.Feed(0)
	if c.Before <= 1 || c.Before > x.index {
		return Result{Refusal: WrongState}, nil
	}
	v, err := x.txn.Get(mark)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return Result{}, fmt.Errorf("read trim mark: %w", err)
	}
	if err == nil && string(v) >= string(feed.TrimRecord(c.Before)) {
		return Result{Refusal: WrongState}, nil
	}
	x.txn.DeleteRange(x.m.space.Feed(1), x.m.space.Feed(c.Before))
	x.txn.Set(mark, feed.TrimRecord(c.Before))
	return Result{}, nil
}
