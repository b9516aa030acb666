package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/api/callstream"
	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/connections"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/cluster"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/server"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/peerstate"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// Node is a running node.
type Node struct {
	cfg    Config
	logger *slog.Logger
	signer *identity.Signer
	peers  map[string]Peer

	fitness   *health.Health
	clocks    *cellclock.Watch // Nil if no other clock is compared.
	prover    *cellclock.Prover
	recordMu  sync.Mutex // Guards record; held while it is stored.
	record    record     // The folder's record.
	peerState *peerstate.Records
	begin     sync.Once
	begun     chan struct{}             // Closed when the node was told to take part in its cell.
	stored    atomic.Pointer[cell.View] // The cell's records as the folder had them at the start.
	// entering is the work that brings a node into a cell after Start; stopEntering
	// ends it.
	entering     sync.WaitGroup
	enterCtx     context.Context // The node's own life.
	stopEntering context.CancelFunc
	ending       sync.Once
	ended        chan error // One place.

	dog     *disk.Watchdog
	room    room
	ballast *disk.Ballast
	// logBallast is on the log's disk, if that is another one.
	logBallast *disk.Ballast
	scrubs     scrubs
	log        *raftlog.Store
	// quarantine is the groups that are left out on this node.
	quarantine *quarantine
	state      *statedb.DB
	models     *readmodel.Dir
	mux        *transport.Mux
	transport  *http.Transport
	cell       *cell.Cell
	opened     atomic.Pointer[cell.Cell] // cell, for the transport, which runs before it.
	cellPeers  *cell.Peers
	members    *cell.Membership
	membership atomic.Pointer[cell.Membership] // members, for the groups, which run before it.
	groups     *groupSet
	cluster    *cluster.Cluster
	api        *server.Server
	calls      *callstream.Server // Proxies' calls of the API.
	http       *http.Server
	conns      *connections.Bound           // Of its listener.
	handler    atomic.Pointer[http.Handler] // What the API listener serves now.

	// watching ends with endWatches: calls that follow the cell's state have no
	// end of their own, and the API would wait for them.
	watching   context.Context // The node's own life.
	endWatches context.CancelFunc
	// loopCtx ends with stopLoops; loops waits for the background loops.
	loopCtx   context.Context // The node's own life.
	stopLoops context.CancelFunc
	loops     sync.WaitGroup
}

// Start builds the node and returns when it serves. Ready waits until it can take
// work, which a node without a cell cannot; see waitForCell.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	defer func() { err = diskError(err) }()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("node config: %w", err)
	}
	cfg.withDefaults()
	if err := cfg.FS.MkdirAll(cfg.Dir, dirMode); errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w: %s, or a part of that path, is a file", ErrFolder, cfg.Dir)
	} else if err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if cfg.LogDir != "" {
		if err := cfg.FS.MkdirAll(cfg.LogDir, dirMode); err != nil {
			return nil, fmt.Errorf("make log directory: %w", err)
		}
	}
	secrets, err := cfg.secrets()
	if err != nil {
		return nil, err
	}
	signer, err := identity.NewSigner(secrets)
	if err != nil {
		return nil, fmt.Errorf("cell secret: %w", err)
	}
	n := &Node{
		fitness: health.New(cfg.Logger.With("node", cfg.ID)),
		cfg:     cfg, logger: cfg.Logger.With("node", cfg.ID), signer: signer,
		peers: make(map[string]Peer), groups: newGroupSet(),
		begun: make(chan struct{}), ended: make(chan error, 1),
		transport: forward.NewTransport(forward.TransportOptions{TLS: cfg.TLS, Dial: cfg.Dial}),
	}
	for _, p := range cfg.Peers {
		n.peers[p.ID] = p
	}
	n.conns = connections.New(connections.Default(), n.weight)
	n.loopCtx, n.stopLoops = context.WithCancel(context.Background())
	n.watching, n.endWatches = context.WithCancel(context.Background())
	n.enterCtx, n.stopEntering = context.WithCancel(context.Background())
	// A start that fails half-way closes what it opened.
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	if err := n.watchClocks(secrets); err != nil {
		return nil, err
	}
	if err := n.openLog(); err != nil {
		return nil, err
	}
	if err := n.listenRaft(secrets); err != nil {
		return nil, err
	}
	return n, n.enterCell(ctx)
}

