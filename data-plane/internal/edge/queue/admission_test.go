package queue

import (
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Calls are held over a change of leader and asked again every few milliseconds.
// Those that did nothing must not use up what the plan allows.
func TestAdmission_WhatWasNotEnqueuedCostsNothing(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.gate = newAdmission(func(job.Namespace) PlanLimits { return PlanLimits{PerSecond: 1} })
	jobs := make([]EnqueueInput, BatchMax)
	for i := range jobs {
		jobs[i].Queue = "q"
	}
	r.shard.RefuseJobs([]string{"n2"})
	for range 3 {
		if _, err := r.EnqueueBatch(t.Context(), r.caller, jobs); fault.As(err) == nil || fault.As(err).Reason != "DISK_FULL" {
			t.Fatalf("refused with: %v", err)
		}
		if _, err := r.Enqueue(t.Context(), r.caller, jobs[0]); fault.As(err) == nil || fault.As(err).Reason != "DISK_FULL" {
			t.Fatalf("one refused with: %v", err)
		}
	}
	r.shard.RefuseJobs(nil)
	if _, err := r.EnqueueBatch(t.Context(), r.caller, jobs); err != nil {
		t.Fatal(err)
	}
	if _, err := r.EnqueueBatch(t.Context(), r.caller, jobs); fault.As(err) == nil || fault.As(err).Reason != "RATE_LIMITED" {
		t.Fatalf("what was enqueued costs nothing either: %v", err)
	}
}

// A nearly full disk refuses new jobs, not the settlements that come with them.
func TestFrame_OnANearlyFullDiskItsSettlementsCount(t *testing.T) {
	t.Parallel()
	r := start(t)
	in := EnqueueInput{Queue: "q"}
	if _, err := r.Enqueue(t.Context(), r.caller, in); err != nil {
		t.Fatal(err)
	}
	grants, err := r.Fetch(t.Context(), r.caller, FetchInput{Queues: []string{"q"}})
	if err != nil || len(grants) != 1 {
		t.Fatalf("%+v, %v", grants, err)
	}
	r.shard.RefuseJobs([]string{"n2"})
	res, err := r.Frame(t.Context(), r.caller, FrameInput{
		Acks:     []AckInput{{JobID: idOf(grants[0].JobID), Token: grants[0].LeaseToken}},
		Enqueues: []EnqueueInput{in},
	})
	if err != nil || res.Acks[0] != nil {
		t.Fatalf("the ack was refused: %v, %v", res.Acks, err)
	}
	if f := fault.As(res.EnqueueErr); f == nil || f.Reason != "DISK_FULL" {
		t.Fatalf("the enqueue: %v", res.EnqueueErr)
	}
	if j, err := r.Job(t.Context(), r.caller, idOf(grants[0].JobID)); err != nil || j.State != wire.Completed {
		t.Fatalf("the job is %s, %v", j.State, err)
	}
}
