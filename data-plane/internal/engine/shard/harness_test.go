package shard

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// rig is one shard on its own, with real raft and real stores.
type rig struct {
	*Shard
	stores *grouptest.Stores
}

// rigDisks are the file systems under the log and the state.
type rigDisks struct {
	grouptest.Disks
	acceptLoss bool
	version    cellversion.Version // 0: the newest.
}

func memDisks() rigDisks { return rigDisks{Disks: grouptest.InMemory()} }

const testShardID = 2

// start opens a shard over the disks and waits until it leads.
func start(tb testing.TB, d rigDisks, dir string, o raftlog.Options) *rig {
	tb.Helper()
	return startWith(tb, d, dir, o, Options{})
}

func startWith(tb testing.TB, d rigDisks, dir string, o raftlog.Options, of Options) *rig {
	tb.Helper()
	stores := grouptest.OpenWith(tb, d.Disks, dir, o, statedb.Options{})
	setup := grouptest.Setup{Group: group.Options{AcceptLoss: d.acceptLoss}}
	if d.version != 0 {
		setup.Group.CellVersion = func() cellversion.Version { return d.version }
	}
	g := stores.Replica(tb, testShardID, setup)
	r := &rig{New(g.Group, g.Store, of), stores}
	r.waitLeading(tb)
	return r
}

func (r *rig) waitLeading(tb testing.TB) {
	tb.Helper()
	eventually.True(tb, patience, "the shard leads", func() bool { return r.term.Load() != nil })
}

func (r *rig) stop(tb testing.TB) {
	tb.Helper()
	if err := errors.Join(r.Group().Shutdown(), r.stores.Close()); err != nil {
		tb.Error(err)
	}
}

func (r *rig) must(tb testing.TB, q Request) Reply {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	rep, err := r.Do(ctx, q)
	if err != nil {
		tb.Fatal(err)
	}
	return rep
}
