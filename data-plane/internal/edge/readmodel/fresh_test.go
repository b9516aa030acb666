package readmodel

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// A job may be in the file although it counts as new: a rebuild reads the state as it is, and the
// events of what it met there come later.
func TestFresh_AJobThatTheFileHasIsReplaced(t *testing.T) {
	t.Parallel()
	f, err := openFile(t.Context(), nsA, filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.close() }()
	rows := make([]Row, 2*rowsAtOnce+1)
	for i := range rows {
		rows[i] = Row{ID: job.ID{byte(i + 1)}, Queue: "mail", State: job.Pending, CreatedAt: epoch, MaxRetries: 3}
	}
	write := func(what string, seq, was uint64, fresh, kept bool) {
		t.Helper()
		c := &change{rows: rows, fresh: fresh, mark: mark{seq: seq}, was: was}
		if err := f.apply(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if c.fresh != kept {
			t.Errorf("%s: as new jobs %v, want %v", what, c.fresh, kept)
		}
		m, err := f.mark(t.Context())
		if err != nil || m.seq != seq {
			t.Errorf("%s: mark %d, %v; want %d", what, m.seq, err, seq)
		}
		var n, priority int
		if err := f.read.QueryRow(`SELECT count(*), min(priority) FROM job`).Scan(&n, &priority); err != nil || n != len(rows) || priority != int(rows[0].Priority) {
			t.Errorf("%s: %d rows of priority %d, %v; want %d of %d", what, n, priority, err, len(rows), rows[0].Priority)
		}
	}
	write("new jobs", 1, 0, true, true)
	if err := f.apply(t.Context(), &change{gone: []job.ID{rows[0].ID}, mark: mark{seq: 2}, was: 1}); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i].Priority = 7
	}
	write("all but one are there", 3, 2, true, false)
}

// What tells a part of new jobs from others is the first event of each.
func TestFresh_OnlyPartsOfJobsThatWereEnqueuedInThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const jobs = 2*rowsAtOnce + 3
	var older job.ID
	for i := range jobs {
		older = r.enqueue(nsA, fmt.Sprintf("q%d", i%2))
	}
	part := func(what string, want bool) {
		t.Helper()
		tr := r.look(nsA)
		a := r.takeAhead(t.Context(), nsA, &tr)
		got := a.take()
		if got.err != nil || got.change == nil {
			t.Fatalf("%s: %+v", what, got)
		}
		if got.change.fresh != want {
			t.Errorf("%s: as new jobs %v, want %v", what, got.change.fresh, want)
		}
		a.drop()
	}
	part("enqueued", true)
	r.run()
	r.settled(nsA)
	r.stop()
	r.enqueue(nsA, "q0")
	part("one more", true)
	r.start(nsA, older)
	part("and an older one began", false)
}
