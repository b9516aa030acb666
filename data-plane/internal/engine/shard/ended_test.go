package shard

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
)

// desired is what a cell says of its namespaces.
type desired struct {
	mu      sync.Mutex
	deleted []job.Namespace
	keeps   retention.Policy
	swept   chan job.Namespace
	changed chan struct{}
}

func newDesired() *desired {
	return &desired{keeps: retention.Default(), swept: make(chan job.Namespace, 10), changed: make(chan struct{})}
}

// set is what is deleted and not forgotten.
func (d *desired) set(deleted ...job.Namespace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deleted = deleted
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *desired) Deleted() []job.Namespace {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deleted
}

func (d *desired) Known(ns job.Namespace) bool {
	for _, known := range d.Deleted() {
		if known == ns {
			return true
		}
	}
	return false
}

func (d *desired) Retention(job.Namespace) retention.Policy {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keeps
}

// keep is what namespaces keep from now on.
func (d *desired) keep(p retention.Policy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keeps = p
}

func (d *desired) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

func (d *desired) Swept(_ context.Context, ns job.Namespace) error { d.swept <- ns; return nil }

// rows counts the rows of the shard's store in which the bytes of a namespace stand.
// What it is billed stays, and is not counted.
func (r *rig) rows(tb testing.TB, ns job.Namespace) (n int) {
	tb.Helper()
	from, to := keys.In(r.Store().Prefix()).All()
	readings, _ := keys.In(r.Store().Prefix()).OpenReadings(job.Namespace{})
	_, past := keys.In(r.Store().Prefix()).Readings(0, job.Namespace{})
	err := r.Store().Scan(from, to, func(k, v []byte) (bool, error) {
		if bytes.Compare(readings, k) <= 0 && bytes.Compare(k, past) < 0 {
			return true, nil
		}
		if bytes.Contains(k, ns[:]) || bytes.Contains(v, ns[:]) {
			n++
		}
		return true, nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// From the moment a namespace is deleted nothing of it runs: its schedule makes no job,
// its waiting job does not become ready, its fetch ends, its worker loses its lease, and no
// call about it is taken. It is swept, forgotten, and its neighbour never notices.
func TestEnded_ADeletedNamespaceStopsAtOnceAndLeavesNothing(t *testing.T) {
	t.Parallel()
	cell := newDesired()
	ticks := make(chan job.ScheduleID, 1000)
	const every = int64(20 * time.Millisecond)
	r := startWith(t, memDisks(), t.TempDir(), raftlog.Options{}, Options{
		Namespaces: cell,
		Plan: func(id job.ScheduleID, s *records.Schedule, now int64) (*command.Tick, error) {
			ticks <- id
			return &command.Tick{Ticks: []int64{s.Next}, Next: now + every}, nil
		},
	})
	defer r.stop(t)
	gone, stays := job.Namespace([]byte("the deleted one.")), job.Namespace([]byte("the other, alive"))
	for i, ns := range []job.Namespace{gone, stays} {
		id := func(n byte) job.ID { return job.ID{byte(i), n} }
		enqueue := func(n byte, c command.Enqueue) command.Command {
			c.NS, c.ID, c.Queue, c.Retry = ns, id(n), "q", command.DefaultRetry()
			return &c
		}
		r.must(t, Request{After: []command.Command{
			enqueue(1, command.Enqueue{UniqueKey: "u", UniqueFor: time.Hour, IdempotencyKey: "i", IdempotencyFor: time.Hour}),
			enqueue(2, command.Enqueue{ScheduledAt: r.Group().Now().Calendar + int64(300*time.Millisecond)}),
			&command.MakeBatch{NS: ns, ID: job.BatchID{1}, Callback: &command.Step{Queue: "done"}},
		}})
		r.must(t, Request{Fetch: &Fetch{NS: ns, Queues: []string{"q"}, Count: 1, Worker: "w", Lease: time.Minute}})
		r.must(t, Request{Settle: []command.Command{&command.PutSchedule{
			NS: ns, ID: job.ScheduleID(id(9)), Next: r.Group().Now().Calendar, Schedule: command.Schedule{
				Name: "s", Cron: "* * * * *", Zone: "UTC", Job: command.Template{Queue: "ticks", Retry: command.DefaultRetry()},
			},
		}}})
	}
	parked := func(ns job.Namespace) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := r.Do(t.Context(), Request{Fetch: &Fetch{NS: ns, Queues: []string{"nothing"}, Count: 1, Worker: "w", Lease: time.Minute, Wait: true}})
			done <- err
		}()
		return done
	}
	ends, waits := parked(gone), parked(stays)
	eventually.True(t, patience, "both are parked", func() bool { return r.Stats().Parked.Load() == 2 })
	for <-ticks != (job.ScheduleID{0, 9}) { // It ticks.
	}

	cell.set(gone)
	if ns := <-cell.swept; ns != gone {
		t.Fatalf("%s was swept", ns)
	}
	if err := <-ends; fault.CodeOf(err) != fault.NotFound {
		t.Fatalf("the parked fetch ended with %v", err)
	}
	for len(ticks) > 0 {
		<-ticks
	}
	for range 20 { // The neighbour's schedule ticks on, and only that.
		if id := <-ticks; id != (job.ScheduleID{1, 9}) {
			t.Fatalf("schedule %x ticked", id)
		}
	}
	for name, q := range map[string]Request{
		"enqueue":   {After: []command.Command{&command.Enqueue{NS: gone, ID: job.ID{77}, Queue: "q", Retry: command.DefaultRetry()}}},
		"ack":       {Settle: []command.Command{&command.Ack{NS: gone, ID: job.ID{0, 1}}}},
		"long poll": {Fetch: &Fetch{NS: gone, Queues: []string{"q"}, Count: 1, Worker: "w", Lease: time.Minute, Wait: true}},
	} {
		if _, err := r.Do(t.Context(), q); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if rows := r.rows(t, gone); rows != 1 {
		t.Errorf("%d rows name the namespace, want the note of its end", rows)
	}
	cell.set() // The cell forgets it.
	eventually.True(t, patience, "the namespace is forgotten", func() bool { return r.rows(t, gone) == 0 })
	r.must(t, Request{After: []command.Command{&command.Enqueue{NS: stays, ID: job.ID{78}, Queue: "nothing", Retry: command.DefaultRetry()}}})
	if err := <-waits; err != nil {
		t.Fatalf("the neighbour's fetch ended with %v", err)
	}
}
