package dispatch

import (
	"slices"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

func (r *rig) park(t tb, count int, queues ...string) *Waiter {
	t.Helper()
	w := &Waiter{NS: testNS, Queues: queues, Count: count, Worker: "w", Lease: 1}
	if err := r.Park(w); err != nil {
		t.Fatalf("park: %v", err)
	}
	return w
}

// offers are up to limit of those that Match makes.
func (r *rig) offers(t tb, limit int) (offers []Offer) {
	t.Helper()
	for len(offers) < limit {
		o, found, err := r.Match(1 << 20)
		if err != nil {
			t.Fatalf("match: %v", err)
		}
		if !found {
			break
		}
		offers = append(offers, o)
	}
	return offers
}

// match runs Match and the entry that comes of it; who got something leaves.
func (r *rig) match(t tb) map[*Waiter][]job.ID {
	t.Helper()
	offers := r.offers(t, 1<<20)
	var cmds []command.Command
	for _, o := range offers {
		cmds = append(cmds, &command.Fetch{NS: testNS, Jobs: o.Jobs, Floors: o.Floors, Lease: 1})
	}
	if len(cmds) == 0 {
		return nil
	}
	got := make(map[*Waiter][]job.ID)
	for i, res := range r.apply(t, cmds...) {
		w := offers[i].Waiter
		if len(res.Grants) == 0 {
			r.Unmatch(w)
			continue
		}
		if got[w] != nil {
			t.Fatalf("a waiter has two offers in one entry")
		}
		got[w] = idsOf(res.Grants)
		r.Leave(w)
	}
	return got
}

func TestWaiters_AreServedInOrderOfArrival(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	var all []*Waiter
	for range 20 {
		all = append(all, r.park(t, 1, q))
	}
	for len(all) > 0 {
		n := min(3, len(all))
		ids := r.enqueue(t, q, job.Normal, n)
		got := r.match(t)
		for i, w := range all[:n] {
			same(t, "waiter", got[w], ids[i:i+1])
		}
		if len(got) != n {
			t.Fatalf("%d were served, want %d", len(got), n)
		}
		all = all[n:]
	}
	if r.Hot() || len(r.Waiters()) != 0 || len(r.queues[queueKey{testNS, q}].waiters) != 0 {
		t.Fatal("something is left of the waiters")
	}
}

func TestWaiters_OneOnSeveralQueuesGetsOneAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	w := r.park(t, 1, "a", "b", "a")
	a, b := r.newJob("a", job.Normal), r.newJob("b", job.Normal)
	r.apply(t, a, b)
	if got := r.match(t); len(got) != 1 || len(got[w]) != 1 {
		t.Fatalf("got %v", got)
	}
	for _, name := range w.Queues {
		if n := len(r.queues[queueKey{testNS, name}].waiters); n != 0 {
			t.Fatalf("queue %s still lists %d waiters", name, n)
		}
	}
	if n := len(r.drain(t, "a", 5)) + len(r.drain(t, "b", 5)); n != 1 {
		t.Fatalf("%d jobs are left, want 1", n)
	}
}

func TestLeave_TakesOutEverywhereAndKeepsTheOthersInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	var all []*Waiter
	for range 50 {
		all = append(all, r.park(t, 1, "a", "b"))
	}
	var stay []*Waiter
	for i, w := range all {
		if i%7 != 0 {
			r.Leave(w)
			r.Leave(w) // Again is nothing.
		} else {
			stay = append(stay, w)
		}
	}
	if got := r.Waiters(); len(got) != len(stay) {
		t.Fatalf("%d wait, want %d", len(got), len(stay))
	}
	for _, name := range []string{"a", "b"} {
		qu := r.queues[queueKey{testNS, name}]
		if n := len(qu.waiters); n > 2*len(stay) {
			t.Fatalf("the list of %s has %d entries for %d waiters", name, n, len(stay))
		}
	}
	for i, w := range stay {
		ids := r.enqueue(t, []string{"a", "b"}[i%2], job.Normal, 1)
		same(t, "waiter", r.match(t)[w], ids)
	}
}

func TestMatch_CountAboveOneAndTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	a, b := r.park(t, 3, q), r.park(t, 3, q)
	ids := r.enqueue(t, q, job.Normal, 4)
	got := r.match(t)
	same(t, "first", got[a], ids[:3])
	same(t, "second takes what is there", got[b], ids[3:])

	for range 5 {
		r.park(t, 1, q)
	}
	r.enqueue(t, q, job.Normal, 5)
	offers := r.offers(t, 2)
	if len(offers) != 2 || !r.Hot() {
		t.Fatalf("%d offers, hot %v", len(offers), r.Hot())
	}
	if offers = r.offers(t, 10); len(offers) != 3 || r.Hot() {
		t.Fatalf("then %d offers, hot %v", len(offers), r.Hot())
	}
}

func TestMatch_OffersNoMoreThanItIsAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	w := r.park(t, 5, q)
	ids := r.enqueue(t, q, job.Normal, 3)
	o, found, err := r.Match(2)
	if err != nil || !found || o.Waiter != w {
		t.Fatalf("%+v, found %v, %v", o, found, err)
	}
	same(t, "the offer", o.Jobs, ids[:2])
}

// An entry has room for some offers only: one queue's waiters must not keep another's away.
func TestMatch_HotQueuesTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	for range 3 {
		r.park(t, 1, q)
	}
	other := r.park(t, 1, "other")
	r.enqueue(t, q, job.Normal, 3)
	r.enqueue(t, "other", job.Normal, 1)
	if offers := r.offers(t, 2); len(offers) != 2 || offers[1].Waiter != other {
		t.Fatalf("%d offers, the second is not the other queue's", len(offers))
	}
}

