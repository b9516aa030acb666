package dispatch

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

func slots(queue string, n uint32) *command.SetQueue {
	return &command.SetQueue{NS: testNS, Queue: queue, Set: command.SetConcurrency, MaxConcurrency: n}
}

func throttle(queue string, n uint32, window time.Duration) *command.SetQueue {
	return &command.SetQueue{NS: testNS, Queue: queue, Set: command.SetThrottle, Throttle: command.Throttle{Limit: n, Window: window}}
}

func ack(id job.ID) *command.Ack { return &command.Ack{NS: testNS, ID: id} }

func TestTake_StopsAtTheSlotsAndGoesOnWithTheNextQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	r.enqueue(t, "a", job.Normal, 5)
	r.enqueue(t, "b", job.Normal, 5)
	r.choose(t, "a", 1) // The memory knows the queue before it has a limit, and took in vain.
	r.apply(t, slots("a", 3))
	taken, err := r.Take(testNS, []string{"a", "b"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(taken.Jobs) != 3+5 {
		t.Fatalf("took %d, want three of a and five of b", len(taken.Jobs))
	}
}

func TestTake_CountsWhatTheEntryTookBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	ids := r.enqueue(t, q, job.Normal, 5)
	r.apply(t, slots(q, 3))
	first, second, third := r.choose(t, q, 2), r.choose(t, q, 2), r.choose(t, q, 2)
	same(t, "first", first.Jobs, ids[:2])
	same(t, "second", second.Jobs, ids[2:3])
	same(t, "third", third.Jobs, nil)
	r.apply(t, first, second)
	same(t, "with all slots taken", r.choose(t, q, 1).Jobs, nil)
	r.apply(t, ack(ids[1]))
	same(t, "with a slot free", r.choose(t, q, 5).Jobs, ids[3:4])
}

// The slot that an ack of the same entry frees is for its own caller, unless somebody
// waits: then it is for who waited longest, in the next entry.
func TestFrees_IsForNewcomersOnlyWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	ids := r.enqueue(t, q, job.Normal, 4)
	r.apply(t, slots(q, 1))
	r.fetch(t, q, 1)
	frees := func(c command.Command) {
		t.Helper()
		if err := r.Frees([]command.Command{c}, testNS, []string{q}, 1); err != nil {
			t.Fatal(err)
		}
	}
	stranger := ack(ids[0])
	stranger.By.Token = command.Token{Attempt: 1, Epoch: keys.Position{Index: 1}}
	frees(stranger)
	same(t, "after a stranger's ack", r.choose(t, q, 1).Jobs, nil)
	frees(ack(ids[0]))
	frees(ack(ids[0])) // Frees it once.
	frees(ack(ids[2])) // Nobody holds it.
	c := r.choose(t, q, 3)
	same(t, "in the entry of the ack", c.Jobs, ids[1:2])
	same(t, "granted", idsOf(r.apply(t, ack(ids[0]), c)[1].Grants), ids[1:2])

	w := r.park(t, 1, q)
	if r.match(t) != nil || r.Hot() {
		t.Fatal("a waiter got a job without a slot")
	}
	frees(ack(ids[1]))
	same(t, "while somebody waits", r.choose(t, q, 1).Jobs, nil)
	r.apply(t, ack(ids[1]))
	if !r.Hot() {
		t.Fatal("a free slot wakes nobody")
	}
	same(t, "the waiter", r.match(t)[w], ids[2:3])
}

// A settlement that frees nothing after all costs nobody anything: the fetch that
// counted on it is refused, and the job keeps its place.
func TestFrees_InVainLeavesTheJobsInTheirOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	ids := r.enqueue(t, q, job.Normal, 4)
	r.apply(t, slots(q, 1))
	r.fetch(t, q, 1)
	if err := r.Frees([]command.Command{ack(ids[0])}, testNS, []string{q}, 1); err != nil {
		t.Fatal(err)
	}
	c := r.choose(t, q, 1)
	same(t, "in the entry of the ack", c.Jobs, ids[1:2])
	if got := r.apply(t, c)[0].Grants; len(got) != 0 {
		t.Fatalf("granted %v without a slot", got)
	}
	same(t, "without a slot", r.choose(t, q, 1).Jobs, nil)
	r.apply(t, ack(ids[0]))
	same(t, "with a slot", idsOf(r.fetch(t, q, 1)), ids[1:2])
}

// Whatever frees a slot or raises the limit wakes who waits.
func TestHot_EveryWayToFreeASlot(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(r *rig, id job.ID) []command.Command{
		"ack": func(_ *rig, id job.ID) []command.Command { return []command.Command{ack(id)} },
		"fail": func(_ *rig, id job.ID) []command.Command {
			return []command.Command{&command.Fail{NS: testNS, ID: id, Error: "e"}}
		},
		"release": func(_ *rig, id job.ID) []command.Command {
			return []command.Command{&command.Fail{NS: testNS, ID: id, Release: true}}
		},
		"expiry": func(r *rig, id job.ID) []command.Command {
			h := r.head(t, id)
			r.now = h.Due
			return []command.Command{&command.Fire{Due: dueOf(id, &h)}}
		},
		"let go": func(_ *rig, id job.ID) []command.Command {
			return []command.Command{&command.Cancel{NS: testNS, ID: id}, &command.Fail{NS: testNS, ID: id, Error: "e"}}
		},
		"raised":  func(*rig, job.ID) []command.Command { return []command.Command{slots(q, 2)} },
		"removed": func(*rig, job.ID) []command.Command { return []command.Command{slots(q, 0)} },
		"made again": func(r *rig, _ job.ID) []command.Command {
			return []command.Command{&command.DeleteQueue{NS: testNS, Queue: q}, r.newJob(q, job.Normal)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			defer r.close(t)
			ids := r.enqueue(t, q, job.Normal, 2)
			r.apply(t, slots(q, 1))
			r.fetch(t, q, 1)
			w := r.park(t, 5, q)
			if r.match(t) != nil || r.Hot() {
				t.Fatal("a waiter got a job without a slot")
			}
			r.apply(t, free(r, ids[0])...)
			if !r.Hot() {
				t.Fatal("the waiter is not looked at")
			}
			if got := r.match(t)[w]; len(got) != 1 && name != "removed" {
				t.Fatalf("the waiter got %v", got)
			}
			if r.match(t); r.Hot() {
				t.Fatal("it looks again and again")
			}
		})
	}
}