// listenRaft opens the raft listener. It refuses every connection until the node has
// a cell.
func (n *Node) listenRaft(secrets *cellsecret.Secrets) error {
	spool := filepath.Join(n.cfg.Dir, "spool")
	if err := os.MkdirAll(spool, dirMode); err != nil {
		return fmt.Errorf("make spool directory: %w", err)
	}
	n.peerState = peerstate.New(n.log, n.record.FolderID, n, n.logger)
	n.mux = transport.Listen(n.cfg.Raft, transport.Options{
		NodeID: n.cfg.ID, Secrets: secrets, TLS: n.cfg.TLS, Resolve: n.resolve, SpoolDir: spool, Dial: n.dialRaft(), Guard: n.peerState, Health: n.fitness, Logger: n.logger,
		Heartbeat: group.HeartbeatOf(n.timings()),
	})
	return nil
}

// dialRaft is nil, for TCP as raft wants it, unless the configuration has a dialer.
func (n *Node) dialRaft() func(context.Context, string) (net.Conn, error) {
	if n.cfg.Dial == nil {
		return nil
	}
	return func(ctx context.Context, address string) (net.Conn, error) { return n.cfg.Dial(ctx, "tcp", address) }
}

// enterCell brings the node into its cell: at once when the folder belongs to one or
// is new and may form one, when it is admitted, or when somebody forms a cell.
func (n *Node) enterCell(ctx context.Context) error {
	found := n.cfg.Formation
	if n.cfg.alone() {
		found = &Formation{CellID: NewCellID(), Fresh: true} // The folder has no record: its first start did not get that far.
	}
	switch {
	case n.record.Begun:
	case found != nil:
		if n.record.CellID != "" && n.cfg.alone() {
			found.CellID = n.record.CellID
		}
		if err := n.found(ctx, *found); err != nil {
			return err
		}
	case n.cfg.Join != "" && n.record.CellID == "":
		n.serve(n.outside())
		if err := n.admit(ctx); err != nil {
			return err
		}
	default:
		n.serve(n.outside())
		n.entering.Go(n.waitForCell)
		return nil
	}
	return n.takePart(ctx)
}

// takePart opens the node's state, and its groups unless the one that knows the others is
// quarantined.
func (n *Node) takePart(ctx context.Context) error {
	if err := n.openState(); err != nil {
		return err
	}
	n.mux.SetCell(n.folderRecord().CellID)
	if _, out := n.quarantine.out(cell.GroupID); out {
		n.serve(n.outside())
		n.entering.Go(n.waitForRepair)
		return nil
	}
	return n.openGroups(ctx)
}

// openGroups opens the node's groups and begins its work.
func (n *Node) openGroups(ctx context.Context) error {
	if err := n.vet(); err != nil {
		return err
	}
	if err := n.openCell(); err != nil {
		return err
	}
	n.serve(n.inside())
	if n.clocks != nil {
		n.loops.Go(func() { n.clocks.Run(n.loopCtx) })
	}
	if err := n.openShards(ctx); err != nil {
		return err
	}
	if err := n.watchDisks(); err != nil {
		return err
	}
	n.loops.Go(n.retryFull)
	n.loops.Go(n.followHealth)
	n.loops.Go(n.followHolds)
	n.loops.Go(func() { n.members.KeepFit(n.loopCtx) })
	n.loops.Go(func() { n.members.Spread(n.loopCtx, spreadEvery) })
	n.loops.Go(n.probe)
	n.loops.Go(n.scrub)
	n.loops.Go(n.removeModels)
	n.loops.Go(n.announce)
	if len(n.folderRecord().Gone) > 0 {
		n.loops.Go(n.removeGone)
	}
	n.loops.Go(func() { n.members.CompareDigests(n.loopCtx, n.quarantine) })
	if !n.cfg.alone() {
		n.loops.Go(n.watchVoters)
		n.loops.Go(n.tell)
	}
	return nil
}

