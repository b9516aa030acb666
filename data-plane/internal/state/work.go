package state

import (
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/records"
)

// fetch leases the jobs the leader chose, if they are still ready.
func (x *entry) fetch(c *command.Fetch) (Result, error) {
	res := Result{Grants: make([]Grant, 0, len(c.Jobs))}
	for _, id := range c.Jobs {
		g, ok, err := x.grant(c, id)
		if err != nil {
			return Result{}, err
		}
		if ok {
			res.Grants = append(res.Grants, g)
		} else {
			res.Skipped = append(res.Skipped, id)
		}
	}
	return res, x.raiseFloors(c)
}

func (x *entry) grant(c *command.Fetch, id job.ID) (Grant, bool, error) {
	h, ok, err := x.head(c.NS, id)
	if err != nil || !ok || h.State != job.Pending || h.Blocked() {
		return Grant{}, false, err
	}
	if len(c.Queues) > 0 && !slices.Contains(c.Queues, h.Queue) {
		return Grant{}, false, nil // It was moved.
	}
	q, err := x.queue(c.NS, h.Queue)
	if err != nil || q.config.Paused {
		return Grant{}, false, err
	}
	if may, err := x.mayStart(q); err != nil || !may {
		return Grant{}, false, err
	}
	if held, err := x.holdForTag(c.NS, id, &h); err != nil || held {
		return Grant{}, false, err
	}
	if err := x.leave(c.NS, id, &h); err != nil {
		return Grant{}, false, err
	}
	lease := c.Lease
	if h.Has(records.FlagAgent) {
		if lease, err = x.beginIteration(c.NS, id, &h, lease); err != nil {
			return Grant{}, false, err
		}
	}
	h.Attempt++
	h.Epoch, h.Lease = x.place(), lease
	h.Worker, h.Hostname, h.Peer = c.Worker, c.Hostname, c.Peer
	h.Started = x.now
	h.Flags &^= records.FlagReclaimed
	if err := x.enterFor(c.NS, id, &h, job.Active, lease); err != nil {
		return Grant{}, false, err
	}
	x.started(q)
	h.Note(records.WasStarted, x.now)
	x.event(feed.Started, c.NS, id, &h)
	x.putHead(c.NS, id, &h)
	return Grant{
		ID: id, Queue: h.Queue, Attempt: h.Attempt, MaxRetries: h.Retry.MaxRetries,
		Epoch: h.Epoch, Lease: h.Lease, HasCheckpoint: h.HasCheckpoint(), ExpireAt: h.ExpireAt, Iteration: h.Iteration,
	}, true, nil
}

// raiseFloors remembers from where on the ready orders have jobs.
func (x *entry) raiseFloors(c *command.Fetch) error {
	for _, f := range c.Floors {
		q, err := x.queue(c.NS, f.Queue)
		if err != nil {
			return err
		}
		if !q.hasConfig { // It was deleted.
			continue
		}
		if int(f.Priority) >= job.Priorities || !q.counts.Floor[f.Priority].Less(f.Pos) {
			continue
		}
		x.touched(q).Floor[f.Priority] = f.Pos
	}
	return nil
}

// leased finds the job whose lease by wants to settle. If there is none, the
// refusal says why.
func (x *entry) leased(ns job.Namespace, id job.ID, by command.Holder) (records.Head, Result, error) {
	h, ok, err := x.head(ns, id)
	res := Result{ID: id, State: h.State, Epoch: h.Epoch, Lease: h.Lease}
	switch {
	case err != nil:
	case !ok:
		res.Refusal = NotFound
	case !h.State.Leased() && by.Token.IsZero():
		res.Refusal = NotActive
	case !h.State.Leased(), !records.Holds(&h, by):
		res.Refusal = LeaseLost
	}
	return h, res, err
}

