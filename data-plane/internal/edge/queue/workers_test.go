package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

func TestWorkers_AreThoseWhoFetchAndBeat(t *testing.T) {
	t.Parallel()
	r, nsA, nsB := newWorkerRegistry(), job.Namespace{0xa}, job.Namespace{0xb}
	began := time.Unix(1_700_000_000, 0)
	r.touch(nsA, "b", "host", []string{"mail", "print"}, began)
	r.touch(nsA, "a", "", nil, began.Add(time.Second))
	r.touch(nsA, "b", "", nil, began.Add(2*time.Second))
	r.touch(nsA, "", "nameless", []string{"mail"}, began)
	r.touch(nsB, "c", "other", []string{"mail"}, began)
	got := r.list(nsA, began.Add(3*time.Second))
	if len(got) != 2 || got[0].ID != "a" || got[1].ID != "b" {
		t.Fatalf("listed %+v", got)
	}
	if b := got[1]; b.Hostname != "host" || len(b.Queues) != 2 || !b.StartedAt.Equal(began) || !b.LastSeen.Equal(began.Add(2*time.Second)) {
		t.Errorf("%+v", b)
	}
	if got := r.list(nsA, began.Add(time.Second+workerSilent)); len(got) != 2 {
		t.Errorf("too early gone: %+v", got)
	}
	if got := r.list(nsA, began.Add(3*time.Second+workerSilent)); len(got) != 0 {
		t.Errorf("listed although silent: %+v", got)
	}
}

// Workers of generation 1 renew without a name; a busy one must not seem to be gone.
func TestWorkers_ARenewalWithoutANameIsOfItsHolder(t *testing.T) {
	t.Parallel()
	r := start(t)
	id := r.enqueue(EnqueueInput{})
	if _, err := r.Fetch(t.Context(), r.caller, FetchInput{Queues: []string{"q"}, WorkerID: "w1"}); err != nil {
		t.Fatal(err)
	}
	r.workers.of[r.caller.Namespace]["w1"].LastSeen = time.Now().Add(-2 * workerSilent)
	if _, err := r.Heartbeat(t.Context(), r.caller, []HeartbeatInput{{JobID: id}, {JobID: job.ID{9}}}); err != nil {
		t.Fatal(err)
	}
	if got := r.workers.list(r.caller.Namespace, time.Now()); len(got) != 1 || got[0].ID != "w1" {
		t.Errorf("listed %+v", got)
	}
}

func TestWorkers_AreBounded(t *testing.T) {
	t.Parallel()
	r, nsA, nsB := newWorkerRegistry(), job.Namespace{0xa}, job.Namespace{0xb}
	now := time.Unix(1_700_000_000, 0)
	for i := range workersMax + 5 {
		r.touch(nsA, fmt.Sprintf("w%04d", i), "h", []string{"q"}, now.Add(time.Duration(i)))
	}
	got := r.list(nsA, now)
	if len(got) != workersMax || got[0].ID != "w0005" || r.n != workersMax {
		t.Fatalf("%d are listed from %s, %d counted", len(got), got[0].ID, r.n)
	}
	r.n = workersAllMax
	r.touch(nsB, "one too many", "h", []string{"q"}, now)
	if len(r.list(nsB, now)) != 0 {
		t.Error("more than the shard's bound are listed")
	}
	r.n = workersMax
	r.touch(nsB, "first", "h", []string{"q"}, now.Add(2*workerSilent))
	if r.n != 1 || len(r.of) != 1 {
		t.Errorf("after a silence %d are counted in %d namespaces", r.n, len(r.of))
	}
}

func TestWorkers_OfARealShard(t *testing.T) {
	t.Parallel()
	r := start(t)
	if _, err := r.Fetch(t.Context(), r.caller, FetchInput{Queues: []string{"mail"}, WorkerID: "w1", Hostname: "h1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Frame(t.Context(), r.caller, FrameInput{Fetch: &FetchInput{Queues: []string{"print"}, WorkerID: "w2"}}); err != nil {
		t.Fatal(err)
	}
	got, err := r.views().Workers(t.Context(), r.caller)
	if err != nil || len(got) != 2 || got[0].ID != "w1" || got[0].Hostname != "h1" || got[1].Queues != `["print"]` {
		t.Fatalf("%+v, %v", got, err)
	}
}
