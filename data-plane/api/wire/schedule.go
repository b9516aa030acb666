package wire

import (
	"encoding/json"
	"time"
)

// Schedule is a schedule. What its queue decides is left out.
type Schedule struct {
	ID               string            `json:"id"`
	Name             string            `json:"name"`
	Cron             string            `json:"cron"`
	Timezone         string            `json:"timezone"`
	Queue            string            `json:"queue"`
	Payload          json.RawMessage   `json:"payload"`
	Priority         Priority          `json:"priority"`
	Tags             map[string]string `json:"tags,omitempty"`
	MaxRetries       *int              `json:"max_retries,omitempty"`
	RetryBackoff     Backoff           `json:"retry_backoff,omitempty"`
	RetryBaseDelayMS *int64            `json:"retry_base_delay_ms,omitempty"`
	RetryMaxDelayMS  *int64            `json:"retry_max_delay_ms,omitempty"`
	UniqueKey        string            `json:"unique_key,omitempty"`
	UniquePeriod     int64             `json:"unique_period,omitempty"`
	ExpireAfter      string            `json:"expire_after,omitempty"`
	Jitter           string            `json:"jitter,omitempty"`
	Overlap          Overlap           `json:"overlap"`
	CatchUp          CatchUp           `json:"catch_up"`
	Paused           bool              `json:"paused"`
	NextRunAt        *time.Time        `json:"next_run_at"`
	NextRuns         []time.Time       `json:"next_runs,omitempty"`
	LastRunAt        *time.Time        `json:"last_run_at"`
	LastJobID        string            `json:"last_job_id,omitempty"`
	Missed           uint64            `json:"missed"`
	CreatedAt        time.Time         `json:"created_at"`
	UpdatedAt        time.Time         `json:"updated_at"`
	// Redacted: the payload is left out; see Job.
	Redacted bool `json:"redacted,omitempty"`
}

// ScheduleList is a page of schedules.
type ScheduleList struct {
	Schedules []Schedule `json:"schedules"`
	Cursor    string     `json:"cursor"`
	HasMore   bool       `json:"has_more"`
}

// SchedulePreview is when an expression would run.
type SchedulePreview struct {
	NextRuns []time.Time `json:"next_runs"`
}

// ScheduleRun is the job of a run now.
type ScheduleRun struct {
	JobID  string        `json:"job_id"`
	Status EnqueueStatus `json:"status"`
}
