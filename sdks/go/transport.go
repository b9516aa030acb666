package corvo

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Version is the version of this SDK as it is told to servers.
const Version = "0.4.0"

const clientName = "corvo-go"

// A half-open connection is found by HTTP/2 pings: a load balancer that forgets
// us is noticed within the sum of these, and the pings keep it from forgetting.
const (
	pingAfterIdle = 15 * time.Second
	pingTimeout   = 10 * time.Second
	dialTimeout   = 5 * time.Second
)

// newTransport makes a transport for u. With plain http and h2 set it speaks
// HTTP/2 by prior knowledge, which streams need; otherwise TLS decides.
func newTransport(u *url.URL, h2 bool, tlsConfig *tls.Config) *http.Transport {
	var protocols http.Protocols
	switch {
	case u.Scheme == "https":
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	case h2:
		protocols.SetUnencryptedHTTP2(true)
	default:
		protocols.SetHTTP1(true)
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: dialTimeout,
		Protocols:           &protocols,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfterIdle, PingTimeout: pingTimeout},
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second,
		// Job bodies are small and travel in large numbers: compression costs half
		// the throughput of a stream.
		DisableCompression: true,
	}
}

// headers adds what every request carries. The key goes out as a bearer token,
// because net/http drops that one header when a redirect leaves the host.
type headers struct {
	next      http.RoundTripper
	keys      *keyring
	namespace string
	userAgent string
}

func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	key, err := h.keys.get(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // Nothing is sent.
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if h.namespace != "" {
		r.Header.Set("X-Corvo-Namespace", h.namespace)
	}
	r.Header.Set("User-Agent", h.userAgent)
	r.Header.Set("X-Corvo-Client-Name", clientName)
	r.Header.Set("X-Corvo-Client-Version", Version)
	res, err := h.next.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusUnauthorized {
		h.keys.refused()
	}
	return res, err
}

// CloseIdleConnections makes http.Client.CloseIdleConnections reach the transport.
func (h *headers) CloseIdleConnections() {
	if c, ok := h.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

var errForeignRedirect = errors.New("the server redirects to another origin, which is not followed")

// sameOrigin lets redirects happen inside the configured origin only: a server
// that could send clients elsewhere could send their keys and jobs elsewhere.
func sameOrigin(base *url.URL) func(*http.Request, []*http.Request) error {
	return func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != base.Scheme || r.URL.Host != base.Host {
			return errForeignRedirect
		}
		if len(via) >= 5 {
			return errors.New("stopped after 5 redirects")
		}
		return nil
	}
}

// speaksHTTP1Only reports whether err is net/http's word for a peer that answered
// HTTP/2 prior knowledge with HTTP/1.1. There is no typed error for it.
func speaksHTTP1Only(err error) bool {
	return err != nil && strings.Contains(err.Error(), "looked like an HTTP/1.1 header")
}
