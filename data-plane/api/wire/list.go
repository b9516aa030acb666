package wire

import (
	"encoding/json"
	"time"
)

// Page is what lists say beside their jobs. What they show was true at AsOf.
type Page struct {
	Cursor     string `json:"cursor"`
	HasMore    bool   `json:"has_more"`
	LagMS      int64  `json:"lag_ms"`
	Rebuilding bool   `json:"rebuilding"`
	// Rebuild is there while Rebuilding, once it has begun.
	Rebuild    *Rebuild   `json:"rebuild,omitempty"`
	AsOf       *time.Time `json:"as_of"`
	DurationMS int64      `json:"duration_ms"`
}

// Rebuild is how far a rebuild is. JobsTotal is what there was when it began.
type Rebuild struct {
	JobsDone  uint64 `json:"jobs_done"`
	JobsTotal uint64 `json:"jobs_total"`
}

// JobRow is a job in a list: what describes it, never what it carries.
type JobRow struct {
	ID          string            `json:"id"`
	Queue       string            `json:"queue"`
	State       State             `json:"state"`
	Priority    int               `json:"priority"`
	Attempt     int               `json:"attempt"`
	MaxRetries  int               `json:"max_retries"`
	Crashes     int               `json:"crashes,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	ScheduledAt time.Time         `json:"scheduled_at,omitzero"`
	StartedAt   time.Time         `json:"started_at,omitzero"`
	CompletedAt time.Time         `json:"completed_at,omitzero"`
	FailedAt    time.Time         `json:"failed_at,omitzero"`
	WorkerID    string            `json:"worker_id,omitempty"`
	LastError   string            `json:"last_error,omitempty"`
	DeadReason  DeadReason        `json:"dead_reason,omitempty"`
	HoldReason  string            `json:"hold_reason,omitempty"`
	// Redacted: the last error, and the payload of a search, are left out; see Job.
	Redacted bool `json:"redacted,omitempty"`
}

// JobList is a page of jobs.
type JobList struct {
	Jobs []JobRow `json:"jobs"`
	Page
}

// FoundJob is a job that a search found: a row, and what never changes about it.
type FoundJob struct {
	JobRow
	// Payload is null where PayloadOmitted says that it did not fit into the answer.
	Payload        json.RawMessage `json:"payload"`
	PayloadOmitted bool            `json:"payload_omitted,omitempty"`
	UniqueKey      string          `json:"unique_key,omitempty"`
	BatchID        string          `json:"batch_id,omitempty"`
	ParentID       string          `json:"parent_id,omitempty"`
	ChainID        string          `json:"chain_id,omitempty"`
	ChainStep      *int            `json:"chain_step,omitempty"`
}

// JobSearch is a page of what was searched for. Total is of all pages; without
// TotalExact there are at least so many.
type JobSearch struct {
	Jobs       []FoundJob `json:"jobs"`
	Total      int        `json:"total"`
	TotalExact bool       `json:"total_exact"`
	Page
}

// ErrorGroup is the dead jobs of one queue that died of one cause.
type ErrorGroup struct {
	ID    string `json:"id"` // For error_group of lists, searches and bulk actions.
	Queue string `json:"queue"`
	// Error has … for what varies; without one dead_reason tells.
	Error      string      `json:"error,omitempty"`
	DeadReason DeadReason  `json:"dead_reason"`
	Count      int64       `json:"count"`
	FirstAt    *time.Time  `json:"first_at"` // When the first of them died.
	LastAt     *time.Time  `json:"last_at"`
	Sample     ErrorSample `json:"sample"`
}

// ErrorSample is the job of a group that died last.
type ErrorSample struct {
	JobID string `json:"job_id"`
	Error string `json:"error,omitempty"`
}

// ErrorGroupList is the largest groups, and how many there are in all.
type ErrorGroupList struct {
	Groups      []ErrorGroup `json:"groups"`
	TotalGroups int          `json:"total_groups"`
	TotalJobs   int64        `json:"total_jobs"` // Dead jobs of all groups.
	// TotalExact: the counts are those of now, neither late nor being rebuilt.
	TotalExact bool       `json:"total_exact"`
	HasMore    bool       `json:"has_more"` // Smaller groups were left out.
	LagMS      int64      `json:"lag_ms"`
	Rebuilding bool       `json:"rebuilding"`
	Rebuild    *Rebuild   `json:"rebuild,omitempty"`
	AsOf       *time.Time `json:"as_of"`
	DurationMS int64      `json:"duration_ms"`
}

// Worker is one worker as existing clients read it: queues is text that holds
// a JSON array.
type Worker struct {
	ID            string    `json:"id"`
	Hostname      string    `json:"hostname"`
	Queues        string    `json:"queues"`
	LastHeartbeat time.Time `json:"last_heartbeat"`
	StartedAt     time.Time `json:"started_at"`
}

// Minute is one bucket of the throughput.
type Minute struct {
	Minute    time.Time `json:"minute"`
	Enqueued  int64     `json:"enqueued"`
	Completed int64     `json:"completed"`
	Failed    int64     `json:"failed"`
}
