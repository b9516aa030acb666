package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/connections"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

const (
	// handshakeTimeout bounds a whole handshake, so that a peer which sends a
	// byte now and then is cut off all the same.
	handshakeTimeout = 5 * time.Second

	// handshakesMax bounds connections that have proven nothing yet. A node
	// pair opens a handful per group at an election; strangers share what is left.
	handshakesMax = 512

	rpcTimeout = 5 * time.Second

	// CallMax is how long a request to another node takes at the longest, unless Options say
	// otherwise: the connection is dialed first.
	CallMax = handshakeTimeout + rpcTimeout

	// snapshotStall is the longest silence on a snapshot's connection. Without
	// it a sender that hangs holds the receiver for ever: its machine still
	// answers keep-alives.
	snapshotStall = 10 * time.Second
)

// ErrClosed answers every use of a closed Mux or Group.
var ErrClosed = errors.New("raft transport is closed")

// Options of a Mux. NodeID, Secrets and Resolve are required.
type Options struct {
	NodeID string // This node; 1 to 255 bytes.
	// CellID is the cell's id; connections of other cells are refused. While it is
	// empty, every connection is, until SetCell.
	CellID string
	// Guard may refuse peers of the cell; nil refuses none.
	Guard   Guard
	Secrets *cellsecret.Secrets // Shared by the nodes of the cell.

	// TLS, if not nil, is used in both directions. With mutual TLS a node's
	// certificate must name its node id as a DNS name, which binds the id to the
	// key. Without TLS nothing is encrypted: the secret keeps strangers out, not
	// eavesdroppers or somebody who can alter packets.
	TLS *tls.Config

	// Resolve says where a node listens. It is called for each new connection,
	// so a node may move.
	Resolve func(nodeID string) (addr string, err error)

	// Dial opens a connection to such an address. Nil means TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// SpoolDir is where incoming snapshots wait until they are complete; it must
	// exist. Empty hands them to raft as they arrive, which holds raft's main
	// loop for the whole transfer.
	SpoolDir string

	// Health says whether this node should lead; nil means always.
	Health *health.Health

	Logger *slog.Logger // Nil means slog.Default().

	HandshakeTimeout time.Duration // 0 means 5 s.
	RPCTimeout       time.Duration // For a whole request and its answer; 0 means 5 s.
	SnapshotStall    time.Duration // Longest silence while a snapshot travels; 0 means 10 s.
	SnapshotRate     int           // Bytes of state sent in a second; 0 means 64 MiB.

	// Heartbeat is the groups' timeout. Nodes that are too far away for it are logged;
	// 0 turns that off.
	Heartbeat time.Duration

	// stockHeartbeats turns the heartbeat filter off, for the control run of its
	// test.
	stockHeartbeats bool
	// stockCommits leaves the commit index of incoming messages alone, for the control
	// run of its test.
	stockCommits    bool
	requestBytesMax int64 // 0 means the constant of that name.
}

// Metrics are counts since Listen.
type Metrics struct {
	Accepted          uint64 // Connections that finished the handshake.
	Refused           uint64 // Connections that did not.
	HeartbeatsFast    uint64 // Heartbeats answered beside the raft loop.
	HeartbeatsQueued  uint64 // Heartbeats the filter sent through the raft loop.
	SnapshotsSent     uint64
	SnapshotBytesSent uint64
	RequestsTooLarge  uint64 // Each ended its connection.
}

// Mux shares one listener among the groups of a node.
type Mux struct {
	opts Options
	ln   net.Listener

	cell   atomic.Pointer[string]
	ctx    context.Context // Done once the Mux closes; ends dials and handshakes.
	cancel context.CancelFunc
	work   sync.WaitGroup // The accept loop and the handshakes; Close waits.
	slots  chan struct{}  // One token per handshake in progress.
	far    *distances
	pace   *rate.Limiter // Of all state that is sent.

	mu     sync.Mutex // Guards what follows.
	closed bool
	groups map[uint32]*Group

	accepted, refused             atomic.Uint64
	fast, queued                  atomic.Uint64
	snapshotsSent, snapshotsBytes atomic.Uint64
	tooLarge                      atomic.Uint64
}

// Listen accepts the raft connections of this node's groups on ln. Close closes ln.
// It panics on options that cannot work.
func Listen(ln net.Listener, opts Options) *Mux {
	opts = withDefaults(opts)
	if err := checkOptions(opts); err != nil {
		panic("transport: " + err.Error())
	}
	m := &Mux{
		opts:   opts,
		ln:     connections.Patient(ln, opts.Logger),
		slots:  make(chan struct{}, handshakesMax),
		groups: map[uint32]*Group{},
		far:    newDistances(opts.Heartbeat, opts.Logger),
		pace:   rate.NewLimiter(rate.Limit(cmp.Or(opts.SnapshotRate, snapshotRate)), paceBurst),
	}
	m.cell.Store(&opts.CellID)
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.work.Go(m.accept)
	return m
}

