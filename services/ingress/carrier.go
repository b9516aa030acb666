package ingress

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	"github.com/corvo-cloud/corvo/data-plane/api/fair"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
)

const (
	// answerTimeout is how long the control plane may take to begin an answer.
	answerTimeout = 30 * time.Second
	// carriedMax bounds the requests on their way to the control plane: one that
	// hangs must not use up the memory that the data plane's requests need. When they
	// are taken, networks with less than their share still get some, twice as many in all.
	carriedMax = 512
	// carriedPeerMax and carriedNetworkMax are how many of them one client and the
	// network around it may have: whoever is slow or many keeps nobody else out.
	carriedPeerMax    = 64
	carriedNetworkMax = 128
	// bodyBytesMax of one request, which is read whole before it is carried: a slow
	// client costs the control plane nothing. heldBytesMax is for all together, but for
	// the first freeBytes of each: nearly every request is smaller, and those who send
	// large ones slowly shall not keep it out.
	bodyBytesMax = 4 << 20
	heldBytesMax = 128 << 20
	freeBytes    = 8 << 10
	retryAfter   = 2 * time.Second
)

// CarrierOptions of a Carrier.
type CarrierOptions struct {
	// TLS towards an https address; nil trusts the system's authorities.
	TLS    *tls.Config
	Logger *slog.Logger
}

// Carrier takes requests to a control plane in another process, which must speak
// HTTP/2: in clear text by prior knowledge, or over TLS. While it cannot be reached
// every request is answered with 503 at once; nothing else is touched by that.
type Carrier struct {
	target    *url.URL
	transport *http.Transport
	forwarder *forward.Forwarder
	log       *slog.Logger
	rpcErrors *connect.ErrorWriter
	slots     slots
	held      atomic.Int64 // Bytes of bodies in memory, but for the free ones.
}

// NewCarrier makes a carrier to a control plane at base, http://HOST:PORT.
func NewCarrier(base string, o CarrierOptions) (*Carrier, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("parse the control plane's address: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return nil, fmt.Errorf("the control plane's address %q isn't http://HOST:PORT or https://HOST:PORT", base)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	var opts forward.TransportOptions
	if u.Scheme == "https" {
		if opts.TLS = o.TLS; opts.TLS == nil {
			opts.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	transport := forward.NewTransport(opts)
	transport.ResponseHeaderTimeout = answerTimeout
	return &Carrier{
		target: &url.URL{Scheme: u.Scheme, Host: u.Host}, transport: transport, forwarder: forward.New(transport),
		log: o.Logger, rpcErrors: connect.NewErrorWriter(), slots: newSlots(),
	}, nil
}

// Close frees the connections.
func (c *Carrier) Close() { c.transport.CloseIdleConnections() }

// ServeHTTP implements http.Handler.
func (c *Carrier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Trailer = nil // Nothing of ours has request trailers.
	var body heldBody
	defer func() { c.held.Add(-body.counted) }() // Also if the client goes away.
	if ref := c.readBody(w, r, &body); ref != nil {
		c.refuse(w, r, *ref)
		return
	}
	// Only now: whoever is slow waits for nobody's turn.
	leave, ref := c.slots.enter(r.Header.Get("X-Forwarded-For"))
	if ref != nil {
		c.refuse(w, r, *ref)
		return
	}
	defer leave()
	err := c.forwarder.Forward(w, r, c.target, forward.Options{Host: r.Host, Body: body.bytes})
	switch {
	case err == nil:
	case forward.ClientGone(r.Context(), err):
		panic(http.ErrAbortHandler)
	default:
		c.log.Warn("the control plane isn't responding", "at", c.target.Host, "err", err)
		if forward.NeverSent(err) || r.Method == http.MethodGet || r.Method == http.MethodHead {
			c.refuse(w, r, unavailable)
			return
		}
		c.refuse(w, r, unknown)
	}
}

// slots are the requests that are on their way, and whose they are.
type slots struct {
	all   *fair.Budget[string] // By network.
	mu    sync.Mutex
	taken map[string]int // By client and by network. Guarded by mu.
}

func newSlots() slots {
	return slots{all: fair.NewBudget[string](carriedMax, nil), taken: map[string]int{}}
}

// enter takes a slot for a client at an address.
func (s *slots) enter(addr string) (leave func(), _ *refusal) {
	peer, network := "peer "+clientnet.Narrow(addr), "network "+clientnet.Wide(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken[peer] >= carriedPeerMax || s.taken[network] >= carriedNetworkMax:
		return nil, &tooMany
	case !s.all.Take(network, 1):
		return nil, &busy
	}
	s.taken[peer]++
	s.taken[network]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all.Give(network, 1)
		for _, key := range [...]string{peer, network} {
			if s.taken[key]--; s.taken[key] == 0 {
				delete(s.taken, key)
			}
		}
	}, nil
}

// heldBody is a body in memory, and how much of it is counted in held.
type heldBody struct {
	bytes   []byte
	counted int64
}

// readBody reads a body whole.
func (c *Carrier) readBody(w http.ResponseWriter, r *http.Request, into *heldBody) *refusal {
	into.bytes = []byte{}
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > bodyBytesMax {
		return &tooLarge
	}
	from := http.MaxBytesReader(w, r.Body, bodyBytesMax)
	for {
		if !c.grow(into) {
			return &busy
		}
		n, err := from.Read(into.bytes[len(into.bytes):cap(into.bytes)])
		into.bytes = into.bytes[:len(into.bytes)+n]
		var over *http.MaxBytesError
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &over):
			return &tooLarge
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &tooSlow
		default:
			panic(http.ErrAbortHandler) // The client is gone.
		}
	}
}

