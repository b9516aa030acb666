package state

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// A client takes no answer of any size. What does not fit is as ready as before, and nobody
// else is handed the younger jobs behind it by the same entry (INV-8).
func TestFetch_IsGrantedNoMoreThanAnAnswerHolds(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	var ids []job.ID
	for i := range 8 {
		c := sized(fmt.Sprint("J", i), FetchBytesMax/4)
		if i == 1 {
			c.Checkpoint = bytes.Repeat([]byte("c"), FetchBytesMax/4)
		}
		ids = append(ids, c.ID)
		r.do(t, r.now, c)
	}
	fetch := func(jobs ...job.ID) *command.Fetch {
		return &command.Fetch{NS: fetchNS, Jobs: jobs, Queues: []string{"q"}, Worker: "w", Lease: time.Hour}
	}
	a := r.apply(t, logEntry{now: r.now, cmds: []command.Command{fetch(ids[:6]...), fetch(ids[6:]...)}})[0]
	// Four quarters, of which the checkpoint is one.
	if first := a.Results[0]; len(first.Grants) != 3 || len(first.Skipped) != 3 {
		t.Fatalf("%d granted and %d skipped of 6, of which an answer holds 3", len(first.Grants), len(first.Skipped))
	}
	if got := len(a.Results[1].Grants); got != 0 {
		t.Fatalf("%d younger jobs were handed out in the same entry", got)
	}
	if len(a.Queues) != 1 || !a.Queues[0].Rewind {
		t.Fatalf("the leader is not told that jobs are still ready: %+v", a.Queues)
	}
	for id, h := range r.audit(t) {
		if h.State == job.Pending && (h.Attempt != 0 || h.Crashes != 0) {
			t.Errorf("job %s that did not fit: %+v", id, h)
		}
	}
	if got := r.do(t, r.now, fetch(ids[3:]...)).Grants; len(got) != 4 || got[0].ID != ids[3] {
		t.Fatalf("then %+v", got)
	}
}

func TestFetch_IsGrantedOneJobThatIsLargerThanAnAnswer(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	big, small := sized("big", FetchBytesMax+1), sized("small", 1)
	r.do(t, r.now, big)
	r.do(t, r.now, small)
	got := r.do(t, r.now, &command.Fetch{NS: fetchNS, Jobs: []job.ID{big.ID, small.ID}, Worker: "w", Lease: time.Hour}).Grants
	if len(got) != 1 || got[0].ID != big.ID {
		t.Fatalf("granted %+v", got)
	}
}

// An older program, which knows no bound, may be in the cell.
func TestFetch_IsBoundedFromItsVersionOn(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	r.version = cellversion.FetchBytes - 1
	a, b := sized("A", FetchBytesMax), sized("B", FetchBytesMax)
	r.do(t, r.now, a)
	r.do(t, r.now, b)
	if got := r.do(t, r.now, &command.Fetch{NS: fetchNS, Jobs: []job.ID{a.ID, b.ID}, Worker: "w", Lease: time.Hour}).Grants; len(got) != 2 {
		t.Fatalf("%d granted", len(got))
	}
}

var fetchNS = job.Namespace{1}

func sized(name string, size int) *command.Enqueue {
	return &command.Enqueue{NS: fetchNS, ID: idOf(name), Queue: "q", Retry: command.DefaultRetry(), Payload: bytes.Repeat([]byte("x"), size)}
}