// openLog opens the raft log under the watchdog (R4), and reads whose folder this is.
func (n *Node) openLog() error {
	n.dog = disk.NewWatchdog(disk.WatchdogOptions{
		OnStall:   func(op string, _ time.Time) { n.onStall(op) },
		OnRecover: n.onRecover,
		OnDead: func(op string, since time.Time) {
			n.cfg.Fatal(fmt.Errorf("disk: %s hasn't returned for %s", op, time.Since(since).Round(time.Second)))
		},
		Logger: n.logger,
	})
	err := n.checkLogDir()
	if err != nil {
		return err
	}
	if err = n.layBallasts(); err != nil {
		return err
	}
	fs := vfs.FS(n.logFS())
	if n.cfg.SyncDelay > 0 {
		fs = disk.DelayedSync(fs, n.cfg.SyncDelay)
	}
	n.log, err = raftlog.Open(n.logDir(), raftlog.Options{
		FS: fs, Logger: n.logger, Relaxed: n.cfg.Relaxed, AcceptLoss: n.cfg.AcceptLoss, Watch: n.dog.Begin, OnDiskSlow: n.dog.DiskSlow, OnFatal: n.cfg.Fatal,
	})
	if err != nil {
		return storageError(err)
	}
	if err := n.loadRecord(); err != nil {
		return err
	}
	return n.loadQuarantine()
}

// openState opens what the log is applied to.
func (n *Node) openState() error {
	var err error
	n.state, err = statedb.Open(filepath.Join(n.cfg.Dir, stateDir), statedb.Options{
		FS: n.ballast, Logger: n.logger, Watch: n.dog.Begin, OnDiskSlow: n.dog.DiskSlow, OnFatal: n.cfg.Fatal,
	})
	if err != nil {
		return storageError(err)
	}
	return n.openModels()
}

// openModels opens the read models. With AcceptLoss they may show what is now lost,
// so they are rebuilt.
func (n *Node) openModels() error {
	dir := filepath.Join(n.cfg.Dir, "readmodel")
	if n.cfg.AcceptLoss {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove read models: %w", err)
		}
	}
	var err error
	n.models, err = readmodel.OpenDir(dir, n.logger)
	return err
}

// resolve finds a node's raft address: in this process's configuration first, then
// in the cell's records.
func (n *Node) resolve(id string) (string, error) {
	if p, ok := n.peers[id]; ok {
		return p.RaftAddress, nil
	}
	if c := n.opened.Load(); c != nil {
		if rec, ok := c.View().NodeByID(id); ok {
			return rec.GetRaftAddress(), nil
		}
	}
	if v := n.stored.Load(); v != nil {
		if rec, ok := v.NodeByID(id); ok {
			return rec.GetRaftAddress(), nil
		}
	}
	if k, ok := n.folderRecord().node(id); ok {
		return k.RaftAddress, nil
	}
	return "", fmt.Errorf("no address for node %q", id)
}

func (n *Node) timings() group.Timings { return group.Timings{Heartbeat: n.cfg.Heartbeat} }

// bootstrap lists the first voters of the cell, if this node is one.
func (n *Node) bootstrap() []string {
	r := n.folderRecord()
	if !r.First {
		return nil
	}
	ids := make([]string, 0, len(r.Nodes))
	for _, k := range r.Nodes {
		ids = append(ids, k.ID)
	}
	return ids
}

// ID is the node's name.
func (n *Node) ID() string { return n.cfg.ID }

// URL is the base URL of the node's API.
func (n *Node) URL() string {
	if p, ok := n.peers[n.cfg.ID]; ok && p.APIURL != "" {
		return p.APIURL
	}
	if n.cfg.Self.APIURL != "" {
		return n.cfg.Self.APIURL
	}
	return "http://" + n.cfg.API.Addr().String()
}
