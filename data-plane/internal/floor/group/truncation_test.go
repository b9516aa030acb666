package group

import (
	"errors"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// Two of three forget what they confirmed and elect each other. The one that has it
// stops before it cuts anything.
func TestCut_BelowWhatIsAppliedStopsTheNodeBeforeAnythingIsLost(t *testing.T) {
	t.Parallel()
	ids := []string{"n1", "n2"}
	d := []disks{memDisks(), memDisks(), memDisks()}
	all := []string{"n1", "n2", "n3"}
	var up []*replica
	for i, id := range ids {
		up = append(up, mustOpen(t, setup{id: id, disks: d[i], bootstrap: all, peers: up}))
	}
	last := leaderOf(t, up...).put(t, 20)
	keeper := up[1]
	eventually.True(t, patience, "both have applied", func() bool { return up[0].AppliedIndex() >= last && keeper.AppliedIndex() >= last })
	term := keeper.raft.CurrentTerm()
	for _, r := range up {
		r.stop(t)
	}

	forgetful := forgottenUntil(t, all, term, last)
	keeper = mustOpen(t, setup{id: "n2", disks: d[1], bootstrap: all, peers: forgetful})
	keeper.mustStopUntruncated(t, last)
	for _, r := range forgetful {
		r.stop(t)
	}
	// The keeper's raft loop is held forever in Fatal, as by a process that ends.
}

// forgottenUntil runs n1 and n3 on empty disks that vote, which a cell's nodes never
// do, until they have more entries than last, of a term after the given one: raft tells
// entries apart by their terms alone.
func forgottenUntil(t *testing.T, all []string, term, last uint64) []*replica {
	t.Helper()
	var forgetful []*replica
	for _, id := range []string{"n1", "n3"} {
		forgetful = append(forgetful, mustOpen(t, setup{id: id, disks: memDisks(), bootstrap: all, peers: forgetful}))
	}
	for leader := leaderOf(t, forgetful...); leader.raft.CurrentTerm() <= term; leader = leaderOf(t, forgetful...) {
		if err := leader.Transfer(""); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, patience, "the transfer", func() bool { return !leader.Leading() })
	}
	leaderOf(t, forgetful...).put(t, int(last)+5)
	return forgetful
}

func (r *replica) mustStopUntruncated(t *testing.T, last uint64) {
	t.Helper()
	var reason error
	eventually.True(t, patience, "the keeper stops", func() bool {
		select {
		case reason = <-r.fatal:
		default:
		}
		return reason != nil
	})
	if !errors.Is(reason, ErrCutApplied) {
		t.Fatalf("stopped because of %v", reason)
	}
	if got, err := r.log.Group(testGroup).LastIndex(); err != nil || got < last {
		t.Fatalf("the log ends at %d (%v), it had %d", got, err, last)
	}
}

// Raft makes no snapshot of what it has not seen applied since the start, so a replica of a group
// in which nothing happens must cut its log without one.
func TestForget_AReplicaThatRestartedInAnIdleGroupForgetsToo(t *testing.T) {
	t.Parallel()
	ids := []string{"n1", "n2"}
	var setups []setup
	var up []*replica
	for _, id := range ids {
		setups = append(setups, setup{id: id, disks: memDisks(), bootstrap: ids})
		s := setups[len(setups)-1]
		s.peers = up
		up = append(up, mustOpen(t, s))
	}
	last := leaderOf(t, up...).put(t, 10)
	appliedBy(t, last, up...)
	want := up[0].contents(t)
	for _, r := range up {
		r.stop(t)
	}

	r := mustOpen(t, setups[0]) // Alone, it elects nobody, and nothing is applied.
	done, err := r.Forget(t.Context(), r.AppliedIndex())
	if err != nil || !done {
		t.Errorf("at %d: done: %v, %v", r.AppliedIndex(), done, err)
	}
	if first, err := r.log.Group(testGroup).FirstIndex(); err != nil || first != 0 {
		t.Errorf("the log begins at %d, %v", first, err)
	}
	setups[1].peers = []*replica{r}
	other := mustOpen(t, setups[1])
	last = leaderOf(t, r, other).put(t, 1)
	appliedBy(t, last, r, other)
	other.stop(t)
	r.stop(t)
	r = mustOpen(t, setups[0])
	defer r.stop(t)
	if got := r.contents(t); len(got) <= len(want) || got[:len(want)] != want {
		t.Errorf("the state is\n%s\nand began with\n%s", got, want)
	}
}
