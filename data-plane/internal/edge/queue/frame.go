package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// workerShutdown is what generation-1 workers report for jobs they give up when
// they stop: it must not cost an attempt.
const workerShutdown = "worker_shutdown"

// Frame runs one stream frame in one commit. A fetch in it takes what is ready and
// does not wait. Items that are invalid or refused have their own error; after an
// error of the method, nothing of the frame is known to have happened.
func (s *Service) Frame(ctx context.Context, c Caller, in FrameInput) (FrameResult, error) {
	b := frameBuilder{service: s, caller: c}
	b.acks(in.Acks)
	b.fails(in.Fails)
	b.heartbeats(in.Heartbeats)
	b.fetch(in.Fetch)
	b.enqueues(in.Enqueues)
	if b.empty() {
		return b.res, nil
	}
	s.touchWorkers(c, &in)
	rep, err := s.do(ctx, b.caller, b.req)
	if err != nil {
		return FrameResult{}, err
	}
	b.settle(&rep)
	if b.res.Grants, err = s.load(c, rep.Grants); err != nil {
		return FrameResult{}, err
	}
	if len(in.Enqueues) > 0 && b.res.EnqueueErr == nil {
		b.res.Enqueues, b.res.EnqueueErr = enqueueResults("enqueues", in.Enqueues, rep.After)
	}
	return b.res, nil
}

// frameBuilder turns a frame into a request and remembers where each result goes.
type frameBuilder struct {
	service *Service
	caller  Caller
	req     shard.Request
	res     FrameResult
	// after[i] takes the result of req.Settle[i]; renewed[i] that of req.Renew[i].
	after   []func(*state.Result)
	renewed []func(shard.RenewalResult)
}

func (b *frameBuilder) empty() bool {
	return len(b.req.Settle) == 0 && len(b.req.Renew) == 0 && b.req.Fetch == nil && len(b.req.After) == 0
}

func (b *frameBuilder) add(cmd command.Command, then func(*state.Result)) {
	b.req.Settle = append(b.req.Settle, cmd)
	b.after = append(b.after, then)
}

func (b *frameBuilder) settle(rep *shard.Reply) {
	for i, then := range b.renewed {
		then(rep.Renewals[i])
	}
	for i, then := range b.after {
		then(&rep.Settled[i])
	}
}

func (b *frameBuilder) holder(token, worker string) (command.Holder, []fault.Field) {
	if len(worker) > WorkerNameBytesMax {
		return command.Holder{}, []fault.Field{{Path: "worker_id", Message: fmt.Sprintf("is %d bytes long; at most %d are allowed", len(worker), WorkerNameBytesMax)}}
	}
	t, err := ParseToken(token)
	if err != nil {
		return command.Holder{}, []fault.Field{{Path: "lease_token", Message: "is not a token that a fetch returned"}}
	}
	return command.Holder{Token: t, Worker: worker, Peer: peerHash(b.caller)}, nil
}

func (b *frameBuilder) acks(in []AckInput) {
	if len(in) == 0 {
		return
	}
	b.res.Acks = make([]error, len(in))
	for i := range in {
		a := &in[i]
		by, fields := b.holder(a.Token, a.WorkerID)
		fields = append(fields, checkJSON("result", a.Result, ResultBytesMax)...)
		fields = append(fields, checkJSON("checkpoint", a.Checkpoint, CheckpointBytesMax)...)
		fields = append(fields, a.Usage.CheckReport()...)
		fields = append(fields, a.checkAgent()...)
		fields = append(fields, a.checkStep()...)
		if len(fields) > 0 {
			b.res.Acks[i] = fault.InvalidFields(fields)
			continue
		}
		if b.res.Acks[i] = b.service.mayTouch(&b.caller, permission.JobFetch, a.JobID); b.res.Acks[i] != nil {
			continue
		}
		b.add(&command.Ack{
			NS: b.caller.Namespace, ID: a.JobID, By: by, Result: said(a.Result), Checkpoint: said(a.Checkpoint),
			Usage: a.Usage.command(), Agent: agentStatuses[a.AgentStatus], HoldReason: a.HoldReason,
			Step: stepStatuses[a.StepStatus], ExitReason: a.ExitReason,
		},
			func(r *state.Result) { b.res.Acks[i] = ackRefusal(a.JobID, r) })
	}
}

