package queue

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// inQueues may do all that can be done in a queue, in those of the patterns.
func (r *rig) inQueues(patterns ...string) Caller {
	c := r.caller
	c.Principal = "key_some"
	c.Rights = permission.Here{Some: []permission.InQueues{{Permissions: permission.OfLevel(permission.OfQueue), Queues: patterns}}}
	return c
}

// denied fails unless err refuses for want of the permission on the queue.
func denied(t *testing.T, what string, err error, p permission.Permission, queue string) {
	t.Helper()
	f := fault.As(err)
	if f == nil || f.Code != fault.Forbidden || !strings.Contains(f.Message, p.String()) || !strings.Contains(f.Message, "queue "+queue+";") {
		t.Errorf("%s: %v, want a refusal for %s on %s", what, err, p, queue)
	}
}

func TestMay_EveryQueueThatAnEnqueueNames(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.inQueues("a*")
	step := func(q string) *wire.ChainStep { return &wire.ChainStep{Queue: q} }
	for what, in := range map[string]EnqueueInput{
		"the job":    {Queue: "b"},
		"a step":     {Queue: "a", Chain: &ChainInput{Steps: []wire.ChainStep{{}, {Queue: "b"}}}},
		"on_failure": {Queue: "a", Chain: &ChainInput{Steps: []wire.ChainStep{{}, {Queue: "a"}}, OnFailure: step("b")}},
		"on_exit":    {Queue: "a", Chain: &ChainInput{Steps: []wire.ChainStep{{}, {Queue: "a"}}, OnExit: step("b")}},
	} {
		_, err := r.Enqueue(r.ctx(), c, in)
		denied(t, what, err, permission.JobEnqueue, "b")
		_, err = r.EnqueueBatch(r.ctx(), c, []EnqueueInput{{Queue: "a"}, in})
		denied(t, what+" in a list", err, permission.JobEnqueue, "b")
		res, err := r.Frame(r.ctx(), c, FrameInput{Enqueues: []EnqueueInput{in}})
		if err != nil {
			t.Fatal(err)
		}
		denied(t, what+" in a frame", res.EnqueueErr, permission.JobEnqueue, "b")
	}
	_, err := r.EnqueueAsBatch(r.ctx(), c, []EnqueueInput{{Queue: "a"}}, wire.BatchOptions{CallbackQueue: "b"})
	denied(t, "the callback of a batch", err, permission.JobEnqueue, "b")
	_, err = r.MakeBatch(r.ctx(), c, wire.BatchOptions{CallbackQueue: "b"})
	denied(t, "the callback of an open batch", err, permission.JobEnqueue, "b")
	_, err = r.CreateSchedule(r.ctx(), c, ScheduleInput{Name: "s", Cron: "0 0 1 1 *", Job: EnqueueInput{Queue: "b"}})
	denied(t, "a schedule", err, permission.ScheduleUpdate, "b")
	if queues, err := r.Queues(r.ctx(), r.caller); err != nil || len(queues) != 0 {
		t.Errorf("something was enqueued: %+v, %v", queues, err)
	}
	if _, err := r.Enqueue(r.ctx(), c, EnqueueInput{Queue: "a", Chain: &ChainInput{Steps: []wire.ChainStep{{}, {Queue: "ab"}}, OnExit: step("a")}}); err != nil {
		t.Error(err)
	}
}

// A job of which one may know nothing is not there to depend on.
func TestMay_DependenciesAreThoseOneKnows(t *testing.T) {
	t.Parallel()
	r := start(t)
	mine, theirs := r.aJob("a"), r.aJob("b")
	c := r.inQueues("a*")
	_, foreign := r.Enqueue(r.ctx(), c, EnqueueInput{Queue: "a", DependsOn: []string{theirs.String()}})
	_, random := r.Enqueue(r.ctx(), c, EnqueueInput{Queue: "a", DependsOn: []string{job.ID{15: 9}.String()}})
	if foreign == nil || fault.CodeOf(foreign) != fault.NotFound || foreign.Error() != random.Error() {
		t.Errorf("foreign: %v, random: %v", foreign, random)
	}
	if _, err := r.Enqueue(r.ctx(), c, EnqueueInput{Queue: "a", DependsOn: []string{mine.String()}}); err != nil {
		t.Error(err)
	}
}

