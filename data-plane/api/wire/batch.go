package wire

import (
	"time"
)

// Batch is a batch; its numbers are exact.
type Batch struct {
	ID            string      `json:"id"`
	Status        BatchStatus `json:"status"` // open, sealed or finished.
	Total         int64       `json:"total"`
	Open          int64       `json:"open"` // Of its jobs, those that have not ended.
	Completed     int64       `json:"completed"`
	Dead          int64       `json:"dead"`
	Cancelled     int64       `json:"cancelled"`
	Deleted       int64       `json:"deleted"`
	CallbackQueue string      `json:"callback_queue,omitempty"`
	CallbackJobID string      `json:"callback_job_id,omitempty"`
	CreatedAt     time.Time   `json:"created_at"`
	FinishedAt    time.Time   `json:"finished_at,omitzero"`
}

// BatchMade is a batch that was opened.
type BatchMade struct {
	BatchID string `json:"batch_id"`
	Batch   Batch  `json:"batch"`
}

// BatchPage is a batch with a page of its jobs.
type BatchPage struct {
	Batch   Batch         `json:"batch"`
	Members []BatchMember `json:"members"`
	Cursor  string        `json:"cursor"`
	HasMore bool          `json:"has_more"`
}

// BatchMember is a job of a batch.
type BatchMember struct {
	JobID   string       `json:"job_id"`
	Queue   string       `json:"queue,omitempty"`   // Left out of a job that is gone.
	State   State        `json:"state,omitempty"`   // Left out of a job that is gone.
	Outcome BatchOutcome `json:"outcome,omitempty"` // As the batch counts it: completed, dead, cancelled or deleted.
}

// BatchList is a page of batches.
type BatchList struct {
	Batches []Batch `json:"batches"`
	Cursor  string  `json:"cursor"`
	HasMore bool    `json:"has_more"`
}
