package dispatch

import (
	"math"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

func until(at int64) func(job.Namespace) int64 { return func(job.Namespace) int64 { return at } }

func TestHold_NothingIsTakenOfferedOrPromisedUntilItIsLifted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	ids := r.enqueue(t, q, job.Normal, 3)
	r.choose(t, q, 0) // The memory knows the queue.
	r.Hold(until(math.MaxInt64))
	same(t, "held", r.choose(t, q, 5).Jobs, nil)
	w := r.park(t, 2, q)
	if got := r.match(t); got != nil || r.Hot() {
		t.Fatalf("held: %v, hot %v", got, r.Hot())
	}
	if p, _ := r.Promise(testNS, q, true); p != nil {
		t.Fatal("a new job was promised")
	}
	late := r.enqueue(t, q, job.Normal, 1)
	other := r.enqueue(t, "other", job.Normal, 1) // Read from the store while it is held.
	same(t, "another queue of the namespace", r.choose(t, "other", 1).Jobs, nil)
	if r.Hot() {
		t.Fatal("the loop would look at a held queue again and again")
	}

	r.Hold(until(0))
	got := r.match(t)
	same(t, "lifted", got[w], ids[:2])
	same(t, "the rest, in order", r.drain(t, q, 5), append(ids[2:], late...))
	same(t, "the other queue", r.drain(t, "other", 5), other)
}

func TestHold_OneThatEndsByItselfOpensAtItsTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	end := r.at(time.Minute)
	r.Hold(until(end.Calendar))
	w := r.park(t, 1, q)
	ids := r.enqueue(t, q, job.Normal, 1)
	if got := r.match(t); got != nil || r.Opens().Calendar != end.Calendar {
		t.Fatalf("matched %v, opens at %v, want %v", got, r.Opens(), end)
	}
	r.Begin(stateread.Times{Lease: end.Lease - 1, Calendar: end.Calendar - 1})
	if r.Hot() {
		t.Fatal("looked at before its time")
	}
	r.now = end.Calendar
	r.Begin(end)
	same(t, "at its time", r.match(t)[w], ids)
}

func TestHold_IsOfANamespaceAndItsNeighbourGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	r.Hold(func(ns job.Namespace) int64 {
		if ns == testNS {
			return 0
		}
		return math.MaxInt64
	})
	w := r.park(t, 1, q)
	ids := r.enqueue(t, q, job.Normal, 1)
	same(t, "the neighbour", r.match(t)[w], ids)
}
