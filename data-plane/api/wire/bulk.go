package wire

import (
	"time"
)

// BulkResult is what a bulk action did.
type BulkResult struct {
	Affected   int           `json:"affected"`
	Errors     int           `json:"errors"` // Jobs that were left as they are; refused names the first.
	Refused    []BulkRefusal `json:"refused,omitempty"`
	DurationMS int64         `json:"duration_ms"`
}

// BulkRefusal is a job that was left as it is, and why.
type BulkRefusal struct {
	JobID string `json:"job_id"`
	Code  Code   `json:"code"`
	Error string `json:"error"`
}

// BulkBegun names the operation that goes on when the call is answered.
type BulkBegun struct {
	OperationID    string     `json:"bulk_operation_id"`
	Status         BulkStatus `json:"status"`
	EstimatedTotal int        `json:"estimated_total"`
	ProgressURL    string     `json:"progress_url"`
}

// BulkOperation is how far a bulk operation is.
type BulkOperation struct {
	ID         string        `json:"id"`
	Status     BulkStatus    `json:"status"` // queued, running, completed or failed.
	Action     BulkAction    `json:"action"`
	Total      int           `json:"total"` // When it was asked for.
	Processed  int           `json:"processed"`
	Affected   int           `json:"affected"`
	Errors     int           `json:"errors"`
	Refused    []BulkRefusal `json:"refused,omitempty"`
	Error      string        `json:"error,omitempty"` // Why it failed.
	CreatedAt  time.Time     `json:"created_at"`
	UpdatedAt  time.Time     `json:"updated_at"`
	FinishedAt time.Time     `json:"finished_at,omitzero"`
}

// BulkProgress is the data of an event of an operation.
type BulkProgress struct {
	TaskID      string     `json:"task_id"`
	Status      BulkStatus `json:"status"`
	Total       int        `json:"total"`
	Processed   int        `json:"processed"`
	Affected    int        `json:"affected"`
	Percent     int        `json:"percent"`
	Error       string     `json:"error,omitempty"`
	CreatedAtNS int64      `json:"created_at_ns"`
}
