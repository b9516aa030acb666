package dispatch

import (
	"fmt"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Anybody may fetch from names that do not exist.
func TestShrink_FetchesFromManyNamesAreForgottenAndNothingIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	r.shrinkAt = 10
	ids := r.enqueue(t, "q", job.Normal, 5)
	got := idsOf(r.fetch(t, "q", 2))
	w := &Waiter{NS: testNS, Queues: []string{"waited"}, Count: 1}
	if err := r.Park(w); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * queuesMax {
		if taken, err := r.Take(testNS, []string{fmt.Sprintf("no-such-%d", i)}, 1); err != nil || len(taken.Jobs) != 0 {
			t.Fatalf("%+v, %v", taken, err)
		}
		r.Shrink()
	}
	if n := len(r.queues); n > queuesMax {
		t.Fatalf("%d queues are remembered", n)
	}
	same(t, "the rest of the queue", append(got, r.drain(t, "q", 1)...), ids)
	late := r.enqueue(t, "waited", job.Normal, 1)
	offers := r.offers(t, 1)
	if len(offers) != 1 || offers[0].Waiter != w || offers[0].Jobs[0] != late[0] {
		t.Fatalf("the waiter was forgotten: %+v", offers)
	}
}
