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
