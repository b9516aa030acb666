package queue

import (
	"context"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ChainSummary is how far a chain is.
type ChainSummary struct {
	ID         job.ChainID
	Status     string // running, completed, exited, failed or cancelled.
	Steps      int
	Current    int // The furthest step with a job, from 0.
	ExitReason string
	CreatedAt  time.Time
	FinishedAt time.Time
}

// ChainStep is a step of a chain and its job.
type ChainStep struct {
	Queue string
	JobID job.ID    // Zero: not made, or not yet.
	State job.State // 0: not made, or gone.
}

// Chain is a whole chain.
type Chain struct {
	ChainSummary
	StepJobs  []ChainStep
	OnFailure *ChainStep // nil: none was asked for.
	OnExit    *ChainStep
	GoOn      bool // The step after a dead one runs anyway.
}

// ChainPage is a page of chains, youngest first.
type ChainPage struct {
	Chains []ChainSummary
	Cursor string // "" at the end.
}

// Chain reads a chain and the states of its jobs.
func (s *Service) Chain(ctx context.Context, c Caller, id job.ChainID) (Chain, error) {
	ch, err := shard.Read(ctx, s.shard, func(g *statedb.Group) (stateread.Chain, error) {
		return stateread.ReadChain(g, c.Namespace, id)
	})
	if errors.Is(err, statedb.ErrNotFound) {
		return Chain{}, fault.New(fault.NotFound, "NOT_FOUND", "there is no chain %s in this namespace", id)
	}
	if err != nil {
		return Chain{}, err
	}
	v := Chain{ChainSummary: viewChain(id, &ch.ChainState), GoOn: ch.GoOn, OnFailure: viewStep(ch.OnFailure), OnExit: viewStep(ch.OnExit)}
	for i := range ch.StepJobs {
		v.StepJobs = append(v.StepJobs, *viewStep(&ch.StepJobs[i]))
	}
	return v, nil
}

// Chains lists chains, youngest first.
func (s *Service) Chains(ctx context.Context, c Caller, page PageInput) (ChainPage, error) {
	var before job.ChainID
	var bad checker
	if page.Cursor != "" {
		var err error
		if before, err = job.ParseChainID(page.Cursor); err != nil {
			bad.badCursor()
		}
	}
	limit := bad.limit(page.Limit)
	if len(bad) > 0 {
		return ChainPage{}, fault.InvalidFields(bad)
	}
	return shard.Read(ctx, s.shard, func(g *statedb.Group) (out ChainPage, err error) {
		list, more, err := stateread.ReadChains(g, c.Namespace, before, limit)
		for i := range list {
			out.Chains = append(out.Chains, viewChain(list[i].ID, &list[i].ChainState))
		}
		if more {
			out.Cursor = list[len(list)-1].ID.String()
		}
		return out, err
	})
}

func viewChain(id job.ChainID, s *records.ChainState) ChainSummary {
	return ChainSummary{
		ID: id, Status: s.Status.String(), Steps: s.Steps, Current: len(s.Jobs) - 1, ExitReason: s.ExitReason,
		CreatedAt: when(s.CreatedAt), FinishedAt: when(s.FinishedAt),
	}
}

func viewStep(s *stateread.ChainStep) *ChainStep {
	if s == nil {
		return nil
	}
	return &ChainStep{Queue: s.Queue, JobID: s.Job, State: s.State}
}
