package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testGroup = 7

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

var testSecret = []byte("0123456789abcdef0123456789abcdef")

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// link is the direction of requests: from dials, to answers.
type link struct{ from, to string }

// network connects nodes over real sockets and cuts links.
type network struct {
	mu    sync.Mutex // Guards what follows.
	addrs map[string]string
	cuts  map[link]bool
	conns map[link][]net.Conn
}

func newNetwork() *network {
	return &network{addrs: map[string]string{}, cuts: map[link]bool{}, conns: map[link][]net.Conn{}}
}

func (n *network) listen(t testing.TB, opts Options) *Mux {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	n.addrs[opts.NodeID] = ln.Addr().String()
	n.mu.Unlock()
	if opts.CellID == "" {
		opts.CellID = "cell"
	}
	if opts.Secrets == nil {
		opts.Secrets = cellsecret.Must(testSecret)
	}
	opts.Logger = quiet()
	opts.Resolve = func(id string) (string, error) { return id, nil }
	opts.Dial = func(ctx context.Context, to string) (net.Conn, error) {
		return n.dial(ctx, link{opts.NodeID, to})
	}
	m := Listen(ln, opts)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close %s: %v", opts.NodeID, err)
		}
	})
	return m
}

var errCut = errors.New("link is cut")

func (n *network) dial(ctx context.Context, l link) (net.Conn, error) {
	n.mu.Lock()
	addr, cut := n.addrs[l.to], n.cuts[l]
	n.mu.Unlock()
	if cut {
		return nil, errCut
	}
	c, err := dialTCP(ctx, addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cuts[l] {
		return nil, errors.Join(errCut, c.Close())
	}
	n.conns[l] = append(n.conns[l], c)
	return c, nil
}

func (n *network) cut(links ...link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		n.cuts[l] = true
		for _, c := range n.conns[l] {
			_ = c.Close()
		}
		n.conns[l] = nil
	}
}

func (n *network) heal(links ...link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		delete(n.cuts, l)
	}
}

// member is one raft node over the production transport.
type member struct {
	id   string
	conf *raft.Config
	raft *raft.Raft
	fsm  *recorder
	wire *appendHolder
	logs *blockableLog
}

// blockableLog stores entries in memory and counts what goes in and out; holding gate
// blocks its writes, as a disk that does not answer would.
type blockableLog struct {
	*raft.InmemStore
	gate    sync.Mutex
	blocked atomic.Int32 // Writes that wait for gate.
	reads   atomic.Int64 // Entries read.
	most    atomic.Int64 // Largest bytes of one write of several; a follower's is one message.
}

func (l *blockableLog) StoreLogs(logs []*raft.Log) error {
	l.blocked.Add(1)
	l.gate.Lock()
	defer l.gate.Unlock()
	l.blocked.Add(-1)
	if len(logs) > 1 {
		bytes := int64(0)
		for _, e := range logs {
			bytes += int64(len(e.Data))
		}
		l.most.Store(max(l.most.Load(), bytes)) // Under gate.
	}
	return l.InmemStore.StoreLogs(logs)
}

func (l *blockableLog) GetLog(index uint64, log *raft.Log) error {
	l.reads.Add(1)
	return l.InmemStore.GetLog(index, log)
}

// recorder is a state machine that remembers what was applied where.
type recorder struct {
	mu      sync.Mutex // Guards applied.
	applied map[uint64]string
}

func (r *recorder) Apply(l *raft.Log) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied[l.Index] = string(l.Data)
	return nil
}

func (r *recorder) copy() map[uint64]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := map[uint64]string{}
	for i, s := range r.applied {
		c[i] = s
	}
	return c
}

// has tells what AppliedIndex does not: raft raises that before Apply runs.
func (r *recorder) has(data string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.applied {
		if d == data {
			return true
		}
	}
	return false
}

func (r *recorder) Snapshot() (raft.FSMSnapshot, error) { return recording(r.copy()), nil }

func (r *recorder) Restore(rc io.ReadCloser) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = map[uint64]string{}
	return errors.Join(json.NewDecoder(rc).Decode(&r.applied), rc.Close())
}

// recording is a recorder's snapshot.
type recording map[uint64]string

func (r recording) Persist(sink raft.SnapshotSink) error {
	return errors.Join(json.NewEncoder(sink).Encode(r), sink.Close())
}

func (recording) Release() {}

