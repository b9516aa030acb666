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
	j, res, err := x.leased(c.NS, c.ID, c.By)
	if err != nil {
		return Result{}, err
	}
	if res.Refusal != Accepted {
		return x.failedBefore(c, &j, res), nil
	}
	if err := x.report(&j, c.Usage); err != nil {
		return Result{}, err
	}
	cancelling := j.State == job.Cancelling
	if err := x.leave(&j); err != nil {
		return Result{}, err
	}
	switch {
	case cancelling:
		err = x.letGo(c, &j)
	case c.Release:
		err = x.release(c, &j)
	default:
		if err = x.recordError(c, &j); err == nil {
			err = x.endAttempt(c, &j)
		}
	}
	if err != nil {
		return Result{}, err
	}
	x.put(&j)
	return failAnswer(res, &j), nil
}

func failAnswer(res Result, j *subject) Result {
	res.State, res.NextAt = j.State, 0
	if j.State == job.Retrying {
		res.NextAt = j.DueAt()
	}
	if !j.State.Terminal() && j.Retry.MaxRetries > j.Attempt {
		res.Remaining = j.Retry.MaxRetries - j.Attempt
	}
	return res
}

// failedBefore answers a repeated fail or release with the same token by the outcome
// that is still to be seen in the head. A lease that ran out was not settled by its
// holder: it stays lost (R-L3).
func (x *entry) failedBefore(c *command.Fail, j *subject, res Result) Result {
	settled := j.State == job.Retrying || j.State == job.Dead || j.State == job.Cancelled || j.State == job.Held ||
		c.Release && justReleased(j)
	settled = settled && !j.Has(records.FlagReclaimed)
	if res.Refusal == LeaseLost && settled && records.Holds(&j.Head, c.By) {
		res.Refusal = Accepted
		return failAnswer(res, j)
	}
	return res
}

// justReleased: giving the attempt back is the last thing that happened to the job.
func justReleased(j *subject) bool {
	return j.State == job.Pending && len(j.Timeline) > 0 && j.Timeline[len(j.Timeline)-1].What == feed.Released
}

// letGo is about a job whose worker was asked to stop. Giving it back is no failure,
// and one that is to be held has not failed.
func (x *entry) letGo(c *command.Fail, j *subject) error {
	if c.Release || j.Has(records.FlagHoldNext) {
		return x.endLetGo(j, "")
	}
	if err := x.recordError(c, j); err != nil {
		return err
	}
	return x.endLetGo(j, c.Error)
}

// release gives the attempt back: it does not count, and the job takes a new
// place in the order, at once or after the delay that the worker asked for.
func (x *entry) release(c *command.Fail, j *subject) error {
	j.Attempt--
	if done, err := x.endOverspent(j, ""); err != nil || done {
		x.tellDead(j)
		return err
	}
	var err error
	if c.Delay != nil && *c.Delay > 0 {
		err = x.enterFor(j, job.Retrying, *c.Delay)
	} else {
		err = x.enterPending(j)
	}
	if err != nil {
		return err
	}
	x.happened(feed.Released, j)
	return nil
}

// endAttempt retries a failed job after its backoff, or ends it when its attempts are spent.
func (x *entry) endAttempt(c *command.Fail, j *subject) (err error) {
	j.Note(feed.Failed, x.now)
	after := feed.Dead
	switch {
	case c.Terminal:
		err = x.endDead(j, records.DeadTerminal, c.Error)
	case j.Attempt >= j.Retry.MaxRetries:
		err = x.endDead(j, records.DeadRetries, c.Error)
	default:
		if done, err := x.endOverspent(j, c.Error); err != nil || done {
			x.event(feed.Failed, j)
			x.tellDead(j)
			return err
		}
		after = feed.Retrying
		err = x.enterFor(j, job.Retrying, max(retryDelay(c, j), 1))
	}
	x.event(feed.Failed, j)
	x.event(after, j)
	return err
}

// retryDelay is how long a job waits for its next attempt: as its worker said, to the
// nanosecond, else by its backoff.
func retryDelay(c *command.Fail, j *subject) time.Duration {
	if c.Delay != nil {
		return *c.Delay
	}
	return job.Jitter(j.Retry.Backoff.Delay(j.Attempt, j.Retry.BaseDelay, j.Retry.MaxDelay), j.id, j.Attempt)
}
