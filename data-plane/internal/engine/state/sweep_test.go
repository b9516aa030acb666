package state

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Readers see a job go with its queue, as commands do; those of the queue that was
// made again are there.
func TestRead_ADeletedQueuesJobsAreNotThere(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, a, b := job.Namespace{1}, job.ID{1}, job.ID{2}
	there := func(id job.ID) bool {
		t.Helper()
		_, errHead := stateread.ReadHead(r.store, ns, id)
		_, errJob := stateread.ReadJob(r.store, ns, id)
		if (errHead == nil) != (errJob == nil) || errHead != nil && !errors.Is(errHead, statedb.ErrNotFound) {
			t.Fatalf("job %s: head %v, job %v", id, errHead, errJob)
		}
		return errHead == nil
	}
	enqueue := func(id job.ID) {
		r.do(t, r.now, &command.Enqueue{NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry()})
	}
	for round := range 2 { // The second time the queue has a generation.
		enqueue(a)
		if !there(a) {
			t.Fatalf("round %d: a job is not there", round)
		}
		r.do(t, r.now, &command.DeleteQueue{NS: ns, Queue: "q"})
		if there(a) {
			t.Fatalf("round %d: a job outlives its queue", round)
		}
		if _, err := stateread.ReadQueue(r.store, ns, "q"); !errors.Is(err, statedb.ErrNotFound) {
			t.Fatalf("round %d: the deleted queue is read: %v", round, err)
		}
		enqueue(b)
		if there(a) || !there(b) {
			t.Fatalf("round %d: after the queue was made again: %v, %v", round, there(a), there(b))
		}
	}
	r.sweepAll(t)
	if there(a) || !there(b) {
		t.Fatal("the sweep took the wrong one")
	}
}

// A sweep of more than one piece finds everything, leaves what is alive, and no piece
// is larger than its bound.
func TestSweeping_FindsEverythingInBoundedPieces(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{1}
	id := func(n int) job.ID { return job.ID{byte(n >> 16), byte(n >> 8), byte(n), 1} }
	const jobs = stateread.HeadsWalked + command.SweepMax + 7
	var alive []job.ID
	for n := 0; n < jobs; {
		e := logEntry{now: r.now}
		for ; len(e.cmds) < 1000 && n < jobs; n++ {
			c := &command.Enqueue{NS: ns, ID: id(n), Queue: "q", Retry: command.DefaultRetry(), IdempotencyKey: id(n).String(), IdempotencyFor: time.Hour}
			switch {
			case n%5 == 0: // Whole pages of the walk have nothing of the deleted queue.
				c.Queue = "other"
				alive = append(alive, c.ID)
			case n%3 == 0:
				c.UniqueKey, c.UniqueFor = id(n).String(), time.Hour
			}
			e.cmds = append(e.cmds, c)
		}
		r.apply(t, e)
	}
	r.do(t, r.now, &command.DeleteQueue{NS: ns, Queue: "q"})
	queues, err := stateread.ReadSweeps(r.store)
	if err != nil || len(queues) != 1 {
		t.Fatalf("%d queues to sweep, %v", len(queues), err)
	}
	pieces := 0
	for done := false; !done; {
		c, err := queues[0].Next(r.store)
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			continue
		}
		if n := len(c.Jobs) + len(c.Unique) + len(c.Idempotency); n > command.SweepMax || n == 0 && c.Done == 0 {
			t.Fatalf("a piece of %d", n)
		}
		if slices.ContainsFunc(alive, func(id job.ID) bool { return slices.Contains(c.Jobs, id) }) {
			t.Fatal("a piece has a job that is alive")
		}
		r.do(t, r.now, c)
		done = c.Done != 0
		pieces++
	}
	if left := r.audit(t); len(left) != len(alive) {
		t.Fatalf("%d jobs are left, want %d", len(left), len(alive))
	}
	rest := 0
	from, to := keys.In(r.store.Prefix()).Heads(ns, job.ID{})
	if err := r.store.Scan(from, to, func(_, _ []byte) (bool, error) { rest++; return true, nil }); err != nil || rest != len(alive) {
		t.Fatalf("%d heads are left, want %d; %v", rest, len(alive), err)
	}
	if due, err := bothDue(r.store, 0, 1<<62, 2*jobs); err != nil || len(due) != len(alive) { // Their idempotency keys.
		t.Fatalf("%d due rows are left, want %d; %v", len(due), len(alive), err)
	}
	if pieces < jobs/command.SweepMax {
		t.Fatalf("%d pieces for %d jobs", pieces, jobs)
	}
}

// However many queues a namespace deleted, what another one deleted is seen too, and a
// walk that began is known again.
func TestReadSweeps_NamesQueuesOfEachNamespace(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	a, b, c := job.Namespace{1}, job.Namespace{1, 1}, job.Namespace{0xff, 0xff}
	for _, ns := range []job.Namespace{a, b, c} {
		for i := range stateread.SweepsOfEach + 8 {
			name := fmt.Sprintf("q%03d", i)
			r.do(t, r.now+1, &command.Enqueue{NS: ns, ID: job.ID{ns[0], ns[1], byte(i)}, Queue: name, Retry: command.DefaultRetry()})
			r.do(t, r.now+1, &command.DeleteQueue{NS: ns, Queue: name})
			if ns == b {
				break
			}
		}
	}
	read := func(want ...int) []stateread.Sweeping {
		t.Helper()
		queues, err := stateread.ReadSweeps(r.store)
		if err != nil {
			t.Fatal(err)
		}
		of := map[job.Namespace]int{}
		for _, q := range queues {
			of[q.NS]++
		}
		if got := []int{of[a], of[b], of[c]}; !slices.Equal(got, want) {
			t.Fatalf("to sweep are %v, want %v", got, want)
		}
		return queues
	}
	first := read(stateread.SweepsOfEach, 1, stateread.SweepsOfEach)
	if again := read(stateread.SweepsOfEach, 1, stateread.SweepsOfEach); !first[0].Continues(&again[0]) || first[0].Continues(&again[1]) {
		t.Fatalf("%+v, then %+v", first, again)
	}
	for i := range 10 {
		r.sweep(t, &first[i])
	}
	read(stateread.SweepsOfEach-2, 1, stateread.SweepsOfEach)
	r.sweepAll(t)
	read(0, 0, 0)
}
