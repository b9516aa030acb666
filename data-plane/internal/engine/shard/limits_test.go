package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

func slotsOf(n uint32) Request {
	return settle(&command.SetQueue{NS: stepNS, Queue: "q", Set: command.SetConcurrency, MaxConcurrency: n})
}

// held follows the feed from the beginning and returns, entry by entry, how many jobs
// of queue q were held most at a time, and when each lease began.
func held(t *testing.T, g *statedb.Group) (most int, began []int64) {
	t.Helper()
	active := map[job.ID]bool{}
	_, err := feed.Walk(g, stepNS, 0, func(b *feed.Row) bool {
		for _, e := range b.Events {
			switch {
			case e.Queue != "q" || e.ID.IsZero():
			case e.State.Leased():
				if e.Type == feed.Started {
					began = append(began, b.Now)
				}
				active[e.ID] = true
			default:
				delete(active, e.ID)
			}
			most = max(most, len(active))
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return most, began
}

// INV-6: a limit of three never shows a fourth, whoever fetches, acks, fails, gives
// back, cancels or crashes at the same time; and three are worked on.
func TestLimits_ThreeSlotsNeverHoldFour(t *testing.T) {
	t.Parallel()
	jobs := 70
	if testing.Short() {
		jobs = 25
	}
	r := start(t, memDisks(), "", raftlog.Options{})
	defer r.stop(t)
	r.must(t, slotsOf(3))
	ids := r.stubborn(t, jobs)
	l := &tenures{all: map[job.ID][]*tenure{}, acks: map[job.ID]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() { erratic(ctx, t, r, l, rand.New(rand.NewPCG(uint64(i), 11))) })
	}
	for i := range 3 {
		wg.Go(func() { framed(ctx, t, r, rand.New(rand.NewPCG(uint64(i), 13))) })
	}
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i += 7 { // A third of the jobs.
			r.must(t, settle(&command.Cancel{NS: stepNS, ID: ids[i%(len(ids)/3)]}))
			time.Sleep(20 * time.Millisecond)
		}
	})
	eventually.True(t, patience, "every job ends", func() bool {
		c, err := stateread.ReadCounts(r.Store(), stepNS, "q")
		n := c.Jobs[job.Completed] + c.Jobs[job.Dead] + c.Jobs[job.Cancelled]
		return err == nil && n == int64(jobs)
	})
	cancel()
	wg.Wait()
	if most, _ := held(t, r.Store()); most != 3 {
		t.Errorf("%d jobs were held at a time, want 3", most)
	}
}

