package wire

import (
	"encoding/json"
	"time"
)

// Enqueued is the superset both client generations read.
type Enqueued struct {
	JobID          string        `json:"job_id"`
	Status         EnqueueStatus `json:"status"`
	UniqueExisting bool          `json:"unique_existing"`
	UniqueJobID    string        `json:"unique_job_id,omitempty"`
	ChainID        string        `json:"chain_id,omitempty"`
	BatchID        string        `json:"batch_id,omitempty"`
	Job            JobRef        `json:"job"`
}

// JobRef names a job.
type JobRef struct {
	ID    string `json:"id"`
	Queue string `json:"queue"`
	// State is left out when the job existed before: it may be anything by now.
	State State `json:"state,omitempty"`
}

// EnqueuedBatch is the answer to many jobs: each as an id, a JobRef and an Enqueued, in their order.
type EnqueuedBatch struct {
	JobIDs  []string   `json:"job_ids"`
	Jobs    []JobRef   `json:"jobs"`
	Results []Enqueued `json:"results"`
	BatchID string     `json:"batch_id,omitempty"`
}

// FetchedJob is a fetched job.
type FetchedJob struct {
	JobID         string            `json:"job_id"`
	Queue         string            `json:"queue"`
	Payload       json.RawMessage   `json:"payload"`
	Attempt       int               `json:"attempt"`
	MaxRetries    int               `json:"max_retries"`
	LeaseDuration int               `json:"lease_duration"` // Seconds.
	Checkpoint    json.RawMessage   `json:"checkpoint,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	LeaseToken    string            `json:"lease_token,omitempty"`
	TraceParent   string            `json:"traceparent,omitempty"`
	ExpireAt      time.Time         `json:"expire_at,omitzero"`
	Agent         *Agent            `json:"agent,omitempty"`
	BatchID       string            `json:"batch_id,omitempty"`
	ChainID       string            `json:"chain_id,omitempty"`
	ChainStep     *int              `json:"chain_step,omitempty"` // From 0; -1 is its on_exit job, -2 its on_failure job.
}

// FetchedJobs are the jobs of a fetch of several.
type FetchedJobs struct {
	Jobs []FetchedJob `json:"jobs"`
	// Held says why there are none, if the tenant's plan lets no attempt begin.
	Held *DispatchHeld `json:"held,omitempty"`
}

// DispatchHeld is why no attempt of the tenant's jobs begins for now.
type DispatchHeld struct {
	Limit   string    `json:"limit"`
	Value   int64     `json:"value,omitempty"`
	OpensAt time.Time `json:"opens_at,omitzero"`
	Message string    `json:"message"`
}

// DispatchHeldHeader is on the answer of a fetch that found nothing because dispatch is held:
// the limit's name.
const DispatchHeldHeader = "Corvo-Dispatch-Held"

// Job is a whole job. Times are RFC 3339 with nanoseconds, UTC.
type Job struct {
	ID               string            `json:"id"`
	Queue            string            `json:"queue"`
	State            State             `json:"state"`
	Payload          json.RawMessage   `json:"payload"`
	Priority         int               `json:"priority"`
	Attempt          int               `json:"attempt"`
	MaxRetries       int               `json:"max_retries"`
	RetryBackoff     Backoff           `json:"retry_backoff"`
	RetryBaseDelayMS int64             `json:"retry_base_delay_ms"`
	RetryMaxDelayMS  int64             `json:"retry_max_delay_ms"`
	UniqueKey        string            `json:"unique_key,omitempty"`
	WorkerID         string            `json:"worker_id,omitempty"`
	Hostname         string            `json:"hostname,omitempty"`
	Tags             map[string]string `json:"tags,omitempty"`
	Progress         json.RawMessage   `json:"progress,omitempty"`
	Checkpoint       json.RawMessage   `json:"checkpoint,omitempty"`
	Result           json.RawMessage   `json:"result,omitempty"`
	LeaseExpiresAt   time.Time         `json:"lease_expires_at,omitzero"`
	ScheduledAt      time.Time         `json:"scheduled_at,omitzero"`
	ExpireAt         time.Time         `json:"expire_at,omitzero"`
	CreatedAt        time.Time         `json:"created_at"`
	StartedAt        time.Time         `json:"started_at,omitzero"`
	CompletedAt      time.Time         `json:"completed_at,omitzero"`
	FailedAt         time.Time         `json:"failed_at,omitzero"`
	FinishedAt       time.Time         `json:"finished_at,omitzero"` // Completed, dead or cancelled.
	// RetainedUntil is when a finished job is deleted, at the latest.
	RetainedUntil    time.Time        `json:"retained_until,omitzero"`
	Errors           []JobError       `json:"errors,omitempty"`
	Crashes          int              `json:"crashes,omitempty"`
	DeadReason       DeadReason       `json:"dead_reason,omitempty"`
	ParentID         string           `json:"parent_id,omitempty"`
	TraceParent      string           `json:"traceparent,omitempty"`
	HoldReason       string           `json:"hold_reason,omitempty"` // While it is held.
	Hold             *Hold            `json:"hold,omitempty"`        // The latest, decided or not.
	BatchID          string           `json:"batch_id,omitempty"`
	ChainID          string           `json:"chain_id,omitempty"`
	ChainStep        *int             `json:"chain_step,omitempty"` // From 0; -1 is its on_exit job, -2 its on_failure job.
	DependsOn        []string         `json:"depends_on,omitempty"`
	DependencyPolicy DependencyPolicy `json:"on_dependency_failed,omitempty"`
	WaitingOn        int              `json:"waiting_on,omitempty"` // How many of depends_on have not ended.
	Timeline         []JobEvent       `json:"timeline,omitempty"`
	ScheduleID       string           `json:"schedule_id,omitempty"`
	Usage            *JobUsage        `json:"usage,omitempty"`
	Agent            *Agent           `json:"agent,omitempty"`
	// Redacted: this credential lacks payload.read, so what the job carries is left out.
	Redacted bool `json:"redacted,omitempty"`
}

// JobError is a failed attempt.
type JobError struct {
	ID        int       `json:"id"`
	JobID     string    `json:"job_id"`
	Attempt   int       `json:"attempt"`
	Error     string    `json:"error"`
	Backtrace string    `json:"backtrace,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// JobEvent is a line of the short history that a job carries.
type JobEvent struct {
	Event   EventType `json:"event"`
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
}

// Hold is why a job waits or waited for a person, and what was decided.
type Hold struct {
	Reason    string    `json:"reason"`
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at"`
	Until     time.Time `json:"until,omitzero"`
	Policy    string    `json:"policy,omitempty"`
	Approvers []string  `json:"approvers,omitempty"`
	Decision  Decision  `json:"decision,omitempty"`
	DecidedBy string    `json:"decided_by,omitempty"`
	Comment   string    `json:"comment,omitempty"`
	DecidedAt time.Time `json:"decided_at,omitzero"`
}

// Agent is where an agent job stands.
type Agent struct {
	MaxIterations    int     `json:"max_iterations,omitempty"`
	MaxCostUSD       Dollars `json:"max_cost_usd,omitempty"`
	IterationTimeout string  `json:"iteration_timeout,omitempty"`
	Iteration        int     `json:"iteration"`
	TotalCostUSD     Dollars `json:"total_cost_usd"`
}

// Jobs are whole jobs.
type Jobs struct {
	Jobs []Job `json:"jobs"`
}

// Timeline is the life of a job.
type Timeline struct {
	Events []TimelineEvent `json:"events"`
	// Truncated: a long life keeps its first line and the latest.
	Truncated bool  `json:"truncated,omitempty"`
	LagMS     int64 `json:"lag_ms"`
	// Redacted: the texts of errors are left out; see Job.
	Redacted bool `json:"redacted,omitempty"`
}

// TimelineEvent is a line of a timeline.
type TimelineEvent struct {
	Seq      int           `json:"seq"`
	Type     EventType     `json:"type"`
	At       time.Time     `json:"at"`
	Attempt  int           `json:"attempt,omitempty"`
	WorkerID string        `json:"worker_id,omitempty"`
	Error    string        `json:"error,omitempty"`
	Data     *TimelineData `json:"data,omitempty"`
}

// TimelineData is what some of its lines say beside.
type TimelineData struct {
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// IterationList is a page of iterations.
type IterationList struct {
	Iterations []Iteration `json:"iterations"`
	HasMore    bool        `json:"has_more"`
}

// Iteration is one finished iteration; its id is its number.
type Iteration struct {
	ID         int             `json:"id"`
	JobID      string          `json:"job_id"`
	Iteration  int             `json:"iteration"`
	Status     AgentStatus     `json:"status"` // continue, done or hold.
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	HoldReason string          `json:"hold_reason,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Model      string          `json:"model,omitempty"`
	Provider   string          `json:"provider,omitempty"`
	Usage
	CreatedAt time.Time `json:"created_at"`
	// Redacted: checkpoint and result are left out; see Job.
	Redacted bool `json:"redacted,omitempty"`
}

// Why says why a job does not run.
type Why struct {
	JobID   string      `json:"job_id"`
	State   State       `json:"state"`
	Reasons []WhyReason `json:"reasons"`
	// ETA is when nothing stands in its way any more, where time alone decides.
	ETA time.Time `json:"eta,omitzero"`
}

// WhyReason is one thing that stands in the way.
type WhyReason struct {
	Code    WhyCode        `json:"code"`
	Message string         `json:"message"`
	Until   time.Time      `json:"until,omitzero"`
	Detail  map[string]any `json:"detail"`
}
