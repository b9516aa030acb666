package queue

import (
	"context"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Chain reads a chain and the states of its jobs.
func (s *Service) Chain(ctx context.Context, c Caller, id job.ChainID) (wire.Chain, error) {
	missing := fault.New(fault.NotFound, "NOT_FOUND", "there is no chain %s in this namespace", id)
	ch, err := look(ctx, s.shard, missing, func(g *statedb.Group) (stateread.Chain, error) {
		return stateread.ReadChain(g, c.Namespace, id)
	})
	if err != nil {
		return wire.Chain{}, err
	}
	row := viewChain(id, &ch.ChainState)
	v := wire.Chain{
		ID: row.ID, Status: row.Status, CurrentStep: row.CurrentStep, ExitReason: row.ExitReason, CreatedAt: row.CreatedAt, FinishedAt: row.FinishedAt,
		Steps: make([]wire.ChainJob, len(ch.StepJobs)), ContinueOnFailure: ch.GoOn,
		OnFailure: viewStep(wire.StepOnFailure, ch.OnFailure), OnExit: viewStep(wire.StepOnExit, ch.OnExit),
	}
	for i := range ch.StepJobs {
		v.Steps[i] = *viewStep(i, &ch.StepJobs[i])
	}
	return v, nil
}

// Chains lists chains, youngest first.
func (s *Service) Chains(ctx context.Context, c Caller, page PageInput) (wire.ChainList, error) {
	before, limit, err := readPage(page, job.ParseChainID)
	if err != nil {
		return wire.ChainList{}, err
	}
	return shard.Read(ctx, s.shard, func(g *statedb.Group) (wire.ChainList, error) {
		list, more, err := stateread.ReadChains(g, c.Namespace, before, limit)
		out := wire.ChainList{HasMore: more, Chains: each(list, func(ch *stateread.IDChain) wire.ChainRow { return viewChain(ch.ID, &ch.ChainState) })}
		if more {
			out.Cursor = out.Chains[len(list)-1].ID
		}
		return out, err
	})
}

func viewChain(id job.ChainID, s *records.ChainState) wire.ChainRow {
	return wire.ChainRow{
		ID: id.String(), Status: wire.ChainStatus(s.Status.String()), Steps: s.Steps, CurrentStep: len(s.Jobs) - 1, ExitReason: s.ExitReason,
		CreatedAt: when(s.CreatedAt), FinishedAt: when(s.FinishedAt),
	}
}

func viewStep(step int, s *stateread.ChainStep) *wire.ChainJob {
	if s == nil {
		return nil
	}
	return &wire.ChainJob{Step: step, Queue: s.Queue, JobID: idOrNone(s.Job), State: stateOf(s.State)}
}
