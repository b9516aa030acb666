package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
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
	if err != nil || !ok || h.State != job.Pending {
		return Grant{}, false, err
	}
	q, err := x.queue(c.NS, h.Queue)
	if err != nil || q.config.Paused {
		return Grant{}, false, err
	}
	if err := x.leave(c.NS, id, &h); err != nil {
		return Grant{}, false, err
	}
	h.Attempt++
	h.Epoch, h.Lease = x.place(), c.Lease
	h.Worker, h.Hostname, h.Peer = c.Worker, c.Hostname, c.Peer
	h.Started = x.now
	h.flags &^= flagReclaimed
	if err := x.enterTimed(c.NS, id, &h, job.Active, x.after(int64(c.Lease))); err != nil {
		return Grant{}, false, err
	}
	h.note(WasStarted, x.now)
	x.event(feed.Started, c.NS, id, &h)
	x.putHead(c.NS, id, &h)
	return Grant{
		ID: id, Queue: h.Queue, Attempt: h.Attempt, MaxRetries: h.Retry.MaxRetries,
		Epoch: h.Epoch, Lease: h.Lease, HasCheckpoint: h.HasCheckpoint(),
	}, true, nil
}

// raiseFloors remembers from where on the ready orders have jobs.
func (x *entry) raiseFloors(c *command.Fetch) error {
	for _, f := range c.Floors {
		q, err := x.queue(c.NS, f.Queue)
		if err != nil {
			return err
		}
		if int(f.Priority) >= job.Priorities || !q.counts.Floor[f.Priority].Less(f.Pos) {
			continue
		}
		x.touched(q).Floor[f.Priority] = f.Pos
	}
	return nil
}

// Holds decides whether a caller may settle the current lease of h (law 5).
// Without a token the first lease is open to everybody in the
// namespace; once a lease has run out only the current holder may: the same
// worker id where the call has one, else the same key and address.
func Holds(h *Head, by command.Holder) bool {
	if !by.Token.IsZero() {
		// The epoch alone is unique; the attempt is given back by a release.
		return by.Token.Epoch == h.Epoch
	}
	switch {
	case h.Crashes == 0:
		return true
	case by.Worker != "":
		return by.Worker == h.Worker
	default:
		return by.Peer == h.Peer
	}
}

// leased finds the job whose lease by wants to settle. If there is none, the
// refusal says why.
func (x *entry) leased(ns job.Namespace, id job.ID, by command.Holder) (Head, Result, error) {
	h, ok, err := x.head(ns, id)
	res := Result{ID: id, State: h.State, Epoch: h.Epoch, Lease: h.Lease}
	switch {
	case err != nil:
	case !ok:
		res.Refusal = NotFound
	case !h.State.Leased() && by.Token.IsZero():
		res.Refusal = NotActive
	case !h.State.Leased(), !Holds(&h, by):
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
		if res.Refusal == LeaseLost && h.State == job.Completed && Holds(&h, c.By) {
			res.Refusal = Accepted
		}
		return res, nil
	}
	if err := x.leave(c.NS, c.ID, &h); err != nil {
		return Result{}, err
	}
	if c.Result != nil {
		x.txn.Set(x.m.space.Job(c.NS, keys.Result, c.ID), c.Result)
		h.flags |= flagResult
	}
	x.storeCheckpoint(c.NS, c.ID, &h, c.Checkpoint)
	if err := x.enterTerminal(c.NS, c.ID, &h, job.Completed); err != nil {
		return Result{}, err
	}
	h.note(WasCompleted, x.now)
	x.event(feed.Completed, c.NS, c.ID, &h)
	x.putHead(c.NS, c.ID, &h)
	res.State = h.State
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
	cancelling := h.State == job.Cancelling
	if err := x.leave(c.NS, c.ID, &h); err != nil {
		return Result{}, err
	}
	switch {
	case cancelling:
		err = x.letGo(c, &h)
	case c.Release:
		err = x.release(c.NS, c.ID, &h)
	default:
		err = x.endAttempt(c, &h)
	}
	if err != nil {
		return Result{}, err
	}
	x.putHead(c.NS, c.ID, &h)
	return failAnswer(res, &h), nil
}

func failAnswer(res Result, h *Head) Result {
	res.State, res.NextAt = h.State, 0
	if h.State == job.Retrying {
		res.NextAt = h.Due
	}
	if !h.State.Terminal() && h.Retry.MaxRetries > h.Attempt {
		res.Remaining = h.Retry.MaxRetries - h.Attempt
	}
	return res
}

