package group

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

const testGroup = 5

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// tally is a machine that keeps every payload under the entry's index and counts
// how often it was asked to.
type tally struct {
	store     *statedb.Group
	committed func(index uint64) // Called after each commit; may be nil.
	resets    atomic.Int64
	mu        sync.Mutex // Guards the rest.
	times     []time.Time
	versions  []cellversion.Version
	runs      map[uint64]int
}

func (m *tally) key(index uint64) []byte {
	p := m.store.Prefix()
	return binary.BigEndian.AppendUint64(append(p[:], 0x40), index)
}

func (m *tally) Apply(txn *statedb.Txn, e Entry) (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if string(e.Payload) == "unknown" {
		return nil, errors.New("an entry of a later version")
	}
	if string(e.Payload) == "panic" {
		panic("as told")
	}
	m.runs[e.Index]++
	m.times = append(m.times, e.Now)
	m.versions = append(m.versions, e.Version)
	txn.Set(m.key(e.Index), append([]byte(nil), e.Payload...))
	return string(e.Payload), nil
}

func (m *tally) Committed(index uint64) {
	if m.committed != nil {
		m.committed(index)
	}
}

func (m *tally) Reset() error {
	m.resets.Add(1)
	return nil
}

// wire is an in-memory transport; loops of other replicas are connected by join.
type wire struct{ *raft.InmemTransport }

func (wire) Bind(transport.Raft) {}

// replica is one node's group over disks that outlive it.
type replica struct {
	*Group
	id      string
	disks   disks
	machine *tally
	log     *raftlog.Store
	db      *statedb.DB
	wire    wire
	fatal   chan error
}

// disks are a node's disks.
type disks struct{ log, state vfs.FS }

func memDisks() disks { return disks{vfs.NewMem(), vfs.NewMem()} }

type setup struct {
	id        string
	disks     disks
	bootstrap []string
	accept    bool
	clock     Clock
	peers     []*replica
	wrap      func(wire) Transport    // Replaces the transport; may be nil.
	wrapLog   func(LogStore) LogStore // Replaces the log; may be nil.
	committed func(index uint64)      // See tally; may be nil.
	commits   int                     // Bytes of entries in one commit; 0 is the default.
	cell      func() cellversion.Version
	speaks    cellversion.Range
	crashed   func(index uint64)
	said      func(node string) (uint64, bool)
	logBytes  func() uint64
	trailing  uint64
	heartbeat time.Duration // 0 is short, for tests of elections.
	callMax   time.Duration
	lead      func(ctx context.Context, ready func()) // Nil: ready at once.
}

func open(t *testing.T, s setup) (*replica, error) {
	t.Helper()
	log, err := raftlog.Open("log", raftlog.Options{FS: s.disks.log})
	if err != nil {
		t.Fatal(err)
	}
	db, err := statedb.Open("state", statedb.Options{FS: s.disks.state, CacheBytes: 1 << 20, MemTableBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	_, inmem := raft.NewInmemTransport(raft.ServerAddress(s.id))
	r := &replica{id: s.id, disks: s.disks, log: log, db: db, wire: wire{inmem}, fatal: make(chan error, 1)}
	for _, p := range s.peers {
		inmem.Connect(raft.ServerAddress(p.id), p.wire.InmemTransport)
		p.wire.Disconnect(raft.ServerAddress(s.id))
		p.wire.Connect(raft.ServerAddress(s.id), inmem)
	}
	r.machine = &tally{store: db.Group(testGroup), committed: s.committed, runs: map[uint64]int{}}
	var trans Transport = r.wire
	if s.wrap != nil {
		trans = s.wrap(r.wire)
	}
	var entries LogStore = log.Group(testGroup)
	if s.wrapLog != nil {
		entries = s.wrapLog(entries)
	}
	r.Group, err = Open(db.Group(testGroup), entries, trans, r.machine, Options{
		NodeID: s.id, Bootstrap: s.bootstrap, AcceptLoss: s.accept, commitBytes: s.commits, CellVersion: s.cell, Speaks: s.speaks, Crashed: s.crashed, Committed: s.said, LogBytes: s.logBytes, trailingBytes: s.trailing, callMax: s.callMax, Clock: s.clock, Timings: Timings{Heartbeat: cmp.Or(s.heartbeat, 150*time.Millisecond)},
		Fatal: func(err error) {
			select {
			case r.fatal <- err:
			default:
			}
			select {} // Must not return.
		},
	})
	if err != nil {
		r.closeStores(t)
		return nil, err
	}
	if s.lead == nil {
		s.lead = func(ctx context.Context, ready func()) {
			ready()
			<-ctx.Done()
		}
	}
	r.Lead(s.lead)
	return r, nil
}

func mustOpen(t *testing.T, s setup) *replica {
	t.Helper()
	r, err := open(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *replica) closeStores(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.log.Close(), r.db.Close()); err != nil {
		t.Error(err)
	}
}

func (r *replica) stop(t *testing.T) {
	t.Helper()
	if err := r.Shutdown(); err != nil {
		t.Error(err)
	}
	r.closeStores(t)
}

func leaderOf(t *testing.T, all ...*replica) *replica {
	t.Helper()
	var leader *replica
	eventually.True(t, patience, "a leader", func() bool {
		for _, r := range all {
			if r.Leading() {
				leader = r
			}
		}
		return leader != nil
	})
	return leader
}

func (r *replica) put(t *testing.T, n int) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last uint64
	for i := range n {
		_, index, err := r.ProposeAndWait(ctx, []byte(fmt.Sprintf("payload %d", i)))
		if err != nil {
			t.Fatal(err)
		}
		last = index
	}
	return last
}

// contents is every byte of the group's state but the applied record, which
// depends on how entries were gathered.
func (r *replica) contents(t *testing.T) string {
	t.Helper()
	p := r.machine.store.Prefix()
	from, to := append(p[:4:4], 0x01), append(p[:4:4], 0xff)
	var out []byte
	err := r.machine.store.Scan(from, to, func(k, v []byte) (bool, error) {
		out = append(append(append(out, k...), '='), v...)
		out = append(out, '\n')
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// stepClock is a clock whose wall and monotonic readings move apart at will.
type stepClock struct {
	now  time.Time
	mono time.Duration
}

func (c *stepClock) Now() (time.Time, time.Duration) { return c.now, c.mono }

func (c *stepClock) elapse(d, jump time.Duration) {
	c.now = c.now.Add(d + jump)
	c.mono += d
}