// framed acks what it has and fetches more in one request, as streams do.
func framed(ctx context.Context, t *testing.T, r *rig, rng *rand.Rand) {
	var have []state.Grant
	for ctx.Err() == nil {
		f := fetchReq(1+rng.IntN(4), time.Second, false)
		for _, g := range have {
			f.Settle = append(f.Settle, &command.Ack{NS: stepNS, ID: g.ID, By: holder(g)})
		}
		have = r.must(t, f).Grants
		if len(have) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for _, g := range have {
		r.must(t, settle(&command.Ack{NS: stepNS, ID: g.ID, By: holder(g)}))
	}
}

// A parked fetch is answered by the entry after the one that frees a slot.
func TestLimits_AFreedSlotIsHandedOutByTheNextEntry(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.do(slotsOf(1))
	a, b, c := s.enqueue(), s.enqueue(), s.enqueue()
	g := s.fetch(time.Hour)
	first, second := s.submit(fetchReq(5, time.Hour, true)), s.submit(fetchReq(5, time.Hour, true))
	s.step()
	s.waiting(first)
	if s.table.Hot() {
		s.step()
	}
	from := s.group.Status().LastIndex
	s.do(settle(&command.Ack{NS: stepNS, ID: a, By: holder(g)}))
	if !s.table.Hot() {
		t.Fatal("the loop does not look at once")
	}
	s.step()
	rep := s.answered(first)
	if len(rep.Grants) != 1 || rep.Grants[0].ID != b {
		t.Fatalf("the slot went to %+v, want job %s alone", rep.Grants, b)
	}
	s.waiting(second)
	s.step() // Nothing to do: nothing is written.
	if n := s.group.Status().LastIndex - from; n != 2 {
		t.Fatalf("%d entries, want the ack and the grant", n)
	}
	// Raising the limit frees slots too.
	s.do(slotsOf(2))
	s.step()
	if rep := s.answered(second); len(rep.Grants) != 1 || rep.Grants[0].ID != c {
		t.Fatalf("the new slot went to %+v, want job %s", rep.Grants, c)
	}
}

// The slot that a request's own ack frees is for its own fetch, in one entry.
func TestLimits_AckAndFetchOfOneRequestShareTheSlot(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.do(slotsOf(1))
	s.enqueue()
	b := s.enqueue()
	g := s.fetch(time.Hour)
	f := fetchReq(4, time.Hour, false)
	f.Settle = []command.Command{&command.Ack{NS: stepNS, ID: g.ID, By: holder(g)}}
	from := s.group.Status().LastIndex
	rep := s.do(f)
	if len(rep.Grants) != 1 || rep.Grants[0].ID != b || s.group.Status().LastIndex != from+1 {
		t.Fatalf("granted %+v in %d entries", rep.Grants, s.group.Status().LastIndex-from)
	}
}

// A lease that runs out, a job that is given back, a worker that lets go: each frees
// its slot once, also when two of them meet in one entry.
func TestLimits_ASlotIsFreedOnce(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.do(slotsOf(1))
	for range 4 {
		s.enqueue()
	}
	g := s.fetch(20 * time.Millisecond)
	s.until(s.head(g.ID).Due)
	// The ack comes too late for the entry: its lease ends first.
	f := fetchReq(4, time.Hour, false)
	f.Settle = []command.Command{&command.Ack{NS: stepNS, ID: g.ID, By: holder(g)}}
	rep := s.do(f)
	if n := len(rep.Grants); n > 1 {
		t.Fatalf("%d jobs for one slot", n)
	}
	if rep := s.do(fetchReq(4, time.Hour, false)); len(rep.Grants) > 1 {
		t.Fatalf("%d jobs for one slot", len(rep.Grants))
	}
	if most, _ := held(t, s.shard.store); most != 1 {
		t.Fatalf("%d jobs were held at a time", most)
	}
}

// INV-7: a throttle hands out its limit at once, then waits for its window without a
// log entry, and answers who waits when the window opens.
func TestLimits_AThrottleOpensOnTimeAndWaitsWithoutEntries(t *testing.T) {
	t.Parallel()
	const window = 150 * time.Millisecond
	r := start(t, memDisks(), "", raftlog.Options{})
	defer r.stop(t)
	r.must(t, settle(&command.SetQueue{NS: stepNS, Queue: "q", Set: command.SetThrottle, Throttle: command.Throttle{Limit: 2, Window: window}}))
	var m maker
	var q Request
	for range 6 {
		q.After = append(q.After, m.newJob())
	}
	r.must(t, q)
	from := r.Stats().Entries.Load()
	got := 0
	for entries := uint64(1); got < 6; entries++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		rep, err := r.Do(ctx, fetchReq(10, time.Hour, true))
		cancel()
		if err != nil || len(rep.Grants) != 2 {
			t.Fatalf("granted %d, %v", len(rep.Grants), err)
		}
		got += len(rep.Grants)
		if n := r.Stats().Entries.Load() - from; n != entries {
			t.Fatalf("%d entries for %d answers", n, entries)
		}
	}
	_, began := held(t, r.Store())
	slices.Sort(began)
	for i := 2; i < len(began); i++ {
		if d := time.Duration(began[i] - began[i-2]); d < window-window/20 { // Lease time may run a twentieth faster than what is shown.
			t.Errorf("three leases began within %s, two may in %s", d, window)
		} else if d > window+2*time.Second {
			t.Errorf("a waiter was left alone for %s", d-window)
		}
	}
}

// A deleted queue is swept in pieces, also by the next leader; the jobs of others, and
// those of a queue of the same name made meanwhile, stay.
func TestSweep_TakesADeletedQueueAwayInPieces(t *testing.T) {
	t.Parallel()
	jobs := 3 * command.SweepMax
	d := memDisks()
	r := start(t, d, "", raftlog.Options{})
	var m maker
	for n := 0; n < jobs; {
		var q Request
		for ; len(q.After) < 500 && n < jobs; n++ {
			c := m.newJob()
			c.IdempotencyKey, c.IdempotencyFor = c.ID.String(), time.Hour
			if n%3 == 0 {
				c.ScheduledAt = time.Now().Add(time.Hour).UnixNano()
			}
			if n%5 == 0 {
				c.UniqueKey, c.UniqueFor = c.ID.String(), time.Hour
			}
			q.After = append(q.After, c)
		}
		r.must(t, q)
	}
	other := m.newJob()
	other.Queue = "other"
	r.must(t, Request{After: []command.Command{other}})
	lost := r.must(t, fetchReq(1, time.Hour, false)).Grants[0]

	again := m.newJob()
	from := r.Stats().Entries.Load()
	rep := r.must(t, settle(&command.DeleteQueue{NS: stepNS, Queue: "q"}, again))
	if rep.Settled[0].Refusal != state.Accepted || rep.Settled[1].ID != again.ID {
		t.Fatalf("deleted and made again: %+v", rep.Settled)
	}
	if got := r.must(t, fetchReq(10, time.Hour, false)).Grants; len(got) != 1 || got[0].ID != again.ID {
		t.Fatalf("after the queue was deleted %+v was handed out", got)
	}
	if rep := r.must(t, settle(&command.Ack{NS: stepNS, ID: lost.ID, By: holder(lost)})); rep.Settled[0].Refusal != state.NotFound {
		t.Fatalf("the ack of a deleted job answered %d", rep.Settled[0].Refusal)
	}
	r.stop(t) // Wherever the sweep stands.
	r = start(t, d, "", raftlog.Options{})
	defer r.stop(t)
	eventually.True(t, patience, "the queue is swept", func() bool {
		left, err := stateread.ReadSweeps(r.Store())
		return err == nil && len(left) == 0
	})
	t.Logf("%d entries before the restart, %d after", r.Stats().Entries.Load(), from)
	r.onlyTheseAreLeft(t, other.ID, again.ID)
}

