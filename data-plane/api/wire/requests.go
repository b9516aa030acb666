package wire

import (
	"encoding/json"
	"time"
)

// EnqueueRequest is POST /api/v1/enqueue. Durations are texts such as "1m30s".
type EnqueueRequest struct {
	Queue              string            `json:"queue"`
	Payload            json.RawMessage   `json:"payload,omitempty"`
	Checkpoint         json.RawMessage   `json:"checkpoint,omitempty"`
	Priority           Priority          `json:"priority,omitempty"`
	MaxRetries         *int              `json:"max_retries,omitempty"`
	RetryBackoff       Backoff           `json:"retry_backoff,omitempty"`
	RetryBaseDelay     string            `json:"retry_base_delay,omitempty"`
	RetryMaxDelay      string            `json:"retry_max_delay,omitempty"`
	ScheduledAt        time.Time         `json:"scheduled_at,omitzero"`
	Delay              string            `json:"delay,omitempty"`
	ExpireAfter        string            `json:"expire_after,omitempty"`
	Tags               map[string]string `json:"tags,omitempty"`
	UniqueKey          string            `json:"unique_key,omitempty"`
	UniquePeriod       int64             `json:"unique_period,omitempty"` // Seconds.
	IdempotencyKey     string            `json:"idempotency_key,omitempty"`
	TraceParent        string            `json:"traceparent,omitempty"`
	ParentID           string            `json:"parent_id,omitempty"`
	Agent              *AgentConfig      `json:"agent,omitempty"`
	Chain              *ChainRequest     `json:"chain,omitempty"`
	DependsOn          []string          `json:"depends_on,omitempty"`
	OnDependencyFailed DependencyPolicy  `json:"on_dependency_failed,omitempty"`
	BatchID            string            `json:"batch_id,omitempty"`
}

// AgentConfig makes a job one of an agent. 0 is no limit.
type AgentConfig struct {
	MaxIterations    int     `json:"max_iterations,omitempty"`
	MaxCostUSD       Dollars `json:"max_cost_usd,omitempty"`
	IterationTimeout string  `json:"iteration_timeout,omitempty"`
}

// ChainRequest is the steps that run after a job, which is the first of them.
type ChainRequest struct {
	Steps []ChainStep `json:"steps"`
	// OnFailure is a ChainStep, or "stop" or "continue".
	OnFailure json.RawMessage `json:"on_failure,omitempty"`
	OnExit    *ChainStep      `json:"on_exit,omitempty"`
}

// ChainStep is a job of a chain.
type ChainStep struct {
	Queue   string          `json:"queue,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// EnqueueBatchRequest is POST /api/v1/enqueue/batch.
type EnqueueBatchRequest struct {
	Jobs  []EnqueueRequest `json:"jobs"`
	Batch *BatchOptions    `json:"batch,omitempty"`
}

// BatchOptions makes jobs a batch; Open is for jobs that are enqueued with it.
type BatchOptions struct {
	CallbackQueue   string          `json:"callback_queue,omitempty"`
	CallbackPayload json.RawMessage `json:"callback_payload,omitempty"`
	Open            bool            `json:"open,omitempty"`
}

// FetchRequest is POST /api/v1/fetch and /api/v1/fetch/batch. Lease and Wait are texts
// such as "30s".
type FetchRequest struct {
	Queues   []string `json:"queues"`
	WorkerID string   `json:"worker_id,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	Count    int      `json:"count,omitempty"`
	Lease    string   `json:"lease,omitempty"`
	Wait     string   `json:"wait,omitempty"`
}

// UsageReport is what a model was used for.
type UsageReport struct {
	InputTokens         int64     `json:"input_tokens,omitempty"`
	OutputTokens        int64     `json:"output_tokens,omitempty"`
	CacheCreationTokens int64     `json:"cache_creation_tokens,omitempty"`
	CacheReadTokens     int64     `json:"cache_read_tokens,omitempty"`
	CostUSD             Dollars   `json:"cost_usd,omitempty"`
	Model               string    `json:"model,omitempty"`
	Provider            string    `json:"provider,omitempty"`
	Kind                UsageKind `json:"kind,omitempty"`
}

