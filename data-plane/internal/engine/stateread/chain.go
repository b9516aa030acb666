package stateread

import (
	"errors"
	"fmt"

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
func ReadChain(g *statedb.Group, ns job.Namespace, id job.ChainID) (c Chain, err error) {
	v := g.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	space := keys.In(g.Prefix())
	value, err := v.Get(space.ChainState(ns, id))
	if err != nil {
		return Chain{}, err
	}
	if c.ChainState, err = records.DecodeChainState(value); err != nil {
		return Chain{}, fmt.Errorf("%s: %w", id, err)
	}
	if value, err = v.Get(space.Chain(ns, id)); err != nil {
		return Chain{}, fmt.Errorf("steps of %s: %w", id, err)
	}
	steps, err := records.DecodeChain(value)
	if err != nil {
		return Chain{}, fmt.Errorf("%s: %w", id, err)
	}
	c.GoOn, c.StepJobs = steps.GoOn, make([]ChainStep, len(steps.Steps))
	for i := range c.StepJobs {
		var made job.ID
		if i < len(c.Jobs) {
			made = c.Jobs[i]
		}
		if c.StepJobs[i], err = readStep(v, space, ns, &steps.Steps[i], made); err != nil {
			return Chain{}, err
		}
	}
	if steps.OnFailure != nil {
		s, err := readStep(v, space, ns, steps.OnFailure, c.ChainState.OnFailure)
		if err != nil {
			return Chain{}, err
		}
		c.OnFailure = &s
	}
	if steps.OnExit != nil {
		s, err := readStep(v, space, ns, steps.OnExit, c.ChainState.OnExit)
		if err != nil {
			return Chain{}, err
		}
		c.OnExit = &s
	}
	return c, nil
}

func readStep(r Reader, space keys.Space, ns job.Namespace, step *command.Step, made job.ID) (ChainStep, error) {
	s := ChainStep{Queue: step.Queue, Job: made}
	if made.IsZero() {
		return s, nil
	}
	queue, state, err := queueAndState(r, space, ns, made)
	if queue != "" {
		s.Queue = queue // It may have been moved.
	}
	s.State = state
	return s, err
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