func TestBegin_AThrottleThatOpensWakesAndNotBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	ids := r.enqueue(t, q, job.Normal, 5)
	r.apply(t, throttle(q, 2, time.Second))
	w := r.park(t, 5, q)
	same(t, "at once", r.match(t)[w], ids[:2])
	began := r.now
	if r.Opens() != (stateread.Times{}) {
		t.Fatal("it will look again although nobody waits")
	}
	w = r.park(t, 5, q)
	if r.match(t) != nil || r.Hot() || r.Opens().Lease != began+int64(time.Second) {
		t.Fatalf("with the throttle closed: hot %v, opens %d from now", r.Hot(), r.Opens().Lease-r.now)
	}
	r.Begin(stateread.Times{Lease: r.Opens().Lease - 1})
	if r.Hot() || r.Opens().Lease != began+int64(time.Second) {
		t.Fatal("it looks too early")
	}
	r.now = began + int64(time.Second)
	r.Begin(r.at(0))
	if !r.Hot() || r.Opens() != (stateread.Times{}) {
		t.Fatal("it does not look when the throttle opens")
	}
	same(t, "when it opens", r.match(t)[w], ids[2:4])

	// A throttle that is changed or removed is looked at at once.
	w = r.park(t, 5, q)
	r.match(t)
	r.apply(t, throttle(q, 0, 0))
	same(t, "removed", r.match(t)[w], ids[4:])
	if r.Opens() != (stateread.Times{}) {
		r.Begin(r.Opens())
	}
	if r.Hot() || r.Opens() != (stateread.Times{}) {
		t.Fatal("an old time to look stays")
	}
}

// A waiter whose offer was refused, because the throttle came in the same entry, waits
// for it to open.
func TestBegin_AThrottleWakesWhoWasRefusedByIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	ids := r.enqueue(t, q, job.Normal, 3)
	other := r.choose(t, q, 1)
	w := r.park(t, 1, q)
	offers := r.offers(t, 1)
	if len(offers) != 1 {
		t.Fatal("no offer")
	}
	offer := &command.Fetch{NS: testNS, Jobs: offers[0].Jobs, Worker: "w", Lease: time.Hour}
	if got := r.apply(t, throttle(q, 1, time.Second), other, offer)[2].Grants; len(got) != 0 {
		t.Fatalf("the throttle let %v start", got)
	}
	r.Unmatch(w)
	if r.match(t) != nil || r.Opens().Lease != r.now+int64(time.Second) {
		t.Fatalf("it opens in %s and looks in %d", time.Second, r.Opens().Lease-r.now)
	}
	r.now = r.Opens().Lease
	r.Begin(r.at(0))
	same(t, "when it opens", r.match(t)[w], ids[1:2])
}

// A job that is enqueued is promised to a waiter only if it may be handed out and no
// older job is ready.
func TestPromise_KeepsToTheLimitsAndTheOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	r.apply(t, slots(q, 1))
	a := r.park(t, 1, q)
	b := r.park(t, 1, q)
	r.match(t)
	if w, _ := r.Promise(testNS, q, true); w != a {
		t.Fatal("the first waiter is not promised the job")
	}
	if w, _ := r.Promise(testNS, q, true); w != nil {
		t.Fatal("a second job is promised for one slot")
	}
	first, second := r.newJob(q, job.Normal), r.newJob(q, job.Normal)
	r.apply(t, first, second, &command.Fetch{NS: testNS, Jobs: []job.ID{first.ID}, Lease: 1})
	r.Leave(a)
	if w, _ := r.Promise(testNS, q, true); w != nil {
		t.Fatal("a job is promised without a slot")
	}
	r.apply(t, ack(first.ID))
	if w, _ := r.Promise(testNS, q, true); w != nil {
		t.Fatal("a new job is promised before an older one that is ready")
	}
	same(t, "the second waiter", r.match(t)[b], []job.ID{second.ID})
}

// The limits of a queue that was forgotten are read from the store again.
func TestShrink_LimitsAreReadAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	r.apply(t, slots(q, 1))
	r.choose(t, q, 1)
	r.shrinkAt = 0
	if r.Shrink(); len(r.queues) != 0 {
		t.Fatalf("%d queues are remembered", len(r.queues))
	}
	ids := r.enqueue(t, q, job.Normal, 2)
	same(t, "after it was forgotten", r.choose(t, q, 2).Jobs, ids[:1])
}

func dueOf(id job.ID, h *records.Head) keys.Due {
	return keys.Due{At: h.Due, Kind: keys.DueLease, NS: testNS, ID: id}
}
