package state

import (
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// fail ends an attempt: released, cancelled if that was asked, retried after its
// backoff, or dead.
func (x *entry) fail(c *command.Fail) Result {
	j, res := x.leased(c.NS, c.ID, c.By)
	if res.Refusal != Accepted {
		return x.failedBefore(c, &j, res)
	}
	x.report(&j, c.Usage)
	if !c.Release {
		x.meterExecution(&j)
	}
	cancelling := j.State == job.Cancelling
	x.leave(&j)
	switch {
	case cancelling:
		x.letGo(c, &j)
	case c.Release:
		x.release(c, &j)
	default:
		x.recordError(c, &j)
		x.endAttempt(c, &j)
	}
	x.put(&j)
	return failAnswer(res, &j)
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

// failedBefore answers a repeated fail or release with the same token like the first one, until
// the job's next attempt. A lease that ran out was not settled by its holder: it stays lost
// (R-L3).
func (x *entry) failedBefore(c *command.Fail, j *subject, res Result) Result {
	settled := j.State == job.Retrying || j.State == job.Dead || j.State == job.Cancelled || j.State == job.Held ||
		j.State == job.Pending && lastSettled(j) == noted(c)
	settled = settled && !j.Has(records.FlagReclaimed)
	if res.Refusal == LeaseLost && settled && records.Holds(&j.Head, c.By) {
		res.Refusal = Accepted
		return failAnswer(res, j)
	}
	return res
}

// noted is what a fail or release notes in the timeline of a job that goes on.
func noted(c *command.Fail) feed.Type {
	if c.Release {
		return feed.Released
	}
	return feed.Failed
}

// lastSettled is how the job's last attempt ended, as far as its timeline goes back.
func lastSettled(j *subject) (how feed.Type) {
	for _, m := range slices.Backward(j.Timeline) {
		switch m.What {
		case feed.Failed, feed.Released, feed.Continued, feed.Started:
			return m.What
		}
	}
	return how
}

// letGo is about a job whose worker was asked to stop. Giving it back is no failure,
// and one that is to be held has not failed.
func (x *entry) letGo(c *command.Fail, j *subject) {
	if c.Release || j.Has(records.FlagHoldNext) {
		x.endLetGo(j, "")
		return
	}
	x.recordError(c, j)
	x.endLetGo(j, c.Error)
}

// release gives the attempt back: it does not count, and the job takes a new
// place in the order, at once or after the delay that the worker asked for.
func (x *entry) release(c *command.Fail, j *subject) {
	j.Attempt--
	if x.endOverspent(j, "") {
		x.tellDead(j)
		return
	}
	if c.Delay != nil && *c.Delay > 0 {
		x.enterFor(j, job.Retrying, *c.Delay)
	} else {
		x.enterPending(j)
	}
	x.happened(feed.Released, j)
}

// endAttempt retries a failed job after its backoff, or ends it when its attempts are spent.
func (x *entry) endAttempt(c *command.Fail, j *subject) {
	j.Note(feed.Failed, x.now)
	after := feed.Dead
	switch {
	case c.Terminal:
		x.endDead(j, records.DeadTerminal, c.Error)
	case j.Attempt >= j.Retry.MaxRetries:
		x.endDead(j, records.DeadRetries, c.Error)
	default:
		if x.endOverspent(j, c.Error) {
			x.event(feed.Failed, j)
			x.tellDead(j)
			return
		}
		after = feed.Retrying
		x.enterFor(j, job.Retrying, max(retryDelay(c, j), 1))
	}
	x.event(feed.Failed, j)
	x.event(after, j)
}

// retryDelay is how long a job waits for its next attempt: as its worker said, to the
// nanosecond, else by its backoff.
func retryDelay(c *command.Fail, j *subject) time.Duration {
	if c.Delay != nil {
		return *c.Delay
	}
	return job.Jitter(j.Retry.Backoff.Delay(j.Attempt, j.Retry.BaseDelay, j.Retry.MaxDelay), j.id, j.Attempt)
}
