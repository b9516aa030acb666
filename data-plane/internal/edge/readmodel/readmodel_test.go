package readmodel

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/notify"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

const (
	epoch    = int64(1_700_000_000_000_000_000)
	patience = 20 * time.Second
)

var nsA, nsB = job.Namespace{0xa}, job.Namespace{0xb}

// rig is the state machine of a shard without raft, and a projector over it.
type rig struct {
	testing.TB
	dir     string
	db      *statedb.DB
	store   *statedb.Group
	machine *state.Machine
	hub     *notify.Hub
	index   uint64
	now     int64
	clock   atomic.Int64 // Is now, for the projector.
	next    uint32

	models *Dir
	*Projector
	stop func()
}

func newRig(t testing.TB) *rig {
	t.Helper()
	db, err := statedb.Open("state", statedb.Options{FS: vfs.NewMem(), CacheBytes: 8 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, dir: t.TempDir(), db: db, store: db.Group(2), hub: notify.New()}
	r.pass(time.Duration(epoch))
	r.machine = state.New(r.store, nil)
	r.machine.RingOnCommit(r.hub.Notify)
	t.Cleanup(func() {
		r.halt()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	r.open()
	return r
}

// open makes models and projector anew, as a process that starts does.
func (r *rig) open() {
	r.Helper()
	models, err := OpenDir(r.dir, slog.New(slog.DiscardHandler))
	if err != nil {
		r.Fatal(err)
	}
	r.models = models
	models.now = func() time.Time { return time.Unix(0, r.clock.Load()) }
	// Other tests may use the whole machine: they are not what is to be yielded to.
	models.pace.load = func() (float64, float64, bool) { return 1, 2, true }
	r.Projector = NewProjector(models, r.store, r.hub, slog.New(slog.DiscardHandler))
}

// run begins a term of leadership.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.stop = func() { cancel(); <-done; r.stop = nil }
}

// halt ends the term and the process.
func (r *rig) halt() {
	if r.stop != nil {
		r.stop()
	}
	r.dropAhead() // Of a test that took the steps itself.
	if err := r.models.Close(); err != nil {
		r.Error(err)
	}
}

// apply runs commands in one entry.
func (r *rig) apply(cmds ...command.Command) *state.Applied {
	r.Helper()
	r.index++
	r.pass(time.Millisecond)
	txn := r.store.NewTxn()
	res, err := r.machine.Apply(txn, group.Entry{Index: r.index, Now: time.Unix(0, r.now), Lease: r.now, Payload: command.Encode(cmds)})
	if err != nil {
		r.Fatal(err)
	}
	if _, err := txn.EndEntry(0, r.index); err != nil {
		r.Fatal(err)
	}
	if err := txn.Commit(); err != nil {
		r.Fatal(err)
	}
	r.machine.Committed(r.index)
	return res.(*state.Applied)
}

// pass is time that goes by.
func (r *rig) pass(d time.Duration) {
	r.now += int64(d)
	r.clock.Store(r.now)
}

// trim deletes the events of a namespace but the last one.
func (r *rig) trim(ns job.Namespace) {
	r.Helper()
	m, err := feed.MarkOf(r.store, ns)
	if err != nil {
		r.Fatal(err)
	}
	r.apply(&command.TrimEvents{NS: ns, Before: m.Seq})
}

// newJob is a command that adds a job with the next id.
func (r *rig) newJob(ns job.Namespace, queue string, tags ...command.Tag) *command.Enqueue {
	r.next++
	n := r.next
	return &command.Enqueue{
		NS: ns, ID: job.ID{0: 1, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}, Queue: queue, Payload: []byte(`{"n":1}`),
		Priority: job.Normal, Retry: command.RetryPolicy{MaxRetries: 2, BaseDelay: time.Second, MaxDelay: time.Minute}, Tags: tags,
	}
}

func (r *rig) enqueue(ns job.Namespace, queue string, tags ...command.Tag) job.ID {
	c := r.newJob(ns, queue, tags...)
	r.apply(c)
	return c.ID
}

func (r *rig) start(ns job.Namespace, id job.ID) keys.Position {
	a := r.apply(&command.Fetch{NS: ns, Jobs: []job.ID{id}, Worker: "w1", Lease: time.Minute})
	return a.Results[0].Grants[0].Epoch
}

func (r *rig) finish(ns job.Namespace, id job.ID) {
	by := command.Holder{Token: command.Token{Attempt: 1, Epoch: r.start(ns, id)}}
	r.apply(&command.Ack{NS: ns, ID: id, By: by})
}

func (r *rig) fail(ns job.Namespace, id job.ID, text string) {
	by := command.Holder{Token: command.Token{Attempt: 1, Epoch: r.start(ns, id)}}
	r.apply(&command.Fail{NS: ns, ID: id, By: by, Error: text})
}

// page lists and fails unless the answer is current.
func (r *rig) page(ns job.Namespace, f Filter) Page {
	r.Helper()
	if f.Limit == 0 {
		f.Limit = 50
	}
	p, err := r.List(r.ctx(), ns, Reader{}, &f)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.Cleanup(cancel)
	return ctx
}

// settled waits until the namespace's model is whole and current.
func (r *rig) settled(ns job.Namespace) { r.Helper(); r.settledWithin(ns, patience) }

func (r *rig) settledWithin(ns job.Namespace, limit time.Duration) {
	r.Helper()
	eventually.NoError(r, limit, "the model settles", func() error {
		if p := r.page(ns, Filter{Limit: 1}); p.Lag != 0 || p.Rebuilding {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
}

func ids(p Page) []job.ID {
	out := []job.ID{}
	for _, row := range p.Rows {
		out = append(out, row.ID)
	}
	return out
}

func TestList_ShowsTheCallersLastWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	r.enqueue(nsA, "mail")
	r.settled(nsA)
	for range 20 {
		id := r.enqueue(nsA, "mail")
		p := r.page(nsA, Filter{})
		if len(p.Rows) == 0 || p.Rows[0].ID != id || p.Lag != 0 || p.Rebuilding {
			t.Fatalf("after %s: %+v", id, p)
		}
		r.finish(nsA, id)
		if p := r.page(nsA, Filter{}); p.Rows[0].State != job.Completed || p.Rows[0].Worker != "w1" {
			t.Fatalf("after the ack: %+v", p.Rows[0])
		}
	}
	if p := r.page(nsB, Filter{}); len(p.Rows) != 0 || p.Rebuilding {
		t.Fatalf("a namespace without jobs: %+v", p)
	}
}

func TestLag_IsTheAgeOfTheOldestChangeThatDoesNotShow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	r.enqueue(nsA, "mail")
	r.settled(nsA)
	want := func(at int64, want time.Duration) {
		t.Helper()
		got, err := r.Lag(time.Unix(0, at))
		if err != nil || got != want {
			t.Fatalf("%v late (%v), want %v", got, err, want)
		}
	}
	want(r.now+int64(time.Hour), 0) // Nothing happened since.
	r.stop()
	r.enqueue(nsA, "mail")
	since := r.now
	r.enqueue(nsB, "mail")
	want(since+int64(3*time.Second), 3*time.Second)
	r.run()
	r.settled(nsA)
	r.settled(nsB)
	eventually.True(t, patience, "every namespace was looked at", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.surveying
	})
	want(since+int64(time.Hour), 0)
}

// A list that has been late for long will not be whole in a moment: it is shown as it is, with
// how late it is. One that is late by the caller's last write is waited for.
func TestList_IsNotWaitedForInVain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.models.freshWait, r.models.mendWait = time.Hour, time.Hour // Then the test fails.
	r.run()
	r.enqueue(nsA, "mail")
	r.settled(nsA)
	r.stop()
	r.enqueue(nsA, "mail")
	r.pass(2 * lateMax)
	if p := r.page(nsA, Filter{}); len(p.Rows) != 1 || p.Lag != 2*lateMax || p.Rebuilding || !p.AsOf.Equal(time.Unix(0, r.now).Add(-p.Lag)) {
		t.Fatalf("nobody projects: %+v", p)
	}
	r.begin() // A new term has a moment for what the last one left.
	r.run()
	if p := r.page(nsA, Filter{}); len(p.Rows) != 2 || !p.Exact() {
		t.Fatalf("in a new term: %+v", p)
	}
}

// While a list misses something, how late it is is known and never 0: before a new term has
// looked at it, before it has a file, and after a restart in the middle of a rebuild.
func TestLag_IsNeverZeroWhileSomethingIsMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := func(when string, want time.Duration) {
		t.Helper()
		if got, err := r.Lag(time.Unix(0, r.now)); err != nil || got != want {
			t.Errorf("%s: %s late (%v), want %s", when, got, err, want)
		}
	}
	r.fillWith(nsA, 10*sliceMax, false)
	r.trim(nsA)
	r.begin()
	r.pass(3 * time.Second)
	want("a term has begun", 3*time.Second)
	for range 2 {
		if _, err := r.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if a := r.look(nsA); !a.rebuilding {
		t.Fatalf("it is not being rebuilt: %+v", a)
	}
	r.pass(5 * time.Second)
	want("a list is being rebuilt", 5*time.Second)
	r.halt()
	r.open()
	r.begin()
	if _, err := r.survey(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.pass(time.Second)
	want("after a restart", 6*time.Second)
	for busy := true; busy; {
		var err error
		if busy, err = r.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want("it is whole", 0)
	r.begin()
	r.pass(time.Second)
	want("a second term has begun", time.Second)
	if _, err := r.survey(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("it has looked", 0)
	r.enqueue(nsB, "mail")
	r.pass(2 * time.Second)
	want("a namespace is new", 2*time.Second)
	if p := r.page(nsA, Filter{}); !p.Exact() {
		t.Errorf("page of a whole list: %+v", p)
	}
}
