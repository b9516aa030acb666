package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"path"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/browser"
	"github.com/corvo-cloud/corvo/data-plane/api/connections"
	"github.com/corvo-cloud/corvo/data-plane/api/fair"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/refusal"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/admission"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/streams"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Limits of requests and streams. What is inside a request has limits of its own in queue.
const (
	// RequestBytesMax bounds a request body and one stream frame.
	RequestBytesMax = 4 << 20
	// StreamsMax and FramesMax are the contract's bounds on worker streams.
	StreamsMax = 4096
	FramesMax  = 2048
	// LeaderWait is how long a call is held while its shard has no leader: an
	// election takes about a second.
	LeaderWait = 3 * time.Second

	bodyTimeout = 30 * time.Second
	// releaseTimeout bounds giving back jobs that could not be delivered.
	releaseTimeout = 5 * time.Second
)

// APIVersion is the version of the worker protocol that clients compare.
const APIVersion = "1.0.0"

// Options of a Server. Zero values leave the part out.
type Options struct {
	// Version is the server's own version, a semver text.
	Version string
	// Signer signs what is carried to a leader. Nil: nothing is carried.
	Signer *identity.Signer
	// Connections are those of the listener, to be shown; nil shows none.
	Connections *connections.Bound
	// OtherOrigins lets pages of any origin call with a key of their own.
	OtherOrigins bool
	// Transport reaches other nodes; nil makes one with the pings of a cell.
	Transport http.RoundTripper
	// Health says whether this process works; ready whether to send it traffic.
	Health func(ctx context.Context) Health
	// Cluster answers GET /api/v1/cluster/status.
	Cluster func() wire.ClusterStatus
	// Admission lets calls and frames in; nil: all at once. Weight divides among tenants
	// what is counted; nil: all weigh the same.
	Admission *admission.Gate
	Weight    func(tenant string) int64
	// StreamsMax, FramesMax and UnreadBytesMax replace the defaults in tests.
	StreamsMax     int
	FramesMax      int
	UnreadBytesMax int64
	// LeaderWait and KeepaliveEvery replace the defaults in tests.
	LeaderWait     time.Duration
	KeepaliveEvery time.Duration
}

// Server is the HTTP handler of a node.
type Server struct {
	log     *slog.Logger
	router  Router
	auth    Authenticator
	opts    Options
	now     func() time.Time
	mux     *http.ServeMux
	nothing http.Handler // Answers what no route matches.
	forward *forward.Forwarder
	rpcErr  *connect.ErrorWriter
	openAPI func() []byte // Made when it is first asked for.
	// events opens a reader; a test says itself what happens.
	events func(v *queue.Views, c queue.Caller, in queue.EventFilter) (Events, error)

	streams  *streams.Set
	unread   *fair.Budget[string] // Bytes of answers that are being written, by tenant; see takeUnread.
	draining context.Context      // Ends when Drain is called.
	drain    context.CancelFunc
}

// New makes a Server that asks router who serves a namespace.
func New(log *slog.Logger, now func() time.Time, router Router, auth Authenticator, opts Options) *Server {
	if opts.StreamsMax == 0 {
		opts.StreamsMax = StreamsMax
	}
	if opts.FramesMax == 0 {
		opts.FramesMax = FramesMax
	}
	if opts.UnreadBytesMax == 0 {
		opts.UnreadBytesMax = UnreadBytesMax
	}
	if opts.LeaderWait == 0 {
		opts.LeaderWait = LeaderWait
	}
	if opts.KeepaliveEvery == 0 {
		opts.KeepaliveEvery = keepaliveEvery
	}
	if opts.Transport == nil {
		opts.Transport = forward.NewTransport(forward.TransportOptions{})
	}
	s := &Server{
		log: log, router: router, auth: auth, opts: opts, now: now,
		mux: http.NewServeMux(), forward: forward.New(opts.Transport), rpcErr: connect.NewErrorWriter(),
		streams: streams.NewSet(opts.StreamsMax, opts.FramesMax, opts.Weight),
		unread:  fair.NewBudget(opts.UnreadBytesMax, opts.Weight),
	}
	s.events = func(v *queue.Views, c queue.Caller, in queue.EventFilter) (Events, error) { return v.Events(c, in) }
	s.draining, s.drain = context.WithCancel(context.Background())
	s.mount()
	return s
}

// nosniff is shared by all answers: nobody changes a header's values in place.
var nosniff = []string{"nosniff"}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["X-Content-Type-Options"] = nosniff
	if s.opts.OtherOrigins && r.Header["Origin"] != nil {
		browser.AllowOrigins(w.Header())
		if r.Method == http.MethodOptions {
			browser.Preflight(w)
			return
		}
	}
	if p := r.URL.Path; path.Clean(p) != p {
		// The mux would redirect; two spellings of one route only help attackers.
		s.nothing.ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Drain begins the end: readiness turns off, long polls answer, streams are told
// where to go and close; streams carried to a leader are half-closed, so that the
// leader ends them in good order. It returns when no stream is left; when ctx ends
// first it cuts the rest. Unary calls go on until the http.Server is shut down.
func (s *Server) Drain(ctx context.Context) error {
	s.drain()
	return s.streams.Drain(ctx)
}

func (s *Server) isDraining() bool { return s.draining.Err() != nil }

// untilDrain is ctx that also ends when the server drains.
func (s *Server) untilDrain(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.draining, cancel)
	return ctx, func() { stop(); cancel() }
}

