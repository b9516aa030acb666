package state

import (
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// An agent job runs in iterations: each is acked by itself and leaves a row. Attempts
// are counted within an iteration (trap 38).

// IterationsKept bounds the iterations of a job that are kept; the oldest go.
const IterationsKept = 1000

// agentLimits are the limits of an agent job.
func (x *entry) agentLimits(ns job.Namespace, id job.ID) (command.AgentLimits, error) {
	body, err := x.body(ns, id)
	if err != nil {
		return command.AgentLimits{}, err
	}
	return body.AgentLimits(), nil
}

// beginIteration goes on to the next iteration if the last one is over, and keeps the
// lease within the time of one.
func (x *entry) beginIteration(ns job.Namespace, id job.ID, h *records.Head, lease time.Duration) (time.Duration, error) {
	if h.Has(records.FlagIterated) {
		h.Iteration++
		h.Flags &^= records.FlagIterated
	}
	limits, err := x.agentLimits(ns, id)
	if limits.IterationTimeout > 0 {
		lease = min(lease, limits.IterationTimeout)
	}
	return lease, err
}

// timeOut fails the attempt of an iteration that took too long (trap 39). Its worker
// settled nothing.
func (x *entry) timeOut(ns job.Namespace, id job.ID, h *records.Head) error {
	h.Flags |= records.FlagReclaimed | records.FlagRanOut
	x.addError(ns, id, h, records.AttemptError{Attempt: h.Attempt, At: x.now, Cause: records.IterationRanOut, Worker: h.Worker})
	if err := x.countFailure(ns, h); err != nil {
		return err
	}
	return x.endAttempt(&command.Fail{NS: ns, ID: id, Error: records.IterationRanOut.String()}, h)
}

// ackAgent ends an iteration of an agent job that left its former state, and does
// what its worker says of the loop.
func (x *entry) ackAgent(c *command.Ack, h *records.Head, cancelling bool) error {
	used, err := x.endIteration(c, h)
	if err != nil {
		return err
	}
	switch {
	case c.Agent == command.AgentUnsaid, c.Agent == command.AgentDone:
		return x.complete(c, h)
	case cancelling && !h.Has(records.FlagHoldNext):
		return x.endLetGo(c.NS, c.ID, h, "")
	}
	if h.Crashes > 0 {
		h.Flags |= records.FlagRanOut
	}
	h.Attempt, h.Crashes = 0, 0
	switch {
	case cancelling:
		why, err := x.heldFor(c.NS, c.ID)
		if err != nil {
			return err
		}
		return x.hold(c.NS, c.ID, h, why)
	case c.Agent == command.AgentHold:
		return x.hold(c.NS, c.ID, h, records.Hold{Cause: records.HoldCause{Text: c.HoldReason}, At: x.now})
	default:
		return x.continueAgent(c.NS, c.ID, h, used)
	}
}

// endIteration writes down how the iteration went and answers what the job cost so far.
func (x *entry) endIteration(c *command.Ack, h *records.Head) (cost int64, err error) {
	u, err := x.jobUsage(c.NS, c.ID, h)
	if err != nil {
		return 0, err
	}
	it := records.Iteration{
		Status: c.Agent, At: x.now, Result: c.Result, HoldReason: c.HoldReason, Usage: u.Iteration, Lease: h.Epoch,
	}
	if h.Has(records.FlagCheckpoint) { // Of the ack, or one that came before it.
		if it.Checkpoint, err = x.txn.Get(x.m.space.Job(c.NS, keys.Checkpoint, c.ID)); err != nil {
			return 0, fmt.Errorf("checkpoint of job %s: %w", c.ID, err)
		}
	}
	if it.Status == command.AgentUnsaid {
		it.Status = command.AgentDone
	}
	if u.Iteration != (records.Meter{}) {
		it.Provider, it.Model = u.Provider, u.Model
		u.Iteration = records.Meter{}
		x.putJobUsage(c.NS, c.ID, h, u)
	}
	x.txn.Set(x.m.space.Iteration(c.NS, c.ID, h.Iteration), it.Encode())
	if h.Iteration > IterationsKept {
		x.txn.Delete(x.m.space.Iteration(c.NS, c.ID, h.Iteration-IterationsKept))
	}
	h.Flags |= records.FlagIterations | records.FlagIterated
	return u.Sum().Cost, nil
}

// continueAgent lets the job run once more, at the end of its order, or holds it when
// it has reached a limit: a person may let it run once more.
func (x *entry) continueAgent(ns job.Namespace, id job.ID, h *records.Head, cost int64) error {
	if done, err := x.endOverspent(ns, id, h, ""); err != nil || done {
		x.tellDead(ns, id, h)
		return err
	}
	limits, err := x.agentLimits(ns, id)
	if err != nil {
		return err
	}
	if why, over := reached(limits, h.Iteration, cost); over {
		return x.hold(ns, id, h, records.Hold{Cause: why, At: x.now})
	}
	h.Iteration++
	h.Flags &^= records.FlagIterated
	if err := x.enterPending(ns, id, h); err != nil {
		return err
	}
	h.Note(records.WasContinued, x.now)
	x.event(feed.Continued, ns, id, h)
	return nil
}

// reached says which limit of an agent is reached, if one is.
func reached(a command.AgentLimits, iterations uint32, cost int64) (why records.HoldCause, over bool) {
	switch {
	case a.MaxIterations > 0 && iterations >= a.MaxIterations:
		return records.HoldCause{Rule: records.HeldAtIterations, Reached: int64(iterations), Limit: int64(a.MaxIterations)}, true
	case a.MaxCost > 0 && cost >= a.MaxCost:
		return records.HoldCause{Rule: records.HeldAtCost, Reached: cost, Limit: a.MaxCost}, true
	}
	return records.HoldCause{}, false
}

// ackedIteration reports whether a token is that of the lease whose ack ended the
// latest iteration: its answer may have been lost.
func (x *entry) ackedIteration(ns job.Namespace, id job.ID, h *records.Head, by command.Token) (bool, error) {
	if !h.Has(records.FlagIterations) || by.IsZero() {
		return false, nil
	}
	latest := h.Iteration
	if !h.Has(records.FlagIterated) { // The next one was begun.
		latest--
	}
	v, err := x.txn.Get(x.m.space.Iteration(ns, id, latest))
	if err != nil {
		return false, fmt.Errorf("iteration %d of job %s: %w", latest, id, err)
	}
	it, err := records.DecodeIteration(latest, v)
	return err == nil && it.Lease == by.Epoch, err
}