// stepStatuses maps the words to state's values; "" is continue.
var stepStatuses = map[wire.StepStatus]command.StepStatus{"": command.StepContinue, wire.StepContinue: command.StepContinue, wire.StepExit: command.StepExit}

func (a *AckInput) checkStep() []fault.Field {
	var bad checker
	if _, ok := stepStatuses[a.StepStatus]; !ok {
		bad.failf("step_status", "is %q, must be continue or exit", clip(a.StepStatus))
	}
	bad.text("exit_reason", a.ExitReason, ExitReasonBytesMax)
	if a.ExitReason != "" && a.StepStatus != wire.StepExit {
		bad.failf("exit_reason", "requires step_status exit")
	}
	return bad
}

func (b *frameBuilder) fails(in []FailInput) {
	if len(in) == 0 {
		return
	}
	b.res.Fails = make([]FailOutcome, len(in))
	for i := range in {
		f := &in[i]
		by, fields := b.holder(f.Token, f.WorkerID)
		fields = append(append(fields, f.validate()...), f.Usage.CheckReport()...)
		if len(fields) > 0 {
			b.res.Fails[i].Err = fault.InvalidFields(fields)
			continue
		}
		if b.res.Fails[i].Err = b.service.mayTouch(&b.caller, permission.JobFetch, f.JobID); b.res.Fails[i].Err != nil {
			continue
		}
		b.add(&command.Fail{
			NS: b.caller.Namespace, ID: f.JobID, By: by,
			Error: cut(f.Error, ErrorBytesMax), Backtrace: cut(f.Backtrace, BacktraceBytesMax),
			Release:  f.Release || f.Error == workerShutdown,
			Terminal: f.Terminal, Delay: f.Delay, Usage: f.Usage.command(),
		}, func(r *state.Result) { b.res.Fails[i] = failOutcome(f.JobID, r) })
	}
}

func (f *FailInput) validate() []fault.Field {
	var bad checker
	bad.delay("delay", f.Delay, 0, DelayMax)
	if f.Terminal && f.Release {
		bad.failf("terminal", "can't be combined with release: the job is either given back or ended")
	}
	if f.Terminal && f.Delay != nil {
		bad.failf("delay", "can't be combined with terminal: there is no next attempt")
	}
	return bad
}

func failOutcome(id job.ID, r *state.Result) FailOutcome {
	if err := workRefusal(id, r); err != nil {
		return FailOutcome{Err: err}
	}
	return FailOutcome{FailResult: wire.FailResult{Status: stateOf(r.State), NextAttemptAt: when(r.NextAt), AttemptsRemaining: int(r.Remaining)}}
}

// workRefusal is why a settlement was refused, or nil.
func workRefusal(id job.ID, r *state.Result) error {
	switch r.Refusal {
	case state.Accepted:
		return nil
	case state.NotFound:
		return fault.New(fault.NotFound, "NOT_FOUND",
			"there is no job %s in this namespace. If you are working on it, stop: it or its queue was deleted", id)
	case state.NotActive:
		return fault.New(fault.Conflict, "NOT_ACTIVE", "job %s is %s, not active: no worker has it", id, r.State)
	default:
		return fault.New(fault.Conflict, "LEASE_LOST",
			"the lease on job %s was lost: the job is %s now and might belong to another worker, so stop working on it", id, r.State)
	}
}