// ack completes a job. The same token again gets the same answer.
func (x *entry) ack(c *command.Ack) (Result, error) {
	h, res, err := x.leased(c.NS, c.ID, c.By)
	if err != nil {
		return Result{}, err
	}
	if res.Refusal != Accepted {
		return x.ackedBefore(c, &h, res)
	}
	if c.Agent != command.AgentUnsaid && !h.Has(records.FlagAgent) {
		res.Refusal = NotAgent
		return res, nil
	}
	if err := x.report(c.NS, c.ID, &h, c.Usage); err != nil {
		return Result{}, err
	}
	cancelling := h.State == job.Cancelling
	if err := x.leave(c.NS, c.ID, &h); err != nil {
		return Result{}, err
	}
	x.storeCheckpoint(c.NS, c.ID, &h, c.Checkpoint)
	if h.Has(records.FlagAgent) {
		err = x.ackAgent(c, &h, cancelling)
	} else {
		err = x.complete(c, &h)
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	res.State = h.State
	return res, nil
}

func (x *entry) complete(c *command.Ack, h *records.Head) error {
	if c.Result != nil {
		x.txn.Set(x.m.space.Job(c.NS, keys.Result, c.ID), c.Result)
		h.Flags |= records.FlagResult
	}
	if err := x.endSaying(c.NS, c.ID, h, job.Completed, c); err != nil {
		return err
	}
	h.Note(records.WasCompleted, x.now)
	x.event(feed.Completed, c.NS, c.ID, h)
	return nil
}

// ackedBefore answers a repeated ack with the same token as the first time.
func (x *entry) ackedBefore(c *command.Ack, h *records.Head, res Result) (Result, error) {
	if res.Refusal != LeaseLost {
		return res, nil
	}
	again := h.State == job.Completed && records.Holds(h, c.By)
	if !again {
		var err error
		if again, err = x.ackedIteration(c.NS, c.ID, h, c.By.Token); err != nil {
			return Result{}, err
		}
	}
	if again {
		res.Refusal = Accepted
	}
	return res, nil
}

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
		err = x.endAttempt(c, &h)
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
	if !c.Release && !h.Has(records.FlagHoldNext) {
		if err := x.recordError(c, h); err != nil {
			return err
		}
	}
	return x.endLetGo(c.NS, c.ID, h)
}

// endLetGo does with a job that its worker let go of what it was asked to do so for.
func (x *entry) endLetGo(ns job.Namespace, id job.ID, h *records.Head) error {
	switch {
	case h.Has(records.FlagHoldNext):
		return x.holdLetGo(ns, id, h)
	case h.Has(records.FlagDeadNext):
		err := x.endDead(ns, id, h, records.DeadBudget)
		x.tellDead(ns, id, h)
		return err
	case h.Has(records.FlagExpired):
		if err := x.endDead(ns, id, h, records.DeadExpired); err != nil {
			return err
		}
		x.event(feed.Dead, ns, id, h)
		return nil
	default:
		return x.endCancelled(ns, id, h)
	}
}

