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
	"strings"
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
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
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
	spaces  []*disk.Space
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
	served    chan error // The HTTP server's end.
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
		peers: make(map[string]Peer), groups: newGroupSet(), served: make(chan error, 1),
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

// shardCommit is how late the followers of an idle shard may learn of its last commit: nobody
// asks them. Each message costs four wake-ups, for every follower of every shard.
const shardCommit = 250 * time.Millisecond

func (n *Node) shardTimings() group.Timings {
	t := n.timings()
	t.Commit = shardCommit
	return t
}

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

// serve answers on the API listener with h from now on.
func (n *Node) serve(h http.Handler) {
	n.handler.Store(&h)
	if n.http != nil {
		return
	}
	current := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*n.handler.Load()).ServeHTTP(w, r) })
	n.http = newHTTPServer(current, n.cfg.TLS, n.conns, n.logger)
	n.loops.Go(func() {
		if n.cfg.TLS != nil {
			n.served <- n.http.ServeTLS(n.cfg.API, "", "")
			return
		}
		n.served <- n.http.Serve(n.cfg.API)
	})
}

// outside is the API of a node without a cell: it can be formed into one, and says
// what it waits for.
func (n *Node) outside() http.Handler {
	path, form := n.newFormation()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, path):
			form.ServeHTTP(w, r)
		case r.URL.Path == "/healthz":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, "{\"status\":\"ok\",\"reason\":%q}\n", n.waitsFor())
		default:
			server.WriteStatus(w, r, http.StatusServiceUnavailable, "NO_CELL", n.waitsFor())
		}
	})
}

// inside is the API of a node of a cell; calls that need a shard wait until it is open.
func (n *Node) inside() http.Handler {
	n.api = n.newServer()
	n.members.ServeAudit(n.readAudit)
	n.members.ServeReadings(n.readReadings)
	n.members.LeaveOut(n.quarantine, n.mux.Pace)
	n.members.ServeScrub(n.lastScrub)
	n.members.ServeReady(n.api.Ready)
	path, admin := cell.NewHandler(n.cell, n.members, n.cellPeers, n.signer)
	watches, clock := n.untilShutdown(admin), n.prover.Handler(n.cfg.Clock)
	formPath, form := n.newFormation()
	n.calls = callstream.NewServer(n.api, n.logger)
	calls := cell.SignedOnly(n.signer, n.calls)
	// No ServeMux: it would redirect paths that are not clean instead of refusing them.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, path):
			watches.ServeHTTP(w, r)
		case r.URL.Path == cellclock.Path:
			clock.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, formPath):
			form.ServeHTTP(w, r)
		case r.URL.Path == callstream.Path:
			calls.ServeHTTP(w, r)
		default:
			n.api.ServeHTTP(w, r)
		}
	})
}

