package ingress

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/services/proxy"
)

// bodyTimeout is how long a body for the control plane may take to arrive; the data plane
// has its own rules.
const bodyTimeout = 30 * time.Second

// Options of an Ingress.
type Options struct {
	// Domain has a subdomain per tenant, as at the proxy.
	Domain string
	// Control serves the console and the control API; nil if this port serves neither.
	Control http.Handler
	// Proxies in front of this port whose X-Forwarded-For and X-Forwarded-Proto are trusted.
	Proxies clientnet.Proxies
	// StuckAfter is how long a client may take nothing of an answer of Control; 0 is 30 seconds.
	StuckAfter time.Duration
}

// Ingress routes requests of the public port to the data plane or the control plane.
type Ingress struct {
	data, control http.Handler
	domain        string
}

// New makes an Ingress in front of data, the proxy, which also answers what neither plane
// serves.
func New(data http.Handler, o Options) *Ingress {
	o.Domain = cmp.Or(o.Domain, "localhost")
	d := &Ingress{data: data, control: data, domain: o.Domain}
	if o.Control != nil {
		d.control = proxy.EndStuck(cleaned(o.Control, o.Proxies), o.StuckAfter)
	}
	return d
}

// ServeHTTP implements http.Handler.
func (d *Ingress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.side(r).ServeHTTP(w, r)
}

// side is the routing table. The proxy refuses paths that two parsers could read
// differently.
func (d *Ingress) side(r *http.Request) http.Handler {
	path := r.URL.Path
	switch {
	case proxy.TenantOfHost(r.Host, d.domain) != "", !proxy.Canonical(r):
		return d.data
	case under(path, "/t"), under(path, "/api"), path == "/openapi.json":
		return d.data
	case path == "/healthz", path == "/readyz":
		return d.data
	case under(path, "/metrics"), under(path, "/debug"), under(path, "/internal"):
		return d.data // Which has none in public, and says so as JSON: the console would answer with a page.
	case strings.HasPrefix(path, "/corvo."):
		if strings.HasPrefix(path, "/corvo.cloud.v1.") {
			return d.control
		}
		return d.data // corvo.v1, and never corvo.cell.v1.
	default:
		return d.control
	}
}

func under(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// cleaned removes what a client may not say: its own address, and every header of the
// cell.
func cleaned(next http.Handler, proxies clientnet.Proxies) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		clean(r, proxies)
		if r.Body != nil && r.Body != http.NoBody {
			rc := http.NewResponseController(w)
			// Where it is not supported a slow body costs no more than its connection.
			_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
			r.Body = &timedBody{ReadCloser: r.Body, rc: rc}
		}
		next.ServeHTTP(w, r)
	})
}

// clean sets the headers that a client may not set.
func clean(r *http.Request, proxies clientnet.Proxies) {
	client, scheme := proxies.Client(r), proxies.Scheme(r)
	// First, or a client could have what is set below removed on the next hop.
	for _, line := range r.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			r.Header.Del(strings.TrimSpace(name))
		}
	}
	r.Header.Del("Connection")
	identity.StripExternal(r.Header)
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded-") {
			delete(r.Header, name)
		}
	}
	for _, name := range [...]string{"Forwarded", "X-Real-Ip", "X-Request-Id", "X-Original-Url", "X-Rewrite-Url"} {
		delete(r.Header, name)
	}
	r.Header.Set("X-Forwarded-Proto", scheme)
	r.Header.Set("X-Forwarded-Host", r.Host)
	r.Header.Set("X-Forwarded-For", client)
	r.Header.Set("X-Request-Id", proxy.NewRequestID())
}

// timedBody ends the wait for a body with the body: the answer may take longer.
type timedBody struct {
	io.ReadCloser
	rc *http.ResponseController
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.rc.SetReadDeadline(time.Time{}) // As above.
	}
	return n, err
}
