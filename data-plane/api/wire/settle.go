package wire

import (
	"time"
)

// AckBatchResult is the fate of each job of a batch of acks, in their order.
type AckBatchResult struct {
	Acked    int       `json:"acked"`
	Outcomes []Outcome `json:"outcomes"`
}

// Outcome is the fate of one item; code is empty on success.
type Outcome struct {
	JobID string `json:"job_id"`
	Code  Code   `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
}

// FailResult is what became of a job whose attempt failed.
type FailResult struct {
	Status            State     `json:"status"`
	NextAttemptAt     time.Time `json:"next_attempt_at,omitzero"`
	AttemptsRemaining int       `json:"attempts_remaining"`
}

// HeartbeatResult is the superset of what the four kinds of existing client read.
type HeartbeatResult struct {
	Jobs     map[string]HeartbeatOutcome `json:"jobs"`
	Acked    []string                    `json:"acked"`
	Unknown  []string                    `json:"unknown"`
	Canceled []string                    `json:"canceled"`
}

// HeartbeatOutcome is what a worker is told about one of its jobs.
type HeartbeatOutcome struct {
	Status         HeartbeatStatus `json:"status"`
	BudgetExceeded bool            `json:"budget_exceeded,omitempty"`
}
