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
func (x *entry) beginIteration(j *subject, lease time.Duration) (time.Duration, error) {
	if j.Has(records.FlagIterated) {
		j.Iteration++
		j.Flags &^= records.FlagIterated
	}
	limits, err := x.agentLimits(j.ns, j.id)
	if limits.IterationTimeout > 0 {
		lease = min(lease, limits.IterationTimeout)
	}
	return lease, err
}

// timeOut fails the attempt of an iteration that took too long (trap 39). Its worker
// settled nothing.
func (x *entry) timeOut(j *subject) error {
	j.Flags |= records.FlagReclaimed | records.FlagRanOut
	x.addError(j, records.AttemptError{Attempt: j.Attempt, At: x.now, Cause: records.IterationRanOut, Worker: j.Worker})
	if err := x.countFailure(j); err != nil {
		return err
	}
	return x.endAttempt(&command.Fail{Error: records.IterationRanOut.String()}, j)
}

// ackAgent ends an iteration of an agent job that left its former state, and does
// what its worker says of the loop.
func (x *entry) ackAgent(c *command.Ack, j *subject, cancelling bool) error {
	used, err := x.endIteration(c, j)
	if err != nil {
		return err
	}
	switch {
	case c.Agent == command.AgentUnsaid, c.Agent == command.AgentDone:
		return x.complete(c, j)
	case cancelling && !j.Has(records.FlagHoldNext):
		return x.endLetGo(j, "")
	}
	if j.Crashes > 0 {
		j.Flags |= records.FlagRanOut
	}
	j.Attempt, j.Crashes = 0, 0
	switch {
	case cancelling:
		why, err := x.heldFor(c.NS, c.ID)
		if err != nil {
			return err
		}
		return x.hold(j, why)
	case c.Agent == command.AgentHold:
		return x.hold(j, records.Hold{Cause: records.HoldCause{Text: c.HoldReason}, At: x.now})
	default:
		return x.continueAgent(j, used)
	}
}

// endIteration writes down how the iteration went and answers what the job cost so far.
func (x *entry) endIteration(c *command.Ack, j *subject) (cost int64, err error) {
	u, err := x.jobUsage(j)
	if err != nil {
		return 0, err
	}
	it := records.Iteration{
		Status: c.Agent, At: x.now, Result: c.Result, HoldReason: c.HoldReason, Usage: u.Iteration, Lease: j.Epoch,
	}
	if j.Has(records.FlagCheckpoint) { // Of the ack, or one that came before it.
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
		x.putJobUsage(j, u)
	}
	x.txn.Set(x.m.space.Iteration(j.ns, j.id, j.Iteration), it.Encode())
	if j.Iteration > IterationsKept {
		x.txn.Delete(x.m.space.Iteration(j.ns, j.id, j.Iteration-IterationsKept))
	}
	j.Flags |= records.FlagIterations | records.FlagIterated
	return u.Sum().Cost, nil
}

// continueAgent lets the job run once more, at the end of its order, or holds it when
// it has reached a limit: a person may let it run once more.
func (x *entry) continueAgent(j *subject, cost int64) error {
	if done, err := x.endOverspent(j, ""); err != nil || done {
		x.tellDead(j)
		return err
	}
	limits, err := x.agentLimits(j.ns, j.id)
	if err != nil {
		return err
	}
	if why, over := reached(limits, j.Iteration, cost); over {
		return x.hold(j, records.Hold{Cause: why, At: x.now})
	}
	j.Iteration++
	j.Flags &^= records.FlagIterated
	if err := x.enterPending(j); err != nil {
		return err
	}
	x.happened(feed.Continued, j)
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
func (x *entry) ackedIteration(j *subject, by command.Token) (bool, error) {
	if !j.Has(records.FlagIterations) || by.IsZero() {
		return false, nil
	}
	latest := j.Iteration
	if !j.Has(records.FlagIterated) { // The next one was begun.
		latest--
	}
	v, err := x.txn.Get(x.m.space.Iteration(j.ns, j.id, latest))
	if err != nil {
		return false, fmt.Errorf("iteration %d of job %s: %w", latest, j.id, err)
	}
	it, err := records.DecodeIteration(latest, v)
	return err == nil && it.Lease == by.Epoch, err
}
