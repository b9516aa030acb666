package server

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// jobAnswer is a whole job. Times are RFC 3339 with nanoseconds, UTC.
type jobAnswer struct {
	ID               string            `json:"id"`
	Queue            string            `json:"queue"`
	State            string            `json:"state"`
	Payload          rawJSON           `json:"payload"`
	Priority         int               `json:"priority"`
	Attempt          int               `json:"attempt"`
	MaxRetries       int               `json:"max_retries"`
	RetryBackoff     string            `json:"retry_backoff"`
	RetryBaseDelayMS int64             `json:"retry_base_delay_ms"`
	RetryMaxDelayMS  int64             `json:"retry_max_delay_ms"`
	UniqueKey        string            `json:"unique_key,omitempty"`
	WorkerID         string            `json:"worker_id,omitempty"`
	Hostname         string            `json:"hostname,omitempty"`
	Tags             map[string]string `json:"tags,omitempty"`
	Progress         rawJSON           `json:"progress,omitempty"`
	Checkpoint       rawJSON           `json:"checkpoint,omitempty"`
	Result           rawJSON           `json:"result,omitempty"`
	LeaseExpiresAt   *time.Time        `json:"lease_expires_at,omitempty"`
	ScheduledAt      *time.Time        `json:"scheduled_at,omitempty"`
	ExpireAt         *time.Time        `json:"expire_at,omitempty"`
	CreatedAt        *time.Time        `json:"created_at"`
	StartedAt        *time.Time        `json:"started_at,omitempty"`
	CompletedAt      *time.Time        `json:"completed_at,omitempty"`
	FailedAt         *time.Time        `json:"failed_at,omitempty"`
	FinishedAt       *time.Time        `json:"finished_at,omitempty"` // Completed, dead or cancelled.
	Errors           []jobError        `json:"errors,omitempty"`
	Crashes          int               `json:"crashes,omitempty"`
	DeadReason       string            `json:"dead_reason,omitempty"`
	ParentID         string            `json:"parent_id,omitempty"`
	TraceParent      string            `json:"traceparent,omitempty"`
	HoldReason       string            `json:"hold_reason,omitempty"` // While it is held.
	Hold             *jobHold          `json:"hold,omitempty"`        // The latest, decided or not.
	BatchID          string            `json:"batch_id,omitempty"`
	ChainID          string            `json:"chain_id,omitempty"`
	ChainStep        *int              `json:"chain_step,omitempty"` // From 0; -1 is its on_exit job, -2 its on_failure job.
	DependsOn        []string          `json:"depends_on,omitempty"`
	DependencyPolicy string            `json:"on_dependency_failed,omitempty"`
	WaitingOn        int               `json:"waiting_on,omitempty"` // How many of depends_on have not ended.
	Timeline         []jobEvent        `json:"timeline,omitempty"`
	ScheduleID       string            `json:"schedule_id,omitempty"`
	Usage            *jobUsageAnswer   `json:"usage,omitempty"`
	Agent            *agentAnswer      `json:"agent,omitempty"`
}

type jobError struct {
	ID        int        `json:"id"`
	JobID     string     `json:"job_id"`
	Attempt   int        `json:"attempt"`
	Error     string     `json:"error"`
	Backtrace string     `json:"backtrace,omitempty"`
	CreatedAt *time.Time `json:"created_at"`
}

type jobEvent struct {
	Event   string     `json:"event"`
	At      *time.Time `json:"at"`
	Attempt int        `json:"attempt"`
}

type jobHold struct {
	Reason    string     `json:"reason"`
	By        string     `json:"by,omitempty"`
	At        *time.Time `json:"at"`
	Until     *time.Time `json:"until,omitempty"`
	Policy    string     `json:"policy,omitempty"`
	Approvers []string   `json:"approvers,omitempty"`
	Decision  string     `json:"decision,omitempty"`
	DecidedBy string     `json:"decided_by,omitempty"`
	Comment   string     `json:"comment,omitempty"`
	DecidedAt *time.Time `json:"decided_at,omitempty"`
}

func newJobAnswer(j *queue.Job) jobAnswer {
	id := j.ID.String()
	a := jobAnswer{
		ID: id, Queue: j.Queue, State: j.State.String(), Payload: orEmpty(j.Payload), Priority: int(j.Priority),
		Attempt: j.Attempt, MaxRetries: j.MaxRetries, RetryBackoff: j.RetryBackoff.String(),
		RetryBaseDelayMS: j.RetryBaseDelay.Milliseconds(), RetryMaxDelayMS: j.RetryMaxDelay.Milliseconds(),
		UniqueKey: j.UniqueKey, WorkerID: j.WorkerID, Hostname: j.Hostname, Tags: j.Tags,
		Progress: j.Progress, Checkpoint: j.Checkpoint, Result: j.Result,
		LeaseExpiresAt: optionalTime(j.LeaseExpiresAt), ScheduledAt: optionalTime(j.ScheduledAt),
		ExpireAt: optionalTime(j.ExpireAt), CreatedAt: optionalTime(j.CreatedAt), StartedAt: optionalTime(j.StartedAt),
		CompletedAt: optionalTime(j.CompletedAt), FailedAt: optionalTime(j.FailedAt), FinishedAt: optionalTime(j.FinishedAt),
		Crashes: j.Crashes, DeadReason: j.DeadReason, TraceParent: j.TraceParent, Usage: newJobUsageAnswer(j.Usage), Agent: newAgentAnswer(j.Agent),
	}
	a.ParentID, a.BatchID, a.ChainID, a.ChainStep = idOrNone(j.Parent), idOrNone(j.Batch), idOrNone(j.Chain), chainStep(&j.Places)
	a.ScheduleID = idOrNone(j.Schedule)
	a.DependencyPolicy, a.WaitingOn = j.OnDependencyFailed, j.WaitingOn
	for _, on := range j.DependsOn {
		a.DependsOn = append(a.DependsOn, on.String())
	}
	if h := j.Hold; h != nil {
		a.Hold = &jobHold{
			Reason: h.Reason, By: h.By, At: optionalTime(h.At), Until: optionalTime(h.Until), Policy: h.Policy, Approvers: h.Approvers,
			Decision: h.Decision, DecidedBy: h.DecidedBy, Comment: h.Comment, DecidedAt: optionalTime(h.DecidedAt),
		}
		if j.State == job.Held {
			a.HoldReason = h.Reason
		}
	}
	for i, e := range j.Errors {
		a.Errors = append(a.Errors, jobError{
			ID: i + 1, JobID: id, Attempt: e.Attempt, Error: e.Error, Backtrace: e.Backtrace, CreatedAt: optionalTime(e.At),
		})
	}
	for _, e := range j.Timeline {
		a.Timeline = append(a.Timeline, jobEvent{Event: e.Event, At: optionalTime(e.At), Attempt: e.Attempt})
	}
	return a
}

