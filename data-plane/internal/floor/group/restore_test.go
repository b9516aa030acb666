package group

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// transfer is the state of one replica on its way into the store of another.
func transfer(t *testing.T, from, to *replica) *received {
	t.Helper()
	x, err := from.fsm.store.Export(context.Background(), appliedKey(from.fsm.store), func([]byte) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	a, err := decodeApplied(x.Label)
	if err != nil {
		t.Fatal(err)
	}
	in, err := to.fsm.store.Import()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(in, x); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(x.Close(), in.Finish()); err != nil {
		t.Fatal(err)
	}
	meta := metaOf(a)
	meta.Size = x.Size
	return &received{meta: meta, data: in}
}

func alone(t *testing.T, entries int) *replica {
	t.Helper()
	r := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: []string{"n1"}})
	leaderOf(t, r)
	r.put(t, entries)
	return r
}

// Digests of a state that was replaced say nothing of the one that took its place: a replica
// that went wrong, and was sent the state, must not be found wrong by them.
func TestRestore_ForgetsTheDigestsOfTheStateBefore(t *testing.T) {
	t.Parallel()
	from, to := alone(t, 4*checkEvery), alone(t, 2*checkEvery)
	defer from.stop(t)
	defer to.stop(t)
	before := to.Marks()[1:]
	if len(before) == 0 {
		t.Fatal("the replica has no digests: the test proves nothing")
	}
	if err := to.fsm.Restore(transfer(t, from, to)); err != nil {
		t.Fatal(err)
	}
	for _, was := range before {
		if m, has := to.fsm.marks.at(was.Index); has {
			t.Errorf("the digest at %d is still %x", m.Index, m.Digest)
		}
	}
	if got, want := to.contents(t), from.contents(t); got != want {
		t.Errorf("the state is\n%s\nand should be\n%s", got, want)
	}
}

func TestRestore_AnOlderStateIsRefused(t *testing.T) {
	t.Parallel()
	from, to := alone(t, 2), alone(t, 20)
	defer from.stop(t)
	defer to.stop(t)
	before := to.contents(t)
	in := transfer(t, from, to)
	if err := to.fsm.Restore(in); err == nil || !strings.Contains(err.Error(), "older") {
		t.Errorf("it was answered with %v", err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if got := to.contents(t); got != before {
		t.Errorf("the state is\n%s\nand was\n%s", got, before)
	}
}

// Raft asks for a snapshot, waits for its main loop, which installs a received state meanwhile,
// and goes on with the index of before. A note that went back would deny, after a crash, what
// the state has: the log ends before it.
func TestRestore_ASnapshotAskedForBeforeItFails(t *testing.T) {
	t.Parallel()
	from, to := alone(t, 20), alone(t, 2)
	defer from.stop(t)
	defer to.stop(t)
	snaps := &snapshots{fsm: to.fsm, firstIndex: to.Group.log.FirstIndex, sending: to.sending, incoming: make(map[string]*received)}
	asked, err := to.fsm.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Release()
	sink, err := snaps.Create(raft.SnapshotVersionMax, to.AppliedIndex(), 1, raft.Configuration{}, 0, to.wire)
	if err != nil {
		t.Fatal(err)
	}
	in := transfer(t, from, to)
	if err := to.fsm.Restore(in); err != nil {
		t.Fatal(err)
	}
	if err := asked.Persist(sink); err == nil {
		t.Error("raft is told that the state is durable at an index that it has left behind")
	}
	covered, err := coveredIndex(to.fsm.store)
	if err != nil {
		t.Fatal(err)
	}
	if covered != in.meta.Index {
		t.Errorf("the covered note says %d, and the installed state stands at %d", covered, in.meta.Index)
	}
}
