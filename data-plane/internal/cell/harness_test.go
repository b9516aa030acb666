package cell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/loopback"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// patience is how long a test waits for what must happen; it never waits for that
// long when the code works.
const patience = 60 * time.Second

const testSecret = "a secret of sufficient length"

var testShards = []uint32{2, 3}

// nothing is the state machine of a shard in these tests.
type nothing struct{}

func (nothing) Apply(*statedb.Txn, group.Entry) (any, error) { return nil, nil }
func (nothing) Committed(uint64)                             {}
func (nothing) Reset() error                                 { return nil }

// testCell is a whole cell in one process.
type testCell struct {
	t      *testing.T
	signer *identity.Signer
	trans  *http.Transport
	host   string
	nodes  map[string]*testNode
	addrs  sync.Map // Node id to raft address.
	clock  group.Clock
	commit time.Duration // See group.Timings; 0 is the default.
}

type testNode struct {
	id      string
	dir     string
	db      *statedb.DB
	logs    map[uint32]*memLog
	cell    *Cell
	health  *health.Health
	members *Membership
	shards  map[uint32]*group.Group
	srv     *http.Server
	mux     *transport.Mux
	api     net.Listener
	raft    net.Listener
	cancel  context.CancelFunc
	opened  sync.WaitGroup
	mu      sync.Mutex // Guards shards.
	up      bool
}

func (n *testNode) Group(id uint32) *group.Group {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.shards[id]
}

func (n *testNode) IDs() []uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	var ids []uint32
	for id := range n.shards {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func newTestCell(t *testing.T, size int, set ...func(*testCell)) *testCell {
	t.Helper()
	signer, err := identity.NewSigner(cellsecret.Must([]byte(testSecret)))
	if err != nil {
		t.Fatal(err)
	}
	c := &testCell{
		t: t, signer: signer, host: loopback.Host(),
		trans: forward.NewTransport(forward.TransportOptions{}), nodes: make(map[string]*testNode),
	}
	t.Cleanup(c.close)
	for _, f := range set {
		f(c)
	}
	var ids []string
	for i := range size {
		ids = append(ids, fmt.Sprintf("node-%d", i+1))
		c.prepare(ids[i])
	}
	for _, id := range ids {
		c.start(id, ids)
	}
	return c
}

// prepare gives a node its listener and an empty disk.
func (c *testCell) prepare(id string) *testNode {
	c.t.Helper()
	n := &testNode{id: id, dir: c.t.TempDir(), logs: make(map[uint32]*memLog)}
	n.api, n.raft = c.listen(c.host+":0"), c.listen(c.host+":0")
	c.addrs.Store(id, n.raft.Addr().String())
	c.nodes[id] = n
	return n
}

func (c *testCell) listen(addr string) net.Listener {
	c.t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		c.t.Fatal(err)
	}
	return ln
}

func (n *testNode) record() *cellv1.Node {
	return &cellv1.Node{
		Id: n.id, RaftAddress: n.raft.Addr().String(), ApiUrl: "http://" + n.api.Addr().String(),
		LowestVersion: cellversion.Lowest, HighestVersion: cellversion.Highest,
	}
}

func testLogger(node string) *slog.Logger {
	if os.Getenv("CORVO_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", node)
}

// testTimings are short, but let a busy machine keep its leaders.
var testTimings = group.Timings{Heartbeat: 400 * time.Millisecond}

// memLog is a log that outlives the node but not the test.
type memLog struct{ *raft.InmemStore }

func (l *memLog) StoreLogsAnd(logs []*raft.Log, key []byte, value uint64) error {
	return errors.Join(l.StoreLogs(logs), l.SetUint64(key, value))
}

func (l *memLog) Compact(context.Context) error { return nil }

// NewestWithin holds every entry for small.
func (l *memLog) NewestWithin(uint64) (uint64, error) {
	first, err := l.FirstIndex()
	if err != nil || first == 0 {
		return 0, err
	}
	last, err := l.LastIndex()
	return last - first + 1, err
}

func (n *testNode) log(group uint32) *memLog {
	if n.logs[group] == nil {
		n.logs[group] = &memLog{raft.NewInmemStore()}
	}
	return n.logs[group]
}