func (c *call) job() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	j, err := c.place.Local.Job(c.r.Context(), c.who.Caller, id)
	if err != nil {
		return err
	}
	return c.reply(newJobAnswer(&j))
}

func (c *call) deleteJob() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	if err := c.place.Local.Delete(c.r.Context(), c.who.Caller, id); err != nil {
		return err
	}
	return c.reply(statusAnswer{Status: "deleted"})
}

func (c *call) retryJob() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	if err := c.place.Local.Retry(c.r.Context(), c.who.Caller, id); err != nil {
		return err
	}
	return c.reply(statusAnswer{Status: "retried"})
}

func (c *call) cancelJob() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	state, err := c.place.Local.Cancel(c.r.Context(), c.who.Caller, id)
	if err != nil {
		return err
	}
	return c.reply(statusAnswer{Status: state.String()})
}

// queueAnswer is one queue; counts are exact.
type queueAnswer struct {
	Name           string `json:"name"`
	Paused         bool   `json:"paused"`
	Draining       bool   `json:"draining"`
	MaxConcurrency int    `json:"max_concurrency,omitempty"`
	RateLimit      int    `json:"rate_limit,omitempty"`
	RateWindowMS   int64  `json:"rate_window_ms,omitempty"`
	// Retry defaults, as far as the queue has some.
	MaxRetries       *int       `json:"max_retries,omitempty"`
	RetryBackoff     string     `json:"retry_backoff,omitempty"`
	RetryBaseDelayMS *int64     `json:"retry_base_delay_ms,omitempty"`
	RetryMaxDelayMS  *int64     `json:"retry_max_delay_ms,omitempty"`
	CreatedAt        *time.Time `json:"created_at"`
	Pending          int64      `json:"pending"`
	Active           int64      `json:"active"`
	Cancelling       int64      `json:"cancelling"`
	Held             int64      `json:"held"`
	Completed        int64      `json:"completed"`
	Dead             int64      `json:"dead"`
	Cancelled        int64      `json:"cancelled"`
	Scheduled        int64      `json:"scheduled"`
	Retrying         int64      `json:"retrying"`
	Enqueued         int64      `json:"enqueued"`
	Failed           int64      `json:"failed"`
	OldestPendingAt  *time.Time `json:"oldest_pending_at,omitempty"`
	ETag             string     `json:"etag"` // Of the settings.
}

func (c *call) queues() error {
	infos, err := c.place.Local.Queues(c.r.Context(), c.who.Caller)
	if err != nil {
		return err
	}
	out := make([]queueAnswer, len(infos))
	for i := range infos {
		out[i] = newQueueAnswer(&infos[i])
	}
	return c.reply(out)
}

func optionalMillis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

func newQueueAnswer(q *queue.QueueInfo) queueAnswer {
	return queueAnswer{
		Name: q.Name, Paused: q.Paused, CreatedAt: optionalTime(q.CreatedAt), MaxConcurrency: q.MaxConcurrency,
		RateLimit: q.Throttle.Limit, RateWindowMS: q.Throttle.Window.Milliseconds(), Draining: q.Draining,
		MaxRetries: q.Retry.MaxRetries, RetryBackoff: q.Retry.Backoff,
		RetryBaseDelayMS: optionalMillis(q.Retry.BaseDelay), RetryMaxDelayMS: optionalMillis(q.Retry.MaxDelay),
		Pending: q.Counts[job.Pending], Active: q.Counts[job.Active], Cancelling: q.Counts[job.Cancelling],
		Held: q.Counts[job.Held], Completed: q.Counts[job.Completed], Dead: q.Counts[job.Dead],
		Cancelled: q.Counts[job.Cancelled], Scheduled: q.Counts[job.Scheduled], Retrying: q.Counts[job.Retrying],
		Enqueued: q.Enqueued, Failed: q.Failed, OldestPendingAt: optionalTime(q.OldestPendingAt), ETag: queueETag(q.Fingerprint),
	}
}

func (c *call) pauseQueue() error {
	if err := c.place.Local.PauseQueue(c.r.Context(), c.who.Caller, c.r.PathValue("name")); err != nil {
		return err
	}
	return c.reply(statusAnswer{Status: "paused"})
}

func (c *call) resumeQueue() error {
	if err := c.place.Local.ResumeQueue(c.r.Context(), c.who.Caller, c.r.PathValue("name")); err != nil {
		return err
	}
	return c.reply(statusAnswer{Status: "resumed"})
}
