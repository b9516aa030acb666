package group

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

func TestRestart_StateIsUsedInPlaceAndNothingIsAppliedTwice(t *testing.T) {
	t.Parallel()
	d := memDisks()
	r := mustOpen(t, setup{id: "n1", disks: d, bootstrap: []string{"n1"}})
	leaderOf(t, r)
	last := r.put(t, 20)
	before := r.contents(t)
	_, digest := r.fsm.status()
	r.stop(t)

	r = mustOpen(t, setup{id: "n1", disks: d, bootstrap: []string{"n1"}})
	defer r.stop(t)
	leaderOf(t, r)
	if got := r.contents(t); got != before {
		t.Fatalf("after restart:\n%s\nbefore:\n%s", got, before)
	}
	if len(r.machine.runs) != 0 {
		t.Fatalf("entries applied again: %v", r.machine.runs)
	}
	if _, d := r.fsm.status(); d != digest {
		t.Fatalf("digest %x, was %x", d, digest)
	}
	if next := r.put(t, 1); next <= last {
		t.Fatalf("index %d after %d", next, last)
	}
}

// A replay may begin before where the state is.
func TestApply_WhatWasAppliedBeforeIsSkipped(t *testing.T) {
	t.Parallel()
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}})
	defer r.stop(t)
	leaderOf(t, r)
	last, before := r.put(t, 3), r.contents(t)
	_, digest := r.fsm.status()
	var logs []*raft.Log
	for i := last - 2; i <= last; i++ {
		e := envelope{version: r.Version(), stamp: r.Now(), payload: []byte("again")}
		logs = append(logs, &raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: e.encode()})
	}
	for i, got := range r.fsm.ApplyBatch(logs) {
		if got != nil {
			t.Errorf("entry %d was applied to %v", logs[i].Index, got)
		}
	}
	if got := r.contents(t); got != before {
		t.Errorf("the state is now\n%s\nand was\n%s", got, before)
	}
	if _, d := r.fsm.status(); d != digest {
		t.Errorf("the digest is %x, was %x", d, digest)
	}
}

func TestStart_ALogThatLostAppliedEntriesIsRefusedUnlessTheLossIsAccepted(t *testing.T) {
	t.Parallel()
	d := memDisks()
	r := mustOpen(t, setup{id: "n1", disks: d, bootstrap: []string{"n1"}})
	leaderOf(t, r)
	last := r.put(t, 10)
	if err := r.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if err := r.log.Group(testGroup).DeleteRange(last-3, last+5); err != nil {
		t.Fatal(err)
	}
	r.closeStores(t)

	if _, err := open(t, setup{id: "n1", disks: d, bootstrap: []string{"n1"}}); !errors.Is(err, ErrLogLost) {
		t.Fatalf("start: %v, want ErrLogLost", err)
	}
	r = mustOpen(t, setup{id: "n1", disks: d, bootstrap: []string{"n1"}, accept: true})
	defer r.stop(t)
	leaderOf(t, r)
	if next := r.put(t, 1); next <= last {
		t.Fatalf("an entry at %d would be skipped: %d is applied", next, last)
	}
	if n := len(r.machine.runs); n != 1 {
		t.Fatalf("%d entries applied, want the new one", n)
	}
}

func TestStart_AGapBetweenStateAndLogIsRefused(t *testing.T) {
	t.Parallel()
	d := memDisks()
	r := mustOpen(t, setup{id: "n1", disks: d, bootstrap: []string{"n1"}})
	leaderOf(t, r)
	last := r.put(t, 10)
	if err := r.Shutdown(); err != nil {
		t.Fatal(err)
	}
	first, err := r.log.Group(testGroup).FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.log.Group(testGroup).DeleteRange(first, last-1); err != nil {
		t.Fatal(err)
	}
	r.closeStores(t)
	d.state = memDisks().state // The state's disk was replaced.
	if _, err := open(t, setup{id: "n1", disks: d, bootstrap: []string{"n1"}}); !errors.Is(err, ErrLogGap) {
		t.Fatalf("start: %v, want ErrLogGap", err)
	}
}

