package queue

import (
	"context"
	"errors"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
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
	if !c.mayList(&ch) {
		return wire.Chain{}, missing
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
		list, more, err := s.chains(g, &c, before, limit)
		out := wire.ChainList{HasMore: more, Chains: each(list, func(ch *stateread.IDChain) wire.ChainRow { return viewChain(ch.ID, &ch.ChainState) })}
		if more {
			out.Cursor = out.Chains[len(list)-1].ID
		}
		return out, err
	})
}

// mayList reports whether the caller may list the jobs of all steps: of a chain with others
// it sees nothing.
func (c *Caller) mayList(ch *stateread.Chain) bool {
	steps := slices.Clone(ch.StepJobs)
	for _, more := range []*stateread.ChainStep{ch.OnFailure, ch.OnExit} {
		if more != nil {
			steps = append(steps, *more)
		}
	}
	return !slices.ContainsFunc(steps, func(s stateread.ChainStep) bool { return !c.Rights.Queue(permission.JobList, s.Queue) })
}

// chains reads chains that the caller sees, until there are as many as asked for.
func (s *Service) chains(g *statedb.Group, c *Caller, before job.ChainID, limit int) (out []stateread.IDChain, more bool, err error) {
	if c.Rights.Everywhere(permission.JobList) {
		return stateread.ReadChains(g, c.Namespace, before, limit)
	}
	for more = true; more; {
		var list []stateread.IDChain
		if list, more, err = stateread.ReadChains(g, c.Namespace, before, limit); err != nil {
			return nil, false, err
		}
		for i := range list {
			before = list[i].ID
			ch, err := stateread.ReadChain(g, c.Namespace, before)
			if errors.Is(err, statedb.ErrNotFound) || err == nil && !c.mayList(&ch) {
				continue
			}
			if err != nil {
				return nil, false, err
			}
			if len(out) == limit {
				return out, true, nil
			}
			out = append(out, list[i])
		}
	}
	return out, false, nil
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