// grow makes room for more of a body, and counts it; false if there is none left.
func (c *Carrier) grow(b *heldBody) bool {
	if len(b.bytes) < cap(b.bytes) {
		return true
	}
	b.bytes = append(b.bytes, 0)[:len(b.bytes)]
	counted := max(int64(cap(b.bytes))-freeBytes, 0)
	held := c.held.Add(counted - b.counted)
	b.counted = counted
	return counted == 0 || held <= heldBytesMax
}

// refusal is an answer in place of the control plane's.
type refusal struct {
	status     int
	rpc        connect.Code
	code, text string
}

var (
	unavailable = refusal{503, connect.CodeUnavailable, "CONTROL_PLANE_UNAVAILABLE", "the control plane isn't responding, so nothing was changed; jobs and workers aren't affected; try again"}
	unknown     = refusal{503, connect.CodeUnavailable, "UNKNOWN_OUTCOME", "lost the control plane before it responded; check whether the change was made before you try again"}
	busy        = refusal{503, connect.CodeUnavailable, "OVERLOADED", "too many requests are waiting for the control plane, so nothing was changed; try again"}
	tooMany     = refusal{429, connect.CodeResourceExhausted, "TOO_MANY_REQUESTS", "too many requests from your network are waiting for the control plane, so nothing was changed; try again"}
	tooLarge    = refusal{413, connect.CodeResourceExhausted, "PAYLOAD_TOO_LARGE", "the request body is over 4 MiB"}
	tooSlow     = refusal{408, connect.CodeDeadlineExceeded, "REQUEST_TIMEOUT", "the request body didn't arrive within 30 seconds"}
)

// refuse answers in the language of whoever asks: a page, an RPC or JSON.
func (c *Carrier) refuse(w http.ResponseWriter, r *http.Request, ref refusal) {
	h := w.Header()
	if ref.status == http.StatusServiceUnavailable || ref.status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	h.Set("Cache-Control", "no-store")
	if strings.HasPrefix(r.URL.Path, "/corvo.") && c.rpcErrors.IsSupported(r) {
		err := connect.NewError(ref.rpc, errors.New(ref.text))
		err.Meta().Set("Corvo-Error-Code", ref.code)
		if writeErr := c.rpcErrors.Write(w, r, err); writeErr != nil {
			c.log.Debug("answer an RPC", "err", writeErr)
		}
		return
	}
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src '"+unavailableStyleHash()+"'; frame-ancestors 'none'")
		c.write(w, r, ref.status, []byte(unavailablePage))
		return
	}
	body, err := json.Marshal(map[string]any{
		"error": ref.text, "code": ref.code, "type": "about:blank", "title": "The control plane wasn't reached or didn't respond",
		"status": ref.status, "detail": ref.text,
	})
	if err != nil {
		panic("ingress: a problem of plain fields does not marshal: " + err.Error())
	}
	h.Set("Content-Type", "application/problem+json")
	c.write(w, r, ref.status, body)
}

func (c *Carrier) write(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // The asker is gone: nobody to tell.
	}
}

const unavailableStyle = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0; display: grid; min-height: 100vh; place-items: center; background: light-dark(#f8fafc, #0b0f14); color: light-dark(#141d29, #e6ebf0); }
main { max-width: 32rem; padding: 2rem; }
h1 { font-size: 1.375rem; line-height: 1.25; }
a { color: light-dark(#00607a, #6fd3e8); }
`

// unavailableStyleHash is what the page's policy allows: this style and no other.
var unavailableStyleHash = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(unavailableStyle))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
})

// unavailablePage asks again by itself, so that an open tab comes back.
const unavailablePage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="5">
<title>Corvo Cloud is temporarily unavailable</title>
<style>` + unavailableStyle + `</style>
</head>
<body>
<main>
<h1>The console is temporarily unavailable</h1>
<p>The control plane isn't responding. Your jobs and workers aren't affected.</p>
<p>This page tries again every 5 seconds. <a href="">Try again now</a></p>
</main>
</body>
</html>
`
