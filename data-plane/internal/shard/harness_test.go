package shard

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/transport"
)

// wire is the transport of a replica that has no peers.
type wire struct{ *raft.InmemTransport }

func (wire) Bind(transport.Raft) {}

// rig is one shard on its own, with real raft and real stores.
type rig struct {
	*Shard
	log   *raftlog.Store
	state *statedb.DB
}

// rigDisks are the file systems under the log and the state.
type rigDisks struct {
	log, state vfs.FS
	acceptLoss bool
}

func memDisks() rigDisks { return rigDisks{log: vfs.NewMem(), state: vfs.NewMem()} }

const testShardID = 2

// start opens a shard over the disks and waits until it leads.
func start(tb testing.TB, d rigDisks, dir string, o raftlog.Options) *rig {
	tb.Helper()
	return startWith(tb, d, dir, o, Options{})
}

func startWith(tb testing.TB, d rigDisks, dir string, o raftlog.Options, of Options) *rig {
	tb.Helper()
	o.FS = d.log
	log, err := raftlog.Open(dir+"log", o)
	if err != nil {
		tb.Fatal(err)
	}
	db, err := statedb.Open(dir+"state", statedb.Options{FS: d.state})
	if err != nil {
		tb.Fatal(err)
	}
	_, t := raft.NewInmemTransport("n1")
	store := db.Group(testShardID)
	g, err := group.Open(store, log.Group(testShardID), wire{t}, state.New(store, nil), group.Options{NodeID: "n1", Bootstrap: []string{"n1"}, AcceptLoss: d.acceptLoss})
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{New(g, store, of), log, db}
	r.waitLeading(tb)
	return r
}

func (r *rig) waitLeading(tb testing.TB) {
	tb.Helper()
	deadline := time.After(20 * time.Second)
	for r.term.Load() == nil {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			tb.Fatal("no leader")
		}
	}
}

func (r *rig) stop(tb testing.TB) {
	tb.Helper()
	if err := r.Group().Shutdown(); err != nil {
		tb.Error(err)
	}
	if err := r.log.Close(); err != nil {
		tb.Error(err)
	}
	if err := r.state.Close(); err != nil {
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
