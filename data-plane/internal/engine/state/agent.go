package state

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// An agent job runs in iterations: each is acked by itself and leaves a row. Attempts
// are counted within an iteration (trap 38).

// IterationsKept bounds the iterations of a job that are kept; the oldest go.
const IterationsKept = 1000

// agentLimits are the limits of an agent job.
func (x *entry) agentLimits(ns job.Namespace, id job.ID) command.AgentLimits {
	body := x.body(ns, id)
	return body.AgentLimits()
}

// beginIteration goes on to the next iteration if the last one is over, and keeps the
// lease within the time of one.
func (x *entry) beginIteration(j *subject, lease time.Duration) time.Duration {
	if j.Has(records.FlagIterated) {
		j.Iteration++
		j.Flags &^= records.FlagIterated
	}
	if limit := x.agentLimits(j.ns, j.id).IterationTimeout; limit > 0 {
		lease = min(lease, limit)
	}
	return lease
}

// timeOut fails the attempt of an iteration that took too long (trap 39). Its worker
// settled nothing.
func (x *entry) timeOut(j *subject) {
	j.Flags |= records.FlagReclaimed | records.FlagRanOut
	x.addError(j, records.AttemptError{Attempt: j.Attempt, At: x.now, Cause: records.IterationRanOut, Worker: j.Worker})
	x.countFailure(j)
	x.endAttempt(&command.Fail{Error: records.IterationRanOut.String()}, j)
}

// ackAgent ends an iteration of an agent job that left its former state, and does
// what its worker says of the loop.
func (x *entry) ackAgent(c *command.Ack, j *subject, cancelling bool) {
	used := x.endIteration(c, j)
	switch {
	case c.Agent == command.AgentUnsaid, c.Agent == command.AgentDone:
		x.complete(c, j)
		return
	case cancelling && !j.Has(records.FlagHoldNext):
		x.endLetGo(j, "")
		return
	}
	if j.Crashes > 0 {
		j.Flags |= records.FlagRanOut
	}
	j.Attempt, j.Crashes = 0, 0
	switch {
	case cancelling:
		x.hold(j, x.heldFor(c.NS, c.ID))
	case c.Agent == command.AgentHold:
		x.hold(j, records.Hold{Cause: records.HoldCause{Text: c.HoldReason}, At: x.now})
	default:
		x.continueAgent(j, used)
	}
}

// endIteration writes down how the iteration went and answers what the job cost so far.
func (x *entry) endIteration(c *command.Ack, j *subject) (cost int64) {
	u := x.jobUsage(j)
	it := records.Iteration{
		Status: c.Agent, At: x.now, Result: c.Result, HoldReason: c.HoldReason, Usage: u.Iteration, Lease: j.Epoch,
	}
	if j.Has(records.FlagCheckpoint) { // Of the ack, or one that came before it.
		it.Checkpoint = read(x, x.m.space.Job(c.NS, keys.Checkpoint, c.ID), "checkpoint", asIs)
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
	return u.Sum().Cost
}

// continueAgent lets the job run once more, at the end of its order, or holds it when
// it has reached a limit: a person may let it run once more.
func (x *entry) continueAgent(j *subject, cost int64) {
	if x.endOverspent(j, "") {
		x.tellDead(j)
		return
	}
	if why, over := reached(x.agentLimits(j.ns, j.id), j.Iteration, cost); over {
		x.hold(j, records.Hold{Cause: why, At: x.now})
		return
	}
	j.Iteration++
	j.Flags &^= records.FlagIterated
	x.enterPending(j)
	x.happened(feed.Continued, j)
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
func (x *entry) ackedIteration(j *subject, by command.Token) bool {
	if !j.Has(records.FlagIterations) || by.IsZero() {
		return false
	}
	latest := j.Iteration
	if !j.Has(records.FlagIterated) { // The next one was begun.
		latest--
	}
	it := statedb.Must(records.DecodeIteration(latest, read(x, x.m.space.Iteration(j.ns, j.id, latest), "iteration", asIs)))
	return it.Lease == by.Epoch
}
