package proxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/browser"
	"github.com/corvo-cloud/corvo/data-plane/api/callstream"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	"github.com/corvo-cloud/corvo/data-plane/api/connections"
	"github.com/corvo-cloud/corvo/data-plane/api/fair"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

// Limits of the public listener.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 120 * time.Second
	// headerBytesMax is the listener's own limit; Strict refuses before that.
	headerBytesMax = 64 << 10
	// Pings to clients (R28): load balancers cut idle connections after a minute
	// or more, and a worker that vanished must not keep its stream.
	clientPingEvery   = 15 * time.Second
	clientPingTimeout = 10 * time.Second
	// streamsPerConnection is bounded per connection, so that one client can not
	// take all; it opens another connection for more.
	streamsPerConnection = 250
	// One stream that is not read may hold only a fraction of its connection's
	// window.
	windowPerStream     = 256 << 10
	windowPerConnection = 4<<20 - 1
	// frameBytesMax is the protocol's smallest: a Go client keeps a buffer of this
	// size, up to 512 KiB, for every stream it has open.
	frameBytesMax = 16 << 10
	// streamGrace is how long a node may take to answer what a worker stream has
	// under way when the proxy leaves.
	streamGrace = 2 * time.Second
	// cutGrace is for the last answers of calls that were cut.
	cutGrace = 200 * time.Millisecond
)

// Limits of what one proxy takes in. Zero fields have defaults.
type Limits struct {
	// BodyBytesMax of one unary request; 4 MiB.
	BodyBytesMax int64
	// BufferBytesMax of all unary bodies held at a time; 256 MiB. Half of it is for anybody,
	// the rest for tenants that hold less than their share.
	BufferBytesMax int64
	// ConnectionsMax of clients; connections.Default.
	ConnectionsMax int
}

// Options of a Proxy.
type Options struct {
	// Domain is the one under which tenants are hosts; "localhost" by default.
	Domain string
	// Name identifies this proxy in the nodes' logs.
	Name string
	// CellSecrets sign what the proxy says to nodes.
	CellSecrets *cellsecret.Secrets
	// Nodes are API addresses of some nodes of the cell; the rest is learnt.
	Nodes []string
	// DataDir keeps the cell's state over restarts; empty keeps nothing.
	DataDir string
	// TLS of the public listener; nil serves clear text.
	TLS *tls.Config
	// CellTLS is used towards nodes; nil speaks h2c.
	CellTLS *tls.Config
	// Dial opens connections to nodes; nil means TCP.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Limits Limits
	// Proxies in front of this one whose X-Forwarded-For and X-Forwarded-Proto are trusted.
	Proxies clientnet.Proxies
	// Front may put a handler before the proxy on the same listener, which passes
	// on the data plane's requests; nil puts none.
	Front func(data http.Handler) http.Handler
	// NotReady says why what Front put there isn't ready, which /readyz tells; empty if it is,
	// nil if that has a /readyz of its own.
	NotReady func(context.Context) string
	Logger   *slog.Logger
	// Now says what time it is, in tests and where the cell's nodes are in this process.
	Now func() time.Time
	// Clock is this machine's; tests replace it. Unless Now is given, it is corrected by
	// the time of the cell's nodes.
	Clock cellclock.Clock
}