// SetCell gives the node the cell it was formed into. It is called once, before any
// group is used.
func (m *Mux) SetCell(id string) {
	if len(id) == 0 || len(id) > nameBytesMax {
		panic(fmt.Sprintf("transport: cell id %q is not 1 to %d bytes", id, nameBytesMax))
	}
	m.cell.Store(&id)
}

func withDefaults(o Options) Options {
	if o.Guard == nil {
		o.Guard = everybody{}
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.HandshakeTimeout == 0 {
		o.HandshakeTimeout = handshakeTimeout
	}
	if o.requestBytesMax == 0 {
		o.requestBytesMax = requestBytesMax
	}
	if o.RPCTimeout == 0 {
		o.RPCTimeout = rpcTimeout
	}
	if o.SnapshotStall == 0 {
		o.SnapshotStall = snapshotStall
	}
	return o
}

func checkOptions(o Options) error {
	switch {
	case len(o.NodeID) == 0 || len(o.NodeID) > nameBytesMax:
		return fmt.Errorf("node id %q is not 1 to %d bytes", o.NodeID, nameBytesMax)
	case len(o.CellID) > nameBytesMax:
		return fmt.Errorf("cell id %q has more than %d bytes", o.CellID, nameBytesMax)
	case o.Secrets == nil:
		return errors.New("no Secrets")
	case o.Resolve == nil:
		return errors.New("no Resolve")
	}
	return nil
}

// Addr is where the Mux listens.
func (m *Mux) Addr() net.Addr { return m.ln.Addr() }

// Group returns the transport of one raft group, making it on first use. After
// a group was closed, which raft.Raft.Shutdown does, the next call makes a new
// one. A closed Mux returns closed groups.
func (m *Mux) Group(id uint32) *Group {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g, ok := m.groups[id]; ok {
		return g
	}
	g := newGroup(m, id)
	if m.closed {
		_ = g.shut() // Nothing is open yet that could fail to close.
		return g
	}
	m.groups[id] = g
	return g
}

func (m *Mux) lookup(id uint32) *Group {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.groups[id]
}

// forget makes room for a new group under the id.
func (m *Mux) forget(g *Group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups[g.id] == g {
		delete(m.groups, g.id)
	}
}

// Metrics returns the counts so far.
func (m *Mux) Metrics() Metrics {
	return Metrics{
		Accepted:          m.accepted.Load(),
		Refused:           m.refused.Load(),
		HeartbeatsFast:    m.fast.Load(),
		HeartbeatsQueued:  m.queued.Load(),
		SnapshotsSent:     m.snapshotsSent.Load(),
		SnapshotBytesSent: m.snapshotsBytes.Load(),
		RequestsTooLarge:  m.tooLarge.Load(),
	}
}

// Close closes the listener, every group and every connection, and waits for
// the Mux's own goroutines.
func (m *Mux) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	groups := make([]*Group, 0, len(m.groups))
	for _, g := range m.groups {
		groups = append(groups, g)
	}
	m.mu.Unlock()

	m.cancel()
	err := m.ln.Close()
	for _, g := range groups {
		err = errors.Join(err, g.Close())
	}
	m.work.Wait()
	if err != nil {
		return fmt.Errorf("close raft transport: %w", err)
	}
	return nil
}

// accept runs until the Mux closes. Close waits for it.
func (m *Mux) accept() {
	for {
		conn, err := m.ln.Accept()
		if err != nil {
			return // Closed: it bears everything else.
		}
		select {
		case m.slots <- struct{}{}:
			m.work.Go(func() {
				defer func() { <-m.slots }()
				m.admit(conn)
			})
		default:
			m.refuse(conn, errors.New("too many handshakes in progress"))
		}
	}
}

// admit runs a connection's handshake and hands it to its group.
func (m *Mux) admit(conn net.Conn) {
	// A handshake must not outlive the Mux.
	stop := context.AfterFunc(m.ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(m.opts.HandshakeTimeout)); err != nil {
		m.refuse(conn, err)
		return
	}
	keepAlive(conn)
	g, h, secured, err := m.greet(conn)
	if err != nil {
		m.refuse(conn, err)
		return
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		m.refuse(conn, err)
		return
	}
	if !stop() {
		return // The Mux closed meanwhile and took the connection with it.
	}
	m.accepted.Add(1)
	if h.lane == laneAsk {
		_ = secured.Close() // A question ends with the status.
		return
	}
	g.stream.deliver(secured, h)
}

// greet is the listener's side of the handshake, TLS included.
func (m *Mux) greet(conn net.Conn) (*Group, hello, net.Conn, error) {
	if m.opts.TLS != nil {
		conn = tls.Server(conn, m.opts.TLS)
	}
	h, said, judge, answer, err := listenHandshake(conn, m.opts.Secrets, m.opts.Guard)
	if err != nil {
		return nil, hello{}, nil, err
	}
	if err := m.checkCertificate(conn, h.from); err != nil {
		return nil, hello{}, nil, err
	}
	g, refusal := m.judge(h, said, judge)
	if refusal != nil {
		refusal.By, refusal.Of = m.opts.NodeID, h.from
		return nil, hello{}, nil, errors.Join(refusal, answer(refusal.status, []byte(refusal.Reason)))
	}
	if err := answer(accepted, m.opts.Guard.Statement(h.group).Encode()); err != nil {
		return nil, hello{}, nil, err
	}
	return g, h, conn, nil
}