// failedBefore answers a repeated fail or release with the same token by the outcome
// that is still to be seen in the head. A lease that ran out was not settled by its
// holder: it stays lost (R-L3).
func (x *entry) failedBefore(c *command.Fail, h *Head, res Result) Result {
	settled := h.State == job.Retrying || h.State == job.Dead || h.State == job.Cancelled || c.Release && justReleased(h)
	settled = settled && !h.has(flagReclaimed)
	if res.Refusal == LeaseLost && settled && Holds(h, c.By) {
		res.Refusal = Accepted
		return failAnswer(res, h)
	}
	return res
}

// justReleased: giving the attempt back is the last thing that happened to the job.
func justReleased(h *Head) bool {
	return h.State == job.Pending && len(h.Timeline) > 0 && h.Timeline[len(h.Timeline)-1].What == WasReleased
}

// letGo ends a job whose worker was asked to stop. Giving it back is no failure.
func (x *entry) letGo(c *command.Fail, h *Head) error {
	if !c.Release {
		if err := x.recordError(c, h); err != nil {
			return err
		}
	}
	return x.endCancelled(c.NS, c.ID, h)
}

// release gives the attempt back: it does not count, and the job takes a new
// place in the order.
func (x *entry) release(ns job.Namespace, id job.ID, h *Head) error {
	h.Attempt--
	if err := x.enterReady(ns, id, h); err != nil {
		return err
	}
	h.note(WasReleased, x.now)
	x.event(feed.Released, ns, id, h)
	return nil
}

// endAttempt retries the job after its backoff, or ends it when its attempts are spent.
func (x *entry) endAttempt(c *command.Fail, h *Head) error {
	err := x.recordError(c, h)
	if err != nil {
		return err
	}
	h.note(WasFailed, x.now)
	if h.Attempt >= h.Retry.MaxRetries {
		err = x.endDead(c.NS, c.ID, h, DeadRetries)
	} else {
		delay := h.Retry.Backoff.Delay(h.Attempt, h.Retry.BaseDelay, h.Retry.MaxDelay)
		at := x.after(max(int64(job.Jitter(delay, c.ID, h.Attempt)), 1))
		err = x.enterTimed(c.NS, c.ID, h, job.Retrying, at)
	}
	x.event(feed.Failed, c.NS, c.ID, h)
	return err
}

// recordError counts a failed attempt, and keeps what the worker said of it.
func (x *entry) recordError(c *command.Fail, h *Head) error {
	if c.Error != "" || c.Backtrace != "" {
		x.addError(c.NS, c.ID, h, attemptError{Attempt: h.Attempt, At: x.now, Error: c.Error, Backtrace: c.Backtrace})
	}
	return x.countFailure(c.NS, h)
}

func (x *entry) countFailure(ns job.Namespace, h *Head) error {
	q, err := x.queue(ns, h.Queue)
	if err != nil {
		return err
	}
	h.FailedAt = x.now
	x.touched(q).Failed++
	return nil
}

func (x *entry) addError(ns job.Namespace, id job.ID, h *Head, e attemptError) {
	h.flags |= flagErrors
	x.txn.SetNew(x.m.space.AttemptError(ns, id, x.place()), e.encode())
}

func (x *entry) endDead(ns job.Namespace, id job.ID, h *Head, why DeadReason) error {
	h.Reason = why
	h.note(WasDead, x.now)
	return x.enterTerminal(ns, id, h, job.Dead)
}

func (x *entry) endCancelled(ns job.Namespace, id job.ID, h *Head) error {
	if err := x.enterTerminal(ns, id, h, job.Cancelled); err != nil {
		return err
	}
	h.note(WasCancelled, x.now)
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
		h.flags |= flagProgress
		x.event(feed.Progress, c.NS, c.ID, &h)
	}
	x.storeCheckpoint(c.NS, c.ID, &h, c.Checkpoint)
	x.putHead(c.NS, c.ID, &h)
	res.Cancel = h.State == job.Cancelling
	return res, nil
}

// extend moves the end of a lease that its holder renewed with the leader.
func (x *entry) extend(c *command.Extend) (Result, error) {
	h, ok, err := x.head(c.NS, c.ID)
	if err != nil {
		return Result{}, err
	}
	if !ok || !h.State.Leased() || h.Epoch != c.Epoch || c.Until <= h.Due {
		return Result{Refusal: WrongState, State: h.State}, nil
	}
	kind := keys.DueLease
	x.txn.Delete(x.m.space.Due(keys.Due{At: h.Due, Kind: kind, NS: c.NS, ID: c.ID}))
	h.Due = c.Until
	x.addDue(keys.Due{At: h.Due, Kind: kind, NS: c.NS, ID: c.ID}, nil)
	x.putHead(c.NS, c.ID, &h)
	return Result{State: h.State}, nil
}
