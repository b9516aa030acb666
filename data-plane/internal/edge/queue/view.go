package queue

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

func viewJob(id job.ID, j *stateread.Job) wire.Job {
	h, b := &j.Head, &j.Body
	v := wire.Job{
		ID: id.String(), Queue: h.Queue, State: stateOf(h.State), Payload: orEmpty(b.Payload), Priority: int(h.Priority),
		Attempt: int(h.Attempt), MaxRetries: int(h.Retry.MaxRetries), Crashes: int(h.Crashes), RetryBackoff: wire.Backoff(h.Retry.Backoff.String()),
		RetryBaseDelayMS: h.Retry.BaseDelay.Milliseconds(), RetryMaxDelayMS: h.Retry.MaxDelay.Milliseconds(),
		UniqueKey: b.UniqueKey, Tags: tagMap(b.Tags), WorkerID: h.Worker, Hostname: h.Hostname,
		Progress: j.Progress, Checkpoint: j.Checkpoint, Result: j.Result,
		ExpireAt: when(h.ExpireAt), CreatedAt: when(b.CreatedAt), StartedAt: when(h.Started), FailedAt: when(h.FailedAt), FinishedAt: when(h.Finished),
		DeadReason: wire.DeadReason(h.Reason.String()), TraceParent: b.TraceParent, Usage: viewJobUsage(j.Usage), Agent: viewAgent(b, h.Iteration, j.Usage),
		ParentID: idOrNone(b.Parent), ScheduleID: idOrNone(b.Schedule), BatchID: idOrNone(b.Batch), ChainID: idOrNone(b.Chain), ChainStep: chainStep(b),
		WaitingOn: j.WaitingOn,
	}
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
	if h.State == job.Held && j.Hold != nil {
		v.HoldReason = v.Hold.Reason
	}
	if len(j.DependsOn) > 0 {
		v.DependencyPolicy = wire.DependencyPolicies()[j.OnDependency]
		v.DependsOn = each(j.DependsOn, func(on *job.ID) string { return on.String() })
	}
	for i, e := range j.Errors {
		v.Errors = append(v.Errors, wire.JobError{ID: i + 1, JobID: v.ID, Attempt: int(e.Attempt), Error: e.Text(), Backtrace: e.Backtrace, CreatedAt: when(e.At)})
	}
	for _, m := range h.Timeline {
		v.Timeline = append(v.Timeline, wire.JobEvent{Event: wire.EventType(m.What.String()), At: when(m.At), Attempt: int(m.Attempt)})
	}
	return v
}

// chainStep is nil for a job that is in no chain.
func chainStep(b *records.Body) *int {
	if b.Chain.IsZero() {
		return nil
	}
	return &b.ChainStep
}

func viewHold(h *records.Hold) *wire.Hold {
	return &wire.Hold{
		Reason: h.Cause.String(), By: h.By, At: when(h.At), Until: when(h.Until), Policy: idOrNone(h.Policy), Approvers: h.Approvers,
		Decision: wire.Decision(h.Decision.String()), DecidedBy: h.DecidedBy, Comment: h.Comment, DecidedAt: when(h.DecidedAt),
	}
}

// each puts the elements of a list into other words. A list of none is not null.
func each[A, B any](in []A, word func(*A) B) []B {
	out := make([]B, len(in))
	for i := range in {
		out[i] = word(&in[i])
	}
	return out
}

// wordIn is the place of a word in a list, whose first is the default: that of "".
func wordIn[W ~string](words []W, word W) (int, bool) {
	if word == "" {
		return 0, true
	}
	i := slices.Index(words, word)
	return i, i >= 0
}

// listed is words as a sentence has them.
func listed[W ~string](words []W) string {
	return strings.Join(each(words, func(w *W) string { return string(*w) }), ", ")
}

// idOrNone is "" for an id that is not set.
func idOrNone[T interface {
	IsZero() bool
	String() string
}](id T) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// stateOf is "" for a job that is gone.
func stateOf(s job.State) wire.State {
	if s == 0 {
		return ""
	}
	return wire.State(s.String())
}

// dollars writes nano-dollars as the exact decimal number.
func dollars(nanos int64) wire.Dollars {
	if nanos == 0 {
		return "" // Which is left out where the member is optional, and 0 elsewhere.
	}
	return wire.Dollars(job.FormatDollars(nanos))
}

// spanOrNone is "" for no time at all.
func spanOrNone(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func millisOrNone(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.Milliseconds())
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return emptyObject
	}
	return raw
}

// whenOrNull is when, where a time that is not known is null.
func whenOrNull(ns int64) *time.Time {
	if ns == 0 {
		return nil
	}
	return new(when(ns))
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
		r.Backoff = wire.Backoff(p.Backoff.String())
	}
	if set&command.RetryBaseDelay != 0 {
		r.BaseDelay = &p.BaseDelay
	}
	if set&command.RetryMaxDelay != 0 {
		r.MaxDelay = &p.MaxDelay
	}
	return r
}

func viewQueue(g *statedb.Group, ns job.Namespace, keeps retention.Policy, q *stateread.Queue) (wire.Queue, error) {
	retry := viewRetry(q.Retry, q.RetrySet)
	info := wire.Queue{
		Name: q.Name, Paused: q.Paused, Draining: q.Draining, MaxConcurrency: int(q.MaxConcurrency),
		RateLimit: int(q.Throttle.Limit), RateWindowMS: q.Throttle.Window.Milliseconds(), MaxRetries: retry.MaxRetries, RetryBackoff: retry.Backoff,
		RetryBaseDelayMS: millisOrNone(retry.BaseDelay), RetryMaxDelayMS: millisOrNone(retry.MaxDelay), CreatedAt: when(q.CreatedAt),
		Pending: q.Jobs[job.Pending], Active: q.Jobs[job.Active], Cancelling: q.Jobs[job.Cancelling], Held: q.Jobs[job.Held],
		Completed: q.Jobs[job.Completed], Dead: q.Jobs[job.Dead], Cancelled: q.Jobs[job.Cancelled],
		Scheduled: q.Jobs[job.Scheduled], Retrying: q.Jobs[job.Retrying], Enqueued: q.Enqueued, Failed: q.Failed, ETag: etag(q.Fingerprint()),
		Retention: viewOwnRetention(retention.Finished(q.Retention)), InheritedRetention: viewRetention(keeps.Finished), RetentionMax: viewOwnRetention(keeps.QueueMax()),
		EffectiveRetention: viewRetention(keeps.Queue(retention.Finished(q.Retention))),
	}
	if q.Oldest.IsZero() {
		return info, nil
	}
	b, err := stateread.ReadBody(g, ns, q.Oldest)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return wire.Queue{}, err
	}
	info.OldestPendingAt = when(b.CreatedAt)
	return info, nil
}
