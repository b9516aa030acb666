package state

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// The walk over the dead of a queue gives at most what one Requeue takes, and meets each
// of them once, wherever its pieces end.
func TestDead_EachIsMetOnceInBoundedPieces(t *testing.T) {
	t.Parallel()
	const jobs = 2*command.RequeueMax + 100
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{'n', '1'}
	var births, ends []command.Command
	fetch := &command.Fetch{NS: ns, Worker: "w", Lease: time.Minute}
	for i := range jobs {
		id := idOf(fmt.Sprintf("J%d", i))
		c := &command.Enqueue{NS: ns, ID: id, Queue: "q", Payload: []byte("{}"), Retry: command.RetryPolicy{MaxRetries: 1}}
		if i%50 == 0 {
			c.Queue = "other"
		}
		births = append(births, c)
		fetch.Jobs = append(fetch.Jobs, id)
		ends = append(ends, &command.Fail{NS: ns, ID: id})
	}
	births = append(births, &command.Enqueue{NS: ns, ID: idOf("alive"), Queue: "q"}, fetch)
	r.apply(t, logEntry{now: r.now, cmds: append(births, ends...)})

	walk, met := stateread.Dead{NS: ns, Queue: "q", Until: job.ID{0xff}}, map[job.ID]bool{}
	for more := true; more; {
		var ids []job.ID
		var err error
		if ids, more, err = walk.Next(r.store); err != nil || len(ids) > command.RequeueMax {
			t.Fatalf("%d in a piece, %v", len(ids), err)
		}
		for _, id := range ids {
			if met[id] {
				t.Fatalf("job %s comes twice", idText(id))
			}
			met[id] = true
		}
	}
	if want := jobs - (jobs+49)/50; len(met) != want || met[idOf("alive")] || met[idOf("J0")] {
		t.Fatalf("met %d of %d", len(met), want)
	}

	later := slices.SortedFunc(maps.Keys(met), func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	walk = stateread.Dead{NS: ns, Queue: "q", Until: later[9]}
	if ids, more, err := walk.Next(r.store); err != nil || more || !slices.Equal(ids, later[:10]) {
		t.Fatalf("up to the tenth: %d jobs, more %v, %v", len(ids), more, err)
	}
}