// release gives the attempt back: it does not count, and the job takes a new
// place in the order, at once or after the delay that the worker asked for.
func (x *entry) release(c *command.Fail, h *records.Head) error {
	h.Attempt--
	if done, err := x.endOverspent(c.NS, c.ID, h); err != nil || done {
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

// endAttempt retries the job after its backoff, or ends it when its attempts are spent.
func (x *entry) endAttempt(c *command.Fail, h *records.Head) error {
	err := x.recordError(c, h)
	if err != nil {
		return err
	}
	h.Note(records.WasFailed, x.now)
	after := feed.Dead
	switch {
	case c.Terminal:
		err = x.endDead(c.NS, c.ID, h, records.DeadTerminal)
	case h.Attempt >= h.Retry.MaxRetries:
		err = x.endDead(c.NS, c.ID, h, records.DeadRetries)
	default:
		if done, err := x.endOverspent(c.NS, c.ID, h); err != nil || done {
			x.event(feed.Failed, c.NS, c.ID, h)
			x.tellDead(c.NS, c.ID, h)
			return err
		}
		after = feed.Retrying
		err = x.enterFor(c.NS, c.ID, h, job.Retrying, max(pause(c, h), 1))
	}
	x.event(feed.Failed, c.NS, c.ID, h)
	x.event(after, c.NS, c.ID, h)
	return err
}

// pause is how long a job waits for its next attempt: as its worker said, to the
// nanosecond, else by its backoff.
func pause(c *command.Fail, h *records.Head) time.Duration {
	if c.Delay != nil {
		return *c.Delay
	}
	return job.Jitter(h.Retry.Backoff.Delay(h.Attempt, h.Retry.BaseDelay, h.Retry.MaxDelay), c.ID, h.Attempt)
}

// recordError counts a failed attempt, and keeps what the worker said of it.
func (x *entry) recordError(c *command.Fail, h *records.Head) error {
	if c.Error != "" || c.Backtrace != "" {
		x.addError(c.NS, c.ID, h, records.AttemptError{Attempt: h.Attempt, At: x.now, Error: c.Error, Backtrace: c.Backtrace, Worker: h.Worker})
	}
	return x.countFailure(c.NS, h)
}

func (x *entry) countFailure(ns job.Namespace, h *records.Head) error {
	q, err := x.queue(ns, h.Queue)
	if err != nil {
		return err
	}
	h.FailedAt = x.now
	x.touched(q).Failed++
	return nil
}

func (x *entry) addError(ns job.Namespace, id job.ID, h *records.Head, e records.AttemptError) {
	h.Flags |= records.FlagErrors
	x.lastError, x.lastErrorOf = e.Error, id
	x.txn.SetNew(x.m.space.AttemptError(ns, id, x.place()), e.Encode())
}

func (x *entry) endDead(ns job.Namespace, id job.ID, h *records.Head, why records.DeadReason) error {
	h.Reason = why
	h.Note(records.WasDead, x.now)
	return x.enterTerminal(ns, id, h, job.Dead)
}

func (x *entry) endCancelled(ns job.Namespace, id job.ID, h *records.Head) error {
	if err := x.enterTerminal(ns, id, h, job.Cancelled); err != nil {
		return err
	}
	h.Note(records.WasCancelled, x.now)
	x.event(feed.Cancelled, ns, id, h)
	return nil
}

// heartbeat confirms a lease and stores the news it brings.
func (x *entry) heartbeat(c *command.Heartbeat) (Result, error) {
	h, res, err := x.leased(c.NS, c.ID, c.By)
	if err != nil || res.Refusal != Accepted {
		return res, err
	}
	if c.Progress != nil {
		x.txn.Set(x.m.space.Job(c.NS, keys.Progress, c.ID), c.Progress)
		h.Flags |= records.FlagProgress
		x.event(feed.Progress, c.NS, c.ID, &h)
	}
	x.storeCheckpoint(c.NS, c.ID, &h, c.Checkpoint)
	if c.Usage != nil {
		if err := x.reportRunning(c, &h); err != nil {
			return Result{}, err
		}
	}
	x.putHead(c.NS, c.ID, &h)
	res.State, res.Cancel, res.Over = h.State, h.State == job.Cancelling, h.StoppedByBudget()
	return res, nil
}

// extend moves the end of a lease that its holder renewed with the leader.
func (x *entry) extend(c *command.Extend) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil {
		return Result{}, err
	}
	limit, err := x.leaseLimit(c.NS, c.ID, &h)
	if err != nil {
		return Result{}, err
	}
	until := min(c.Until, limit)
	if !ok || !h.State.Leased() || h.Epoch != c.Epoch || until <= h.Due {
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	kind := keys.DueLease
	x.txn.Delete(x.m.space.Due(keys.Due{At: h.Due, Kind: kind, NS: c.NS, ID: c.ID}))
	h.Due = until
	x.addDue(keys.Due{At: h.Due, Kind: kind, NS: c.NS, ID: c.ID}, nil)
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}
