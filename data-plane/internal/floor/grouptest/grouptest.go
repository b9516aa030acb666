// Package grouptest owns the stores and replicas of tests that need one shard and no
// node: real raft, real stores, disks in memory.
//
// It must not know what is proposed. Surprising: disks outlive the stores over them, so
// that a test may cut the power and open what is left.
package grouptest

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// Self is the node whose replicas these are.
const Self = "n1"

// Disks are the file systems under the stores of a node.
type Disks struct{ Log, State vfs.FS }

// InMemory gives empty disks.
func InMemory() Disks { return Disks{Log: vfs.NewMem(), State: vfs.NewMem()} }

// Stores are those of a node.
type Stores struct {
	Log *raftlog.Store
	DB  *statedb.DB
}

// Open opens the stores over the disks.
func Open(tb testing.TB, d Disks) *Stores {
	tb.Helper()
	return OpenWith(tb, d, "", raftlog.Options{}, statedb.Options{CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
}

// OpenWith is Open with options and folders whose names begin with prefix.
func OpenWith(tb testing.TB, d Disks, prefix string, lo raftlog.Options, so statedb.Options) *Stores {
	tb.Helper()
	lo.FS, so.FS = d.Log, d.State
	log, err := raftlog.Open(prefix+"log", lo)
	if err != nil {
		tb.Fatal(err)
	}
	db, err := statedb.Open(prefix+"state", so)
	if err != nil {
		tb.Fatal(err)
	}
	return &Stores{log, db}
}

// Close closes both stores; what stands on them must have ended.
func (s *Stores) Close() error { return errors.Join(s.Log.Close(), s.DB.Close()) }

// Wire is a transport in memory.
type Wire struct{ *raft.InmemTransport }

// NewWire makes the transport of a node, which reaches nobody yet.
func NewWire(node string) Wire {
	_, t := raft.NewInmemTransport(raft.ServerAddress(node))
	return Wire{t}
}

// Bind has nothing to do: there is no listener to share.
func (Wire) Bind(transport.Raft) {}

// TellCommitted does nothing: who uses a wire waits for raft's tick.
func (Wire) TellCommitted(uint64) {}

// Replica is one of a shard, with its state machine.
type Replica struct {
	*group.Group
	Store *statedb.Group
}

// Setup is what a test may ask of a replica. The zero value leads alone.
type Setup struct {
	Wire  *Wire               // Of Self; nil reaches nobody.
	Group group.Options       // NodeID is Self; Bootstrap is Self alone, and the version the newest, unless said.
	Ring  func(job.Namespace) // Called after each commit; may be nil.
}

// Replica opens the replica of a shard.
func (s *Stores) Replica(tb testing.TB, shard uint32, o Setup) Replica {
	tb.Helper()
	if o.Wire == nil {
		o.Wire = new(NewWire(Self))
	}
	if o.Group.NodeID = Self; o.Group.Bootstrap == nil {
		o.Group.Bootstrap = []string{Self}
	}
	if o.Group.CellVersion == nil {
		o.Group.CellVersion = func() cellversion.Version { return cellversion.Highest }
	}
	store := s.DB.Group(shard)
	machine := state.New(store, nil)
	if o.Ring != nil {
		machine.RingOnCommit(o.Ring)
	}
	g, err := group.Open(store, s.Log.Group(shard), *o.Wire, machine, o.Group)
	if err != nil {
		tb.Fatal(err)
	}
	return Replica{g, store}
}
