package server

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// chainRow is how far a chain has come.
type chainRow struct {
	ID          string     `json:"id"`
	Status      string     `json:"status"`       // running, completed, exited, failed or cancelled.
	Steps       int        `json:"steps"`        // How many there are.
	CurrentStep int        `json:"current_step"` // The furthest step that was made, from 0.
	ExitReason  string     `json:"exit_reason,omitempty"`
	CreatedAt   *time.Time `json:"created_at"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"`
}

// chainAnswer is a whole chain, enough to draw it.
type chainAnswer struct {
	ID          string          `json:"id"`
	Status      string          `json:"status"`
	CurrentStep int             `json:"current_step"`
	ExitReason  string          `json:"exit_reason,omitempty"`
	CreatedAt   *time.Time      `json:"created_at"`
	FinishedAt  *time.Time      `json:"finished_at,omitempty"`
	Steps       []chainStepView `json:"steps"`
	// ContinueOnFailure: the step after a dead one runs all the same.
	ContinueOnFailure bool           `json:"continue_on_failure"`
	OnFailure         *chainStepView `json:"on_failure,omitempty"`
	OnExit            *chainStepView `json:"on_exit,omitempty"`
}

// chainStepView is a step and its job, as far as there is one.
type chainStepView struct {
	Step  int    `json:"step"` // From 0; -1 is on_exit, -2 on_failure.
	Queue string `json:"queue"`
	JobID string `json:"job_id,omitempty"`
	State string `json:"state,omitempty"` // Left out of a job that is not made or gone.
}

type chainsAnswer struct {
	Chains  []chainRow `json:"chains"`
	Cursor  string     `json:"cursor"`
	HasMore bool       `json:"has_more"`
}

// Numbers of the jobs of a chain that are no steps (contract, domain constants).
const (
	stepOnExit    = -1
	stepOnFailure = -2
)

func (c *call) chain() error {
	id, err := job.ParseChainID(c.r.PathValue("id"))
	if err != nil {
		return fault.New(fault.NotFound, "NOT_FOUND", "the chain does not exist")
	}
	ch, err := c.place.Local.Chain(c.r.Context(), c.who.Caller, id)
	if err != nil {
		return err
	}
	a := chainAnswer{
		ID: ch.ID.String(), Status: ch.Status, CurrentStep: ch.Current, ExitReason: ch.ExitReason,
		CreatedAt: optionalTime(ch.CreatedAt), FinishedAt: optionalTime(ch.FinishedAt), Steps: make([]chainStepView, len(ch.StepJobs)),
		ContinueOnFailure: ch.GoOn, OnFailure: newChainStep(stepOnFailure, ch.OnFailure), OnExit: newChainStep(stepOnExit, ch.OnExit),
	}
	for i := range ch.StepJobs {
		a.Steps[i] = *newChainStep(i, &ch.StepJobs[i])
	}
	return c.reply(a)
}

func newChainStep(step int, s *queue.ChainStep) *chainStepView {
	if s == nil {
		return nil
	}
	return &chainStepView{Step: step, Queue: s.Queue, JobID: idOrNone(s.JobID), State: stateOrNone(s.State)}
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
	a := chainsAnswer{Chains: make([]chainRow, len(p.Chains)), Cursor: p.Cursor, HasMore: p.Cursor != ""}
	for i, s := range p.Chains {
		a.Chains[i] = chainRow{
			ID: s.ID.String(), Status: s.Status, Steps: s.Steps, CurrentStep: s.Current, ExitReason: s.ExitReason,
			CreatedAt: optionalTime(s.CreatedAt), FinishedAt: optionalTime(s.FinishedAt),
		}
	}
	return c.reply(a)
}
