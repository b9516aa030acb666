package group

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
)

// A version takes effect with an entry of the group. It stays after a restart and
// under a leader that does not know it yet.
func TestVersion_IsPartOfTheLogAndNeverGoesBack(t *testing.T) {
	t.Parallel()
	var cell atomic.Uint32
	cell.Store(1)
	s := setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}, cell: cell.Load, speaks: cellversion.Range{Lowest: 1, Highest: 3}}
	r := mustOpen(t, s)
	leaderOf(t, r)
	r.put(t, 2)
	cell.Store(2)
	r.put(t, 2)
	cell.Store(1)
	r.put(t, 1)
	if got, want := r.machine.versions, []cellversion.Version{1, 1, 2, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("applied under the versions %v, want %v", got, want)
	}
	r.stop(t)

	r = mustOpen(t, s)
	defer r.stop(t)
	if got := r.Status().Version; got != 2 {
		t.Errorf("after a restart the group is at version %d, want 2", got)
	}
	leaderOf(t, r)
	r.put(t, 1)
	if got := r.machine.versions; !slices.Equal(got, []cellversion.Version{2}) {
		t.Errorf("after a restart, with a cell said to be at 1, applied under %v", got)
	}
}

// A follower whose program is too old stops at the first entry of the new version; all
// entries before it are applied, and nothing is skipped.
func TestVersion_AnOlderProgramStopsAtTheEntryAndDoesNotStartAgain(t *testing.T) {
	t.Parallel()
	var cell atomic.Uint32
	cell.Store(1)
	both := cellversion.Range{Lowest: 1, Highest: 2}
	ids := []string{"n1", "n2"}
	n1 := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: ids, cell: cell.Load, speaks: both})
	n2 := mustOpen(t, setup{id: "n2", disks: memDisks(), bootstrap: ids, cell: cell.Load, speaks: both, peers: []*replica{n1}})
	n3 := setup{id: "n3", disks: memDisks(), speaks: cellversion.Range{Lowest: 1, Highest: 1}, peers: []*replica{n1, n2}}
	old := mustOpen(t, n3)
	leader := leaderOf(t, n1, n2)
	if err := leader.AddLearner("n3"); err != nil {
		t.Fatal(err)
	}
	leader.put(t, 3)
	eventually.True(t, patience, "the older program follows", func() bool { return old.AppliedIndex() == leader.AppliedIndex() })
	cell.Store(2)
	leader.put(t, 1)
	select {
	case err := <-old.fatal:
		if !errors.Is(err, cellversion.ErrSkew) {
			t.Fatalf("stopped by: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the older program goes on")
	}
	old.machine.mu.Lock()
	if len(old.machine.versions) != 3 {
		t.Errorf("the older program applied %d entries, want 3", len(old.machine.versions))
	}
	old.machine.mu.Unlock()
	n1.stop(t)
	n2.stop(t)

	// It does not open a state at the new version either.
	_, err := open(t, setup{id: leader.id, disks: leader.disks, speaks: n3.speaks})
	if !errors.Is(err, cellversion.ErrSkew) {
		t.Errorf("opened a state of version 2: %v", err)
	}
}