// appendHolder holds back appends but not heartbeats, which travel on a
// connection of their own and may therefore arrive first.
type appendHolder struct {
	*Group
	pipelines bool       // Pipelining is left on: then not every append passes AppendEntries.
	encoding  func()     // Called before raft makes a message; may be nil.
	mu        sync.Mutex // Guards hold.
	hold      bool
}

var errHeld = errors.New("append is held back")

func (h *appendHolder) set(hold bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = hold
}

func (h *appendHolder) held(args *raft.AppendEntriesRequest) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hold && (args.PrevLogEntry != 0 || len(args.Entries) > 0 || args.LeaderCommitIndex != 0)
}

func (h *appendHolder) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if h.held(args) {
		return errHeld
	}
	return h.Group.AppendEntries(id, target, args, resp)
}

// AppendEntriesPipeline turns pipelining off: every append then passes above.
func (h *appendHolder) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	if h.pipelines {
		return h.Group.AppendEntriesPipeline(id, target)
	}
	return nil, raft.ErrPipelineReplicationNotSupported
}

// EncodePeer is where raft begins to fill in a message.
func (h *appendHolder) EncodePeer(id raft.ServerID, addr raft.ServerAddress) []byte {
	if h.encoding != nil {
		h.encoding()
	}
	return h.Group.EncodePeer(id, addr)
}

func startMember(t testing.TB, n *network, opts Options, timeout time.Duration, voters []string) *member {
	t.Helper()
	return startPrepared(t, n, opts, timeout, voters, func(*member) {})
}

// startPrepared is startMember on a log that is not empty: prepare fills it, and may
// set up wire and configuration, before raft starts.
func startPrepared(t testing.TB, n *network, opts Options, timeout time.Duration, voters []string, prepare func(*member)) *member {
	t.Helper()
	mux := n.listen(t, opts)
	wire := &appendHolder{Group: mux.Group(testGroup)}
	conf := raft.DefaultConfig()
	conf.MaxAppendEntries = MessageEntriesMax
	conf.LocalID = raft.ServerID(opts.NodeID)
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = timeout, timeout, timeout/2
	conf.CommitTimeout = 5 * time.Millisecond
	conf.TrailingLogs = 1
	conf.Logger = hclog.NewNullLogger()
	logs := &blockableLog{InmemStore: raft.NewInmemStore()}
	fsm := &recorder{applied: map[uint64]string{}}
	snaps := raft.NewInmemSnapshotStore()
	var servers []raft.Server
	for _, v := range voters {
		servers = append(servers, raft.Server{ID: raft.ServerID(v), Address: raft.ServerAddress(v)})
	}
	if len(voters) == 0 {
		// It joins later.
	} else if err := raft.BootstrapCluster(conf, logs, logs, snaps, wire, raft.Configuration{Servers: servers}); err != nil {
		t.Fatal(err)
	}
	m := &member{id: opts.NodeID, conf: conf, fsm: fsm, wire: wire, logs: logs}
	prepare(m)
	r, err := raft.NewRaft(conf, fsm, logs, logs, snaps, wire)
	if err != nil {
		t.Fatal(err)
	}
	m.raft = r
	wire.Bind(r)
	t.Cleanup(func() {
		if err := r.Shutdown().Error(); err != nil {
			t.Errorf("shut down %s: %v", opts.NodeID, err)
		}
	})
	return m
}

func (m *member) apply(t testing.TB, data string) {
	t.Helper()
	if err := m.raft.Apply([]byte(data), time.Second).Error(); err != nil {
		t.Fatalf("apply %q on %s: %v", data, m.id, err)
	}
}

// applyOn writes data through whichever of members leads, trying again while
// leadership moves, and returns the leader that confirmed it.
func applyOn(t testing.TB, data string, members ...*member) (leader *member) {
	t.Helper()
	eventually.True(t, patience, "a confirmed write", func() bool {
		leader = leaderOf(members...)
		return leader != nil && leader.raft.Apply([]byte(data), time.Second).Error() == nil
	})
	return leader
}

func leaderOf(members ...*member) *member {
	for _, m := range members {
		if m.raft.State() == raft.Leader {
			return m
		}
	}
	return nil
}

// divergence compares what two nodes applied and returns the first difference.
func divergence(a, b *member) error {
	fromA, fromB := a.fsm.copy(), b.fsm.copy()
	for i := uint64(1); i <= max(a.raft.AppliedIndex(), b.raft.AppliedIndex()); i++ {
		if fromA[i] != fromB[i] {
			return fmt.Errorf("index %d: %s applied %q, %s applied %q", i, a.id, fromA[i], b.id, fromB[i])
		}
	}
	return nil
}
