package group

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// crashable are disks that forget what was not synced when the power goes.
type crashable struct{ log, state *vfs.MemFS }

func crashableDisks() crashable { return crashable{vfs.NewCrashableMem(), vfs.NewCrashableMem()} }

func (c crashable) running() disks { return disks{c.log, c.state} }

// afterPowerLoss is what the disks hold if the power goes now.
func (c crashable) afterPowerLoss() disks {
	return disks{c.log.CrashClone(vfs.CrashCloneCfg{}), c.state.CrashClone(vfs.CrashCloneCfg{})}
}

// durable is how far the state would be if the power went now.
func (c crashable) durable(t *testing.T) uint64 {
	t.Helper()
	db, err := statedb.Open("state", statedb.Options{FS: c.afterPowerLoss().state, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	a, err := loadApplied(db.Group(testGroup))
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return a.index
}

// The log may be cut only behind what the state holds without it: the power goes right
// after the cut, at a moment when half of the state was flushed before it.
func TestPowerLoss_AfterTheLogWasCutTheStateIsWhole(t *testing.T) {
	t.Parallel()
	for _, ids := range [][]string{{"n1"}, {"n1", "n2", "n3"}} {
		t.Run(ids[len(ids)-1], func(t *testing.T) {
			t.Parallel()
			powerLossAfterCut(t, ids)
		})
	}
}

func powerLossAfterCut(t *testing.T, ids []string) {
	t.Helper()
	var on []crashable
	var up []*replica
	for i, id := range ids {
		on = append(on, crashableDisks())
		up = append(up, mustOpen(t, setup{id: id, disks: on[i].running(), bootstrap: ids, peers: up}))
	}
	half := leaderOf(t, up...).put(t, 20)
	appliedBy(t, half, up...)
	for _, r := range up {
		if err := r.db.Sync(); err != nil { // As a flush of a full memtable would.
			t.Fatal(err)
		}
	}
	last := leaderOf(t, up...).put(t, 20)
	appliedBy(t, last, up...)
	for i, r := range up {
		if at := on[i].durable(t); at < half || at >= last {
			t.Fatalf("%s: the state is durable up to %d, not between %d and %d: the round proves nothing", r.id, at, half, last)
		}
		r.cutEverything(t)
		if first, err := r.log.Group(testGroup).FirstIndex(); err != nil || first > 0 && first <= half {
			t.Fatalf("%s: the log begins at %d (%v): the round proves nothing", r.id, first, err)
		}
	}
	want := up[0].contents(t)
	var left []disks
	for _, c := range on { // The power goes everywhere before anybody shuts down in order.
		left = append(left, c.afterPowerLoss())
	}
	for _, r := range up {
		r.stop(t)
	}

	var again []*replica
	for i, id := range ids {
		again = append(again, mustOpen(t, setup{id: id, disks: left[i], bootstrap: ids, peers: again}))
	}
	for _, r := range again {
		appliedBy(t, last, r)
		if got := r.contents(t); got != want {
			t.Errorf("%s has after the power loss\n%s\nand had\n%s", r.id, got, want)
		}
	}
	leaderOf(t, again...).put(t, 1)
	for _, r := range again {
		r.stop(t)
	}
}

func appliedBy(t *testing.T, index uint64, all ...*replica) {
	t.Helper()
	for _, r := range all {
		eventually.True(t, patience, r.id+" applies", func() bool { return r.AppliedIndex() >= index })
	}
}

// The state of a node that lost power is behind what it had applied, and it has not
// applied those entries again when a leader who never had them asks to cut them.
func TestCut_WhatWasAppliedBeforeAPowerLossStopsTheNodeToo(t *testing.T) {
	t.Parallel()
	all := []string{"n1", "n2", "n3"}
	on := crashableDisks()
	other := mustOpen(t, setup{id: "n1", disks: memDisks(), bootstrap: all})
	keeper := mustOpen(t, setup{id: "n2", disks: on.running(), bootstrap: all, peers: []*replica{other}})
	last := leaderOf(t, other, keeper).put(t, 20)
	appliedBy(t, last, other, keeper)
	eventually.True(t, patience, "the keeper's log notes what is applied", func() bool {
		noted, err := keeper.log.Group(testGroup).GetUint64(appliedNote)
		return err == nil && noted >= last
	})
	left := on.afterPowerLoss()
	other.stop(t)
	keeper.stop(t)

	keeper = mustOpen(t, setup{id: "n2", disks: left, bootstrap: all}) // Alone, it commits nothing again.
	if at := keeper.AppliedIndex(); at > 1 {
		t.Fatalf("the state is durable up to %d: the test proves nothing", at)
	}
	end, err := keeper.Group.log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	go func() { // As raft does for a leader with another entry there.
		if err := keeper.Group.log.DeleteRange(last, end); err != nil {
			t.Error(err)
		}
	}()
	keeper.mustStopUntruncated(t, last)
}

// unreadable is a log whose disk gives nothing back.
type unreadable struct {
	LogStore
	failing *atomic.Bool
}

func (l unreadable) GetLog(index uint64, log *raft.Log) error {
	if l.failing.Load() {
		return errors.New("input/output error")
	}
	return l.LogStore.GetLog(index, log)
}

// A log that cannot be read ends the node, whoever of the library reads.
func TestLog_AnEntryThatCannotBeReadEndsTheNode(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	r := mustOpen(t, setup{
		id: "n1", disks: memDisks(), bootstrap: []string{"n1", "n2"}, // Alone, it reads nothing by itself.
		wrapLog: func(l LogStore) LogStore { return unreadable{l, &failing} },
	})
	failing.Store(true)
	go func() { _ = r.Group.log.GetLog(1, new(raft.Log)) }()
	var reason error
	eventually.True(t, patience, "the node ends", func() bool {
		select {
		case reason = <-r.fatal:
		default:
		}
		return reason != nil
	})
}

// The covered note is written before the state that it speaks of is there. If the power goes in
// between, the state is what it was: whoever makes the node the only voter goes on behind its log.
func TestPowerLoss_ANoteOfAStateThatNeverCameIsNoPlaceToGoOnFrom(t *testing.T) {
	t.Parallel()
	on := crashableDisks()
	r := mustOpen(t, setup{id: "n1", disks: on.running(), bootstrap: []string{"n1"}})
	leaderOf(t, r)
	state := r.put(t, 20)
	if err := r.fsm.store.MarkCovered(applied{index: state + 400, term: 1}.encode()); err != nil {
		t.Fatal(err)
	}
	last := r.put(t, 20)
	want := r.contents(t)
	left := on.afterPowerLoss()
	r.stop(t)

	recovered, err := survey(t, left, func(store *statedb.Group, log LogStore) (Survey, error) {
		if err := MakeAlone(store, log, "n2"); err != nil {
			return Survey{}, err
		}
		return Look(store, log)
	})
	if err != nil {
		t.Fatal(err)
	}
	if recovered.Last != last+1 || recovered.Applied >= last {
		t.Errorf("the state stands at %d, the log ends at %d, want at most %d and %d", recovered.Applied, recovered.Last, last-1, last+1)
	}
	again := mustOpen(t, setup{id: "n2", disks: left})
	defer again.stop(t)
	leaderOf(t, again)
	if got := again.contents(t); got != want {
		t.Errorf("the state is\n%s\nand was\n%s", got, want)
	}
}

// survey opens a group's stores for a look.
func survey(t *testing.T, d disks, look func(*statedb.Group, LogStore) (Survey, error)) (Survey, error) {
	t.Helper()
	log, err := raftlog.Open("log", raftlog.Options{FS: d.log})
	if err != nil {
		t.Fatal(err)
	}
	db, err := statedb.Open("state", statedb.Options{FS: d.state, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s, err := look(db.Group(testGroup), log.Group(testGroup))
	return s, errors.Join(err, log.Close(), db.Close())
}