func TestSnapshot_AFollowerFarBehindGetsTheStateAndKeepsItOverARestart(t *testing.T) {
	t.Parallel()
	ids := []string{"n1", "n2", "n3"}
	dd := []disks{memDisks(), memDisks(), memDisks()}
	var all []*replica
	for i, id := range ids {
		all = append(all, mustOpen(t, setup{id: id, disks: dd[i], bootstrap: ids, peers: all}))
	}
	leader := leaderOf(t, all...)
	leader.put(t, 5)
	var behind, other *replica
	at := 0
	for i, r := range all {
		switch {
		case r == leader:
		case behind == nil:
			behind, at = r, i
		default:
			other = r
		}
	}
	behind.stop(t)
	leader.put(t, 50)
	leader.cutEverything(t)
	last := leader.put(t, 5)

	behind = mustOpen(t, setup{id: ids[at], disks: dd[at], bootstrap: ids, peers: []*replica{leader, other}})
	eventually.True(t, patience, "the follower catches up", func() bool { return behind.AppliedIndex() >= last })
	if got, want := behind.contents(t), leader.contents(t); got != want {
		t.Fatalf("follower:\n%s\nleader:\n%s", got, want)
	}
	if len(behind.machine.runs) >= 50 {
		t.Fatal("the follower replayed the log: the test did not send a snapshot")
	}
	li, ld := leader.fsm.status()
	fi, fd := behind.fsm.status()
	if li == fi && ld != fd {
		t.Fatalf("digests at %d: %x and %x", li, ld, fd)
	}
	behind.stop(t)
	behind = mustOpen(t, setup{id: ids[at], disks: dd[at], bootstrap: ids, peers: []*replica{leader, other}})
	last = leaderOf(t, leader, other, behind).put(t, 1)
	eventually.True(t, patience, "the restarted follower goes on", func() bool { return behind.AppliedIndex() >= last })
	for _, r := range []*replica{leader, other, behind} {
		r.stop(t)
	}
}

// cutEverything takes a snapshot and leaves no trailing log.
func (r *replica) cutEverything(t *testing.T) {
	t.Helper()
	rc := r.raft.ReloadableConfig()
	rc.TrailingLogs = 0
	if err := r.raft.ReloadConfig(rc); err != nil {
		t.Fatal(err)
	}
	if err := r.Snapshot(); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshot_ACutLogBehindANoOpStillFitsTheState(t *testing.T) {
	t.Parallel()
	d := memDisks()
	for range 3 { // Each start ends with a no-op and a barrier, which the machine never sees.
		r := mustOpen(t, setup{id: "n1", disks: d, bootstrap: []string{"n1"}})
		leaderOf(t, r)
		r.put(t, 1)
		if err := r.raft.Barrier(patience).Error(); err != nil {
			t.Fatal(err)
		}
		r.cutEverything(t)
		if applied, raftApplied := r.AppliedIndex(), r.raft.AppliedIndex(); applied != raftApplied {
			t.Fatalf("the record says %d, the snapshot was taken at %d", applied, raftApplied)
		}
		r.stop(t)
	}
	mustOpen(t, setup{id: "n1", disks: d, bootstrap: []string{"n1"}}).stop(t)
}

func TestStatus_AnIdleReplicaHasAppliedAllThatIsCommitted(t *testing.T) {
	t.Parallel()
	d := memDisks()
	for range 3 { // Each start ends with entries that the machine never sees.
		r := mustOpen(t, setup{id: "n1", disks: d, bootstrap: []string{"n1"}})
		leaderOf(t, r)
		if err := r.raft.Barrier(patience).Error(); err != nil {
			t.Fatal(err)
		}
		s := r.Status()
		if s.AppliedIndex != s.CommitIndex || s.DigestIndex == s.CommitIndex {
			t.Fatalf("applied %d of %d, digest at %d: want all, and the digest before raft's own entries", s.AppliedIndex, s.CommitIndex, s.DigestIndex)
		}
		r.put(t, 1)
		s = r.Status()
		if got := r.pastOwn(s.DigestIndex-1, s.CommitIndex); got != s.DigestIndex-1 {
			t.Fatalf("a command that isn't applied counts as applied: %d", got)
		}
		r.stop(t)
	}
}

func TestApply_AnEntryNobodyUnderstandsStopsTheNode(t *testing.T) {
	t.Parallel()
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}})
	leaderOf(t, r)
	r.Propose(r.Now(), []byte("unknown"))
	select {
	case err := <-r.fatal:
		if !strings.Contains(err.Error(), "later version") {
			t.Fatalf("stopped by: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the node goes on")
	}
}

