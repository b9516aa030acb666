package readmodel

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// twoWhole begins a term with two namespaces whose rows are complete. The test takes the steps.
func (r *rig) twoWhole() {
	r.Helper()
	r.begin()
	r.enqueue(nsA, "q")
	r.enqueue(nsB, "q")
	for busy := true; busy; {
		var err error
		if busy, err = r.step(r.Context()); err != nil {
			r.Fatal(err)
		}
	}
}

// saturated lets a second pass with each look at the clock, so that a turn is over after one part.
func (r *rig) saturated() {
	at := time.Now()
	r.models.now = func() time.Time { at = at.Add(time.Second); return at }
}

// round gives each namespace with new events a turn.
func (r *rig) round() {
	r.Helper()
	if _, err := r.roundOnce(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// A namespace that is far behind delays the list of another by one slice of its own at most,
// however slow slices are, and gets on in each turn.
func TestTurn_ANamespaceFarBehindDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	r.twoWhole()
	const jobs = 12 * sliceMax
	r.fillWith(nsA, jobs, false)
	r.enqueue(nsB, "q")
	r.saturated()
	before := r.look(nsA).seq
	for rounds := 1; ; rounds++ {
		more, err := r.roundOnce(ctx)
		if err != nil {
			t.Fatal(err)
		}
		a, b := r.look(nsA), r.look(nsB)
		if b.seq != 2 {
			t.Fatalf("after round %d the small namespace is at %d", rounds, b.seq)
		}
		if a.seq == before && more || rounds > 3*jobs/sliceMax+2 {
			t.Fatalf("in round %d the large namespace is still at %d", rounds, a.seq)
		}
		if slice := uint64(3*bulkMax + 1500); rounds == 1 && a.seq-before > slice { // Its last entry's jobs are new in part.
			t.Errorf("a turn wrote %d events", a.seq-before)
		}
		if before = a.seq; !more {
			break
		}
	}
	r.models.now = time.Now
	r.run()
	r.wantTruth(nsA)
	r.wantTruth(nsB)
	all, _, err := r.Throughput(r.ctx(), nsA, Reader{}, time.Unix(0, r.now))
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, m := range all {
		sum += m.Enqueued
	}
	if sum != jobs+1 {
		t.Errorf("%d jobs were counted, want %d", sum, jobs+1)
	}
}

// What a turn read ahead is written in the next one, and jobs that changed meanwhile are written again.
func TestTurn_ContinuesWithWhatWasRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.twoWhole()
	var ids []job.ID
	for range 3 * sliceMax {
		ids = append(ids, r.enqueue(nsA, "q"))
	}
	r.saturated()
	r.round()
	if got := r.look(nsA).seq; got != 1+sliceMax {
		t.Fatalf("the first turn ended at event %d", got)
	}
	eventually.True(t, patience, "the next part is read", func() bool { return len(r.ahead.next) == 1 })
	for _, id := range ids[sliceMax:][:10] {
		r.finish(nsA, id)
	}
	r.round()
	if got := r.look(nsA).seq; got != 1+2*sliceMax {
		t.Fatalf("the second turn ended at event %d", got)
	}
	r.models.now = time.Now
	r.run()
	r.wantTruth(nsA)
}

// One namespace at a time is read ahead, so that thousands which are late take no memory for it, and
// only if it is sure to be next.
func TestTurn_ReadsAheadForOneNamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.twoWhole()
	r.fillWith(nsA, 24*sliceMax, false)
	r.saturated()
	r.round()
	if r.ahead == nil || r.ahead.ns != nsA || r.ahead.next == nil {
		t.Fatal("nothing was read for the next turn of the only namespace that is late")
	}
	r.fillWith(nsB, 24*sliceMax, false)
	for round := range 2 {
		r.round()
		if r.ahead == nil || r.ahead.next != nil {
			t.Fatalf("round %d: a part was read that another namespace's turn comes before", round)
		}
	}
	r.models.now = time.Now
	r.run()
	r.wantTruth(nsA)
	r.wantTruth(nsB)
}

// Events that come after the end of the feed was read ahead are in the next turn.
func TestTurn_SeesWhatCameAfterTheEndWasRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.twoWhole()
	r.update(nsA, func(t *track) { t.events = 10 })
	for range 10 {
		r.enqueue(nsA, "q")
	}
	r.saturated()
	r.round()
	eventually.True(t, patience, "the end is read", func() bool { return r.ahead != nil && len(r.ahead.next) == 1 })
	r.enqueue(nsA, "q")
	r.round()
	if got := r.look(nsA).seq; got != 12 {
		t.Fatalf("the second turn ended at event %d of 12", got)
	}
}

// A retry that is over wakes nobody any more, also if there was nothing left to write.
func TestMend_ForgetsARetryThatIsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.twoWhole()
	r.update(nsA, func(t *track) { t.behind, t.again = true, time.Now().Add(-time.Second) })
	if r.mend(r.Context()) {
		t.Fatal("there is more to mend")
	}
	if again := r.nextRetry(); again != nil {
		t.Error("a retry is still due")
	}
}
