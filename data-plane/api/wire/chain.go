package wire

import (
	"time"
)

// ChainRow is how far a chain has come.
type ChainRow struct {
	ID          string      `json:"id"`
	Status      ChainStatus `json:"status"`       // running, completed, exited, failed or cancelled.
	Steps       int         `json:"steps"`        // How many there are.
	CurrentStep int         `json:"current_step"` // The furthest step that was made, from 0.
	ExitReason  string      `json:"exit_reason,omitempty"`
	CreatedAt   time.Time   `json:"created_at"`
	FinishedAt  time.Time   `json:"finished_at,omitzero"`
}

// Chain is a whole chain, enough to draw it.
type Chain struct {
	ID          string      `json:"id"`
	Status      ChainStatus `json:"status"`
	CurrentStep int         `json:"current_step"`
	ExitReason  string      `json:"exit_reason,omitempty"`
	CreatedAt   time.Time   `json:"created_at"`
	FinishedAt  time.Time   `json:"finished_at,omitzero"`
	Steps       []ChainJob  `json:"steps"`
	// ContinueOnFailure: the step after a dead one runs all the same.
	ContinueOnFailure bool      `json:"continue_on_failure"`
	OnFailure         *ChainJob `json:"on_failure,omitempty"`
	OnExit            *ChainJob `json:"on_exit,omitempty"`
}

// ChainJob is a step and its job, as far as there is one.
type ChainJob struct {
	Step  int    `json:"step"` // From 0; -1 is on_exit, -2 on_failure.
	Queue string `json:"queue"`
	JobID string `json:"job_id,omitempty"`
	State State  `json:"state,omitempty"` // Left out of a job that is not made or gone.
}

// ChainList is a page of chains.
type ChainList struct {
	Chains  []ChainRow `json:"chains"`
	Cursor  string     `json:"cursor"`
	HasMore bool       `json:"has_more"`
}