// onlyTheseAreLeft reads every row and looks for what belongs to another job.
func (r *rig) onlyTheseAreLeft(t *testing.T, ids ...job.ID) {
	t.Helper()
	due, err := stateread.ReadDue(r.Store(), true, 0, 1<<62, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	dated, err := stateread.ReadDue(r.Store(), false, 0, 1<<62, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	due = append(due, dated...)
	for _, d := range due {
		if !slices.Contains(ids, d.ID) {
			t.Fatalf("due row %+v is left", d)
		}
	}
	for _, id := range ids {
		if _, err := stateread.ReadHead(r.Store(), stepNS, id); err != nil {
			t.Fatalf("job %s: %v", id, err)
		}
	}
	heads := 0
	from, to := keys.In(r.Store().Prefix()).Heads(stepNS, job.ID{})
	if err := r.Store().Scan(from, to, func(_, _ []byte) (bool, error) { heads++; return true, nil }); err != nil {
		t.Fatal(err)
	}
	if heads != len(ids) {
		t.Fatalf("%d jobs are left, want %d", heads, len(ids))
	}
}

// A sweep that the shard does not take goes on when it does.
func TestSweep_GoesOnAfterARefusal(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	s.enqueue()
	s.do(settle(&command.DeleteQueue{NS: stepNS, Queue: "q"}))
	select {
	case <-s.deleted:
	default:
		t.Fatal("nobody is told that there is something to sweep")
	}
	queues, err := stateread.ReadSweeps(s.shard.store)
	if err != nil || len(queues) != 1 {
		t.Fatalf("%d queues to sweep, %v", len(queues), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.shard.sweepAll(ctx, newSweeper()); !errors.Is(err, context.Canceled) {
		t.Fatalf("a sweep without time: %v", err)
	}
	if err := s.shard.sweepAll(t.Context(), newSweeper()); err == nil {
		t.Fatal("a shard that does not lead took a sweep")
	}
	s.shard.term.Store(s.term)
	if err := s.sweepAll(newSweeper()); err != nil {
		t.Fatal(err)
	}
}

// sweepAll sweeps while the term takes requests.
func (s *stepper) sweepAll(w *sweeper) error {
	s.tb.Helper()
	done := make(chan error, 1)
	go func() { done <- s.shard.sweepAll(s.tb.Context(), w) }()
	for {
		select {
		case err := <-done:
			return err
		case <-s.inbox.arrived:
			if first := s.inbox.take(); first != nil && !s.round(first) {
				s.tb.Fatal("the term ended")
			}
		case <-time.After(patience):
			s.tb.Fatal("the sweep does not end")
		}
	}
}

// Nor does a namespace of which the shard takes nothing hold up another one, and what the
// sweep found of it meanwhile is not forgotten.
func TestSweep_ARefusedNamespaceDoesNotHoldUpItsNeighbour(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	refused, neighbour := job.Namespace{7}, job.Namespace{8}
	jobs := make(map[job.Namespace]job.ID)
	for _, ns := range []job.Namespace{refused, neighbour} {
		c := s.newJob()
		c.NS, jobs[ns] = ns, c.ID
		s.do(Request{After: []command.Command{c}})
		s.do(settle(&command.DeleteQueue{NS: ns, Queue: "q"}))
	}
	s.shard.term.Store(s.term)
	swept := func(ns job.Namespace) bool {
		_, err := s.shard.store.Get(keys.In(s.shard.store.Prefix()).Job(ns, keys.Head, jobs[ns]))
		return errors.Is(err, statedb.ErrNotFound)
	}
	s.inbox.requests.Take(refused, inboxMax)
	w := newSweeper()
	if err := s.sweepAll(w); err == nil || !swept(neighbour) || swept(refused) {
		t.Fatalf("one is refused: %v; swept: %v and %v", err, swept(refused), swept(neighbour))
	}
	s.inbox.requests.Give(refused, inboxMax)
	eventually.True(t, patience, "the other is swept", func() bool { return s.sweepAll(w) == nil })
	if !swept(refused) {
		t.Fatal("the sweep is done, and a job of the deleted queue is left")
	}
}
