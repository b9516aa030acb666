package wire

import (
	"time"
)

// Queue is one queue; counts are exact.
type Queue struct {
	Name           string `json:"name"`
	Paused         bool   `json:"paused"`
	Draining       bool   `json:"draining"`
	MaxConcurrency int    `json:"max_concurrency,omitempty"`
	RateLimit      int    `json:"rate_limit,omitempty"`
	RateWindowMS   int64  `json:"rate_window_ms,omitempty"`
	// Retry defaults, as far as the queue has some.
	MaxRetries       *int    `json:"max_retries,omitempty"`
	RetryBackoff     Backoff `json:"retry_backoff,omitempty"`
	RetryBaseDelayMS *int64  `json:"retry_base_delay_ms,omitempty"`
	RetryMaxDelayMS  *int64  `json:"retry_max_delay_ms,omitempty"`
	// Retention is what was set for this queue, InheritedRetention what counts where nothing
	// is, RetentionMax the most that the plan keeps, and EffectiveRetention what counts.
	Retention          *QueueRetention `json:"retention,omitempty"`
	InheritedRetention QueueRetention  `json:"inherited_retention"`
	RetentionMax       *QueueRetention `json:"retention_max,omitempty"`
	EffectiveRetention QueueRetention  `json:"effective_retention"`
	CreatedAt          time.Time       `json:"created_at"`
	Pending            int64           `json:"pending"`
	Active             int64           `json:"active"`
	Cancelling         int64           `json:"cancelling"`
	Held               int64           `json:"held"`
	Completed          int64           `json:"completed"`
	Dead               int64           `json:"dead"`
	Cancelled          int64           `json:"cancelled"`
	Scheduled          int64           `json:"scheduled"`
	Retrying           int64           `json:"retrying"`
	Enqueued           int64           `json:"enqueued"`
	Failed             int64           `json:"failed"`
	OldestPendingAt    time.Time       `json:"oldest_pending_at,omitzero"`
	ETag               string          `json:"etag"` // Of the settings.
}

// QueueRetention is how long the finished jobs of a queue are kept, by how long ago they ended,
// and how many of them at most. What is left out is the namespace's, or no limit.
type QueueRetention struct {
	CompletedMS int64 `json:"completed_ms,omitempty"`
	DeadMS      int64 `json:"dead_ms,omitempty"`
	CancelledMS int64 `json:"cancelled_ms,omitempty"`
	FinishedMax int64 `json:"finished_max,omitempty"`
}

// Drained is the answer to a drain.
type Drained struct {
	Status string `json:"status"`
	// Remaining are the jobs that are still to run or running.
	Remaining int64 `json:"remaining"`
}

// Cleared is the answer to a clear.
type Cleared struct {
	Status  string `json:"status"`
	Removed int64  `json:"removed"` // Jobs; those that workers hold stay.
}

// Requeued is the answer to a requeue.
type Requeued struct {
	Status   string `json:"status"`
	Requeued int64  `json:"requeued"` // Jobs that were dead and are pending.
}