// checkCertificate binds the node id a peer claims to its certificate, where it
// has one.
func (m *Mux) checkCertificate(conn net.Conn, nodeID string) error {
	t, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	certs := t.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return nil // m.opts.TLS does not ask for one.
	}
	if err := certs[0].VerifyHostname(nodeID); err != nil {
		return fmt.Errorf("certificate is not node %q's: %w", nodeID, err)
	}
	return nil
}

// judge finds the group that a connection is for; nil for a question.
func (m *Mux) judge(h hello, said Statement, known func(Statement) *Refusal) (*Group, *Refusal) {
	cell := *m.cell.Load()
	switch {
	case h.to != m.opts.NodeID:
		return nil, &Refusal{status: wrongNode, Reason: fmt.Sprintf("this is node %s, not %s", m.opts.NodeID, h.to)}
	case cell == "":
		return nil, &Refusal{status: noCell, Reason: fmt.Sprintf("the folder of node %s belongs to no cell", m.opts.NodeID)}
	case h.cell != cell:
		return nil, Refuse(ErrWrongCell, "node %s belongs to cell %s, node %s to cell %s", m.opts.NodeID, cell, h.from, h.cell)
	}
	if r := known(said); r != nil {
		return nil, r
	}
	if h.lane == laneAsk {
		m.opts.Guard.Remember(h.from, said)
		return nil, nil
	}
	g := m.lookup(h.group)
	if g == nil {
		return nil, &Refusal{status: unknownGroup, Reason: fmt.Sprintf("node %s has no group %d open", m.opts.NodeID, h.group)}
	}
	return g, nil
}

func (m *Mux) refuse(conn net.Conn, err error) {
	_ = conn.Close()
	if m.ctx.Err() != nil {
		return
	}
	m.refused.Add(1)
	// Only a holder of the cell's secret gets this far. Everything else is logged at
	// debug level, or anybody who reaches the port could fill the log.
	level := slog.LevelDebug
	if errors.Is(err, ErrWrongCell) || errors.Is(err, ErrRemoved) || errors.Is(err, ErrOtherFolder) || errors.Is(err, ErrOlderCopy) || errors.Is(err, ErrUnreadable) {
		level = slog.LevelWarn
	}
	m.opts.Logger.Log(context.Background(), level, "raft connection refused", "remote", conn.RemoteAddr(), "error", err)
}

// Ask tells another node how far this one is in every group, and returns nil if it
// has no objection. The error is a *Refusal if it has.
func (m *Mux) Ask(node string, timeout time.Duration) error {
	conn, err := m.dial(0, node, laneAsk, timeout)
	if err != nil {
		return err
	}
	return conn.Close()
}

// dial opens a connection to a node's group and runs the handshake on it.
func (m *Mux) dial(group uint32, node string, l lane, timeout time.Duration) (net.Conn, error) {
	if timeout <= 0 || timeout > m.opts.HandshakeTimeout {
		timeout = m.opts.HandshakeTimeout
	}
	ctx, cancel := context.WithTimeout(m.ctx, timeout)
	defer cancel()
	addr, err := m.opts.Resolve(node)
	if err != nil {
		return nil, fmt.Errorf("resolve node %s: %w", node, err)
	}
	conn, err := m.opts.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("dial node %s at %s: %w", node, addr, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	secured, err := m.introduce(conn, hello{lane: l, group: group, cell: *m.cell.Load(), from: m.opts.NodeID, to: node})
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("greet node %s at %s for group %d: %w", node, addr, group, err)
	}
	return secured, nil
}

// introduce is the dialer's side of the handshake, TLS included.
func (m *Mux) introduce(conn net.Conn, h hello) (net.Conn, error) {
	if m.opts.TLS != nil {
		cfg := m.opts.TLS
		if cfg.ServerName == "" {
			cfg = cfg.Clone()
			cfg.ServerName = h.to
		}
		conn = tls.Client(conn, cfg)
	}
	return conn, dialHandshake(&stopwatch{ReadWriter: conn, far: m.far, node: h.to}, m.opts.Secrets, h, m.opts.Guard)
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAliveConfig()}
	return d.DialContext(ctx, "tcp", addr)
}

// keepAliveConfig finds a peer whose machine vanished within about 11 seconds.
// Raft's heartbeats find it sooner; this is for idle connections.
func keepAliveConfig() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}
}

// keepAlive is best effort: a connection without it still works.
func keepAlive(conn net.Conn) {
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(keepAliveConfig())
	}
}
