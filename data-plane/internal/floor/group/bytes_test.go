package group

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// putLarge proposes n entries of so many bytes each and returns the last index.
func (r *replica) putLarge(t *testing.T, n, size int) (last uint64) {
	t.Helper()
	for i := range n {
		_, index, err := r.ProposeAndWait(context.Background(), bytes.Repeat([]byte{byte(i)}, size))
		if err != nil {
			t.Fatal(err)
		}
		last = index
	}
	return last
}

// A node that lost its state applies its whole log again, more entries in one of raft's
// batches than one commit takes, and is ended after the second commit.
func TestApply_ABatchIsCommittedInPartsAndACrashBetweenThemIsSound(t *testing.T) {
	t.Parallel()
	const size, perPart = 6 << 10, 6
	on := crashableDisks()
	r := mustOpen(t, setup{id: "n1", disks: on.running(), bootstrap: []string{"n1"}})
	leaderOf(t, r)
	last := r.putLarge(t, 20, size)
	want, wantDigest := r.contents(t), r.digestAt(t, last)
	r.stop(t)

	// All of it is one batch for raft: it becomes known to be committed at once.
	state := vfs.NewCrashableMem()
	var commits []uint64
	var killed disks
	var again *replica
	opened := make(chan struct{})
	again = mustOpen(t, setup{
		id: "n1", disks: disks{on.log, state}, bootstrap: []string{"n1"}, commits: perPart*size + size/2,
		committed: func(index uint64) {
			<-opened
			commits = append(commits, index)
			if len(commits) != 2 {
				return
			}
			if err := again.db.Sync(); err != nil {
				t.Error(err)
			}
			everything := vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))}
			killed = disks{on.log.CrashClone(everything), state.CrashClone(everything)}
		},
	})
	close(opened)
	appliedBy(t, last, again)
	if got := again.digestAt(t, last); got != wantDigest || again.contents(t) != want {
		t.Errorf("in parts the digest is %016x, it was %016x", got, wantDigest)
	}
	again.stop(t)
	before := uint64(0)
	for _, index := range commits {
		if index > before+perPart+4 { // Entries of raft's own weigh nothing.
			t.Errorf("one commit has the entries %d to %d, %d bytes each", before+1, index, size)
		}
		before = index
	}
	if len(commits) < 2 {
		t.Fatalf("commits at %v: nothing lies between two parts", commits)
	}

	after := mustOpen(t, setup{id: "n1", disks: killed, bootstrap: []string{"n1"}})
	defer after.stop(t)
	appliedBy(t, last, after)
	if len(after.machine.runs) == 0 || uint64(len(after.machine.runs)) > last-commits[1] {
		t.Errorf("%d entries were applied again, the second commit was at %d of %d", len(after.machine.runs), commits[1], last)
	}
	for index := range after.machine.runs {
		if index <= commits[1] {
			t.Errorf("entry %d was applied twice", index)
		}
	}
	if got := after.digestAt(t, last); got != wantDigest || after.contents(t) != want {
		t.Errorf("after the crash the digest is %016x, it was %016x", got, wantDigest)
	}
}

// digestAt is the digest of a replica that has applied everything of it.
func (r *replica) digestAt(t *testing.T, last uint64) uint64 {
	t.Helper()
	index, digest := r.fsm.status()
	if index < last {
		t.Fatalf("%s has applied %d of %d", r.id, index, last)
	}
	return digest
}

// However few entries fill the bytes that may be kept, no more of them are kept.
func TestCutLog_TheRestIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const size, trailing = 100 << 10, 1 << 20
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}, trailing: trailing})
	defer r.stop(t)
	leaderOf(t, r)
	r.putLarge(t, 30, size)
	r.put(t, 30) // Small ones say nothing about those before them.
	if err := r.snapshot(); err != nil {
		t.Fatal(err)
	}
	if got := r.log.Group(testGroup).Bytes(); got > trailing || got < trailing-2*size {
		t.Errorf("%d bytes stay of the log, want nearly %d", got, trailing)
	}
}

