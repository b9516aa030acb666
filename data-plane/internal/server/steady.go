package server

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// againAfter is the pause before a call is tried again at a shard that is between
// two leaders.
const againAfter = 10 * time.Millisecond

// nothingDone: this node could not serve the shard, and surely did nothing.
func nothingDone(err error) bool {
	if err == nil {
		return false
	}
	code := fault.CodeOf(err)
	return code == fault.NotLeader || code == fault.Unavailable
}

// again calls do until the shard serves it here, is led elsewhere, or LeaderWait
// is over: while leadership moves, a call of which nothing was done is held rather
// than refused. It returns the placement it ended with.
func again[T any](ctx context.Context, s *Server, ns job.Namespace, p Placement, do func(Jobs) (T, error)) (T, Placement, error) {
	limit := s.now().Add(s.opts.LeaderWait)
	for {
		v, err := do(p.Local)
		if !nothingDone(err) || s.isDraining() || s.now().After(limit) {
			return v, p, err
		}
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
			return v, p, err
		}
		next, perr := s.place(ctx, ns)
		if perr != nil || next.Local == nil {
			next.Local = nil
			return v, next, err
		}
		p = next
	}
}

// steady is the use cases of a shard led here, held over a change of leader.
type steady struct {
	s  *Server
	ns job.Namespace
	p  Placement
}

var _ Jobs = steady{}

func steadily[T any](ctx context.Context, t steady, do func(Jobs) (T, error)) (T, error) {
	v, _, err := again(ctx, t.s, t.ns, t.p, do)
	return v, err
}

func steadilyDo(ctx context.Context, t steady, do func(Jobs) error) error {
	_, err := steadily(ctx, t, func(j Jobs) (struct{}, error) { return struct{}{}, do(j) })
	return err
}

func (t steady) Enqueue(ctx context.Context, c queue.Caller, in queue.EnqueueInput) (queue.EnqueueResult, error) {
	return steadily(ctx, t, func(j Jobs) (queue.EnqueueResult, error) { return j.Enqueue(ctx, c, in) })
}

func (t steady) EnqueueBatch(ctx context.Context, c queue.Caller, in []queue.EnqueueInput) ([]queue.EnqueueResult, error) {
	return steadily(ctx, t, func(j Jobs) ([]queue.EnqueueResult, error) { return j.EnqueueBatch(ctx, c, in) })
}

func (t steady) Fetch(ctx context.Context, c queue.Caller, in queue.FetchInput) ([]queue.Grant, error) {
	return steadily(ctx, t, func(j Jobs) ([]queue.Grant, error) { return j.Fetch(ctx, c, in) })
}

func (t steady) Ack(ctx context.Context, c queue.Caller, in []queue.AckInput) ([]error, error) {
	return steadily(ctx, t, func(j Jobs) ([]error, error) { return j.Ack(ctx, c, in) })
}

func (t steady) Fail(ctx context.Context, c queue.Caller, in []queue.FailInput) ([]queue.FailOutcome, error) {
	return steadily(ctx, t, func(j Jobs) ([]queue.FailOutcome, error) { return j.Fail(ctx, c, in) })
}

func (t steady) Heartbeat(ctx context.Context, c queue.Caller, in []queue.HeartbeatInput) ([]queue.HeartbeatStatus, error) {
	return steadily(ctx, t, func(j Jobs) ([]queue.HeartbeatStatus, error) { return j.Heartbeat(ctx, c, in) })
}

func (t steady) Frame(ctx context.Context, c queue.Caller, in queue.FrameInput) (queue.FrameResult, error) {
	return steadily(ctx, t, func(j Jobs) (queue.FrameResult, error) { return j.Frame(ctx, c, in) })
}

func (t steady) Job(ctx context.Context, c queue.Caller, id job.ID) (queue.Job, error) {
	return steadily(ctx, t, func(j Jobs) (queue.Job, error) { return j.Job(ctx, c, id) })
}

func (t steady) Queues(ctx context.Context, c queue.Caller) ([]queue.QueueInfo, error) {
	return steadily(ctx, t, func(j Jobs) ([]queue.QueueInfo, error) { return j.Queues(ctx, c) })
}

func (t steady) Queue(ctx context.Context, c queue.Caller, name string) (queue.QueueInfo, error) {
	return steadily(ctx, t, func(j Jobs) (queue.QueueInfo, error) { return j.Queue(ctx, c, name) })
}

func (t steady) SetQueue(ctx context.Context, c queue.Caller, name string, in queue.QueueSettings) (queue.QueueInfo, error) {
	return steadily(ctx, t, func(j Jobs) (queue.QueueInfo, error) { return j.SetQueue(ctx, c, name, in) })
}

