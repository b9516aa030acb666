package server

import (
	"context"
	"io/fs"
	"net/http"
	"strconv"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/refusals"
)

// bodyBytesMax bounds a request. The largest honest one is some kilobytes.
const bodyBytesMax = 1 << 20

// compressBytes is from how many on an answer is compressed: a smaller one fits into a packet.
const compressBytes = 1400

// Options of a Server.
type Options struct {
	kit.Kit
	// Refusals is where refusals are noted.
	Refusals *refusals.Log
	// Methods are the use cases: one for each RPC of the API.
	Methods []Method
	// Browser answers /auth/, where identity providers send people; may be nil.
	Browser http.Handler
	// Directory answers /scim/, which companies' directories call; may be nil.
	Directory http.Handler
	// Payments answers /stripe/webhook, where the payment provider sends events; may be nil.
	Payments http.Handler
	// Console is the built console; may be nil or empty.
	Console fs.FS
	// Ready are the checks of /readyz.
	Ready []Check
	// Status is more for /readyz to say, one line each; nil: nothing.
	Status func() []string
	// Peer tells a client's address; nil: the connection's.
	Peer func(*http.Request) string
}

// Check is a check of /readyz.
type Check struct {
	Name  string
	Check func(context.Context) error
}

// Server answers the control plane's requests.
type Server struct {
	options Options
	limits  *limits
	handler http.Handler
}

// New fails if an RPC has no permission or no implementation, so that none is reachable
// by oversight.
func New(o Options) (*Server, error) {
	all, err := rules()
	if err != nil {
		return nil, err
	}
	if err := match(all, o.Methods); err != nil {
		return nil, err
	}
	if o.Peer == nil {
		o.Peer = remoteAddress
	}
	s := &Server{options: o, limits: newLimits()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("/", console(o.Console))
	if o.Browser != nil {
		mux.Handle("/auth/", unstored(s.counted(o.Browser)))
	}
	if o.Directory != nil {
		mux.Handle("/scim/", unstored(o.Directory))
	}
	if o.Payments != nil {
		mux.Handle("/stripe/webhook", unstored(o.Payments))
	}
	for _, m := range o.Methods {
		mux.Handle(m.procedure, unstored(s.guarded(m, all[m.procedure])))
	}
	if !built(o.Console) {
		o.Log.Warn("the console isn't built into this program; build it with: make web")
	}
	s.handler = secured(introduced(recovered(http.MaxBytesHandler(mux, bodyBytesMax), o.Log), o.IDs, o.Now, o.Peer), o.URLs.Secure())
	return s, nil
}

func (s *Server) guarded(m Method, r rule) http.Handler {
	o := s.options
	g := &gate{Kit: o.Kit, rule: r, policy: cookies.Policy{Secure: o.URLs.Secure()}, limits: s.limits, refusals: o.Refusals}
	options := []connect.HandlerOption{connect.WithInterceptors(g), connect.WithReadMaxBytes(bodyBytesMax),
		connect.WithCompressMinBytes(compressBytes), strictJSON()}
	if r.safe {
		options = append(options, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	}
	return g.before(m.handler(options...), connect.NewErrorWriter())
}

// counted refuses the pages of a network that asks for too many of them, before the
// database is asked.
func (s *Server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal := s.limits.anonymous.Take(access.From(r.Context()).Peer, s.options.Now()); refusal != nil {
			w.Header().Set("Retry-After", strconv.Itoa(int(seconds(refusal.RetryAfter))))
			http.Error(w, refusal.Error(), http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }
