// Package queue holds the use cases of one shard's jobs: validate everything at
// once, stamp what replicas may not decide (id, time, defaults), propose, and
// answer with the types of package wire, so that an answer is said once. It knows no
// protocol and no storage layout.
//
// An error that the caller may see is a *fault.Error. NotLeader means that the
// leader moved: route again.
package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Service runs the use cases on one shard. It is safe for concurrent use.
type Service struct {
	shard   *shard.Shard
	ids     *idSource
	gate    *admission
	workers *workerRegistry
	keeps   func(job.Namespace) retention.Policy
	reads   *readLog
}

// Rules are what the cell's state says of namespaces.
type Rules struct {
	// Limits are what the plan allows; nil: everything.
	Limits func(job.Namespace) PlanLimits
	// Keeps is how long what has ended is kept.
	Keeps func(job.Namespace) retention.Policy
	// AuditsReads reports whether people's reads of payloads are written down; nil: nowhere.
	AuditsReads func(job.Namespace) bool
}

// New makes the service of a shard.
func New(s *shard.Shard, r Rules) *Service {
	counted := func(ns job.Namespace) (records.Reading, error) {
		r, _, err := stateread.ReadOpenReading(s.Store(), ns)
		return r, err
	}
	return &Service{shard: s, ids: newIDSource(), gate: newAdmission(r.Limits, counted), workers: newWorkerRegistry(), keeps: r.Keeps, reads: newReadLog(r.AuditsReads)}
}

// releaseTimeout bounds the return of jobs whose fetcher did not wait.
const releaseTimeout = 5 * time.Second

// Enqueue adds one job. When it returns, a quorum has it on disk.
func (s *Service) Enqueue(ctx context.Context, c Caller, in EnqueueInput) (EnqueueResult, error) {
	if fields := in.Check(c, s.now()); len(fields) > 0 {
		return EnqueueResult{}, fault.InvalidFields(fields)
	}
	if err := s.mayEnqueue(&c, "", &in); err != nil {
		return EnqueueResult{}, err
	}
	if err := s.gate.admit(c.Namespace, 1, len(in.Payload), time.Now()); err != nil {
		return EnqueueResult{}, err
	}
	rep, err := s.do(ctx, c, shard.Request{After: []command.Command{s.stampEnqueue(c, &in)}})
	if err != nil {
		return EnqueueResult{}, err
	}
	if err := enqueueRefusal("", &in, &rep.After[0]); err != nil {
		return EnqueueResult{}, err
	}
	return enqueueResult(in.Queue, &rep.After[0]), nil
}

// EnqueueBatch adds all jobs in one commit, or none if any is invalid.
func (s *Service) EnqueueBatch(ctx context.Context, c Caller, in []EnqueueInput) ([]EnqueueResult, error) {
	cmds, err := s.stampEnqueues(c, "jobs", in)
	if err != nil {
		return nil, err
	}
	rep, err := s.do(ctx, c, shard.Request{After: cmds})
	if err != nil {
		return nil, err
	}
	return enqueueResults("jobs", in, rep.After)
}

// do runs a request whose enqueues were admitted.
func (s *Service) do(ctx context.Context, c Caller, r shard.Request) (shard.Reply, error) {
	rep, err := s.shard.Do(ctx, r)
	if n := enqueuesOf(r.After); err != nil && n > 0 && fault.CodeOf(err) != fault.UnknownOutcome {
		s.gate.giveBack(c.Namespace, n, time.Now())
	}
	return rep, err
}

func enqueuesOf(cmds []command.Command) (n int) {
	for _, c := range cmds {
		if _, ok := c.(*command.Enqueue); ok {
			n++
		}
	}
	return n
}

// now is calendar time.
func (s *Service) now() time.Time { return time.Unix(0, s.shard.Group().Now().Calendar) }

// stampEnqueues validates and stamps a list whose wire name is list.
func (s *Service) stampEnqueues(c Caller, list string, in []EnqueueInput) ([]command.Command, error) {
	if len(in) == 0 || len(in) > BatchMax {
		return nil, fault.InvalidFields([]fault.Field{{Path: list, Message: rangeMessage("items", 1, BatchMax, len(in))}})
	}
	var fields []fault.Field
	now := s.now()
	for i := range in {
		fields = append(fields, at(list, i, in[i].Check(c, now))...)
	}
	if len(fields) > 0 {
		return nil, fault.InvalidFields(fields)
	}
	for i := range in {
		if err := s.mayEnqueue(&c, fmt.Sprintf("%s[%d].", list, i), &in[i]); err != nil {
			return nil, err
		}
	}
	bytes := 0
	for i := range in {
		bytes += len(in[i].Payload)
	}
	if err := s.gate.admit(c.Namespace, len(in), bytes, time.Now()); err != nil {
		return nil, err
	}
	cmds := make([]command.Command, 0, len(in)+1)
	if len(in) > 1 {
		cmds = append(cmds, &command.Atomic{Count: uint32(len(in))})
	}
	for i := range in {
		cmds = append(cmds, s.stampEnqueue(c, &in[i]))
	}
	return cmds, nil
}

// enqueueResults turns the results of stampEnqueues's commands into answers.
func enqueueResults(list string, in []EnqueueInput, results []state.Result) ([]EnqueueResult, error) {
	if r := &results[0]; r.Refusal != state.Accepted {
		return nil, enqueueRefusal(fmt.Sprintf("%s[%d].", list, r.Culprit), &in[r.Culprit], r)
	}
	results = results[len(results)-len(in):] // Without the result of Atomic.
	out := make([]EnqueueResult, len(in))
	for i := range in {
		out[i] = enqueueResult(in[i].Queue, &results[i])
	}
	return out, nil
}

func enqueueResult(queue string, r *state.Result) EnqueueResult {
	id := r.ID.String()
	res := EnqueueResult{Replayed: r.Replayed, Enqueued: wire.Enqueued{
		JobID: id, Status: wire.EnqueueStatus(r.State.String()), UniqueExisting: r.Duplicate,
		ChainID: idOrNone(r.Chain), BatchID: idOrNone(r.Batch), Job: wire.JobRef{ID: id, Queue: queue},
	}}
	switch {
	case r.Duplicate:
		res.Status, res.UniqueJobID = wire.EnqueueDuplicate, id
	case !r.Replayed:
		res.Job.State = stateOf(r.State)
	}
	return res
}

// Fetch leases up to in.Count jobs, waiting up to in.Wait for the first. No jobs
// in time is an empty answer, not an error.
func (s *Service) Fetch(ctx context.Context, c Caller, in FetchInput) ([]wire.FetchedJob, error) {
	if fields := in.Check(); len(fields) > 0 {
		return nil, fault.InvalidFields(fields)
	}
	if err := c.mayFetch(in.Queues); err != nil {
		return nil, err
	}
	s.workers.touch(c.Namespace, in.WorkerID, in.Hostname, in.Queues, time.Now())
	if s.DispatchHeld(c.Namespace) != nil {
		in.Wait = min(in.Wait, heldWait)
	}
	f := s.fetchOf(c, &in)
	f.Wait = in.Wait > 0
	waitCtx, cancel := ctx, context.CancelFunc(func() {})
	if f.Wait {
		waitCtx, cancel = context.WithTimeout(ctx, in.Wait)
	}
	defer cancel()
	rep, err := s.shard.Do(waitCtx, shard.Request{Fetch: f})
	if ctx.Err() != nil { // The worker is gone: return its jobs.
		s.release(c, rep.Grants)
		return nil, ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.load(c, rep.Grants)
}

func (s *Service) fetchOf(c Caller, in *FetchInput) *shard.Fetch {
	lease, count := in.Lease, in.Count
	if lease == 0 {
		lease = job.DefaultLease
	}
	if count == 0 {
		count = 1
	}
	return &shard.Fetch{
		NS: c.Namespace, Queues: in.Queues, Count: count,
		Worker: in.WorkerID, Hostname: in.Hostname, Peer: peerHash(c), Lease: lease,
	}
}

// load reads what a worker needs of the granted jobs. Bodies never change, so
// this happens here, off the path of the log. A job deleted meanwhile is left out.
func (s *Service) load(c Caller, grants []state.Grant) (_ []wire.FetchedJob, err error) {
	bodies, err := stateread.OpenBodies(s.shard.Store(), c.Namespace, len(grants))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bodies.Close()) }()
	out := make([]wire.FetchedJob, 0, len(grants))
	for i := range grants {
		g := &grants[i]
		body, err := bodies.Read(g.ID)
		if errors.Is(err, statedb.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, wire.FetchedJob{
			JobID: g.ID.String(), Queue: g.Queue, Payload: orEmpty(body.Payload), Tags: tagMap(body.Tags),
			Attempt: int(g.Attempt), MaxRetries: int(g.MaxRetries), LeaseDuration: wholeSeconds(g.Lease),
			LeaseToken:  FormatToken(command.Token{Attempt: g.Attempt, Epoch: g.Epoch}),
			TraceParent: body.TraceParent, ExpireAt: when(g.ExpireAt),
			BatchID: idOrNone(body.Batch), ChainID: idOrNone(body.Chain), ChainStep: chainStep(&body),
		})
		if g.Iteration > 0 {
			used, err := stateread.ReadJobUsage(s.shard.Store(), c.Namespace, g.ID)
			if err != nil {
				return nil, err
			}
			out[len(out)-1].Agent = viewAgent(&body, g.Iteration, used)
		}
		if g.HasCheckpoint {
			if out[len(out)-1].Checkpoint, err = stateread.ReadCheckpoint(s.shard.Store(), c.Namespace, g.ID); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// wholeSeconds rounds up: a worker told less would only renew earlier, but told 0
// it might not renew at all.
func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

func tagMap(tags []command.Tag) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[t.Key] = t.Value
	}
	return m
}

// release returns grants whose fetcher did not wait. If it fails, the leases expire
// by themselves.
func (s *Service) release(c Caller, grants []state.Grant) {
	if len(grants) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	cmds := make([]command.Command, len(grants))
	for i, g := range grants {
		cmds[i] = &command.Fail{
			NS: c.Namespace, ID: g.ID, Release: true,
			By: command.Holder{Token: command.Token{Attempt: g.Attempt, Epoch: g.Epoch}},
		}
	}
	_, _ = s.shard.Do(ctx, shard.Request{Settle: cmds}) // See above.
}

// Ack completes jobs. The slice holds, per item, nil or the reason it was refused.
func (s *Service) Ack(ctx context.Context, c Caller, in []AckInput) ([]error, error) {
	if len(in) > AckBatchMax {
		return nil, fault.InvalidFields([]fault.Field{{Path: "acks", Message: rangeMessage("items", 0, AckBatchMax, len(in))}})
	}
	res, err := s.Frame(ctx, c, FrameInput{Acks: in})
	return res.Acks, err
}

// Fail ends attempts without success.
func (s *Service) Fail(ctx context.Context, c Caller, in []FailInput) ([]FailOutcome, error) {
	res, err := s.Frame(ctx, c, FrameInput{Fails: in})
	return res.Fails, err
}

// Heartbeat renews leases and stores the news they carry. One without news writes
// nothing. Refused news is an error, but no lease is lost by it.
func (s *Service) Heartbeat(ctx context.Context, c Caller, in []HeartbeatInput) ([]wire.HeartbeatOutcome, error) {
	res, err := s.Frame(ctx, c, FrameInput{Heartbeats: in})
	if err == nil {
		err = res.HeartbeatErr
	}
	return res.Heartbeats, err
}

// readBack reads what a change that is committed has made. That must not fail as if nothing had
// been done: the change would be made again.
func readBack[T any](ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	v, err := read(shard.Afterwards(ctx))
	if fault.NothingDone(err) {
		err = fault.New(fault.UnknownOutcome, "UNKNOWN_OUTCOME", "the change was made, but the answer could not be completed: %v; read it again", err)
	}
	return v, err
}

// look reads from the leader's state; missing is the refusal if what is asked for is not
// there.
func look[T any](ctx context.Context, s *shard.Shard, missing error, read func(*statedb.Group) (T, error)) (T, error) {
	v, err := shard.Read(ctx, s, read)
	if errors.Is(err, statedb.ErrNotFound) {
		err = missing
	}
	return v, err
}

// whole reads everything about a job that the caller may read.
func whole(ctx context.Context, s *shard.Shard, c Caller, id job.ID) (stateread.Job, error) {
	j, err := look(ctx, s, errNoJob(id), func(g *statedb.Group) (stateread.Job, error) { return stateread.ReadJob(g, c.Namespace, id) })
	if err == nil {
		err = c.mayOn(permission.JobRead, j.Head.Queue, errNoJob(id))
	}
	return j, err
}

// Job reads a whole job from the leader.
func (s *Service) Job(ctx context.Context, c Caller, id job.ID) (wire.Job, error) {
	v, err := look(ctx, s.shard, errNoJob(id), func(g *statedb.Group) (wire.Job, error) {
		j, err := stateread.ReadJob(g, c.Namespace, id)
		if err != nil {
			return wire.Job{}, err
		}
		if err := c.mayOn(permission.JobRead, j.Head.Queue, errNoJob(id)); err != nil {
			return wire.Job{}, err
		}
		return s.keeping(g, &c).view(id, &j)
	})
	if err != nil {
		return wire.Job{}, err
	}
	return v, s.noteRead(ctx, &c, readOfJobs([]wire.Job{v}))
}

// Queues lists the namespace's queues with exact counts.
func (s *Service) Queues(ctx context.Context, c Caller) ([]wire.Queue, error) {
	return shard.Read(ctx, s.shard, func(g *statedb.Group) (out []wire.Queue, err error) {
		queues, err := stateread.ReadQueues(g, c.Namespace)
		if err != nil {
			return nil, err
		}
		queues = slices.DeleteFunc(queues, func(q stateread.Queue) bool { return !c.Rights.Queue(permission.QueueRead, q.Name) })
		keeps := s.keeps(c.Namespace)
		out = make([]wire.Queue, len(queues))
		for i := range queues {
			if out[i], err = viewQueue(g, c.Namespace, keeps, &queues[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// PauseQueue stops handing out the queue's jobs; enqueueing goes on.
func (s *Service) PauseQueue(ctx context.Context, c Caller, name string) error {
	return s.setPaused(ctx, c, name, true)
}

// ResumeQueue undoes PauseQueue and DrainQueue.
func (s *Service) ResumeQueue(ctx context.Context, c Caller, name string) error {
	return s.setPaused(ctx, c, name, false)
}

func (s *Service) setPaused(ctx context.Context, c Caller, name string, paused bool) error {
	if err := checkQueuePath(name); err != nil {
		return err
	}
	act := queueAct("queue.resume", name)
	if paused {
		act.act = "queue.pause"
	}
	_, err := s.act(ctx, c, act, &command.Pause{NS: c.Namespace, Queue: name, Paused: paused})
	return err
}

// Cancel ends a waiting job, or asks the worker of an active one to stop; the state
// says which: Cancelled or Cancelling.
func (s *Service) Cancel(ctx context.Context, c Caller, id job.ID) (job.State, error) {
	return s.actOnJob(ctx, c, jobAct(cancelJob, id), &command.Cancel{NS: c.Namespace, ID: id})
}

// Retry makes a finished job pending again with fresh counters, and a scheduled or
// retrying one pending now.
func (s *Service) Retry(ctx context.Context, c Caller, id job.ID) error {
	_, err := s.actOnJob(ctx, c, jobAct(retryJob, id), &command.Retry{NS: c.Namespace, ID: id})
	return err
}

// Delete removes every trace of a job that no worker holds.
func (s *Service) Delete(ctx context.Context, c Caller, id job.ID) error {
	_, err := s.actOnJob(ctx, c, jobAct(deleteJob, id), &command.Delete{NS: c.Namespace, ID: id})
	return err
}

func (s *Service) one(ctx context.Context, cmd command.Command) (state.Result, error) {
	rep, err := s.shard.Do(ctx, shard.Request{Settle: []command.Command{cmd}})
	if err != nil {
		return state.Result{}, err
	}
	return rep.Settled[0], nil
}

func errNoJob(id job.ID) error {
	return fault.New(fault.NotFound, "NOT_FOUND", "there is no job %s in this namespace", id)
}

// What is done to jobs, one by one or in bulk, and which states each requires.
var (
	retryJob   = jobVerb{permission.JobRetry, "retry", "dead, cancelled, completed, scheduled or retrying"}
	cancelJob  = jobVerb{permission.JobCancel, "cancel", "pending, scheduled, retrying, held or active"}
	deleteJob  = jobVerb{permission.JobDelete, "delete", "not leased by a worker (cancel it first)"}
	moveJob    = jobVerb{permission.JobMove, "move", "not leased by a worker"}
	holdJob    = jobVerb{permission.JobApprove, "hold", "pending, scheduled, retrying or active"}
	approveJob = jobVerb{permission.JobApprove, "approve", "held"}
	rejectJob  = jobVerb{permission.JobApprove, "reject", "held"}
	requeueJob = jobVerb{permission.JobRetry, "requeue", "dead"}
	prioritize = jobVerb{permission.JobMove, "change the priority of", "pending, scheduled, retrying or held"}
)

// adminRefusal is why a job is left unchanged, or nil.
func adminRefusal(id job.ID, r *state.Result, verb jobVerb) error {
	switch r.Refusal {
	case state.Accepted:
		return nil
	case state.NotFound:
		return errNoJob(id)
	case state.Exists:
		return fault.New(fault.Conflict, "CONFLICT", "cannot %s job %s: job %s has its unique key in the other queue", verb.word, id, r.ID)
	case state.NotApprover:
		return fault.New(fault.Forbidden, "FORBIDDEN", "cannot %s job %s: you aren't one of its approvers", verb.word, id)
	default:
		return fault.New(fault.Conflict, "CONFLICT", "cannot %s job %s: it is %s; it must be %s", verb.word, id, r.State, verb.of)
	}
}

// peerHash identifies a caller without a lease token.
func peerHash(c Caller) uint64 { return xxhash.Sum64String(c.Principal + "\x00" + c.Peer) }

var emptyObject = json.RawMessage("{}")
