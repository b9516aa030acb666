package dispatch

import (
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

const q = "q"

func pause(on bool) *command.Pause { return &command.Pause{NS: testNS, Queue: q, Paused: on} }

// Two fetches share an entry with a pause, which refuses both: their jobs are
// still ready, the first one's too.
func TestFloor_DoesNotPassAJobThatAnEarlierFetchOfTheEntryDidNotGet(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]func(r *rig) []command.Command{
		"pause, then two fetches": func(r *rig) []command.Command {
			return []command.Command{pause(true), r.choose(t, q, 1), r.choose(t, q, 1)}
		},
		"resumed before the second": func(r *rig) []command.Command {
			return []command.Command{pause(true), r.choose(t, q, 1), pause(false), r.choose(t, q, 1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			defer r.close(t)
			ids := r.enqueue(t, q, job.Normal, 3)
			res := r.apply(t, entry(r)...)
			var got []job.ID
			for i := range res {
				got = append(got, idsOf(res[i].Grants)...)
			}
			r.apply(t, pause(false))
			got = append(got, r.drain(t, q, 1)...)
			seen := map[job.ID]int{}
			for _, id := range got {
				seen[id]++
			}
			for _, id := range ids {
				if seen[id] != 1 {
					t.Errorf("job %s was handed out %d times", id, seen[id])
				}
			}
		})
	}
}

// A job is chosen for a fetch and cancelled by the same entry; retried, it is
// ready like any other.
func TestTake_AJobRetriedAfterItWasCancelledUnderAFetchIsHandedOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	ids := r.enqueue(t, q, job.Normal, 1)
	res := r.apply(t, &command.Cancel{NS: testNS, ID: ids[0]}, r.choose(t, q, 1))
	if len(res[1].Grants) != 0 {
		t.Fatalf("a cancelled job was granted: %+v", res[1])
	}
	r.apply(t, &command.Retry{NS: testNS, ID: ids[0]})
	same(t, "after the retry", r.drain(t, q, 1), ids)
}

// Granted, given back and ready again within one entry.
func TestTake_AJobGivenBackInTheEntryThatGrantedItIsHandedOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.close(t)
	ids := r.enqueue(t, q, job.Normal, 1)
	res := r.apply(t, r.choose(t, q, 1), &command.Fail{NS: testNS, ID: ids[0], Release: true})
	if len(res[0].Grants) != 1 || res[1].State != job.Pending {
		t.Fatalf("grant and release: %+v", res)
	}
	same(t, "after the release", r.drain(t, q, 1), ids)
}