func TestPromise_FillsTheFirstThenTheNext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	a, b := r.park(t, 2, q), r.park(t, 1, q)
	if got := r.match(t); len(got) > 0 {
		t.Fatalf("%v without a job", got)
	}
	want := []struct {
		w     *Waiter
		first bool
	}{{a, true}, {a, false}, {b, true}, {nil, false}}
	for i, x := range want {
		if w, first := r.Promise(testNS, q, true); w != x.w || first != x.first {
			t.Fatalf("promise %d went to %p (first %v), want %p (%v)", i, w, first, x.w, x.first)
		}
	}
	r.Unmatch(a)
	if w, first := r.Promise(testNS, q, false); w != nil || first {
		t.Fatal("a new offer although none may be made")
	}
	if w, first := r.Promise(testNS, q, true); w != a || !first {
		t.Fatal("a waiter whose offer came to nothing lost its place")
	}
	if w, _ := r.Promise(testNS, "other", true); w != nil {
		t.Fatal("a promise in a queue nobody waits for")
	}
	r.apply(t, pause(true))
	if w, _ := r.Promise(testNS, q, true); w != nil {
		t.Fatal("a promise in a paused queue")
	}
}

// A fetch of several queues that was offered a job of one may still take some. What the entry
// enqueues in another queue must not go before what is ready there (INV-8).
func TestPromise_ReadyJobsGoFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	w := r.park(t, 5, q, "other")
	r.enqueue(t, q, job.Normal, 1)
	waiting := r.enqueue(t, "other", job.Normal, 1)
	offers := r.offers(t, 10)
	if len(offers) != 1 || len(offers[0].Jobs) != 1 {
		t.Fatalf("offers %+v", offers)
	}
	if slices.Contains(waiting, offers[0].Jobs[0]) {
		t.Fatal("the jobs of the other queue were offered first")
	}
	if to, _ := r.Promise(testNS, "other", true); to != nil {
		t.Error("a new job was promised while an older one is ready")
	}
	if to, _ := r.Promise(testNS, q, true); to != w {
		t.Error("a new job was not promised to a fetch that may still take some")
	}
}

// Workers that come back at once share the jobs evenly: nobody is passed over.
func TestWaiters_NoneStarves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	const workers, rounds = 7, 10
	served := map[int]int{}
	who := map[*Waiter]int{}
	for i := range workers {
		who[r.park(t, 1, q, "b")] = i
	}
	for range workers * rounds {
		r.enqueue(t, q, job.Normal, 1)
		for w := range r.match(t) {
			served[who[w]]++
			who[r.park(t, 1, q, "b")] = who[w]
		}
	}
	for i := range workers {
		if served[i] != rounds {
			t.Fatalf("served %v, want %d each", served, rounds)
		}
	}
}

func TestTake_QueuesInTurnAndBestPriorityFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	normal := r.enqueue(t, q, job.Normal, 2)
	critical := r.enqueue(t, q, job.Critical, 2)
	high := r.enqueue(t, q, job.High, 1)
	same(t, "priorities", idsOf(r.fetch(t, q, 5)), slices.Concat(critical, high, normal))

	r.enqueue(t, "a", job.Normal, 10)
	r.enqueue(t, "b", job.Normal, 10)
	from := map[string]int{}
	for range 10 {
		taken, err := r.Take(testNS, []string{"a", "b"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		res := r.apply(t, &command.Fetch{NS: testNS, Jobs: taken.Jobs, Floors: taken.Floors, Lease: 1})
		from[res[0].Grants[0].Queue]++
	}
	if from["a"] != 5 || from["b"] != 5 {
		t.Fatalf("taken from %v, want evenly", from)
	}
}

func TestFloor_ANewLeaderStartsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	ids := r.enqueue(t, q, job.Normal, 100)
	r.fetch(t, q, 60)
	r.fetch(t, q, 1)
	r.newLeader()
	if _, err := r.Take(testNS, []string{q}, 0); err != nil {
		t.Fatal(err)
	}
	w := &r.queues[queueKey{testNS, q}].windows[job.Normal]
	if f := r.floor(t, q, job.Normal); f != [2]uint64{1, 61} || before(r.head(t, ids[61]).Pos).Less(w.tail) {
		t.Fatalf("floor %v, the window starts after %v", f, w.tail)
	}
	same(t, "what is left", r.drain(t, q, 10), ids[61:])
}

func TestWindow_OverflowIsReadBackInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	if got := r.fetch(t, q, 1); len(got) != 0 { // The window is loaded, and empty.
		t.Fatal(got)
	}
	var ids []job.ID
	for range 6 {
		ids = append(ids, r.enqueue(t, q, job.Normal, 1000)...)
	}
	w := &r.queues[queueKey{testNS, q}].windows[job.Normal]
	if !w.more || len(w.items) > windowMax {
		t.Fatalf("more %v with %d places", w.more, len(w.items))
	}
	same(t, "all", r.drain(t, q, 512), ids)
}

func TestTable_ManyPendingJobsCostOneWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	const n = 200_000
	for range n / 10_000 {
		r.enqueue(t, q, job.Normal, 10_000)
	}
	r.newLeader()
	r.fetch(t, q, 1)
	w := &r.queues[queueKey{testNS, q}].windows[job.Normal]
	if len(w.items) > windowLoad || cap(w.items) > 2*windowLoad || !w.more {
		t.Fatalf("%d places (room for %d) in memory for %d jobs", len(w.items), cap(w.items), n)
	}
	for range 20 {
		r.enqueue(t, q, job.Normal, 1000) // Behind the window: the store has them.
	}
	if len(w.items) > windowLoad {
		t.Fatalf("%d places after more were added", len(w.items))
	}
}