// untilShutdown ends watches of the cell's state when the node shuts down; other
// calls of its administration end by themselves.
func (n *Node) untilShutdown(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != cellv1connect.CellServiceWatchProcedure {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(n.watching, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Limits of the API listener. Streams live as long as their workers, so there is
// no write timeout; pings find peers that vanished (R28).
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 120 * time.Second
	headerBytesMax    = 32 << 10
	streamsPerConn    = 2048
	// frameBytesMax is the protocol's smallest. A Go peer keeps a buffer of this
	// size, up to 512 KiB, for every stream it has open: with the default of 1 MiB
	// a proxy's 10,000 idle worker streams take 5 GB.
	frameBytesMax = 16 << 10
	// All tenants' calls share a proxy's connection, so those whose bodies nobody reads yet,
	// as they wait for their turn, must not fill its window: it has room for all of them.
	windowPerStream = 64 << 10
	windowPerConn   = streamsPerConn * windowPerStream
	pingEvery       = 15 * time.Second
	pingTimeout     = 10 * time.Second
)

func newHTTPServer(h http.Handler, tls *tlsConfig, bound *connections.Bound, log *slog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: &protocols, TLSConfig: tls, ConnContext: bound.Context, ConnState: bound.State,
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: streamsPerConn, SendPingTimeout: pingEvery, PingTimeout: pingTimeout,
			MaxReadFrameSize: frameBytesMax, MaxReceiveBufferPerStream: windowPerStream, MaxReceiveBufferPerConnection: windowPerConn,
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// ErrStuck: the shutdown did not end before its deadline. The caller must end the
// process with ExitStuck.
var ErrStuck = errors.New("the node didn't shut down in time")

// Shutdown ends the node in order: no new work, leadership given away, streams told
// where to go, running calls answered, stores closed. With hurry the node does not
// wait for another leader: all nodes of the cell are leaving. It returns by the end
// of ctx, with ErrStuck if it did not finish.
func (n *Node) Shutdown(ctx context.Context, hurry bool) error {
	ended := make(chan error, 1)
	go func() { ended <- n.shutdown(ctx, hurry) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// The deadline may have cut off the last call and nothing else.
	select {
	case err := <-ended:
		return err
	case <-time.After(lastMoment):
		return ErrStuck
	}
}

const (
	// closeShare: this fraction of a shutdown's time is kept for closing, after the
	// last call; closeMax is enough for any node.
	closeShare = 4
	closeMax   = 5 * time.Second
	// lastMoment is the extra time a shutdown gets to return by itself.
	lastMoment = 100 * time.Millisecond
)

func (n *Node) shutdown(ctx context.Context, hurry bool) error {
	n.stopEntering()
	n.entering.Wait()
	calls, cancel := leaveTime(ctx)
	defer cancel()
	n.fitness.Set(health.ShuttingDown, "")
	n.holdOff()
	if !hurry && n.members != nil {
		n.members.HandOver(calls)
		n.farewell(calls)
	}
	for _, s := range n.shardList() {
		s.Leave()
	}
	var errs []error
	if n.api != nil {
		errs = append(errs, ignoreDeadline(n.api.Drain(calls)))
	}
	if n.http != nil {
		n.endWatches()
		errs = append(errs, n.endCalls(calls, hurry))
	}
	return errors.Join(append(errs, n.close())...)
}

// leaveTime returns a context that ends before ctx, early enough for closing.
func leaveTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(time.Until(deadline)/closeShare, closeMax)))
}

// hurryPatience is how long calls may still take in a hurry. net/http keeps even an
// idle HTTP/2 connection for a second after its GOAWAY.
const hurryPatience = 500 * time.Millisecond

// endCalls takes no more calls and waits for those under way.
func (n *Node) endCalls(ctx context.Context, hurry bool) error {
	if hurry {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, hurryPatience)
		defer cancel()
	}
	var calls sync.WaitGroup
	if n.calls != nil {
		calls.Go(func() { n.calls.Shutdown(ctx) })
	}
	err := n.http.Shutdown(ctx)
	calls.Wait()
	if err != nil {
		return n.http.Close()
	}
	return nil
}

// ignoreDeadline: a drain that ran out of time has cut off the rest, which is no
// error of the shutdown.
func ignoreDeadline(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// close closes what is open, in the reverse order of Start. Once no call can reach
// the node, it leads nothing, however long the rest takes to end.
func (n *Node) close() error {
	n.stopEntering()
	n.entering.Wait()
	var errs []error
	n.fitness.Set(health.Closed, "")
	if n.http != nil {
		errs = append(errs, n.http.Close())
	}
	if n.calls != nil {
		n.calls.Close()
	}
	if n.stopLoops != nil {
		n.stopLoops()
	}
	errs = append(errs, n.closeGroups()...)
	n.loops.Wait()
	if n.mux != nil {
		errs = append(errs, n.mux.Close())
	} else {
		errs = append(errs, n.cfg.Raft.Close())
	}
	if n.http == nil {
		errs = append(errs, n.cfg.API.Close())
	}
	if n.log != nil {
		errs = append(errs, n.log.Close())
	}
	if n.models != nil {
		errs = append(errs, n.models.Close())
	}
	if n.state != nil {
		errs = append(errs, n.state.Close())
	}
	for _, s := range n.spaces {
		s.Close()
	}
	if n.dog != nil {
		n.dog.Close()
	}
	n.transport.CloseIdleConnections()
	return ignoreClosed(errors.Join(errs...))
}

// closeGroups shuts all groups down at once: none waits for another.
func (n *Node) closeGroups() []error {
	ends := []func() error{}
	for _, s := range n.shardList() {
		ends = append(ends, s.Group().Shutdown)
	}
	if n.cell != nil {
		ends = append(ends, n.cell.Shutdown)
	}
	errs := make([]error, len(ends))
	var closing sync.WaitGroup
	for i, end := range ends {
		closing.Go(func() { errs[i] = end() })
	}
	closing.Wait()
	return errs
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
