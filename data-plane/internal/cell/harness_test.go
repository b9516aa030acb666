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
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// patience is how long a test waits for what must happen; it never waits for that
// long when the code works.
const patience = 30 * time.Second

var testShards = []uint32{2, 3}

// network joins the in-memory transports of every group.
type network struct {
	mu    sync.Mutex
	peers map[string]*raft.InmemTransport // By group and node.
}

type wire struct{ *raft.InmemTransport }

func (wire) Bind(interface {
	CurrentTerm() uint64
	State() raft.RaftState
}) {
}

func (n *network) join(group uint32, node string) wire {
	_, t := raft.NewInmemTransport(raft.ServerAddress(node))
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, other := range n.peers {
		var g uint32
		var name string
		if _, err := fmt.Sscanf(key, "%d/%s", &g, &name); err != nil || g != group || name == node {
			continue
		}
		t.Connect(raft.ServerAddress(name), other)
		other.Disconnect(raft.ServerAddress(node))
		other.Connect(raft.ServerAddress(node), t)
	}
	n.peers[fmt.Sprintf("%d/%s", group, node)] = t
	return wire{t}
}

// leave cuts a node off in every group.
func (n *network) leave(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, t := range n.peers {
		if strings.HasSuffix(key, "/"+node) {
			t.DisconnectAll()
			delete(n.peers, key)
			continue
		}
		t.Disconnect(raft.ServerAddress(node))
	}
}

// nothing is the machine of a shard in these tests.
type nothing struct{}

func (nothing) Apply(*statedb.Txn, group.Entry) (any, error) { return nil, nil }
func (nothing) Committed(uint64)                             {}
func (nothing) Reset() error                                 { return nil }

// testCell is a whole cell in one process.
type testCell struct {
	t      *testing.T
	net    *network
	signer *identity.Signer
	trans  *http.Transport
	nodes  map[string]*testNode
}

type testNode struct {
	id      string
	dir     string
	db      *statedb.DB
	logs    map[uint32]*raft.InmemStore
	cell    *Cell
	members *Membership
	shards  map[uint32]*group.Group
	srv     *http.Server
	ln      net.Listener
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

func newTestCell(t *testing.T, size int) *testCell {
	t.Helper()
	signer, err := identity.NewSigner([]byte("a secret of sufficient length"))
	if err != nil {
		t.Fatal(err)
	}
	c := &testCell{
		t: t, net: &network{peers: make(map[string]*raft.InmemTransport)}, signer: signer,
		trans: forward.NewTransport(forward.TransportOptions{}), nodes: make(map[string]*testNode),
	}
	t.Cleanup(c.close)
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

// prepare gives a node its place: listener and empty disk.
func (c *testCell) prepare(id string) *testNode {
	c.t.Helper()
	n := &testNode{id: id, dir: c.t.TempDir(), logs: make(map[uint32]*raft.InmemStore)}
	c.listen(n, "127.0.0.1:0")
	c.nodes[id] = n
	return n
}

func (c *testCell) listen(n *testNode, addr string) {
	c.t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		c.t.Fatal(err)
	}
	n.ln = ln
}

func (n *testNode) record() *cellv1.Node {
	return &cellv1.Node{Id: n.id, RaftAddress: n.ln.Addr().String(), ApiUrl: "http://" + n.ln.Addr().String()}
}

func testLogger(node string) *slog.Logger {
	if os.Getenv("CORVO_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", node)
}

var testTimings = group.Timings{Heartbeat: 150 * time.Millisecond, Commit: 10 * time.Millisecond}

func (n *testNode) log(group uint32) *raft.InmemStore {
	if n.logs[group] == nil {
		n.logs[group] = raft.NewInmemStore()
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
	var records []*cellv1.Node
	first := make(map[string]string)
	for _, b := range bootstrap {
		records = append(records, c.nodes[b].record())
		first[b] = c.nodes[b].record().GetApiUrl()
	}
	n.cell, err = Open(db.Group(GroupID), n.log(GroupID), c.net.join(GroupID, id), Options{
		NodeID: id, Bootstrap: bootstrap, Shards: testShards, Nodes: records, Timings: testTimings,
		Logger: testLogger(id), HeartbeatEvery: 50 * time.Millisecond,
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

func (c *testCell) serve(n *testNode, peers *Peers) {
	mux := http.NewServeMux()
	mux.Handle(NewHandler(n.cell, n.members, peers, c.signer))
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	n.srv = &http.Server{Handler: mux, Protocols: &p, ReadHeaderTimeout: 5 * time.Second}
	srv, ln := n.srv, n.ln
	go func() { _ = srv.Serve(ln) }()
}

// openShards waits for the cell to say which there are.
func (c *testCell) openShards(ctx context.Context, n *testNode, bootstrap []string) {
	ids, err := n.cell.WaitShards(ctx)
	if err != nil {
		return
	}
	for _, id := range ids {
		g, err := group.Open(n.db.Group(id), n.log(id), c.net.join(id, n.id), nothing{}, group.Options{
			NodeID: n.id, Bootstrap: bootstrap, Timings: testTimings, Logger: testLogger(n.id),
		})
		if err != nil {
			c.t.Errorf("open shard %d on %s: %v", id, n.id, err)
			return
		}
		g.Lead(func(context.Context) {})
		n.mu.Lock()
		n.shards[id] = g
		n.mu.Unlock()
	}
}

// kill ends a node without telling anybody.
func (c *testCell) kill(id string) {
	n := c.nodes[id]
	if !n.up {
		return
	}
	n.up = false
	c.net.leave(id)
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
	c.listen(n, n.ln.Addr().String())
	c.start(id, nil)
}

func (c *testCell) close() {
	for id := range c.nodes {
		c.kill(id)
	}
	c.trans.CloseIdleConnections()
}

func (c *testCell) client(id string) cellv1connect.CellServiceClient {
	return NewClient(c.signer, "test", c.trans, c.nodes[id].record().GetApiUrl())
}

// eventually polls until f holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leader is the node that leads the meta group and has recorded the shards.
func (c *testCell) leader() *testNode {
	c.t.Helper()
	var found *testNode
	eventually(c.t, "a leader of the cell", func() bool {
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