// AckRequest is POST /api/v1/ack/{id}.
type AckRequest struct {
	Result      json.RawMessage `json:"result,omitempty"`
	Checkpoint  json.RawMessage `json:"checkpoint,omitempty"`
	LeaseToken  string          `json:"lease_token,omitempty"`
	WorkerID    string          `json:"worker_id,omitempty"` // Needed without a lease token.
	Usage       *UsageReport    `json:"usage,omitempty"`
	AgentStatus AgentStatus     `json:"agent_status,omitempty"`
	HoldReason  string          `json:"hold_reason,omitempty"`
	StepStatus  StepStatus      `json:"step_status,omitempty"`
	ExitReason  string          `json:"exit_reason,omitempty"`
}

// AckBatchRequest is POST /api/v1/ack/batch.
type AckBatchRequest struct {
	Acks     []AckBatchItem `json:"acks"`
	WorkerID string         `json:"worker_id,omitempty"`
}

// AckBatchItem is one job of it.
type AckBatchItem struct {
	JobID string `json:"job_id"`
	AckRequest
}

// FailRequest is POST /api/v1/fail/{id}.
type FailRequest struct {
	Error      string       `json:"error,omitempty"`
	Backtrace  string       `json:"backtrace,omitempty"`
	LeaseToken string       `json:"lease_token,omitempty"`
	WorkerID   string       `json:"worker_id,omitempty"` // Needed without a lease token.
	Release    bool         `json:"release,omitempty"`   // Give the job back without counting the attempt.
	Terminal   bool         `json:"terminal,omitempty"`  // Do not retry.
	Delay      string       `json:"delay,omitempty"`     // Before the next attempt, instead of the backoff.
	Usage      *UsageReport `json:"usage,omitempty"`
}

// HeartbeatRequest is POST /api/v1/heartbeat.
type HeartbeatRequest struct {
	Jobs     map[string]HeartbeatJob `json:"jobs"` // By id.
	WorkerID string                  `json:"worker_id,omitempty"`
	Lease    string                  `json:"lease,omitempty"`
}

