package shard

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

func (r *rig) enqueueOf(tb testing.TB, namespaces int) {
	tb.Helper()
	for i := range namespaces {
		ns := job.Namespace{byte(i >> 8), byte(i), 1}
		r.must(tb, Request{After: []command.Command{&command.Enqueue{NS: ns, ID: job.ID{1}, Queue: "q", Payload: []byte("{}"), Retry: command.DefaultRetry()}}})
	}
}

// All pages of a list are complete up to the same time, well before that of the leader,
// and what changes after the first page is in the next list.
func TestReadings_PagesOfAListShareItsTimeAndItsPlace(t *testing.T) {
	t.Parallel()
	r := start(t, memDisks(), t.TempDir(), raftlog.Options{})
	defer r.stop(t)
	const namespaces = 1100
	r.enqueueOf(t, namespaces)
	first, err := r.Readings(t.Context(), stateread.ReadingsFrom{})
	if err != nil || first.Next == nil {
		t.Fatalf("first page: next %x, %v", first.Next, err)
	}
	if behind := time.Duration(r.Group().Now().Calendar - first.Complete); behind < readingsSettle {
		t.Errorf("complete up to %s ago", behind)
	}
	if first.Seq < r.Group().AppliedIndex()-1 { // The barrier is behind it.
		t.Errorf("seq %d of %d", first.Seq, r.Group().AppliedIndex())
	}
	late := job.Namespace{0, 0, 1} // Of the first page.
	r.must(t, Request{After: []command.Command{&command.Enqueue{NS: late, ID: job.ID{2}, Queue: "q", Retry: command.DefaultRetry()}}})
	second, err := r.Readings(t.Context(), stateread.ReadingsFrom{Next: first.Next})
	if err != nil || second.Next != nil || len(first.List)+len(second.List) != namespaces {
		t.Fatalf("second page: %d and %d readings, next %x, %v", len(first.List), len(second.List), second.Next, err)
	}
	if second.Complete != first.Complete || second.Seq != first.Seq {
		t.Errorf("the second page is complete to %d, seq %d; the first to %d, %d", second.Complete, second.Seq, first.Complete, first.Seq)
	}
	again, err := r.Readings(t.Context(), stateread.ReadingsFrom{Seq: second.Seq, Complete: r.Group().Now().Calendar + int64(time.Hour)})
	if err != nil || len(again.List) != 1 || again.List[0].NS != late || again.List[0].Jobs != 2 {
		t.Errorf("the next list: %+v, %v", again.List, err)
	}
	for _, next := range [][]byte{{1}, slices.Concat(first.Next, []byte{1})} {
		if _, err := r.Readings(t.Context(), stateread.ReadingsFrom{Next: next}); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("a page after %x: %v", next, err)
		}
	}
}

// jumpClock is a wall that a test sets.
type jumpClock struct{ ahead time.Duration }

func (c jumpClock) Now() (time.Time, time.Duration) {
	wall, mono := group.SystemClock{}.Now()
	return wall.Add(c.ahead), mono
}

// A leader removes what is kept no longer, once the version of the cell allows it.
func TestReadings_ALeaderTrimsOldOnes(t *testing.T) {
	t.Parallel()
	d := memDisks()
	r := start(t, d, "", raftlog.Options{})
	r.enqueueOf(t, 2)
	ns := job.Namespace{0, 1, 1}
	r.must(t, Request{Settle: []command.Command{&command.Delete{NS: ns, ID: job.ID{1}}}})
	r.stop(t)

	later := time.Duration(records.ReadingHoursKept+1) * time.Hour
	stores := grouptest.OpenWith(t, d.Disks, "", raftlog.Options{}, statedb.Options{})
	g := stores.Replica(t, testShardID, grouptest.Setup{Group: group.Options{Clock: jumpClock{later}}})
	r = &rig{New(g.Group, g.Store, Options{RetentionEvery: time.Millisecond}), stores}
	defer r.stop(t)
	r.waitLeading(t)
	eventually.True(t, patience, "what is counted of an idle namespace is gone", func() bool {
		_, there, err := stateread.ReadOpenReading(r.Store(), ns)
		if err != nil {
			t.Fatal(err)
		}
		return !there
	})
	if _, there, err := stateread.ReadOpenReading(r.Store(), job.Namespace{0, 0, 1}); err != nil || !there {
		t.Errorf("a namespace that stores something is counted %v, %v", there, err)
	}
}

// Below its version nobody proposes the command that trims.
func TestReadings_NothingIsTrimmedBeforeTheVersion(t *testing.T) {
	t.Parallel()
	d := memDisks()
	d.version = cellversion.First
	r := start(t, d, "", raftlog.Options{})
	defer r.stop(t)
	r.enqueueOf(t, 1)
	if page, err := r.Readings(t.Context(), stateread.ReadingsFrom{}); err != nil || len(page.List) != 0 {
		t.Errorf("readings %+v, %v", page.List, err)
	}
	if _, err := r.trimSomeReadings(t.Context(), job.Namespace{}); err != nil {
		t.Error(err)
	}
	var refused *fault.Error
	if err := r.settle(t.Context(), &command.TrimReadings{}); !errors.As(err, &refused) || refused.Reason != "CELL_VERSION" {
		t.Errorf("the command at version 1: %v", err)
	}
}
