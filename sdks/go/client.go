package corvo

import (
	"cmp"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

// messageBytesMax bounds one RPC answer. Servers grant a fetch jobs of 3 MiB together, or one.
const messageBytesMax = 64 << 20

// Client talks to one tenant and one namespace. It may be used by any number of
// goroutines and holds few connections; make one per process.
type Client struct {
	base    *url.URL
	retries Retries
	log     *slog.Logger

	web *http.Client // HTTP/JSON.
	rpc corvov1connect.WorkerServiceClient
	// rpc1 is the same over HTTP/1.1, for a path on which HTTP/2 does not survive.
	rpc1 corvov1connect.WorkerServiceClient
	// http1Only is set once the way to the server proved to be HTTP/1.1.
	http1Only atomic.Bool

	onQuota func(Quota) // May be nil.
	keys    *keyring
	closers []*http.Client
}

// Option configures New.
type Option func(*config)

type config struct {
	url, apiKey, namespace string
	keys                   KeySource
	httpClient             *http.Client
	tls                    *tls.Config
	log                    *slog.Logger
	retries                Retries
	userAgent              string
	onQuota                func(Quota)
}

// WithURL sets the server's address; default CORVO_URL. A tenant's host
// (https://acme.corvo.example), a tenant's path on a shared host
// (http://127.0.0.1:8080/t/acme) and a bare address are all fine.
func WithURL(address string) Option { return func(c *config) { c.url = address } }

// WithAPIKey sets the API key; default CORVO_API_KEY. None is needed for a server
// in open mode.
func WithAPIKey(key string) Option { return func(c *config) { c.apiKey = key } }

// WithNamespace picks the namespace for a key that spans several; default
// CORVO_NAMESPACE, else the key's own.
func WithNamespace(name string) Option { return func(c *config) { c.namespace = name } }

// WithHTTPClient replaces the transport for everything, streams included, so it
// has to speak HTTP/2. Its CheckRedirect is kept.
func WithHTTPClient(hc *http.Client) Option { return func(c *config) { c.httpClient = hc } }

// WithTLS sets roots or client certificates for https addresses.
func WithTLS(tc *tls.Config) Option { return func(c *config) { c.tls = tc } }

// WithLogger sets where warnings go; default slog.Default().
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithRetries replaces the bounds of the client's own retries.
func WithRetries(r Retries) Option { return func(c *config) { c.retries = r } }

// WithUserAgent puts the name of the program in front of the SDK's user agent.
func WithUserAgent(ua string) Option { return func(c *config) { c.userAgent = ua } }

// New makes a client. It does not connect; Info does, if a start-up check is
// wanted. What is not given explicitly is taken from CORVO_URL, CORVO_API_KEY and
// CORVO_NAMESPACE.
func New(opts ...Option) (*Client, error) {
	cfg := config{
		url:       os.Getenv("CORVO_URL"),
		apiKey:    os.Getenv("CORVO_API_KEY"),
		namespace: os.Getenv("CORVO_NAMESPACE"),
	}
	for _, o := range opts {
		o(&cfg)
	}
	base, err := parseAddress(cfg.url)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(cfg.apiKey+cfg.namespace, "\r\n\x00") {
		return nil, errors.New("API key or namespace contains a line break: check for a trailing newline")
	}
	cfg.log = cmp.Or(cfg.log, slog.Default())
	c := &Client{base: base, retries: cfg.retries.withDefaults(), log: cfg.log, onQuota: cfg.onQuota}
	c.keys = newKeyring(cfg.apiKey, cfg.keys, func(err error) { c.log.Warn("corvo: no new API key yet; the last one works for now", "error", err) })
	c.connect(cfg)
	return c, nil
}

func (c *Client) connect(cfg config) {
	wrap := func(rt http.RoundTripper) http.RoundTripper {
		ua := strings.TrimSpace(cfg.userAgent + " " + clientName + "/" + Version)
		return &headers{next: rt, keys: c.keys, namespace: cfg.namespace, userAgent: ua}
	}
	var h2, h1 *http.Client
	if cfg.httpClient != nil {
		own := *cfg.httpClient
		own.Transport = cmp.Or[http.RoundTripper](own.Transport, http.DefaultTransport)
		own.Transport = wrap(own.Transport)
		if own.CheckRedirect == nil {
			own.CheckRedirect = sameOrigin(c.base)
		}
		h2, h1 = &own, &own
	} else {
		h2 = &http.Client{Transport: wrap(stream.Join(newTransport(c.base, true, cfg.tls))), CheckRedirect: sameOrigin(c.base)}
		h1 = h2
		if c.base.Scheme == "http" {
			h1 = &http.Client{Transport: wrap(newTransport(c.base, false, cfg.tls)), CheckRedirect: sameOrigin(c.base)}
		}
		c.closers = []*http.Client{h2, h1}
	}
	options := []connect.ClientOption{
		// Gzip is off: it halves the throughput of small frames.
		connect.WithAcceptCompression("gzip", nil, nil),
		connect.WithReadMaxBytes(messageBytesMax),
	}
	c.web = h1
	c.rpc = corvov1connect.NewWorkerServiceClient(h2, c.base.String(), options...)
	c.rpc1 = corvov1connect.NewWorkerServiceClient(h1, c.base.String(), options...)
}

// Close frees idle connections. Calls and streams under way are not touched. A KeySource
// that was asked early for its next key is told that nobody waits.
func (c *Client) Close() {
	c.keys.close()
	free := func() {
		for _, hc := range c.closers {
			hc.CloseIdleConnections()
		}
	}
	free()
	// net/http forgets a stream a moment after it ended, and until then its
	// connection does not count as idle.
	for _, later := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second} {
		time.AfterFunc(later, free)
	}
}

// unary is the RPC client for calls that are not streams.
func (c *Client) unary() corvov1connect.WorkerServiceClient {
	if c.http1Only.Load() {
		return c.rpc1
	}
	return c.rpc
}

// RPC returns the generated client with this client's address, credentials and
// transport: no retries, no typed errors. It is for tools such as load generators
// and for stream.Open.
func (c *Client) RPC() corvov1connect.WorkerServiceClient { return c.rpc }

// noteTransport remembers that HTTP/2 does not get through.
func (c *Client) noteTransport(err error) {
	if speaksHTTP1Only(err) && !c.http1Only.Swap(true) {
		c.log.Warn("corvo: the server or a proxy before it speaks HTTP/1.1 only; streams are off")
	}
}
