package state

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// fail ends an attempt: released, cancelled if that was asked, retried after its
// backoff, or dead.
func (x *entry) fail(c *command.Fail) (Result, error) {
	h, res, err := x.leased(c.NS, c.ID, c.By)
	if err != nil {
		return Result{}, err
	}
	if res.Refusal != Accepted {
		return x.failedBefore(c, &h, res), nil
	}
	if err := x.report(c.NS, c.ID, &h, c.Usage); err != nil {
		return Result{}, err
	}
	cancelling := h.State == job.Cancelling
	if err := x.leave(c.NS, c.ID, &h); err != nil {
		return Result{}, err
	}
	switch {
	case cancelling:
		err = x.letGo(c, &h)
	case c.Release:
		err = x.release(c, &h)
	default:
		if err = x.recordError(c, &h); err == nil {
			err = x.endAttempt(c, &h)
		}
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	return failAnswer(res, &h), nil
}

func failAnswer(res Result, h *records.Head) Result {
	res.State, res.NextAt = h.State, 0
	if h.State == job.Retrying {
		res.NextAt = h.DueAt()
	}
	if !h.State.Terminal() && h.Retry.MaxRetries > h.Attempt {
		res.Remaining = h.Retry.MaxRetries - h.Attempt
	}
	return res
}

// failedBefore answers a repeated fail or release with the same token by the outcome
// that is still to be seen in the head. A lease that ran out was not settled by its
// holder: it stays lost (R-L3).
func (x *entry) failedBefore(c *command.Fail, h *records.Head, res Result) Result {
	settled := h.State == job.Retrying || h.State == job.Dead || h.State == job.Cancelled || h.State == job.Held ||
		c.Release && justReleased(h)
	settled = settled && !h.Has(records.FlagReclaimed)
	if res.Refusal == LeaseLost && settled && records.Holds(h, c.By) {
		res.Refusal = Accepted
		return failAnswer(res, h)
	}
	return res
}

// justReleased: giving the attempt back is the last thing that happened to the job.
func justReleased(h *records.Head) bool {
	return h.State == job.Pending && len(h.Timeline) > 0 && h.Timeline[len(h.Timeline)-1].What == records.WasReleased
}

// letGo is about a job whose worker was asked to stop. Giving it back is no failure,
// and one that is to be held has not failed.
func (x *entry) letGo(c *command.Fail, h *records.Head) error {
	if c.Release || h.Has(records.FlagHoldNext) {
		return x.endLetGo(c.NS, c.ID, h, "")
	}
	if err := x.recordError(c, h); err != nil {
		return err
	}
	return x.endLetGo(c.NS, c.ID, h, c.Error)
}

// release gives the attempt back: it does not count, and the job takes a new
// place in the order, at once or after the delay that the worker asked for.
func (x *entry) release(c *command.Fail, h *records.Head) error {
	h.Attempt--
	if done, err := x.endOverspent(c.NS, c.ID, h, ""); err != nil || done {
		x.tellDead(c.NS, c.ID, h)
		return err
	}
	var err error
	if c.Delay != nil && *c.Delay > 0 {
		err = x.enterFor(c.NS, c.ID, h, job.Retrying, *c.Delay)
	} else {
		err = x.enterPending(c.NS, c.ID, h)
	}
	if err != nil {
		return err
	}
	h.Note(records.WasReleased, x.now)
	x.event(feed.Released, c.NS, c.ID, h)
	return nil
}

// endAttempt retries a failed job after its backoff, or ends it when its attempts are spent.
func (x *entry) endAttempt(c *command.Fail, h *records.Head) (err error) {
	h.Note(records.WasFailed, x.now)
	after := feed.Dead
	switch {
	case c.Terminal:
		err = x.endDead(c.NS, c.ID, h, records.DeadTerminal, c.Error)
	case h.Attempt >= h.Retry.MaxRetries:
		err = x.endDead(c.NS, c.ID, h, records.DeadRetries, c.Error)
	default:
		if done, err := x.endOverspent(c.NS, c.ID, h, c.Error); err != nil || done {
			x.event(feed.Failed, c.NS, c.ID, h)
			x.tellDead(c.NS, c.ID, h)
			return err
		}
		after = feed.Retrying
		err = x.enterFor(c.NS, c.ID, h, job.Retrying, max(retryDelay(c, h), 1))
	}
	x.event(feed.Failed, c.NS, c.ID, h)
	x.event(after, c.NS, c.ID, h)
	return err
}

// retryDelay is how long a job waits for its next attempt: as its worker said, to the
// nanosecond, else by its backoff.
func retryDelay(c *command.Fail, h *records.Head) time.Duration {
	if c.Delay != nil {
		return *c.Delay
	}
	return job.Jitter(h.Retry.Backoff.Delay(h.Attempt, h.Retry.BaseDelay, h.Retry.MaxDelay), c.ID, h.Attempt)
}