// Who forgets entries cuts the log close once. Raft, which cuts by itself too, is left what it had to keep.
func TestForget_CutsOnceAndKeepsTheUsualRestAfterwards(t *testing.T) {
	t.Parallel()
	r := alone(t, 30)
	defer r.stop(t)
	last := r.put(t, 1)
	done, err := r.Forget(context.Background(), last-2)
	if err != nil || !done {
		t.Fatalf("forgotten %v, %v", done, err)
	}
	if first, err := r.log.Group(testGroup).FirstIndex(); err != nil || first != last-1 {
		t.Errorf("the log begins at %d (%v), want %d", first, err, last-1)
	}
	if got := r.raft.ReloadableConfig().TrailingLogs; got != trailingEntries {
		t.Errorf("raft keeps %d entries, want %d", got, trailingEntries)
	}
}

// An entry that no follower would read is not proposed: it would stop replication.
func TestPropose_AnEntryThatFollowersWouldNotReadIsRefused(t *testing.T) {
	t.Parallel()
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}})
	defer r.stop(t)
	leaderOf(t, r)
	at := r.put(t, 1)
	_, _, err := r.ProposeAndWait(context.Background(), make([]byte, transport.EntryBytesMax))
	if fault.CodeOf(err) != fault.TooLarge {
		t.Fatalf("refusal: %v", err)
	}
	if next := r.put(t, 1); next != at+1 {
		t.Errorf("entry %d follows entry %d", next, at)
	}
}

// The log goes back to what the slowest voter has said to have, as far as the budget goes.
// Beyond, the leader says who needs the whole state.
func TestCutLog_KeepsWhatTheSlowestVoterLacksWithinTheBudget(t *testing.T) {
	t.Parallel()
	const size, trailing, budget = 10 << 10, 30 << 10, 200 << 10
	members := []string{"n1", "n2", "n3"}
	var away atomic.Uint64
	said := func(node string) (uint64, bool) { return away.Load(), node == "n3" && away.Load() > 0 }
	// On a busy machine a leader with a short lease would lose it between two steps.
	member := setup{disks: memDisks(), bootstrap: members, trailing: trailing, said: said, logBytes: func() uint64 { return budget }, heartbeat: time.Second}
	one, two := member, member
	one.id = "n1"
	a := mustOpen(t, one)
	defer a.stop(t)
	two.id, two.disks, two.peers = "n2", memDisks(), []*replica{a}
	b := mustOpen(t, two)
	defer b.stop(t)
	leader := leaderOf(t, a, b)
	from := leader.put(t, 1)
	away.Store(from)
	leader.putLarge(t, 15, size)
	if err := leader.snapshot(); err != nil {
		t.Fatal(err)
	}
	if first, err := leader.Group.log.FirstIndex(); err != nil || first > from+1 {
		t.Fatalf("the log begins at %d, and n3 has %d (%v)", first, from, err)
	}
	if err := leader.noteBehind(); err != nil || leader.Behind() != "" {
		t.Fatalf("behind: %q, %v", leader.Behind(), err)
	}
	leader.putLarge(t, 20, size)
	if err := leader.snapshot(); err != nil {
		t.Fatal(err)
	}
	if got := leader.replicaBytes(); got > budget || got < budget-2*size {
		t.Errorf("%d bytes stay of the log, want nearly %d", got, budget)
	}
	if err := leader.noteBehind(); err != nil || !strings.Contains(leader.Behind(), "n3 (at") {
		t.Fatalf("behind: %q, %v", leader.Behind(), err)
	}
	if d := leader.Status().Detail; d != leader.Behind() {
		t.Errorf("status: %q", d)
	}

	// It comes back, gets the state, and nothing is kept for it any more.
	c := mustOpen(t, setup{id: "n3", disks: memDisks(), peers: []*replica{a, b}, heartbeat: time.Second})
	defer c.stop(t)
	eventually.True(t, patience, "n3 has everything", func() bool { return c.AppliedIndex() >= leader.AppliedIndex() })
	away.Store(c.AppliedIndex())
	if err := leader.noteBehind(); err != nil || leader.Behind() != "" {
		t.Fatalf("behind: %q, %v", leader.Behind(), err)
	}
	leader.put(t, 1)
	if err := leader.snapshot(); err != nil {
		t.Fatal(err)
	}
	if got := leader.replicaBytes(); got > trailing {
		t.Errorf("%d bytes stay of the log, want %d", got, trailing)
	}
}

func (r *replica) replicaBytes() uint64 { return r.log.Group(testGroup).Bytes() }
