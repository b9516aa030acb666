package server

import (
	"context"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
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

// aboutJob handles a use case that asks for a job's id alone and answers with a word.
func aboutJob(word string, do func(*queue.Service, context.Context, queue.Caller, job.ID) error) func(*call) error {
	return func(c *call) error {
		id, err := c.jobID()
		if err != nil {
			return err
		}
		return c.done(word, do(c.place.Local, c.r.Context(), c.who.Caller, id))
	}
}

func (c *call) cancelJob() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	state, err := c.place.Local.Cancel(c.r.Context(), c.who.Caller, id)
	return c.done(state.String(), err)
}

var moveShape = shape.New("MoveRequest", //nolint:gochecknoglobals // A constant table.
	shape.Text("queue", "Target queue.", func(in *string) *string { return in }).Must(),
)

func (c *call) moveJob() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	var to string
	if err := decode(c, moveShape, &to); err != nil {
		return err
	}
	return c.done("moved", c.place.Local.MoveJob(c.r.Context(), c.who.Caller, id, to))
}

func (c *call) why() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	w, err := c.place.Views.Why(c.r.Context(), c.who.Caller, id)
	if err != nil {
		return err
	}
	a := wire.Why{JobID: w.JobID.String(), State: stateOf(w.State), Reasons: make([]wire.WhyReason, len(w.Reasons)), ETA: w.ETA.UTC()}
	for i, r := range w.Reasons {
		detail := r.Detail
		if detail == nil {
			detail = map[string]any{}
		}
		a.Reasons[i] = wire.WhyReason{Code: wire.WhyCode(r.Code), Message: r.Message, Until: r.Until.UTC(), Detail: detail}
	}
	return c.reply(a)
}