func TestDigest_AReplicaThatDivergedStops(t *testing.T) {
	t.Parallel()
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}})
	leaderOf(t, r)
	r.put(t, 3)
	e := envelope{version: 1, stamp: r.Now(), check: true, payload: []byte("x")}
	e.checkIndex, e.checkDigest = r.fsm.status()
	e.checkDigest++
	r.raft.Apply(e.encode(), patience)
	select {
	case err := <-r.fatal:
		if !errors.Is(err, ErrDiverged) {
			t.Fatalf("stopped by: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the replica goes on with a state that is not the leader's")
	}
}

func TestPropose_WithoutLeadershipIsRefusedAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	r := mustOpen(t, setup{id: "n2", disks: memDisks(), bootstrap: []string{"n1", "n2", "n3"}})
	defer r.stop(t)
	_, _, err := r.ProposeAndWait(context.Background(), []byte("x"))
	if fault.CodeOf(err) != fault.NotLeader {
		t.Fatalf("propose: %v", err)
	}
	if got := r.contents(t); got != "" {
		t.Fatalf("state: %q", got)
	}
}

func FuzzEnvelope(f *testing.F) {
	f.Add(envelope{version: 1, stamp: Times{2, 1}, payload: []byte("p")}.encode())
	f.Add(envelope{version: 300, stamp: Times{1, 1 << 40}, check: true, checkIndex: 2, checkDigest: 3, payload: []byte("p")}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEnvelope(b)
		if err != nil {
			return
		}
		if got := string(e.encode()); got != string(b) {
			t.Fatalf("%x decodes and encodes to %x", b, got)
		}
	})
}

func FuzzAppliedRecord(f *testing.F) {
	f.Add(applied{index: 1, term: 2, now: Times{3, 3}, digest: 4, configIndex: 5, config: []byte("c")}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeApplied(b)
		if err == nil && string(a.encode()) != string(b) {
			t.Fatalf("%x decodes and encodes to %x", b, a.encode())
		}
	})
}

func TestApply_APanicIsCountedBeforeItEndsTheProcess(t *testing.T) {
	t.Parallel()
	counted := make(chan uint64, 1)
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}, crashed: func(index uint64) { counted <- index }})
	leaderOf(t, r)
	r.raft.Apply(envelope{version: 1, stamp: r.Now(), payload: []byte("panic")}.encode(), patience)
	select {
	case err := <-r.fatal:
		if !errors.Is(err, ErrCrashed) || len(counted) != 1 || <-counted == 0 {
			t.Fatalf("stopped by: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the replica goes on")
	}
}

// Every replica marks the same entries, so that they can be compared.
func TestMarks_AreTheSameOnEveryReplica(t *testing.T) {
	t.Parallel()
	a := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}})
	defer a.stop(t)
	leaderOf(t, a)
	a.put(t, 3*checkEvery)
	marks := a.Marks()
	if len(marks) < 3 {
		t.Fatalf("marks: %v", marks)
	}
	var indexes []uint64
	for _, m := range marks {
		indexes = append(indexes, m.Index)
	}
	if got := a.DigestsAt(indexes); !slices.Equal(got, marks) {
		t.Fatalf("asked for %v: %v", marks, got)
	}
	if got := a.DigestsAt([]uint64{1 << 40, 0}); got != nil {
		t.Fatalf("what nobody knows: %v", got)
	}
}

func TestDispute_ADisputedLeaderServesNothingUntilItIsSettled(t *testing.T) {
	t.Parallel()
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}})
	defer r.stop(t)
	leaderOf(t, r)
	r.Dispute("replicas differ")
	if s := r.Status(); r.Leading() || !r.Silent() || s.Role != "disputed" || s.Detail != "replicas differ" {
		t.Fatalf("%+v", s)
	}
	if _, _, err := r.ProposeAndWait(context.Background(), []byte("x")); fault.CodeOf(err) != fault.NotLeader {
		t.Fatal(err)
	}
	r.Dispute("")
	leaderOf(t, r)
	r.put(t, 1)
}

// Operators ask for the status when a disk stalls, and a commit waits for the disk.
func TestStatus_AnswersWhileTheStateChanges(t *testing.T) {
	t.Parallel()
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}})
	leaderOf(t, r)
	last := r.put(t, 5)
	r.fsm.mu.Lock()
	defer r.fsm.mu.Unlock()
	told := make(chan Status, 1)
	go func() { told <- r.Status() }()
	select {
	case s := <-told:
		if s.AppliedIndex < last {
			t.Errorf("applied %d, want %d at least", s.AppliedIndex, last)
		}
	case <-time.After(patience):
		t.Fatal("the status waits for a commit")
	}
}