// Proxy is one entry point of a cell.
type Proxy struct {
	// id identifies this run of the process to the nodes it follows.
	id          string
	domain      string
	clients     clientnet.Proxies
	log         *slog.Logger
	now         func() time.Time // The cell's.
	time        *cellclock.Time  // Nil if Options.Now says what time it is.
	limits      Limits
	signer      *identity.Signer
	view        *view
	applied     *progress
	lagChecks   *lagChecks
	files       *stateFiles
	nodes       *nodes
	calls       *calls
	uses        *uses
	refusals    *refusals
	meters      *meters
	connections *connections.Bound
	transport   forward.Lanes
	calling     *callstream.Transport
	cellClient  *http.Client
	forwarder   *forward.Forwarder
	rpcErrors   *connect.ErrorWriter
	crossOrigin *http.CrossOriginProtection
	server      *http.Server
	notReady    func(context.Context) string // Options.NotReady.
	unsaved     chan struct{}                // One waiting note; never closed.
	buffered    *fair.Budget[string]         // Bytes of unary bodies in memory, by tenant.
	holds       *fair.Budget[string]         // Calls that wait for a leader, by tenant.
	ending      atomic.Bool

	// takeMu is held while one message becomes the state and takes effect, so that
	// applied never runs ahead.
	takeMu sync.Mutex

	watchedMu sync.Mutex
	// watched are the base URLs being followed. Guarded by watchedMu.
	watched map[string]bool

	// stop ends the loops, which loops waits for, and life with them.
	stop  context.CancelFunc
	life  context.Context
	loops sync.WaitGroup
}

// New makes a proxy, loads the state on disk and begins to follow the cell. Call
// Serve to serve, and Shutdown in any case.
func New(opts Options) (*Proxy, error) {
	opts = opts.withDefaults()
	signer, err := identity.NewSigner(opts.CellSecrets)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	seeds, err := parseSeeds(opts.Nodes)
	if err != nil {
		return nil, err
	}
	files, err := openStateFiles(opts.DataDir, opts.Logger)
	if err != nil {
		return nil, err
	}
	prover, err := cellclock.NewProver(opts.CellSecrets)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	transport := forward.NewLanes(forward.TransportOptions{TLS: opts.CellTLS, Dial: opts.Dial})
	var at *cellclock.Time
	if opts.Now == nil {
		at = cellclock.NewTime(opts.Clock)
		opts.Now = at.Now
	}
	cell := &http.Client{Transport: &signing{transport, signer, "proxy-" + opts.Name, opts.Now}}
	calling := callstream.NewTransport(callstream.Options{
		Next: transport, TLS: opts.CellTLS, Dial: opts.Dial, Carries: endsSoon, PingEvery: forward.PingEvery, PingTimeout: forward.PingTimeout,
		Sign: func(r *http.Request) error {
			return signer.SignRequest(r, identity.CellPrincipal("proxy-"+opts.Name, opts.Now()))
		},
	})
	p := &Proxy{
		id: newProxyID(opts.Name), applied: newProgress(), uses: newUses(), refusals: newRefusals(opts.Now), meters: newMeters(),
		domain: strings.ToLower(opts.Domain), clients: opts.Proxies, log: opts.Logger, now: opts.Now, time: at, limits: opts.Limits,
		signer: signer, view: newView(), files: files, transport: transport,
		nodes:       newNodes(transport, cell, seeds, opts.Logger, opts.Now),
		cellClient:  cell,
		calling:     calling,
		forwarder:   forward.New(calling),
		rpcErrors:   connect.NewErrorWriter(),
		crossOrigin: http.NewCrossOriginProtection(),
		unsaved:     make(chan struct{}, 1),
		watched:     map[string]bool{},
	}
	p.calls = newCalls(p.weight)
	p.nodes.ours, p.nodes.met, p.nodes.silent, p.nodes.calling = func() string { return p.view.current().cell }, p.meet, p.cutOff, p.calls.any
	p.connections = connections.New(opts.Limits.ConnectionsMax, p.weight)
	// The budget may be exceeded, but not doubled.
	p.buffered = fair.NewBudget(max(opts.Limits.BufferBytesMax/2, 2*opts.Limits.BodyBytesMax), p.weight)
	p.holds = fair.NewBudget(heldMax, p.weight)
	p.lagChecks = newLagChecks(p.catchUp)
	p.server, p.notReady = p.newServer(opts), opts.NotReady
	if err := p.start(prover); err != nil {
		return nil, err
	}
	return p, nil
}

// weight is the share of a tenant when there is not enough for all, as its plan says.
func (p *Proxy) weight(tenant string) int64 {
	t, ok := p.view.current().tenants.get(tenant)
	if !ok {
		return 0
	}
	return t.proto.GetLimits().GetWeight()
}

