package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// JobEvent is one line of a job's timeline.
type JobEvent struct {
	Seq      int // From 1, in the order of the list.
	Type     string
	At       time.Time
	Attempt  int
	WorkerID string
	Error    string
	// Until is when the wait that began ends: the next attempt, or the time asked.
	Until  time.Time
	Reason string // Of a death or a hold.
}

// Timeline is the history of a job. From a long one, the oldest lines but the first
// are dropped.
type Timeline struct {
	Events    []JobEvent
	Truncated bool
}

// Timeline reads the history of a job from the leader's state; it is never late.
func (v *Views) Timeline(ctx context.Context, c Caller, id job.ID) (Timeline, error) {
	j, err := shard.Read(ctx, v.shard, func(g *statedb.Group) (stateread.Job, error) {
		return stateread.ReadJob(g, c.Namespace, id)
	})
	if errors.Is(err, statedb.ErrNotFound) {
		return Timeline{}, errNoJob(id)
	}
	if err != nil {
		return Timeline{}, err
	}
	return timelineOf(&j), nil
}

func timelineOf(j *stateread.Job) Timeline {
	t := Timeline{Truncated: len(j.Timeline) == records.TimelineMax}
	for i, m := range j.Timeline {
		e := JobEvent{Type: m.What.String(), At: when(m.At), Attempt: int(m.Attempt)}
		last := i == len(j.Timeline)-1
		switch m.What {
		case feed.Started:
			e.WorkerID = workerOf(j, i)
		case feed.Failed, feed.LeaseExpired:
			failed := errorAt(j.Errors, m)
			e.Error, e.WorkerID = failed.Text(), failed.Worker
		case feed.Scheduled:
			e.Until = when(j.Body.ScheduledAt)
		case feed.Dead:
			e.Reason = j.Reason.String()
		case feed.Held:
			e.Reason = holdReason(j, i)
		}
		t.Events = append(t.Events, e)
		if last && j.State == job.Retrying {
			t.Events = append(t.Events, JobEvent{Type: job.Retrying.String(), At: e.At, Attempt: e.Attempt, Until: when(j.DueAt())})
		}
	}
	for i := range t.Events {
		t.Events[i].Seq = i + 1
	}
	return t
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
