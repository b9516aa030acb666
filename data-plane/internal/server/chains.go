package server

import (
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

func (c *call) chain() error {
	id, err := pathID(c, "id", job.ParseChainID, "the chain does not exist")
	if err != nil {
		return err
	}
	ch, err := c.place.Local.Chain(c.r.Context(), c.who.Caller, id)
	if err != nil {
		return err
	}
	a := wire.Chain{
		ID: ch.ID.String(), Status: wire.ChainStatus(ch.Status), CurrentStep: ch.Current, ExitReason: ch.ExitReason,
		CreatedAt: ch.CreatedAt.UTC(), FinishedAt: ch.FinishedAt.UTC(), Steps: make([]wire.ChainJob, len(ch.StepJobs)),
		ContinueOnFailure: ch.GoOn, OnFailure: newChainStep(wire.StepOnFailure, ch.OnFailure), OnExit: newChainStep(wire.StepOnExit, ch.OnExit),
	}
	for i := range ch.StepJobs {
		a.Steps[i] = *newChainStep(i, &ch.StepJobs[i])
	}
	return c.reply(a)
}

func newChainStep(step int, s *queue.ChainStep) *wire.ChainJob {
	if s == nil {
		return nil
	}
	return &wire.ChainJob{Step: step, Queue: s.Queue, JobID: idOrNone(s.JobID), State: stateOf(s.State)}
}

func (c *call) chains() error {
	page, err := c.pageFromQuery()
	if err != nil {
		return err
	}
	p, err := c.place.Local.Chains(c.r.Context(), c.who.Caller, page)
	if err != nil {
		return err
	}
	a := wire.ChainList{Chains: make([]wire.ChainRow, len(p.Chains)), Cursor: p.Cursor, HasMore: p.Cursor != ""}
	for i, s := range p.Chains {
		a.Chains[i] = wire.ChainRow{
			ID: s.ID.String(), Status: wire.ChainStatus(s.Status), Steps: s.Steps, CurrentStep: s.Current, ExitReason: s.ExitReason,
			CreatedAt: s.CreatedAt.UTC(), FinishedAt: s.FinishedAt.UTC(),
		}
	}
	return c.reply(a)
}
