package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ChainStep is a step of a chain and the job of it.
type ChainStep struct {
	Queue string
	Job   job.ID    // Zero: not made, or not yet.
	State job.State // 0: not made, or gone.
}

// Chain is a whole chain.
type Chain struct {
	records.ChainState
	StepJobs  []ChainStep
	OnFailure *ChainStep // nil: none was asked for.
	OnExit    *ChainStep
	GoOn      bool
}

// IDChain is how far a chain has come, and its name.
type IDChain struct {
	ID job.ChainID
	records.ChainState
}

// ReadChain reads a whole chain from one snapshot of the state, or statedb.ErrNotFound.
func ReadChain(g *statedb.Group, ns job.Namespace, id job.ChainID) (Chain, error) {
	return snapshot(g, func(v *statedb.View, space keys.Space) Chain {
		c := Chain{ChainState: existing(v, space.ChainState(ns, id), records.DecodeChainState)}
		steps := existing(v, space.Chain(ns, id), records.DecodeChain)
		c.GoOn, c.StepJobs = steps.GoOn, make([]ChainStep, len(steps.Steps))
		for i := range c.StepJobs {
			var made job.ID
			if i < len(c.Jobs) {
				made = c.Jobs[i]
			}
			c.StepJobs[i] = *readStep(v, space, ns, &steps.Steps[i], made)
		}
		c.OnFailure = readStep(v, space, ns, steps.OnFailure, c.ChainState.OnFailure)
		c.OnExit = readStep(v, space, ns, steps.OnExit, c.ChainState.OnExit)
		return c
	})
}

// readStep is for a snapshot; nil for a step that was not asked for.
func readStep(r Reader, space keys.Space, ns job.Namespace, step *command.Step, made job.ID) *ChainStep {
	if step == nil {
		return nil
	}
	s := &ChainStep{Queue: step.Queue, Job: made}
	if made.IsZero() {
		return s
	}
	queue, state, err := queueAndState(r, space, ns, made)
	statedb.Check(err)
	if queue != "" {
		s.Queue = queue // It may have been moved.
	}
	s.State = state
	return s
}

// ReadChains lists up to limit chains of a namespace that are older than one, youngest
// first; more tells that there are others.
func ReadChains(g *statedb.Group, ns job.Namespace, before job.ChainID, limit int) (out []IDChain, more bool, err error) {
	from, to := keys.In(g.Prefix()).Chains(ns, before)
	more, err = readBack(g, from, to, limit, func(id [16]byte, value []byte) error {
		s, err := records.DecodeChainState(value)
		out = append(out, IDChain{id, s})
		return err
	})
	return out, more, err
}
