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

// chainsLooked is how many chains are looked at for a page, of which the caller may see
// few: the page ends there, and its cursor goes on.
const chainsLooked = 1000

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
		list, last, more, err := chains(ctx, g, &c, before, limit)
		out := wire.ChainList{HasMore: more, Chains: each(list, func(ch *stateread.IDChain) wire.ChainRow { return viewChain(ch.ID, &ch.ChainState) })}
		if more {
			out.Cursor = last.String()
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

// chains reads chains that the caller sees, until there are as many as asked for, or
// chainsLooked were looked at. It ends at last; more tells that there may be others.
func chains(ctx context.Context, g *statedb.Group, c *Caller, before job.ChainID, limit int) (out []stateread.IDChain, last job.ChainID, more bool, err error) {
	last, more = before, true
	for looked := 0; more && looked < chainsLooked; {
		if err := ctx.Err(); err != nil {
			return nil, last, false, err
		}
		var list []stateread.IDChain
		if list, more, err = stateread.ReadChains(g, c.Namespace, last, min(limit, chainsLooked-looked)); err != nil {
			return nil, last, false, err
		}
		looked += len(list)
		for i := range list {
			last = list[i].ID
			shown, err := c.seesChain(g, last)
			if err != nil {
				return nil, last, false, err
			}
			if !shown {
				continue
			}
			if out = append(out, list[i]); len(out) == limit {
				return out, last, more || i < len(list)-1, nil
			}
		}
	}
	return out, last, more, nil
}

func (c *Caller) seesChain(g *statedb.Group, id job.ChainID) (bool, error) {
	if c.Rights.Everywhere(permission.JobList) {
		return true, nil
	}
	ch, err := stateread.ReadChain(g, c.Namespace, id)
	if errors.Is(err, statedb.ErrNotFound) {
		return false, nil // Deleted since.
	}
	return err == nil && c.mayList(&ch), err
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