// HeartbeatJob is what a worker says about one of its jobs.
type HeartbeatJob struct {
	Progress   json.RawMessage `json:"progress,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	LeaseToken string          `json:"lease_token,omitempty"`
	Usage      *UsageReport    `json:"usage,omitempty"`
}

// JobSearchRequest is POST /api/v1/jobs/search, and the filter of a BulkRequest.
type JobSearchRequest struct {
	Queue           string            `json:"queue,omitempty"`
	ErrorGroup      string            `json:"error_group,omitempty"`
	State           []State           `json:"state,omitempty"`
	Tags            map[string]string `json:"tags,omitempty"`
	Priority        Priority          `json:"priority,omitempty"`
	WorkerID        string            `json:"worker_id,omitempty"`
	CreatedAfter    time.Time         `json:"created_after,omitzero"`
	CreatedBefore   time.Time         `json:"created_before,omitzero"`
	ScheduledAfter  time.Time         `json:"scheduled_after,omitzero"`
	ScheduledBefore time.Time         `json:"scheduled_before,omitzero"`
	StartedAfter    time.Time         `json:"started_after,omitzero"`
	StartedBefore   time.Time         `json:"started_before,omitzero"`
	CompletedAfter  time.Time         `json:"completed_after,omitzero"`
	CompletedBefore time.Time         `json:"completed_before,omitzero"`
	AttemptMin      *int              `json:"attempt_min,omitempty"`
	AttemptMax      *int              `json:"attempt_max,omitempty"`
	HasErrors       *bool             `json:"has_errors,omitempty"`
	Sort            string            `json:"sort,omitempty"`
	Order           string            `json:"order,omitempty"` // desc or asc.
	Limit           int               `json:"limit,omitempty"`
	Cursor          string            `json:"cursor,omitempty"`
}

// BulkRequest is POST /api/v1/jobs/bulk: either ids or a filter.
type BulkRequest struct {
	JobIDs      []string          `json:"job_ids,omitempty"`
	Filter      *JobSearchRequest `json:"filter,omitempty"`
	Action      BulkAction        `json:"action"`
	MoveToQueue string            `json:"move_to_queue,omitempty"`
	Priority    Priority          `json:"priority,omitempty"`
	Async       bool              `json:"async,omitempty"`
}

// QueueRequest is PUT /api/v1/queues/{name}: the whole of its settings. What is left out
// has no limit, or the default of the engine; Paused that is left out stays as it is.
type QueueRequest struct {
	Paused           *bool           `json:"paused,omitempty"`
	MaxConcurrency   int             `json:"max_concurrency,omitempty"`
	Throttle         *QueueThrottle  `json:"throttle,omitempty"`
	MaxRetries       *int            `json:"max_retries,omitempty"`
	RetryBackoff     Backoff         `json:"retry_backoff,omitempty"`
	RetryBaseDelayMS *int64          `json:"retry_base_delay_ms,omitempty"`
	RetryMaxDelayMS  *int64          `json:"retry_max_delay_ms,omitempty"`
	Retention        *QueueRetention `json:"retention,omitempty"`
}

// QueueThrottle is how many jobs can start in a window of time.
type QueueThrottle struct {
	Limit    int   `json:"limit"`
	WindowMS int64 `json:"window_ms"`
}

// ScheduleRequest is POST /api/v1/schedules, and PUT of one: the whole schedule.
type ScheduleRequest struct {
	Name           string            `json:"name"`
	Cron           string            `json:"cron"`
	Timezone       string            `json:"timezone,omitempty"`
	Queue          string            `json:"queue"`
	Payload        json.RawMessage   `json:"payload,omitempty"`
	Priority       Priority          `json:"priority,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
	MaxRetries     *int              `json:"max_retries,omitempty"`
	RetryBackoff   Backoff           `json:"retry_backoff,omitempty"`
	RetryBaseDelay string            `json:"retry_base_delay,omitempty"`
	RetryMaxDelay  string            `json:"retry_max_delay,omitempty"`
	UniqueKey      string            `json:"unique_key,omitempty"`
	UniquePeriod   int64             `json:"unique_period,omitempty"` // Seconds.
	ExpireAfter    string            `json:"expire_after,omitempty"`
	Jitter         string            `json:"jitter,omitempty"`
	Overlap        Overlap           `json:"overlap,omitempty"`
	CatchUp        CatchUp           `json:"catch_up,omitempty"`
	Paused         *bool             `json:"paused,omitempty"` // Left out: it stays as it is.
}

// BudgetRequest is POST /api/v1/budgets.
type BudgetRequest struct {
	Scope     BudgetScope `json:"scope"`
	Target    string      `json:"target,omitempty"`
	DailyUSD  Dollars     `json:"daily_usd,omitempty"`
	PerJobUSD Dollars     `json:"per_job_usd,omitempty"`
	OnExceed  OnExceed    `json:"on_exceed,omitempty"`
}

// ApprovalPolicyRequest is POST /api/v1/approval-policies.
type ApprovalPolicyRequest struct {
	ID           string     `json:"id,omitempty"`
	Name         string     `json:"name"`
	Mode         PolicyMode `json:"mode,omitempty"`
	Enabled      *bool      `json:"enabled,omitempty"` // Left out: true.
	Queue        string     `json:"queue,omitempty"`
	TagKey       string     `json:"tag_key,omitempty"`
	TagValue     string     `json:"tag_value,omitempty"`
	Approvers    []string   `json:"approvers,omitempty"`
	ExpiresAfter string     `json:"expires_after,omitempty"`
	OnExpire     OnExpire   `json:"on_expire,omitempty"`
}