func (t steady) DeleteQueue(ctx context.Context, c queue.Caller, name string) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.DeleteQueue(ctx, c, name) })
}

func (t steady) Audit(ctx context.Context, c queue.Caller, before uint64, limit int) (queue.AuditPage, error) {
	return steadily(ctx, t, func(j Jobs) (queue.AuditPage, error) { return j.Audit(ctx, c, before, limit) })
}

func (t steady) DrainQueue(ctx context.Context, c queue.Caller, name string, wait time.Duration) (int64, error) {
	return steadily(ctx, t, func(j Jobs) (int64, error) { return j.DrainQueue(ctx, c, name, wait) })
}

func (t steady) ClearQueue(ctx context.Context, c queue.Caller, name string) (int64, error) {
	return steadily(ctx, t, func(j Jobs) (int64, error) { return j.ClearQueue(ctx, c, name) })
}

func (t steady) RequeueDead(ctx context.Context, c queue.Caller, name string) (int64, error) {
	return steadily(ctx, t, func(j Jobs) (int64, error) { return j.RequeueDead(ctx, c, name) })
}

func (t steady) MoveJob(ctx context.Context, c queue.Caller, id job.ID, to string) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.MoveJob(ctx, c, id, to) })
}

func (t steady) PauseQueue(ctx context.Context, c queue.Caller, name string) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.PauseQueue(ctx, c, name) })
}

func (t steady) ResumeQueue(ctx context.Context, c queue.Caller, name string) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.ResumeQueue(ctx, c, name) })
}

func (t steady) Cancel(ctx context.Context, c queue.Caller, id job.ID) (job.State, error) {
	return steadily(ctx, t, func(j Jobs) (job.State, error) { return j.Cancel(ctx, c, id) })
}

func (t steady) Hold(ctx context.Context, c queue.Caller, id job.ID, reason string) (job.State, error) {
	return steadily(ctx, t, func(j Jobs) (job.State, error) { return j.Hold(ctx, c, id, reason) })
}

func (t steady) Approve(ctx context.Context, c queue.Caller, id job.ID, comment string) (job.State, error) {
	return steadily(ctx, t, func(j Jobs) (job.State, error) { return j.Approve(ctx, c, id, comment) })
}

func (t steady) Reject(ctx context.Context, c queue.Caller, id job.ID, comment string) (job.State, error) {
	return steadily(ctx, t, func(j Jobs) (job.State, error) { return j.Reject(ctx, c, id, comment) })
}

func (t steady) Retry(ctx context.Context, c queue.Caller, id job.ID) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.Retry(ctx, c, id) })
}

func (t steady) Delete(ctx context.Context, c queue.Caller, id job.ID) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.Delete(ctx, c, id) })
}

func (t steady) UsageSummary(ctx context.Context, c queue.Caller, in queue.UsageQuery) (queue.UsageSummary, error) {
	return steadily(ctx, t, func(j Jobs) (queue.UsageSummary, error) { return j.UsageSummary(ctx, c, in) })
}

func (t steady) Iterations(ctx context.Context, c queue.Caller, id job.ID, after, limit int) (queue.IterationPage, error) {
	return steadily(ctx, t, func(j Jobs) (queue.IterationPage, error) { return j.Iterations(ctx, c, id, after, limit) })
}

func (t steady) Replay(ctx context.Context, c queue.Caller, id job.ID, from int, key string) (queue.EnqueueResult, error) {
	return steadily(ctx, t, func(j Jobs) (queue.EnqueueResult, error) { return j.Replay(ctx, c, id, from, key) })
}

func (t steady) Budgets(ctx context.Context, c queue.Caller) ([]queue.Budget, error) {
	return steadily(ctx, t, func(j Jobs) ([]queue.Budget, error) { return j.Budgets(ctx, c) })
}

func (t steady) SetBudget(ctx context.Context, c queue.Caller, in queue.Budget) (queue.Budget, error) {
	return steadily(ctx, t, func(j Jobs) (queue.Budget, error) { return j.SetBudget(ctx, c, in) })
}

func (t steady) DeleteBudget(ctx context.Context, c queue.Caller, scope, target string) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.DeleteBudget(ctx, c, scope, target) })
}

func (t steady) Policies(ctx context.Context, c queue.Caller) ([]queue.Policy, error) {
	return steadily(ctx, t, func(j Jobs) ([]queue.Policy, error) { return j.Policies(ctx, c) })
}

func (t steady) SetPolicy(ctx context.Context, c queue.Caller, in queue.Policy) (queue.Policy, error) {
	return steadily(ctx, t, func(j Jobs) (queue.Policy, error) { return j.SetPolicy(ctx, c, in) })
}

func (t steady) DeletePolicy(ctx context.Context, c queue.Caller, id job.PolicyID) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.DeletePolicy(ctx, c, id) })
}