// call is one request on its way through the server.
type call struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	route  *Route
	start  time.Time
	id     string // Request id.
	who    *Principal
	place  Placement
	raw    []byte // The body, once it was read.
	unread int64  // Bytes of the answer that are counted; see takeUnread.
}

type callKey struct{}

func contextWithCall(r *http.Request, c *call) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callKey{}, c))
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func requestID(ctx context.Context) string {
	if c := callOf(ctx); c != nil {
		return c.id
	}
	return ""
}

// handler wraps a route: authenticate, authorize, find the leader, then handle.
func (s *Server) handler(rt *Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{s: s, w: w, route: rt, start: s.now()}
		c.r = contextWithCall(r, c)
		defer func() { s.giveUnread(c.tenant(), c.unread) }()
		if err := s.enter(c); err != nil {
			s.refuse(c, err)
		}
	})
}

func (s *Server) enter(c *call) error {
	if c.route.Permission == public {
		c.nameRequest("")
		return c.route.handle(c)
	}
	who, err := s.auth.Authenticate(c.r)
	if err != nil {
		c.nameRequest("")
		return err
	}
	c.who = who
	connections.Belongs(c.r.Context(), who.Identity.TenantID)
	c.nameRequest(who.Identity.RequestID)
	if name := c.r.PathValue("name"); !c.route.allows(who, name) {
		return who.Caller.Lacks(c.route.Permission, name)
	}
	if c.route.query == nil && !c.route.RPC && c.r.URL.RawQuery != "" { // Else its handler looks at them.
		var d shape.Decoder
		c.query(&d)
		if err := d.Err(); err != nil {
			return err
		}
	}
	if !c.route.Leader {
		return c.route.handle(c)
	}
	if c.place, err = s.place(c.r.Context(), who.Caller.Namespace); err != nil {
		return err
	}
	switch {
	case c.route.stream:
		return s.enterStream(c)
	case c.route.events:
		return s.enterEvents(c)
	}
	if c.place.Local == nil {
		return s.carry(c)
	}
	return s.serveHere(c)
}

const (
	// callUnits is what any call asks of the processors, in those of a job in a frame.
	callUnits = 4
	// unitBytes of a body cost another one.
	unitBytes = 256
)

// serveHere handles a call whose shard is led by this node. The shard holds the call
// while leadership moves; if another node leads then, the call goes after the leader.
func (s *Server) serveHere(c *call) error {
	turn, err := s.opts.Admission.Enter(c.r.Context(), c.who.Identity.TenantID, callUnits+max(c.r.ContentLength, 0)/unitBytes)
	if err != nil {
		return err
	}
	if c.route.waits {
		turn.Leave() // Nothing is held while it waits for jobs.
	} else {
		defer turn.Leave()
	}
	ns := c.who.Caller.Namespace
	err = c.route.handle(c)
	if !fault.NothingDone(err) || c.route.RPC {
		return err // An RPC's body was read by connect; its client asks again.
	}
	p, perr := s.place(c.r.Context(), ns)
	if perr != nil || p.Local != nil || p.LeaderURL == "" {
		return err
	}
	c.place = p
	return s.carry(c)
}

func (c *call) nameRequest(id string) {
	if id == "" {
		id = rand.Text()[:16]
	}
	c.id = id
	c.w.Header().Set(headerRequestID, id)
}

// place finds who serves ns and holds the call for a moment while nobody does.
func (s *Server) place(ctx context.Context, ns job.Namespace) (Placement, error) {
	p, err := s.router.Route(ns)
	if err != nil || p.Local != nil || p.LeaderURL != "" || p.Silent {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.LeaderWait)
	defer cancel()
	return s.router.WaitLeader(ctx, ns)
}

func (s *Server) refuse(c *call, err error) {
	if c.route.RPC && s.rpcErr.IsSupported(c.r) {
		rerr := rpcError(c.r.Context(), s.log, err)
		if refusal.GRPC(c.w, c.r, rerr) {
			return
		}
		if werr := s.rpcErr.Write(c.w, c.r, rerr); werr != nil {
			s.log.Debug("refusal not delivered", "request_id", c.id, "err", werr)
		}
		return
	}
	writeProblem(c.w, c.r, s.log, err)
}

// stamp sets what is only known when the answer is: how long it took, and the
// index that a later read has to reach in order to see what this call did.
func stamp(ctx context.Context, h http.Header) {
	c := callOf(ctx)
	if c == nil {
		return
	}
	var buf [32]byte
	b := append(buf[:0], "proc;dur="...)
	ms := float64(c.s.now().Sub(c.start)) / float64(time.Millisecond)
	h.Set("Server-Timing", string(strconv.AppendFloat(b, ms, 'f', 3, 64)))
	if c.place.Local == nil {
		return
	}
	if p, err := c.s.router.Route(c.who.Caller.Namespace); err == nil && p.Local != nil && p.Index > 0 {
		h.Set(identity.HeaderIndex, string(strconv.AppendUint(buf[:0], p.Index, 10)))
	}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// bufferKeepMax is the largest buffer that goes back to the pool.
const bufferKeepMax = 256 << 10

func getBuffer() *bytes.Buffer {
	b, _ := buffers.Get().(*bytes.Buffer)
	b.Reset()
	return b
}

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= bufferKeepMax {
		buffers.Put(b)
	}
}
