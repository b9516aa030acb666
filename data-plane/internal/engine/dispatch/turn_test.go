package dispatch

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Two fetchers take turns, each with two queues of its own: none of the four may
// wait until another one is empty.
func TestTake_TheRhythmOfOneFetcherStarvesNoQueueOfAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	for _, queue := range []string{"a", "b", "c", "d"} {
		r.enqueue(t, queue, job.Normal, 20)
	}
	got := map[string]int{}
	for i := range 16 {
		names := [][]string{{"a", "b"}, {"c", "d"}}[i%2]
		r.Begin(r.at(time.Millisecond))
		taken, err := r.Take(testNS, names, 1)
		if err != nil {
			t.Fatal(err)
		}
		res := r.apply(t, &command.Fetch{NS: testNS, Jobs: taken.Jobs, Floors: taken.Floors, Worker: "w", Lease: time.Hour})
		got[res[0].Grants[0].Queue]++
	}
	for _, queue := range []string{"a", "b", "c", "d"} {
		if got[queue] != 4 {
			t.Fatalf("16 fetches took %v", got)
		}
	}
}