// start runs a prepared or stopped node.
func (c *testCell) start(id string, bootstrap []string) *testNode {
	c.t.Helper()
	n := c.nodes[id]
	db, err := statedb.Open(n.dir, statedb.Options{CacheBytes: 8 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		c.t.Fatal(err)
	}
	n.db = db
	c.connect(n)
	var records []*cellv1.Node
	first := make(map[string]string)
	for _, b := range bootstrap {
		records = append(records, c.nodes[b].record())
		first[b] = c.nodes[b].record().GetApiUrl()
	}
	n.cell, err = Open(db.Group(GroupID), n.log(GroupID), n.mux.Group(GroupID), Options{
		NodeID: id, Bootstrap: bootstrap, Shards: testShards, Nodes: records, Timings: group.Timings{Heartbeat: testTimings.Heartbeat, Commit: c.commit}, Health: n.health,
		Logger: testLogger(id), HeartbeatEvery: 50 * time.Millisecond, Clock: c.clock, ForgetEvery: 20 * time.Millisecond,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	n.shards = make(map[uint32]*group.Group)
	peers := NewPeers(n.cell, c.signer, c.trans, first)
	n.members = NewMembership(n.cell, n, peers)
	c.serve(n, peers)
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.opened.Go(func() { c.openShards(ctx, n, bootstrap) })
	n.up = true
	return n
}

// connect starts the node's raft transport; addresses are those of the test, known
// before any record is.
func (c *testCell) connect(n *testNode) {
	n.health = health.New(testLogger(n.id))
	n.mux = transport.Listen(n.raft, transport.Options{
		Health: n.health,
		NodeID: n.id, CellID: "test", Secrets: cellsecret.Must([]byte(testSecret)), Logger: testLogger(n.id),
		Resolve: c.resolve,
	})
}

func (c *testCell) resolve(id string) (string, error) {
	addr, ok := c.addrs.Load(id)
	if !ok {
		return "", fmt.Errorf("no node %s", id)
	}
	text, _ := addr.(string)
	return text, nil
}

func (c *testCell) serve(n *testNode, peers *Peers) {
	mux := http.NewServeMux()
	mux.Handle(NewHandler(n.cell, n.members, peers, c.signer))
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	n.srv = &http.Server{Handler: mux, Protocols: &p, ReadHeaderTimeout: 5 * time.Second}
	srv, ln := n.srv, n.api
	go func() { _ = srv.Serve(ln) }()
}

// openShards waits for the cell to say which there are.
func (c *testCell) openShards(ctx context.Context, n *testNode, bootstrap []string) {
	ids, err := n.cell.WaitShards(ctx)
	if err != nil {
		return
	}
	for _, id := range ids {
		g, err := group.Open(n.db.Group(id), n.log(id), n.mux.Group(id), nothing{}, group.Options{
			NodeID: n.id, Bootstrap: bootstrap, Timings: testTimings, Health: n.health, Logger: testLogger(n.id),
		})
		if err != nil {
			c.t.Errorf("open shard %d on %s: %v", id, n.id, err)
			return
		}
		g.Lead(func(ctx context.Context, ready func()) {
			ready()
			<-ctx.Done()
		})
		n.mu.Lock()
		n.shards[id] = g
		n.mu.Unlock()
	}
}

// kill ends a node without a shutdown.
func (c *testCell) kill(id string) {
	n := c.nodes[id]
	if !n.up {
		return
	}
	n.up = false
	_ = n.mux.Close() // First: what follows must not be heard by the others.
	_ = n.srv.Close()
	n.cancel()
	n.opened.Wait()
	for _, g := range n.shards {
		_ = g.Shutdown()
	}
	_ = n.cell.Shutdown()
	_ = n.db.Close()
}

// restart brings a killed node back on the same address and disk.
func (c *testCell) restart(id string) {
	c.t.Helper()
	n := c.nodes[id]
	n.api, n.raft = c.listen(n.api.Addr().String()), c.listen(n.raft.Addr().String())
	c.start(id, nil)
}

// restartElsewhere brings a killed node back on other ports.
func (c *testCell) restartElsewhere(id string) {
	c.t.Helper()
	n := c.nodes[id]
	n.api, n.raft = c.listen(c.host+":0"), c.listen(c.host+":0")
	c.addrs.Store(id, n.raft.Addr().String())
	c.start(id, nil)
}

func (c *testCell) close() {
	for id := range c.nodes {
		c.kill(id)
	}
	c.trans.CloseIdleConnections()
}

func (c *testCell) client(id string) cellv1connect.CellServiceClient {
	return NewClient(c.signer, "", "test", c.trans, c.nodes[id].record().GetApiUrl())
}

// leader is the node that leads the meta group and has recorded the shards.
func (c *testCell) leader() *testNode {
	c.t.Helper()
	var found *testNode
	eventually.True(c.t, patience, "a leader of the cell", func() bool {
		for _, n := range c.nodes {
			if n.up && n.cell.Group().Leading() && len(n.cell.View().Shards()) > 0 {
				found = n
				return true
			}
		}
		return false
	})
	return found
}

// follower is some node that runs and does not lead the meta group.
func (c *testCell) follower() *testNode {
	c.t.Helper()
	leader := c.leader()
	for _, n := range c.nodes {
		if n.up && n != leader {
			return n
		}
	}
	c.t.Fatal("no follower")
	return nil
}

// applyOn applies by a node until the outcome is known.
func applyOn(ctx context.Context, t *testing.T, c *testCell, id string, req *cellv1.ApplyRequest) (*cellv1.ApplyResponse, error) {
	t.Helper()
	for {
		res, err := callApply(ctx, c.client(id), req)
		if err == nil {
			return res, nil
		}
		switch Fault(err).Code {
		case fault.NotLeader, fault.Unavailable, fault.UnknownOutcome:
		default:
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

func callApply(ctx context.Context, client cellv1connect.CellServiceClient, req *cellv1.ApplyRequest) (*cellv1.ApplyResponse, error) {
	res, err := client.Apply(ctx, connect.NewRequest(req))
	if err != nil {
		return nil, Fault(err)
	}
	return res.Msg, nil
}
