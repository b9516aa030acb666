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
	CreatedAt        *time.Time        `json:"created_at"`
	StartedAt        *time.Time        `json:"started_at,omitempty"`
	CompletedAt      *time.Time        `json:"completed_at,omitempty"`
	FailedAt         *time.Time        `json:"failed_at,omitempty"`
	Errors           []jobError        `json:"errors,omitempty"`
	Crashes          int               `json:"crashes,omitempty"`
	DeadReason       string            `json:"dead_reason,omitempty"`
	Timeline         []jobEvent        `json:"timeline,omitempty"`
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

func newJobAnswer(j *queue.Job) jobAnswer {
	id := j.ID.String()
	a := jobAnswer{
		ID: id, Queue: j.Queue, State: j.State.String(), Payload: orEmpty(j.Payload), Priority: int(j.Priority),
		Attempt: j.Attempt, MaxRetries: j.MaxRetries, RetryBackoff: j.RetryBackoff.String(),
		RetryBaseDelayMS: j.RetryBaseDelay.Milliseconds(), RetryMaxDelayMS: j.RetryMaxDelay.Milliseconds(),
		UniqueKey: j.UniqueKey, WorkerID: j.WorkerID, Hostname: j.Hostname, Tags: j.Tags,
		Progress: j.Progress, Checkpoint: j.Checkpoint, Result: j.Result,
		LeaseExpiresAt: optionalTime(j.LeaseExpiresAt), ScheduledAt: optionalTime(j.ScheduledAt),
		CreatedAt: optionalTime(j.CreatedAt), StartedAt: optionalTime(j.StartedAt),
		CompletedAt: optionalTime(j.CompletedAt), FailedAt: optionalTime(j.FailedAt),
		Crashes: j.Crashes, DeadReason: j.DeadReason,
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
	Name            string     `json:"name"`
	Paused          bool       `json:"paused"`
	CreatedAt       *time.Time `json:"created_at"`
	Pending         int64      `json:"pending"`
	Active          int64      `json:"active"`
	Cancelling      int64      `json:"cancelling"`
	Held            int64      `json:"held"`
	Completed       int64      `json:"completed"`
	Dead            int64      `json:"dead"`
	Cancelled       int64      `json:"cancelled"`
	Scheduled       int64      `json:"scheduled"`
	Retrying        int64      `json:"retrying"`
	Enqueued        int64      `json:"enqueued"`
	Failed          int64      `json:"failed"`
	OldestPendingAt *time.Time `json:"oldest_pending_at,omitempty"`
}

func (c *call) queues() error {
	infos, err := c.place.Local.Queues(c.r.Context(), c.who.Caller)
	if err != nil {
		return err
	}
	out := make([]queueAnswer, len(infos))
	for i, q := range infos {
		out[i] = queueAnswer{
			Name: q.Name, Paused: q.Paused, CreatedAt: optionalTime(q.CreatedAt),
			Pending: q.Counts[job.Pending], Active: q.Counts[job.Active], Cancelling: q.Counts[job.Cancelling],
			Held: q.Counts[job.Held], Completed: q.Counts[job.Completed], Dead: q.Counts[job.Dead],
			Cancelled: q.Counts[job.Cancelled], Scheduled: q.Counts[job.Scheduled], Retrying: q.Counts[job.Retrying],
			Enqueued: q.Enqueued, Failed: q.Failed, OldestPendingAt: optionalTime(q.OldestPendingAt),
		}
	}
	return c.reply(out)
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
