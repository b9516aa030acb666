package readmodel

import (
	"testing"
	"time"
)

// A namespace that is far behind delays the list of another by one slice of its own at most,
// however slow slices are, and gets on in each turn.
func TestTurn_ANamespaceFarBehindDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	r.begin()
	for _, ns := range []byte{0xa, 0xb} {
		r.enqueue([16]byte{ns}, "q")
	}
	for busy := true; busy; {
		var err error
		if busy, err = r.step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	const jobs = 12 * sliceMax
	r.fillWith(nsA, jobs, false)
	r.enqueue(nsB, "q")
	// Each look at the clock is a second later: the node is saturated.
	at := time.Now()
	r.models.now = func() time.Time { at = at.Add(time.Second); return at }
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
