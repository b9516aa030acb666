package queue

import (
	"context"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// Timeline reads the history of a job from the leader's state; it is never late.
func (v *Views) Timeline(ctx context.Context, c Caller, id job.ID) (wire.Timeline, error) {
	j, err := whole(ctx, v.shard, c, id)
	if err != nil {
		return wire.Timeline{}, err
	}
	t := timelineOf(&j)
	if c.hides(j.Head.Queue) {
		redactTimeline(&t)
	}
	return t, nil
}

// timelineOf tells from a long history its first line and the latest.
func timelineOf(j *stateread.Job) wire.Timeline {
	t := wire.Timeline{Events: make([]wire.TimelineEvent, 0, len(j.Timeline)+1), Truncated: len(j.Timeline) == records.TimelineMax}
	for i, m := range j.Timeline {
		e := wire.TimelineEvent{Type: wire.EventType(m.What.String()), At: when(m.At), Attempt: int(m.Attempt)}
		last := i == len(j.Timeline)-1
		switch m.What {
		case feed.Started:
			e.WorkerID = workerOf(j, i)
		case feed.Failed, feed.LeaseExpired:
			failed := errorAt(j.Errors, m)
			e.Error, e.WorkerID = failed.Text(), failed.Worker
		case feed.Scheduled:
			e.Data = untilData(j.Body.ScheduledAt)
		case feed.Dead:
			e.Data = reasonData(j.Reason.String())
		case feed.Held:
			e.Data = reasonData(holdReason(j, i))
		}
		t.Events = append(t.Events, e)
		if last && j.State == job.Retrying {
			t.Events = append(t.Events, wire.TimelineEvent{Type: wire.EventRetrying, At: e.At, Attempt: e.Attempt, Data: untilData(j.DueAt())})
		}
	}
	for i := range t.Events {
		t.Events[i].Seq = i + 1
	}
	return t
}

// untilData is when the wait that began ends: the next attempt, or the time asked.
func untilData(ns int64) *wire.TimelineData {
	if ns == 0 {
		return nil
	}
	return &wire.TimelineData{Until: when(ns)}
}

func reasonData(reason string) *wire.TimelineData {
	if reason == "" {
		return nil
	}
	return &wire.TimelineData{Reason: reason}
}

// holdReason is known only for the latest hold.
func holdReason(j *stateread.Job, i int) string {
	later := slices.ContainsFunc(j.Timeline[i+1:], func(m records.Moment) bool { return m.What == feed.Held })
	if j.Hold == nil || later {
		return ""
	}
	return j.Hold.Cause.String()
}

// workerOf is the worker of the attempt that began at a line: the head has the
// latest one, errors have those of failed attempts.
func workerOf(j *stateread.Job, i int) string {
	for _, m := range j.Timeline[i+1:] {
		switch m.What {
		case feed.Failed, feed.LeaseExpired:
			return errorAt(j.Errors, m).Worker
		case feed.Started, feed.Released:
			return "" // Released; its worker was not recorded.
		}
	}
	return j.Worker
}

// errorAt is the error reported at a moment; the same entry stamped both.
func errorAt(errs []records.AttemptError, m records.Moment) records.AttemptError {
	for _, e := range errs {
		if e.At == m.At && e.Attempt == m.Attempt {
			return e
		}
	}
	return records.AttemptError{}
}
