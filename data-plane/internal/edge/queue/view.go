package queue

import (
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

func viewJob(id job.ID, j *stateread.Job) Job {
	h, b := &j.Head, &j.Body
	v := Job{
		ID: id, Queue: h.Queue, State: h.State, Payload: b.Payload, Priority: h.Priority,
		Attempt: int(h.Attempt), MaxRetries: int(h.Retry.MaxRetries), Crashes: int(h.Crashes),
		RetryBackoff: h.Retry.Backoff, RetryBaseDelay: h.Retry.BaseDelay, RetryMaxDelay: h.Retry.MaxDelay,
		UniqueKey: b.UniqueKey, Tags: tagMap(b.Tags),
		Progress: j.Progress, Checkpoint: j.Checkpoint, Result: j.Result,
		ExpireAt: when(h.ExpireAt), CreatedAt: when(b.CreatedAt), StartedAt: when(h.Started), FailedAt: when(h.FailedAt), FinishedAt: when(h.Finished),
		DeadReason: h.Reason.String(), TraceParent: b.TraceParent,
	}
	v.Parent, v.Schedule = b.Parent, b.Schedule
	v.Usage, v.Agent = viewJobUsage(j.Usage), viewAgent(b, h.Iteration, j.Usage)
	v.Groups = groupsOf(j)
	v.WorkerID, v.Hostname = h.Worker, h.Hostname
	switch h.State {
	case job.Active, job.Cancelling:
		v.LeaseExpiresAt = when(h.DueAt())
	case job.Scheduled, job.Retrying:
		v.ScheduledAt = when(h.DueAt())
	case job.Completed:
		v.CompletedAt = when(h.Finished)
	}
	if v.ScheduledAt.IsZero() {
		v.ScheduledAt = when(b.ScheduledAt)
	}
	if j.Hold != nil {
		v.Hold = viewHold(j.Hold)
	}
	for _, e := range j.Errors {
		v.Errors = append(v.Errors, AttemptError{Attempt: int(e.Attempt), Error: e.Text(), Backtrace: e.Backtrace, At: when(e.At)})
	}
	for _, m := range h.Timeline {
		v.Timeline = append(v.Timeline, TimelineEvent{Event: m.What.String(), At: when(m.At), Attempt: int(m.Attempt)})
	}
	return v
}

func viewHold(h *records.Hold) *Hold {
	v := &Hold{
		Reason: h.Cause.String(), By: h.By, At: when(h.At), Until: when(h.Until), Approvers: h.Approvers,
		Decision: h.Decision.String(), DecidedBy: h.DecidedBy, Comment: h.Comment, DecidedAt: when(h.DecidedAt),
	}
	if !h.Policy.IsZero() {
		v.Policy = h.Policy.String()
	}
	return v
}

// when turns stored nanoseconds into a time; 0 into the zero time.
func when(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func viewRetry(p command.RetryPolicy, set command.RetryParts) (r RetrySettings) {
	if set&command.RetryMax != 0 {
		n := int(p.MaxRetries)
		r.MaxRetries = &n
	}
	if set&command.RetryBackoff != 0 {
		r.Backoff = p.Backoff.String()
	}
	if set&command.RetryBaseDelay != 0 {
		r.BaseDelay = &p.BaseDelay
	}
	if set&command.RetryMaxDelay != 0 {
		r.MaxDelay = &p.MaxDelay
	}
	return r
}

func viewQueue(g *statedb.Group, ns job.Namespace, q *stateread.Queue) (QueueInfo, error) {
	info := QueueInfo{
		Name: q.Name, Paused: q.Paused, CreatedAt: when(q.CreatedAt), MaxConcurrency: int(q.MaxConcurrency),
		Throttle: Throttle{Limit: int(q.Throttle.Limit), Window: q.Throttle.Window},
		Counts:   make(map[job.State]int64), Enqueued: q.Enqueued, Failed: q.Failed,
		Draining: q.Draining, Retry: viewRetry(q.Retry, q.RetrySet), Fingerprint: q.Fingerprint(),
	}
	for _, s := range job.States() {
		info.Counts[s] = q.Jobs[s]
	}
	if q.Oldest.IsZero() {
		return info, nil
	}
	b, err := stateread.ReadBody(g, ns, q.Oldest)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return QueueInfo{}, err
	}
	info.OldestPendingAt = when(b.CreatedAt)
	return info, nil
}