func (o Options) withDefaults() Options {
	o.Domain = cmp.Or(o.Domain, "localhost")
	o.Name = cmp.Or(o.Name, "1")
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Limits.BodyBytesMax = cmp.Or(o.Limits.BodyBytesMax, 4<<20)
	o.Limits.BufferBytesMax = cmp.Or(o.Limits.BufferBytesMax, 256<<20)
	o.Limits.ConnectionsMax = cmp.Or(o.Limits.ConnectionsMax, connections.Default())
	return o
}

func parseSeeds(texts []string) ([]*url.URL, error) {
	if len(texts) == 0 {
		return nil, errors.New("proxy: no node address is set")
	}
	out := make([]*url.URL, 0, len(texts))
	for _, text := range texts {
		u, err := parseNodeURL(text)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

func (p *Proxy) newServer(opts Options) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(opts.TLS == nil)
	protocols.SetHTTP2(opts.TLS != nil)
	var handler http.Handler = p
	if opts.Front != nil {
		handler = opts.Front(p)
	}
	return &http.Server{
		Handler: Strict(handler), TLSConfig: opts.TLS, Protocols: &protocols,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return countResets(p.connections.Context(ctx, conn), conn)
		},
		ConnState:         p.connections.State,
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: streamsPerConnection, SendPingTimeout: clientPingEvery, PingTimeout: clientPingTimeout,
			MaxReceiveBufferPerStream: windowPerStream, MaxReceiveBufferPerConnection: windowPerConnection,
			WriteByteTimeout: stuckAfter, MaxReadFrameSize: frameBytesMax,
		},
		ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}
}

// start loads what is on disk and starts the loops.
func (p *Proxy) start(prover *cellclock.Prover) error {
	state, err := p.files.load()
	if err != nil {
		return err
	}
	if state != nil {
		p.view.open(state, p.now())
		p.applied.set(p.view.current().index)
		p.log.Info("read the cell's state from disk", "index", p.view.current().index, "keys", p.view.current().keys.size,
			"confirmed", time.Unix(0, state.GetConfirmedNs()).UTC())
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.life, p.stop = ctx, cancel
	p.nodes.reconcile(ctx, p.view.current().nodes)
	for range watchers {
		p.loops.Go(func() { p.watch(ctx) })
	}
	p.loops.Go(func() { p.keep(ctx) })
	p.loops.Go(func() { p.sweep(ctx) })
	p.loops.Go(func() { p.lagChecks.run(ctx) })
	p.loops.Go(func() { p.tellSightings(ctx) })
	p.loops.Go(func() { p.tellReadings(ctx) })
	p.askForTime(ctx, prover)
	return nil
}

// sweep ends calls for which there is no event: keys that expire, clients that are
// stuck.
func (p *Proxy) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := p.now()
			if p.view.expire(now) {
				p.log.Warn("no node has confirmed the cell's state for a long time, so no key works until one does", "longest", celladmin.CopyKept)
			}
			p.calls.recheck(nil, p.view.current(), touched{}, now)
			p.calls.sweep(now)
		}
	}
}

// Serve answers on ln until Shutdown, and then returns nil.
func (p *Proxy) Serve(ln net.Listener) error {
	err := ServePublic(p.server, ln, p.log)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("proxy: serve %s: %w", ln.Addr(), err)
}

// ServePublic answers on ln until srv is shut down or closed. An accept that fails does not
// end it: the others would lose their service because the kernel lacked memory for one.
func ServePublic(srv *http.Server, ln net.Listener, log *slog.Logger) error {
	ln = connections.Patient(ln, log)
	if srv.TLSConfig != nil {
		return srv.ServeTLS(ln, "", "")
	}
	return srv.Serve(ProblemListener(ln))
}

// Ready reports whether the proxy knows the cell's state and a node that answers.
// It does not require a ready node: while a shard elects a leader none is, and a
// balancer that then took out every proxy would turn a second of 503s into a long
// outage.
func (p *Proxy) Ready() bool {
	return !p.ending.Load() && p.view.loaded.Load() && p.nodes.anyAnswers()
}

