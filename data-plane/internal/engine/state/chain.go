package state

import (
	"strconv"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// chainPlace is a job's place in a chain; none if the id is zero.
type chainPlace struct {
	id   job.ChainID
	step int
}

// beginChain writes the records of a chain whose first step is enqueued.
func (x *entry) beginChain(ns job.Namespace, first job.ID, c *command.Chain) {
	s := records.ChainState{CreatedAt: x.now, Steps: len(c.Steps), Jobs: []job.ID{first}}
	x.txn.Set(x.m.space.Chain(ns, c.ID), records.EncodeChain(c))
	x.txn.Set(x.m.space.ChainState(ns, c.ID), s.Encode())
}

// chainState reads how far a chain has come; ok is false if it ended and was deleted
// since: its jobs may be retried even then.
func (x *entry) chainState(ns job.Namespace, id job.ChainID) (s records.ChainState, ok bool) {
	return find(x, x.m.space.ChainState(ns, id), "chain state", records.DecodeChainState)
}

func (x *entry) chainSteps(ns job.Namespace, id job.ChainID) *command.Chain {
	return read(x, x.m.space.Chain(ns, id), "chain", records.DecodeChain)
}

// advance takes a chain on from a step that ended. Only the furthest step can, and
// only once: a step that is retried after that has no second follower.
func (x *entry) advance(d *delivery) {
	id, step := d.body.Chain, d.body.ChainStep
	if step < 0 {
		return // Nothing follows on what comes last.
	}
	s, ok := x.chainState(d.ns, id)
	if !ok || step != len(s.Jobs)-1 || s.Status != records.ChainRunning {
		return
	}
	c := x.chainSteps(d.ns, id)
	switch {
	case d.outcome == records.OutcomeCompleted && d.exit:
		x.endChain(d, c, &s, records.ChainExited)
	case d.outcome == records.OutcomeCompleted, d.outcome == records.OutcomeDead && c.GoOn:
		x.nextStep(d, c, &s)
	case d.outcome == records.OutcomeDead:
		x.failChain(d, c, &s)
	default:
		s.Status, s.FinishedAt = records.ChainCancelled, x.now
	}
	x.txn.Set(x.m.space.ChainState(d.ns, id), s.Encode())
}

// nextStep makes the step after d's, or ends the chain after its last.
func (x *entry) nextStep(d *delivery, c *command.Chain, s *records.ChainState) {
	n := len(s.Jobs)
	if n == s.Steps {
		x.endChain(d, c, s, records.ChainCompleted)
		return
	}
	id := job.Derived(x.now, c.ID, uint64(n))
	s.Jobs = append(s.Jobs, id)
	x.followStep(d, id, &c.Steps[n], chainPlace{c.ID, n})
}

// followStep enqueues a job that is told what the one before brought.
func (x *entry) followStep(d *delivery, id job.ID, step *command.Step, place chainPlace) {
	base := []member{textMember("previous_job_id", d.id.String())}
	if d.outcome == records.OutcomeCompleted && d.Has(records.FlagResult) {
		result := read(x, x.m.space.Job(d.ns, keys.Result, d.id), "result", asIs)
		base = append(base, member{"previous_result", result})
	}
	x.follow(d, id, step, overlay(base, step.Payload), place)
}

// endChain ends a chain as it was meant to.
func (x *entry) endChain(d *delivery, c *command.Chain, s *records.ChainState, status records.ChainStatus) {
	s.Status, s.FinishedAt, s.ExitReason = status, x.now, d.reason
	if c.OnExit == nil || !s.OnExit.IsZero() {
		return
	}
	s.OnExit = job.Derived(x.now, c.ID, derivedOnExit)
	x.followStep(d, s.OnExit, c.OnExit, chainPlace{c.ID, records.ChainOnExit})
}

// failChain ends a chain at a dead step. When the step is retried the chain goes on,
// but its on_failure job runs once in the chain's life.
func (x *entry) failChain(d *delivery, c *command.Chain, s *records.ChainState) {
	s.Status, s.FinishedAt = records.ChainFailed, x.now
	if c.OnFailure == nil || !s.OnFailure.IsZero() {
		return
	}
	s.OnFailure = job.Derived(x.now, c.ID, derivedOnFailure)
	base := []member{
		textMember("failed_job_id", d.id.String()),
		{"failed_step", strconv.AppendInt(nil, int64(d.body.ChainStep), 10)},
		textMember("error", d.failure),
	}
	x.follow(d, s.OnFailure, c.OnFailure, overlay(base, c.OnFailure.Payload), chainPlace{c.ID, records.ChainOnFailure})
}

// Numbers by which the jobs of a chain that are no steps are derived.
const (
	derivedOnExit    = 1 << 32
	derivedOnFailure = derivedOnExit + 1
)

// resumeChain lets a chain go on whose furthest step runs again.
func (x *entry) resumeChain(ns job.Namespace, id job.ID, b *records.Body) {
	if b.ChainStep < 0 {
		return
	}
	s, ok := x.chainState(ns, b.Chain)
	if !ok || s.Jobs[len(s.Jobs)-1] != id || s.Status != records.ChainFailed && s.Status != records.ChainCancelled {
		return
	}
	s.Status, s.FinishedAt = records.ChainRunning, 0
	x.txn.Set(x.m.space.ChainState(ns, b.Chain), s.Encode())
}
