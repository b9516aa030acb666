package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

func TestEnqueueBatch_NamesEveryItemAndAddsNone(t *testing.T) {
	t.Parallel()
	r := start(t)
	_, err := r.EnqueueBatch(r.ctx(), r.caller, []EnqueueInput{{Queue: "q"}, {Queue: ""}, {Queue: "q", Priority: "x", MaxRetries: ptr(-1)}})
	equal(t, "refused", paths(err), []string{"jobs[1].queue", "jobs[2].priority", "jobs[2].max_retries"})
	_, err = r.EnqueueBatch(r.ctx(), r.caller, nil)
	equal(t, "an empty batch", paths(err), []string{"jobs"})
	_, err = r.EnqueueBatch(r.ctx(), r.caller, make([]EnqueueInput, BatchMax+1))
	equal(t, "too long a batch", paths(err), []string{"jobs"})
	if got := r.fetch(FetchInput{}); len(got) != 0 {
		t.Fatalf("a refused batch added %+v", got)
	}
	all := make([]EnqueueInput, BatchMax)
	for i := range all {
		all[i] = EnqueueInput{Queue: "q"}
	}
	res, err := r.EnqueueBatch(r.ctx(), r.caller, all)
	if err != nil || len(res) != BatchMax {
		t.Fatalf("%d results, %v", len(res), err)
	}
	got := r.fetch(FetchInput{Count: 3})
	for i := range got {
		if got[i].JobID != res[i].JobID {
			t.Fatalf("grant %d is %s, want %s: a batch keeps its order", i, got[i].JobID, res[i].JobID)
		}
	}
}

func TestEnqueue_ThePathsOfASingleJobHaveNoIndex(t *testing.T) {
	t.Parallel()
	r := start(t)
	_, err := r.Enqueue(r.ctx(), r.caller, EnqueueInput{Queue: "-", UniquePeriod: ptr(time.Hour)})
	equal(t, "refused", paths(err), []string{"queue", "unique_period"})
	_, err = r.Ack(r.ctx(), r.caller, make([]AckInput, AckBatchMax+1))
	equal(t, "too many acks", paths(err), []string{"acks"})
	equal(t, "pause", paths(r.PauseQueue(r.ctx(), r.caller, "-")), []string{"queue"})
}

