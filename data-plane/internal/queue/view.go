package queue

import (
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

func viewJob(id job.ID, j *state.Job) Job {
	h, b := &j.Head, &j.Body
	v := Job{
		ID: id, Queue: h.Queue, State: h.State, Payload: b.Payload, Priority: h.Priority,
		Attempt: int(h.Attempt), MaxRetries: int(h.Retry.MaxRetries), Crashes: int(h.Crashes),
		RetryBackoff: h.Retry.Backoff, RetryBaseDelay: h.Retry.BaseDelay, RetryMaxDelay: h.Retry.MaxDelay,
		UniqueKey: b.UniqueKey, Tags: tagMap(b.Tags),
		Progress: j.Progress, Checkpoint: j.Checkpoint, Result: j.Result,
		CreatedAt: when(b.CreatedAt), StartedAt: when(h.Started), FailedAt: when(h.FailedAt),
		DeadReason: h.Reason.String(),
	}
	v.WorkerID, v.Hostname = h.Worker, h.Hostname
	switch h.State {
	case job.Active, job.Cancelling:
		v.LeaseExpiresAt = when(h.Due)
	case job.Scheduled, job.Retrying:
		v.ScheduledAt = when(h.Due)
	case job.Completed:
		v.CompletedAt = when(h.Finished)
	}
	if v.ScheduledAt.IsZero() {
		v.ScheduledAt = when(b.ScheduledAt)
	}
	for _, e := range j.Errors {
		v.Errors = append(v.Errors, AttemptError{Attempt: int(e.Attempt), Error: e.Error, Backtrace: e.Backtrace, At: when(e.At)})
	}
	for _, m := range h.Timeline {
		v.Timeline = append(v.Timeline, TimelineEvent{Event: m.What.String(), At: when(m.At), Attempt: int(m.Attempt)})
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

func viewQueue(g *statedb.Group, ns job.Namespace, q *state.Queue) (QueueInfo, error) {
	info := QueueInfo{
		Name: q.Name, Paused: q.Paused, CreatedAt: when(q.CreatedAt),
		Counts: make(map[job.State]int64), Enqueued: q.Enqueued, Failed: q.Failed,
	}
	for _, s := range job.States() {
		info.Counts[s] = q.Jobs[s]
	}
	if q.Oldest.IsZero() {
		return info, nil
	}
	b, err := state.ReadBody(g, ns, q.Oldest)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return QueueInfo{}, err
	}
	info.OldestPendingAt = when(b.CreatedAt)
	return info, nil
}