func (b *frameBuilder) heartbeats(in []HeartbeatInput) {
	if len(in) == 0 {
		return
	}
	b.res.Heartbeats = make([]wire.HeartbeatOutcome, len(in))
	var refused []fault.Field
	for i := range in {
		h := &in[i]
		by, unheld := b.holder(h.Token, h.WorkerID)
		if len(unheld) > 0 || b.service.mayTouch(&b.caller, permission.JobFetch, h.JobID) != nil {
			b.res.Heartbeats[i].Status = wire.HeartbeatLost // No lease has such a token, or none of the caller's.
			continue
		}
		bad := checkJSON("progress", h.Progress, ProgressBytesMax)
		bad = append(bad, checkJSON("checkpoint", h.Checkpoint, CheckpointBytesMax)...)
		bad = append(bad, h.Usage.CheckReport()...)
		bad = under("jobs."+h.JobID.String(), bad)
		lease := h.Lease
		if wrong := checkLease(lease); len(wrong) > 0 {
			bad = append(bad, wrong...)
			lease = 0 // Keep the lease: the worker is alive, even if its news is refused.
		}
		for _, f := range bad {
			if !slices.Contains(refused, f) { // All jobs of a request have one lease.
				refused = append(refused, f)
			}
		}
		b.req.Renew = append(b.req.Renew, shard.Renewal{NS: b.caller.Namespace, ID: h.JobID, By: by, Lease: lease})
		b.renewed = append(b.renewed, func(r shard.RenewalResult) {
			b.res.Heartbeats[i] = heartbeatOutcome(r)
			if h.WorkerID == "" { // Clients of generation 1 do not send it; a lost lease has none.
				b.service.workers.touch(b.caller.Namespace, r.Worker, "", nil, time.Now())
			}
		})
		progress, checkpoint := said(h.Progress), said(h.Checkpoint)
		if len(bad) == 0 && (progress != nil || checkpoint != nil || h.Usage != nil) {
			b.add(&command.Heartbeat{
				NS: b.caller.Namespace, ID: h.JobID, By: by, Progress: progress, Checkpoint: checkpoint, Usage: h.Usage.command(),
			}, func(r *state.Result) { // The renewal's result is from before this news.
				switch {
				case r.Refusal != state.Accepted:
					b.res.Heartbeats[i] = heartbeatOutcome(shard.RenewalResult{}) // A worker takes ok for stored.
				case r.Cancel:
					b.res.Heartbeats[i] = heartbeatOutcome(shard.RenewalResult{Held: true, Cancel: true, Over: r.Over})
				}
			})
		}
	}
	if len(refused) > 0 {
		b.res.HeartbeatErr = fault.InvalidFields(refused)
	}
}

func heartbeatOutcome(r shard.RenewalResult) wire.HeartbeatOutcome {
	switch {
	case !r.Held:
		return wire.HeartbeatOutcome{Status: wire.HeartbeatLost}
	case r.Over || r.Cancel:
		return wire.HeartbeatOutcome{Status: wire.HeartbeatCancel, BudgetExceeded: r.Over}
	default:
		return wire.HeartbeatOutcome{Status: wire.HeartbeatOK}
	}
}

func (b *frameBuilder) fetch(in *FetchInput) {
	if in == nil {
		return
	}
	if fields := in.Check(); len(fields) > 0 {
		b.res.FetchErr = fault.InvalidFields(fields)
		return
	}
	if b.res.FetchErr = b.caller.mayFetch(in.Queues); b.res.FetchErr != nil {
		return
	}
	b.req.Fetch = b.service.fetchOf(b.caller, in)
}

func (b *frameBuilder) enqueues(in []EnqueueInput) {
	if len(in) == 0 {
		return
	}
	if b.res.EnqueueErr = b.service.shard.TakesJobs(); b.res.EnqueueErr != nil {
		return // The frame's settlements make room first.
	}
	cmds, err := b.service.stampEnqueues(b.caller, "enqueues", in)
	if err != nil {
		b.res.EnqueueErr = err
		return
	}
	b.req.After = cmds
}