// Shutdown takes no new connections, tells clients to go elsewhere, lets unary
// calls end and streams end in order, and ends everything when ctx does.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.ending.Store(true)
	late := time.AfterFunc(streamGrace, func() { p.calls.endAll(true) })
	defer late.Stop()
	p.calls.endStreams()
	var err error
	if p.server.Shutdown(ctx) != nil {
		// Out of time, which is no error: the remaining calls are told and cut.
		p.calls.endAll(false)
		p.calls.waitEmpty(cutGrace)
		err = p.flushAndClose()
	}
	p.stop()
	p.loops.Wait()
	p.nodes.pollers.Wait()
	p.calling.CloseIdleConnections()
	p.transport.CloseIdleConnections()
	return err
}

// flushAndClose gives the calls' last answers time to be sent: the server sends them
// after the handlers have returned, and closing at once would overtake that.
func (p *Proxy) flushAndClose() error {
	ctx, cancel := context.WithTimeout(context.Background(), cutGrace)
	defer cancel()
	if p.server.Shutdown(ctx) == nil {
		return nil
	}
	return p.server.Close()
}

// ServeHTTP implements http.Handler: every request comes through here.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()[headerRequestID] = []string{NewRequestID()}
	addr, ref := parseAddress(r, p.domain, p.clients.Scheme(r))
	if ref != nil {
		p.write(w, r, false, ref)
		return
	}
	switch {
	case addr.path == "/healthz":
		p.health(w, r, addr, true, "")
		return
	case addr.path == "/readyz":
		p.readiness(w, r, addr)
		return
	case !addr.known():
		p.write(w, r, false, refuseNotFound)
		return
	}
	if r.Header["Origin"] != nil {
		browser.AllowOrigins(w.Header())
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	case http.MethodOptions:
		browser.Preflight(w)
		return
	default:
		p.write(w, r, addr.rpc(), refuseBadMethod)
		return
	}
	if addr.open() || addr.path == pathServerInfo && !browser.HasCredential(r) {
		p.carry(w, r, addr, nil)
		return
	}
	c, ref := p.authenticate(r, addr)
	if ref != nil {
		p.write(w, r, addr.rpc(), ref)
		return
	}
	connections.Belongs(r.Context(), c.tenant.GetId())
	p.carry(w, r, addr, &c)
}

// readiness is that of the data plane: jobs go on while what Front put there isn't ready, so
// that is told as a reason, as a node tells of a group that it lacks.
func (p *Proxy) readiness(w http.ResponseWriter, r *http.Request, addr address) {
	why := ""
	if p.notReady != nil {
		why = p.notReady(r.Context())
	}
	p.health(w, r, addr, p.Ready(), why)
}

// healthAnswer has the same members as a node's.
type healthAnswer struct {
	Status    string `json:"status"`
	RaftState string `json:"raft_state"`
	Leader    string `json:"leader"`
	Reason    string `json:"reason,omitempty"`
}

// health answers probes. A proxy has no part in raft, and does not reveal the
// addresses of nodes: as the leader it names the URL that the client used.
func (p *Proxy) health(w http.ResponseWriter, r *http.Request, addr address, ok bool, reason string) {
	if !ok {
		p.write(w, r, false, refuseUnhealthy)
		return
	}
	a := healthAnswer{Status: "ok", RaftState: "none", Reason: reason}
	if p.nodes.anyLeads() {
		a.Leader = addr.base
	}
	text, err := json.Marshal(a)
	if err != nil {
		panic("proxy: plain fields do not marshal: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(text, '\n')) // The client may be gone.
	}
}

// NewRequestID names one request.
func NewRequestID() string {
	var b [12]byte
	rand.Read(b[:])
	return "req_" + hex.EncodeToString(b[:])
}

func newProxyID(name string) string {
	var b [8]byte
	rand.Read(b[:])
	return name + "-" + hex.EncodeToString(b[:])
}
