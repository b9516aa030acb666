package server

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

func newJobAnswer(j *queue.Job) wire.Job {
	id := j.ID.String()
	a := wire.Job{
		ID: id, Queue: j.Queue, State: stateOf(j.State), Payload: orEmpty(j.Payload), Priority: int(j.Priority),
		Attempt: j.Attempt, MaxRetries: j.MaxRetries, RetryBackoff: wire.Backoff(j.RetryBackoff.String()),
		RetryBaseDelayMS: j.RetryBaseDelay.Milliseconds(), RetryMaxDelayMS: j.RetryMaxDelay.Milliseconds(),
		UniqueKey: j.UniqueKey, WorkerID: j.WorkerID, Hostname: j.Hostname, Tags: j.Tags,
		Progress: j.Progress, Checkpoint: j.Checkpoint, Result: j.Result,
		LeaseExpiresAt: j.LeaseExpiresAt.UTC(), ScheduledAt: j.ScheduledAt.UTC(),
		ExpireAt: j.ExpireAt.UTC(), CreatedAt: j.CreatedAt.UTC(), StartedAt: j.StartedAt.UTC(),
		CompletedAt: j.CompletedAt.UTC(), FailedAt: j.FailedAt.UTC(), FinishedAt: j.FinishedAt.UTC(),
		Crashes: j.Crashes, DeadReason: wire.DeadReason(j.DeadReason), TraceParent: j.TraceParent, Usage: newJobUsageAnswer(j.Usage), Agent: newAgentAnswer(j.Agent),
	}
	a.ParentID, a.BatchID, a.ChainID, a.ChainStep = idOrNone(j.Parent), idOrNone(j.Batch), idOrNone(j.Chain), chainStep(&j.Places)
	a.ScheduleID = idOrNone(j.Schedule)
	a.DependencyPolicy, a.WaitingOn = wire.DependencyPolicy(j.OnDependencyFailed), j.WaitingOn
	for _, on := range j.DependsOn {
		a.DependsOn = append(a.DependsOn, on.String())
	}
	if h := j.Hold; h != nil {
		a.Hold = &wire.Hold{
			Reason: h.Reason, By: h.By, At: h.At.UTC(), Until: h.Until.UTC(), Policy: h.Policy, Approvers: h.Approvers,
			Decision: wire.Decision(h.Decision), DecidedBy: h.DecidedBy, Comment: h.Comment, DecidedAt: h.DecidedAt.UTC(),
		}
		if j.State == job.Held {
			a.HoldReason = h.Reason
		}
	}
	for i, e := range j.Errors {
		a.Errors = append(a.Errors, wire.JobError{
			ID: i + 1, JobID: id, Attempt: e.Attempt, Error: e.Error, Backtrace: e.Backtrace, CreatedAt: e.At.UTC(),
		})
	}
	for _, e := range j.Timeline {
		a.Timeline = append(a.Timeline, wire.JobEvent{Event: wire.EventType(e.Event), At: e.At.UTC(), Attempt: e.Attempt})
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
	return c.done("deleted", c.place.Local.Delete(c.r.Context(), c.who.Caller, id))
}

func (c *call) retryJob() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	return c.done("retried", c.place.Local.Retry(c.r.Context(), c.who.Caller, id))
}

func (c *call) cancelJob() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	state, err := c.place.Local.Cancel(c.r.Context(), c.who.Caller, id)
	return c.done(state.String(), err)
}

func (c *call) queues() error {
	infos, err := c.place.Local.Queues(c.r.Context(), c.who.Caller)
	if err != nil {
		return err
	}
	return c.reply(each(infos, newQueueAnswer))
}

func optionalMillis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

func newQueueAnswer(q *queue.QueueInfo) wire.Queue {
	return wire.Queue{
		Name: q.Name, Paused: q.Paused, CreatedAt: q.CreatedAt.UTC(), MaxConcurrency: q.MaxConcurrency,
		RateLimit: q.Throttle.Limit, RateWindowMS: q.Throttle.Window.Milliseconds(), Draining: q.Draining,
		MaxRetries: q.Retry.MaxRetries, RetryBackoff: wire.Backoff(q.Retry.Backoff),
		RetryBaseDelayMS: optionalMillis(q.Retry.BaseDelay), RetryMaxDelayMS: optionalMillis(q.Retry.MaxDelay),
		Pending: q.Counts[job.Pending], Active: q.Counts[job.Active], Cancelling: q.Counts[job.Cancelling],
		Held: q.Counts[job.Held], Completed: q.Counts[job.Completed], Dead: q.Counts[job.Dead],
		Cancelled: q.Counts[job.Cancelled], Scheduled: q.Counts[job.Scheduled], Retrying: q.Counts[job.Retrying],
		Enqueued: q.Enqueued, Failed: q.Failed, OldestPendingAt: q.OldestPendingAt.UTC(), ETag: queueETag(q.Fingerprint),
	}
}

func (c *call) pauseQueue() error {
	return c.done("paused", c.place.Local.PauseQueue(c.r.Context(), c.who.Caller, c.r.PathValue("name")))
}

func (c *call) resumeQueue() error {
	return c.done("resumed", c.place.Local.ResumeQueue(c.r.Context(), c.who.Caller, c.r.PathValue("name")))
}