func (r *rig) aJob(queue string) job.ID {
	r.t.Helper()
	res, err := r.Enqueue(r.ctx(), r.caller, EnqueueInput{Queue: queue, Payload: json.RawMessage(`{"x":"secret"}`)})
	if err != nil {
		r.t.Fatal(err)
	}
	id, err := job.ParseID(res.JobID)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func TestMay_WorkIsByQueue(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.aJob("a")
	r.aJob("b")
	c := r.inQueues("a*")
	_, err := r.Fetch(r.ctx(), c, FetchInput{Queues: []string{"a", "b"}, WorkerID: "w"})
	denied(t, "a fetch", err, permission.JobFetch, "b")
	res, err := r.Frame(r.ctx(), c, FrameInput{Fetch: &FetchInput{Queues: []string{"b"}, WorkerID: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	denied(t, "a fetch in a frame", res.FetchErr, permission.JobFetch, "b")
	got, err := r.Fetch(r.ctx(), r.caller, FetchInput{Queues: []string{"b"}, WorkerID: "w"})
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	id, err := job.ParseID(got[0].JobID)
	if err != nil {
		t.Fatal(err)
	}
	// With the lease's own token, but without rights on the queue.
	frame := FrameInput{
		Acks: []AckInput{{JobID: id, Token: got[0].LeaseToken}}, Fails: []FailInput{{JobID: id, Token: got[0].LeaseToken}},
		Heartbeats: []HeartbeatInput{{JobID: id, Token: got[0].LeaseToken, WorkerID: "w"}},
	}
	res, err = r.Frame(r.ctx(), c, frame)
	if err != nil || fault.CodeOf(res.Acks[0]) != fault.NotFound || fault.CodeOf(res.Fails[0].Err) != fault.NotFound || res.Heartbeats[0].Status != wire.HeartbeatLost {
		t.Errorf("%+v %v", res, err)
	}
	half := c // Knows the queue, and may not fetch from it.
	half.Rights.Some = append(half.Rights.Some, permission.InQueues{Permissions: permission.Of(permission.JobRead), Queues: []string{"b"}})
	errs, err := r.Ack(r.ctx(), half, frame.Acks)
	if err != nil {
		t.Fatal(err)
	}
	denied(t, "an ack", errs[0], permission.JobFetch, "b")
	if errs, err := r.Ack(r.ctx(), r.caller, frame.Acks); err != nil || errs[0] != nil {
		t.Errorf("its worker: %v %v", errs, err)
	}
}

func TestMay_AMoveNeedsBothQueues(t *testing.T) {
	t.Parallel()
	r := start(t)
	a, b := r.aJob("a"), r.aJob("b")
	c := r.inQueues("a*")
	denied(t, "out", r.MoveJob(r.ctx(), c, a, "b"), permission.JobMove, "b")
	if err := r.MoveJob(r.ctx(), c, b, "a"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("in: %v", err)
	}
	if err := r.MoveJob(r.ctx(), c, a, "ab"); err != nil {
		t.Error(err)
	}
	half := c
	half.Rights.Some = append(half.Rights.Some, permission.InQueues{Permissions: permission.Of(permission.JobRead), Queues: []string{"b"}})
	denied(t, "in, where it may look", r.MoveJob(r.ctx(), half, b, "a"), permission.JobMove, "b")
}

func TestMay_PausedInSettingsNeedsPause(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.caller
	c.Rights.All = c.Rights.All.Without(permission.Of(permission.QueuePause))
	paused := true
	_, err := r.SetQueue(r.ctx(), c, "a", QueueSettings{Paused: &paused})
	denied(t, "paused", err, permission.QueuePause, "a")
	if _, err := r.SetQueue(r.ctx(), c, "a", QueueSettings{}); err != nil {
		t.Error(err)
	}
}

// Whoever lacks payload.read sees that a job failed and when, and nothing that it carries.
func TestRedacted_WhatAJobCarries(t *testing.T) {
	t.Parallel()
	r := start(t)
	id := r.aJob("a")
	got, err := r.Fetch(r.ctx(), r.caller, FetchInput{Queues: []string{"a"}, WorkerID: "w"})
	if err != nil || len(got) != 1 {
		t.Fatal(err)
	}
	news := HeartbeatInput{JobID: id, Token: got[0].LeaseToken, Progress: json.RawMessage(`"secret"`), Checkpoint: json.RawMessage(`"secret"`)}
	if _, err := r.Heartbeat(r.ctx(), r.caller, []HeartbeatInput{news}); err != nil {
		t.Fatal(err)
	}
	delay := time.Hour
	if out, err := r.Fail(r.ctx(), r.caller, []FailInput{{JobID: id, Token: got[0].LeaseToken, Error: "secret", Backtrace: "secret", Delay: &delay}}); err != nil || out[0].Err != nil {
		t.Fatal(err)
	}
	hidden := r.caller
	hidden.Rights = permission.Here{All: permission.OfLevel(permission.OfNamespace).Without(permission.Of(permission.PayloadRead))}
	shown := func(c Caller) string {
		t.Helper()
		v, err := r.Job(r.ctx(), c, id)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if n := strings.Count(shown(r.caller), "secret"); n != 5 {
		t.Errorf("the whole job has it %d times: %s", n, shown(r.caller))
	}
	text := shown(hidden)
	if strings.Contains(text, "secret") || !strings.Contains(text, `"redacted":true`) || !strings.Contains(text, `"payload":null`) || !strings.Contains(text, `"attempt":1`) {
		t.Errorf("hidden: %s", text)
	}
	some := hidden
	some.Rights.Some = []permission.InQueues{{Permissions: permission.Of(permission.PayloadRead), Queues: []string{"a"}}}
	if shown(some) != shown(r.caller) {
		t.Errorf("with payload.read on its queue: %s", shown(some))
	}
}

// Who sees none of a namespace's chains must not make a call walk them all.
func TestMay_AListOfChainsLooksAtSoMany(t *testing.T) {
	t.Parallel()
	r := start(t)
	chain := func(queue string) EnqueueInput {
		return EnqueueInput{Queue: queue, Chain: &ChainInput{Steps: []wire.ChainStep{{}, {Queue: queue}}}}
	}
	r.enqueue(chain("a"))
	jobs := make([]EnqueueInput, BatchMax)
	for i := range jobs {
		jobs[i] = chain("b")
	}
	if _, err := r.EnqueueBatch(r.ctx(), r.caller, jobs); err != nil {
		t.Fatal(err)
	}
	r.enqueue(chain("a"))

	only := r.inQueues("a*")
	first, err := r.Chains(r.ctx(), only, PageInput{})
	if err != nil || len(first.Chains) != 1 || !first.HasMore || first.Cursor == "" {
		t.Fatalf("the first page, which ends among chains of others: %+v, %v", first, err)
	}
	rest, err := r.Chains(r.ctx(), only, PageInput{Cursor: first.Cursor})
	if err != nil || len(rest.Chains) != 1 || rest.HasMore || rest.Chains[0].ID == first.Chains[0].ID {
		t.Errorf("the rest: %+v, %v", rest, err)
	}
	all, err := r.Chains(r.ctx(), r.caller, PageInput{Limit: ListMax})
	if err != nil || len(all.Chains) != ListMax || !all.HasMore || all.Cursor != all.Chains[ListMax-1].ID {
		t.Errorf("who sees all gets %d, %v", len(all.Chains), err)
	}
}

// Nor all of its events, when nobody waits for the answer any more.
func TestMay_AListOfEventsEndsWithItsCall(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.views()
	r.aJob("b")
	gone, leave := context.WithCancel(r.ctx())
	leave()
	if page, err := v.Recent(gone, r.inQueues("a*"), 0, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("events of a call that was given up: %+v, %v", page, err)
	}
}