func TestEnqueue_AgainWithTheSameKeys(t *testing.T) {
	t.Parallel()
	r := start(t)
	in := EnqueueInput{Queue: "q", IdempotencyKey: "i"}
	first, err := r.Enqueue(r.ctx(), r.caller, in)
	if err != nil || first.Status != wire.EnqueuePending || first.Replayed {
		t.Fatalf("%+v, %v", first, err)
	}
	g := r.one()
	if errs, err := r.Ack(r.ctx(), r.caller, []AckInput{{JobID: idOf(g.JobID), Token: g.LeaseToken}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	again, err := r.Enqueue(r.ctx(), r.caller, in)
	if err != nil || again.JobID != first.JobID || again.Status != wire.EnqueuePending || !again.Replayed {
		t.Fatalf("the first answer again: %+v, %v", again, err)
	}
	other := in
	other.Queue = "other"
	if res, err := r.Enqueue(r.ctx(), r.caller, other); err != nil || res.Replayed {
		t.Fatalf("the key of another queue: %+v, %v", res, err)
	}
	unique := EnqueueInput{Queue: "q", UniqueKey: "u", ScheduledAt: time.Now().Add(time.Hour)}
	holder, err := r.Enqueue(r.ctx(), r.caller, unique)
	if err != nil || holder.Status != wire.EnqueueScheduled {
		t.Fatalf("%+v, %v", holder, err)
	}
	dup, err := r.Enqueue(r.ctx(), r.caller, unique)
	if err != nil || dup.Status != wire.EnqueueDuplicate || !dup.UniqueExisting || dup.JobID != holder.JobID {
		t.Fatalf("duplicate: %+v, %v", dup, err)
	}
	stranger := r.caller
	stranger.Namespace = job.Namespace{6}
	if res, err := r.Enqueue(r.ctx(), stranger, unique); err != nil || res.UniqueExisting {
		t.Fatalf("another namespace: %+v, %v", res, err)
	}
	if _, err := r.Job(r.ctx(), stranger, idOf(holder.JobID)); fault.CodeOf(err) != fault.NotFound {
		t.Fatalf("another namespace reads the job: %v", err)
	}
}

func TestFetch_ReturnsWhenAJobArrivesAndEmptyWhenNoneDoes(t *testing.T) {
	t.Parallel()
	r := start(t)
	from := r.shard.Group().Status().LastIndex
	began := time.Now()
	if got := r.fetch(FetchInput{Wait: 50 * time.Millisecond}); len(got) != 0 || time.Since(began) < 50*time.Millisecond {
		t.Fatalf("%+v after %s", got, time.Since(began))
	}
	if r.shard.Group().Status().LastIndex != from {
		t.Fatal("an empty fetch was written")
	}
	got := make(chan []wire.FetchedJob, 1)
	go func() {
		g, err := r.Fetch(context.Background(), r.caller, FetchInput{Queues: []string{"q"}, Wait: WaitMax})
		if err != nil {
			t.Error(err)
		}
		got <- g
	}()
	eventually.True(r.t, patience, "it is parked", func() bool { return r.shard.Stats().Parked.Load() == 1 })
	id := r.enqueue(EnqueueInput{Payload: json.RawMessage(`{"a":1}`), Tags: map[string]string{"k": "v"}, Checkpoint: json.RawMessage(`[1]`)})
	select {
	case g := <-got:
		if len(g) != 1 || g[0].JobID != id.String() || string(g[0].Payload) != `{"a":1}` || g[0].Tags["k"] != "v" || string(g[0].Checkpoint) != "[1]" ||
			g[0].Attempt != 1 || g[0].MaxRetries != job.DefaultMaxRetries || g[0].LeaseDuration != int(job.DefaultLease/time.Second) || g[0].LeaseToken == "" {
			t.Fatalf("grant %+v", g)
		}
	case <-time.After(patience):
		t.Fatal("the job did not wake the fetch")
	}
}

// A worker with many free slots that meets large jobs is handed what a message holds, and the
// rest in its next fetches, in order: none is leased that it can't take.
func TestFetch_LargeJobsComeInAnswersThatClientsTake(t *testing.T) {
	t.Parallel()
	r := start(t)
	payload := json.RawMessage(`"` + strings.Repeat("x", PayloadBytesMax-2) + `"`)
	var want, got []string
	for range 30 {
		want = append(want, r.enqueue(EnqueueInput{Payload: payload}).String())
	}
	for range 3 {
		size := 0
		for _, g := range r.fetch(FetchInput{Count: 30, Lease: time.Hour}) {
			size += len(g.Payload)
			got = append(got, g.JobID)
			if g.Attempt != 1 {
				t.Errorf("job %s in its attempt %d", g.JobID, g.Attempt)
			}
		}
		if size > state.FetchBytesMax {
			t.Fatalf("an answer has %d bytes", size)
		}
	}
	equal(t, "jobs", got, want)
}

// A fetch that does not wait passes by the jobs that a spent budget holds when they are
// to start.
func TestFetch_WithoutWaitingPassesJobsThatABudgetHolds(t *testing.T) {
	t.Parallel()
	r := start(t)
	if _, err := r.SetBudget(r.ctx(), r.caller, Budget{Scope: "tag", Target: "team:a", Daily: job.NanosPerDollar}); err != nil {
		t.Fatal(err)
	}
	tagged := EnqueueInput{Tags: map[string]string{"team": "a"}}
	r.enqueue(tagged)
	spender := r.one()
	for range 3 {
		r.enqueue(tagged)
	}
	first, second := r.enqueue(EnqueueInput{}), r.enqueue(EnqueueInput{})
	_, err := r.Ack(r.ctx(), r.caller, []AckInput{{JobID: idOf(spender.JobID), Token: spender.LeaseToken, Usage: &UsageReport{Cost: 2 * job.NanosPerDollar}}})
	if err != nil {
		t.Fatal(err)
	}
	if g := r.one(); g.JobID != first.String() {
		t.Fatalf("got %s, want %s", g.JobID, first)
	}
	for range 3 {
		r.enqueue(tagged)
	}
	if g := r.one(); g.JobID != second.String() {
		t.Fatalf("got %s, want %s", g.JobID, second)
	}
	if g := r.fetch(FetchInput{}); len(g) != 0 {
		t.Fatalf("got %+v, want none", g)
	}
}

// A worker that is gone keeps nothing: what was granted to it is ready again and
// has cost no attempt.
func TestFetch_WhatAGoneClientWasGrantedIsReleased(t *testing.T) {
	t.Parallel()
	r := start(t)
	for range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := r.Fetch(ctx, r.caller, FetchInput{Queues: []string{"q"}, Wait: WaitMax})
			done <- err
		}()
		eventually.True(r.t, patience, "it is parked", func() bool { return r.shard.Stats().Parked.Load() == 1 })
		go cancel() // At the same time as the job.
		id := r.enqueue(EnqueueInput{})
		if err := <-done; err == nil {
			continue // It was quicker: the job is the client's.
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if j := r.job(id); j.State != wire.Pending || j.Attempt != 0 {
			t.Fatalf("job is %s at attempt %d", j.State, j.Attempt)
		}
		if g := r.one(); g.JobID != id.String() || g.Attempt != 1 {
			t.Fatalf("grant %+v", g)
		}
	}
}

func TestFrame_ItemsFailAloneAndShareOneCommit(t *testing.T) {
	t.Parallel()
	r := start(t)
	for range 4 {
		r.enqueue(EnqueueInput{})
	}
	a, b, c := r.one(), r.one(), r.one()
	from := r.shard.Group().Status().LastIndex
	res, err := r.Frame(r.ctx(), r.caller, FrameInput{
		Acks: []AckInput{
			{JobID: idOf(a.JobID), Token: "not a token"},
			{JobID: idOf(a.JobID), Token: b.LeaseToken},
			{JobID: idOf(a.JobID), Token: a.LeaseToken, Result: json.RawMessage("{")},
			{JobID: idOf(a.JobID), Token: a.LeaseToken, Result: json.RawMessage(`{"ok":true}`)},
			{JobID: job.ID{1}, Token: a.LeaseToken},
		},
		Fails:      []FailInput{{JobID: idOf(b.JobID), Token: b.LeaseToken, Error: strings.Repeat("€", ErrorBytesMax)}, {JobID: idOf(b.JobID)}},
		Heartbeats: []HeartbeatInput{{JobID: idOf(c.JobID), Token: c.LeaseToken, Progress: json.RawMessage(`5`)}, {JobID: idOf(c.JobID), Token: a.LeaseToken}, {JobID: idOf(c.JobID), Token: c.LeaseToken, Lease: 1}},
		Fetch:      &FetchInput{Queues: []string{"q"}},
		Enqueues:   []EnqueueInput{{Queue: "q2"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "bad token", paths(res.Acks[0]), []string{"lease_token"})
	equal(t, "bad result", paths(res.Acks[2]), []string{"result"})
	if reason(res.Acks[1]) != "LEASE_LOST" || res.Acks[3] != nil || reason(res.Acks[4]) != "NOT_FOUND" {
		t.Errorf("acks %v", res.Acks)
	}
	if f := res.Fails[0]; f.Err != nil || f.Status != wire.Retrying || f.AttemptsRemaining != 2 || f.NextAttemptAt.IsZero() {
		t.Errorf("fail %+v", f)
	}
	if reason(res.Fails[1].Err) != "NOT_ACTIVE" {
		t.Errorf("fail without a lease: %v", res.Fails[1].Err)
	}
	if h := res.Heartbeats; h[0].Status != wire.HeartbeatOK || h[1].Status != wire.HeartbeatLost || h[2].Status != wire.HeartbeatOK {
		t.Errorf("heartbeats %v", h)
	}
	equal(t, "bad heartbeat", paths(res.HeartbeatErr), []string{"lease"})
	if len(res.Grants) != 1 || len(res.Enqueues) != 1 || res.FetchErr != nil || res.EnqueueErr != nil {
		t.Errorf("frame %+v", res)
	}
	if n := r.shard.Group().Status().LastIndex - from; n != 1 {
		t.Errorf("the frame took %d entries", n)
	}
	if e := r.job(idOf(b.JobID)).Errors; len(e) != 1 || len(e[0].Error) > ErrorBytesMax || !strings.HasPrefix(e[0].Error, "€€") {
		t.Errorf("errors %+v", e)
	}
}

func TestFrame_AnInvalidFetchOrEnqueueIsRefusedAlone(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.enqueue(EnqueueInput{})
	g := r.one()
	res, err := r.Frame(r.ctx(), r.caller, FrameInput{
		Acks: []AckInput{{JobID: idOf(g.JobID), Token: g.LeaseToken}}, Fetch: &FetchInput{}, Enqueues: []EnqueueInput{{Queue: "q"}, {Queue: "-"}},
	})
	if err != nil || res.Acks[0] != nil {
		t.Fatalf("%+v, %v", res, err)
	}
	equal(t, "fetch", paths(res.FetchErr), []string{"queues"})
	equal(t, "enqueues", paths(res.EnqueueErr), []string{"enqueues[1].queue"})
	if got := r.fetch(FetchInput{}); len(got) != 0 || res.Enqueues != nil {
		t.Fatal("a job of a refused list was added")
	}
	if res, err := r.Frame(r.ctx(), r.caller, FrameInput{}); err != nil || res.Acks != nil {
		t.Fatalf("an empty frame: %+v, %v", res, err)
	}
}

func TestHeartbeat_TellsOkCancelAndLost(t *testing.T) {
	t.Parallel()
	r := start(t)
	id := r.enqueue(EnqueueInput{})
	g := r.one()
	beat := func(in HeartbeatInput) wire.HeartbeatStatus {
		t.Helper()
		res, err := r.Heartbeat(r.ctx(), r.caller, []HeartbeatInput{in})
		if err != nil {
			t.Fatal(err)
		}
		return res[0].Status
	}
	from := r.shard.Group().Status().LastIndex
	if s := beat(HeartbeatInput{JobID: id, Token: g.LeaseToken}); s != wire.HeartbeatOK || r.shard.Group().Status().LastIndex != from {
		t.Fatalf("%s; a beat without news is not written", s)
	}
	if s := beat(HeartbeatInput{JobID: id, Token: g.LeaseToken, Progress: json.RawMessage(`{"p":1}`), Checkpoint: json.RawMessage(`2`)}); s != wire.HeartbeatOK {
		t.Fatal(s)
	}
	if j := r.job(id); string(j.Progress) != `{"p":1}` || string(j.Checkpoint) != "2" {
		t.Fatalf("job %+v", j)
	}
	if s, err := r.Cancel(r.ctx(), r.caller, id); err != nil || s != job.Cancelling {
		t.Fatal(s, err)
	}
	if s := beat(HeartbeatInput{JobID: id, Token: g.LeaseToken}); s != wire.HeartbeatCancel {
		t.Fatal(s)
	}
	out, err := r.Fail(r.ctx(), r.caller, []FailInput{{JobID: id, Token: g.LeaseToken}})
	if err != nil || out[0].Err != nil || out[0].Status != wire.Cancelled {
		t.Fatalf("%+v, %v", out, err)
	}
	if s := beat(HeartbeatInput{JobID: id, Token: g.LeaseToken}); s != wire.HeartbeatLost {
		t.Fatal(s)
	}
	if s := beat(HeartbeatInput{JobID: job.ID{9}}); s != wire.HeartbeatLost {
		t.Fatal(s)
	}
}

func TestHeartbeat_NewsThatWereRefusedAreNotOK(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.enqueue(EnqueueInput{})
	g := r.one()
	id := idOf(g.JobID)
	// The lease is renewed before the frame's ack ends it; the news come after.
	res, err := r.Frame(r.ctx(), r.caller, FrameInput{
		Acks:       []AckInput{{JobID: id, Token: g.LeaseToken}},
		Heartbeats: []HeartbeatInput{{JobID: id, Token: g.LeaseToken, Checkpoint: json.RawMessage(`1`)}},
	})
	if err != nil || res.Acks[0] != nil || res.Heartbeats[0].Status != wire.HeartbeatLost {
		t.Errorf("%+v, %v", res, err)
	}
	if j := r.job(id); len(j.Checkpoint) > 0 {
		t.Errorf("checkpoint %s", j.Checkpoint)
	}
}

func TestFail_AShutdownReleasesAndCostsNoAttempt(t *testing.T) {
	t.Parallel()
	r := start(t)
	id := r.enqueue(EnqueueInput{MaxRetries: ptr(1)})
	for _, in := range []FailInput{{Error: workerShutdown}, {Release: true, Error: "leaving"}} {
		g := r.one()
		in.JobID, in.Token = id, g.LeaseToken
		out, err := r.Fail(r.ctx(), r.caller, []FailInput{in})
		if err != nil || out[0].Err != nil || out[0].Status != wire.Pending || out[0].AttemptsRemaining != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if j := r.job(id); j.Attempt != 0 || len(j.Errors) != 0 {
		t.Fatalf("job %+v", j)
	}
	g := r.one()
	out, err := r.Fail(r.ctx(), r.caller, []FailInput{{JobID: id, Token: g.LeaseToken, Error: "boom", Backtrace: "at x"}})
	if err != nil || out[0].Status != wire.Dead || out[0].AttemptsRemaining != 0 || !out[0].NextAttemptAt.IsZero() {
		t.Fatalf("%+v, %v", out, err)
	}
	j := r.job(id)
	if j.DeadReason != "max_retries" || len(j.Errors) != 1 || j.Errors[0].Error != "boom" || j.Errors[0].Backtrace != "at x" || j.Errors[0].Attempt != 1 {
		t.Fatalf("job %+v", j)
	}
}

func TestJob_ShowsItsWholeStory(t *testing.T) {
	t.Parallel()
	r := start(t)
	at := time.Now().Add(30 * time.Millisecond).UTC()
	id := r.enqueue(EnqueueInput{
		Payload: json.RawMessage(`{"x":1}`), Priority: "high", MaxRetries: ptr(5), RetryBackoff: "fixed", RetryBaseDelay: ptr(time.Duration(0)),
		RetryMaxDelay: ptr(time.Minute), ScheduledAt: at, Tags: map[string]string{"a": "b"}, UniqueKey: "u",
	})
	if j := r.job(id); j.State != wire.Scheduled || !j.ScheduledAt.Equal(at) || j.Priority != int(job.High) || j.MaxRetries != 5 ||
		j.RetryBackoff != wire.BackoffFixed || j.RetryBaseDelayMS != 0 || j.RetryMaxDelayMS != 60_000 || j.UniqueKey != "u" || j.Tags["a"] != "b" {
		t.Fatalf("scheduled %+v", j)
	}
	g := r.fetch(FetchInput{WorkerID: "w1", Hostname: "h1", Wait: time.Minute, Lease: time.Minute})
	if j := r.job(id); j.State != wire.Active || j.WorkerID != "w1" || j.Hostname != "h1" || j.LeaseExpiresAt.Sub(j.StartedAt) != time.Minute {
		t.Fatalf("active %+v", j)
	}
	if _, err := r.Fail(r.ctx(), r.caller, []FailInput{{JobID: id, Token: g[0].LeaseToken, Error: "one"}}); err != nil {
		t.Fatal(err)
	}
	g = r.fetch(FetchInput{Wait: time.Minute})
	if errs, err := r.Ack(r.ctx(), r.caller, []AckInput{{JobID: id, Token: g[0].LeaseToken, Result: json.RawMessage(`"done"`), Checkpoint: json.RawMessage(`1`)}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	j := r.job(id)
	if j.State != wire.Completed || string(j.Result) != `"done"` || string(j.Checkpoint) != "1" || j.CompletedAt.IsZero() || j.Attempt != 2 || j.FailedAt.IsZero() || j.DeadReason != "" {
		t.Fatalf("completed %+v", j)
	}
	var story []string
	last := time.Time{}
	for _, e := range j.Timeline {
		story = append(story, string(e.Event))
		if e.At.Before(last) {
			t.Fatalf("timeline goes back: %+v", j.Timeline)
		}
		last = e.At
	}
	equal(t, "timeline", story, []string{"scheduled", "promoted", "started", "failed", "promoted", "started", "completed"})
	if len(j.Errors) != 1 || j.Errors[0].Error != "one" || j.Errors[0].Attempt != 1 {
		t.Fatalf("errors %+v", j.Errors)
	}
	if err := r.Retry(r.ctx(), r.caller, id); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(r.ctx(), r.caller, id); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Job(r.ctx(), r.caller, id); reason(err) != "NOT_FOUND" {
		t.Fatal(err)
	}
}

func TestAdmin_RefusesWhatTheStateDoesNotAllow(t *testing.T) {
	t.Parallel()
	r := start(t)
	id := r.enqueue(EnqueueInput{})
	if err := r.Retry(r.ctx(), r.caller, id); reason(err) != "CONFLICT" {
		t.Error(err)
	}
	g := r.one()
	if err := r.Delete(r.ctx(), r.caller, id); reason(err) != "CONFLICT" {
		t.Error(err)
	}
	if _, err := r.Ack(r.ctx(), r.caller, []AckInput{{JobID: id, Token: g.LeaseToken}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Cancel(r.ctx(), r.caller, id); reason(err) != "CONFLICT" {
		t.Error(err)
	}
	for _, err := range []error{r.Retry(r.ctx(), r.caller, job.ID{1}), r.Delete(r.ctx(), r.caller, job.ID{1})} {
		if reason(err) != "NOT_FOUND" {
			t.Error(err)
		}
	}
}

func TestQueues_CountExactlyAndKnowTheOldest(t *testing.T) {
	t.Parallel()
	r := start(t)
	low := r.enqueue(EnqueueInput{})
	r.enqueue(EnqueueInput{Priority: "critical"})
	r.enqueue(EnqueueInput{ScheduledAt: time.Now().Add(time.Hour)})
	r.enqueue(EnqueueInput{Queue: "other"})
	if err := r.PauseQueue(r.ctx(), r.caller, "paused"); err != nil {
		t.Fatal(err)
	}
	info := func() wire.Queue {
		t.Helper()
		all, err := r.Queues(r.ctx(), r.caller)
		if err != nil || len(all) != 3 {
			t.Fatalf("%+v, %v", all, err)
		}
		for _, q := range all {
			if q.CreatedAt.IsZero() || q.Paused != (q.Name == "paused") {
				t.Fatalf("queue %+v", q)
			}
			if q.Name == "q" {
				return q
			}
		}
		t.Fatal("no queue q")
		return wire.Queue{}
	}
	q := info()
	if q.Pending != 2 || q.Scheduled != 1 || q.Enqueued != 3 || !q.OldestPendingAt.Equal(r.job(low).CreatedAt) {
		t.Fatalf("queue %+v", q)
	}
	g := r.one() // The critical one.
	out, err := r.Fail(r.ctx(), r.caller, []FailInput{{JobID: idOf(g.JobID), Token: g.LeaseToken}})
	if err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	r.one()
	if q = info(); q.Pending != 0 || q.Active != 1 || q.Retrying != 1 || q.Failed != 1 || !q.OldestPendingAt.IsZero() {
		t.Fatalf("queue %+v", q)
	}
}

func TestPause_HandsOutNothingUntilResumed(t *testing.T) {
	t.Parallel()
	r := start(t)
	if err := r.PauseQueue(r.ctx(), r.caller, "q"); err != nil {
		t.Fatal(err)
	}
	id := r.enqueue(EnqueueInput{})
	if g := r.fetch(FetchInput{Wait: 30 * time.Millisecond}); len(g) != 0 {
		t.Fatalf("grants %+v", g)
	}
	if err := r.ResumeQueue(r.ctx(), r.caller, "q"); err != nil {
		t.Fatal(err)
	}
	if g := r.one(); g.JobID != id.String() {
		t.Fatalf("grant %+v", g)
	}
}

// Generation-1 workers show no token: the first lease is open to them, after a
// crash only to its holder.
func TestAck_WithoutATokenAfterACrashIsTheHoldersAlone(t *testing.T) {
	t.Parallel()
	r := start(t)
	id := r.enqueue(EnqueueInput{})
	r.fetch(FetchInput{WorkerID: "w1", Lease: LeaseMin})
	g := r.fetch(FetchInput{WorkerID: "w2", Wait: time.Minute}) // After the first lease ran out.
	if len(g) != 1 || g[0].JobID != id.String() {
		t.Fatalf("grants %+v", g)
	}
	ack := func(worker string) error {
		t.Helper()
		errs, err := r.Ack(r.ctx(), r.caller, []AckInput{{JobID: id, WorkerID: worker}})
		if err != nil {
			t.Fatal(err)
		}
		return errs[0]
	}
	if err := ack("w1"); reason(err) != "LEASE_LOST" {
		t.Fatalf("the former holder: %v", err)
	}
	if err := ack("w2"); err != nil {
		t.Fatalf("the holder: %v", err)
	}
	if j := r.job(id); j.State != wire.Completed || j.Crashes != 1 {
		t.Fatalf("job %+v", j)
	}
}

// Lists by id show what was made in the order of its making, also within a millisecond
// and over a clock that is set back.
func TestIDs_MadeLaterSortLater(t *testing.T) {
	t.Parallel()
	ids := newIDSource()
	now := time.UnixMilli(1_700_000_000_000)
	last := ids.next(now)
	for n := range 10_000 {
		id := ids.next(now.Add(time.Duration(n%3-1) * time.Millisecond))
		if bytes.Compare(id[:], last[:]) <= 0 {
			t.Fatalf("%s came after %s", id, last)
		}
		last = id
	}
	if id := ids.next(now.Add(time.Hour)); bytes.Compare(id[:], last[:]) <= 0 {
		t.Fatalf("%s an hour after %s", id, last)
	}
}
