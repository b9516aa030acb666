package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/state"
)

// workerShutdown is what generation-1 workers report for jobs they give up when
// they stop: it must not cost an attempt.
const workerShutdown = "worker_shutdown"

// Frame runs one stream frame in one commit. A fetch in it takes what is ready
// and does not wait. Items that are invalid or refused have their own error; the
// method's error means nothing of the frame is known to have happened.
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
	rep, err := s.do(ctx, b.caller, b.req)
	if err != nil {
		return FrameResult{}, err
	}
	b.settle(&rep)
	if b.res.Grants, err = s.load(c, rep.Grants); err != nil {
		return FrameResult{}, err
	}
	if len(in.Enqueues) > 0 && b.res.EnqueueErr == nil {
		b.res.Enqueues = enqueueResults(rep.After)
	}
	return b.res, nil
}

// frameBuilder turns a frame into a request and remembers where its parts stand.
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
	for i, then := range b.after {
		then(&rep.Settled[i])
	}
	for i, then := range b.renewed {
		then(rep.Renewals[i])
	}
}

func (b *frameBuilder) holder(token, worker string) (command.Holder, []fault.Field) {
	if len(worker) > WorkerNameBytesMax {
		return command.Holder{}, []fault.Field{{Path: "worker_id", Message: fmt.Sprintf("is %d bytes long, at most %d are allowed", len(worker), WorkerNameBytesMax)}}
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
		if len(fields) > 0 {
			b.res.Acks[i] = fault.InvalidFields(fields)
			continue
		}
		b.add(&command.Ack{NS: b.caller.Namespace, ID: a.JobID, By: by, Result: a.Result, Checkpoint: a.Checkpoint},
			func(r *state.Result) { b.res.Acks[i] = workRefusal(a.JobID, r) })
	}
}

func (b *frameBuilder) fails(in []FailInput) {
	if len(in) == 0 {
		return
	}
	b.res.Fails = make([]FailOutcome, len(in))
	for i := range in {
		f := &in[i]
		by, fields := b.holder(f.Token, f.WorkerID)
		if len(fields) > 0 {
			b.res.Fails[i].Err = fault.InvalidFields(fields)
			continue
		}
		b.add(&command.Fail{
			NS: b.caller.Namespace, ID: f.JobID, By: by,
			Error: cut(f.Error, ErrorBytesMax), Backtrace: cut(f.Backtrace, BacktraceBytesMax),
			Release: f.Release || f.Error == workerShutdown,
		}, func(r *state.Result) { b.res.Fails[i] = failOutcome(f.JobID, r) })
	}
}

func failOutcome(id job.ID, r *state.Result) FailOutcome {
	if err := workRefusal(id, r); err != nil {
		return FailOutcome{Err: err}
	}
	out := FailOutcome{FailResult: FailResult{State: r.State, AttemptsRemaining: int(r.Remaining)}}
	if r.NextAt != 0 {
		out.NextAttemptAt = time.Unix(0, r.NextAt).UTC()
	}
	return out
}

// workRefusal is why a settlement was refused, or nil.
func workRefusal(id job.ID, r *state.Result) error {
	switch r.Refusal {
	case state.Accepted:
		return nil
	case state.NotFound:
		return errNoJob(id)
	case state.NotActive:
		return fault.New(fault.Conflict, "NOT_ACTIVE", "job %s is %s, not active: no worker holds it", id, r.State)
	default:
		return fault.New(fault.Conflict, "LEASE_LOST",
			"the lease on job %s was lost; it is %s now and may belong to another worker: stop working on it", id, r.State)
	}
}

func (b *frameBuilder) heartbeats(in []HeartbeatInput) {
	if len(in) == 0 {
		return
	}
	b.res.Heartbeats = make([]HeartbeatStatus, len(in))
	var refused []fault.Field
	for i := range in {
		h := &in[i]
		by, unheld := b.holder(h.Token, h.WorkerID)
		if len(unheld) > 0 {
			b.res.Heartbeats[i] = HeartbeatLost // No lease has such a token.
			continue
		}
		bad := checkJSON("progress", h.Progress, ProgressBytesMax)
		bad = append(bad, checkJSON("checkpoint", h.Checkpoint, CheckpointBytesMax)...)
		bad = append(bad, checkLease(h.Lease)...)
		refused = append(refused, under("jobs."+h.JobID.String(), bad)...)
		lease := h.Lease
		if len(bad) > 0 {
			lease = 0 // The worker is alive whatever is wrong with its news: keep its lease.
		}
		b.req.Renew = append(b.req.Renew, shard.Renewal{NS: b.caller.Namespace, ID: h.JobID, By: by, Lease: lease})
		b.renewed = append(b.renewed, func(r shard.RenewalResult) { b.res.Heartbeats[i] = heartbeatStatus(r.Held, r.Cancel) })
		if len(bad) == 0 && (news(h.Progress) || news(h.Checkpoint)) {
			b.add(&command.Heartbeat{
				NS: b.caller.Namespace, ID: h.JobID, By: by, Progress: h.Progress, Checkpoint: h.Checkpoint,
			}, func(*state.Result) {}) // The renewal tells.
		}
	}
	if len(refused) > 0 {
		b.res.HeartbeatErr = fault.InvalidFields(refused)
	}
}

func news(v json.RawMessage) bool { return len(v) > 0 }

func heartbeatStatus(held, cancel bool) HeartbeatStatus {
	switch {
	case !held:
		return HeartbeatLost
	case cancel:
		return HeartbeatCancel
	default:
		return HeartbeatOK
	}
}

func (b *frameBuilder) fetch(in *FetchInput) {
	if in == nil {
		return
	}
	if fields := in.validate(); len(fields) > 0 {
		b.res.FetchErr = fault.InvalidFields(fields)
		return
	}
	b.req.Fetch = b.service.fetchOf(b.caller, in)
}

func (b *frameBuilder) enqueues(in []EnqueueInput) {
	if len(in) == 0 {
		return
	}
	if b.res.EnqueueErr = b.service.shard.TakesJobs(); b.res.EnqueueErr != nil {
		return // The settlements of the frame count: they make room.
	}
	cmds, err := b.service.stampEnqueues(b.caller, "enqueues", in)
	if err != nil {
		b.res.EnqueueErr = err
		return
	}
	b.req.After = cmds
}
