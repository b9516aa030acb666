package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

// lease is one job in the hands of a caller.
type lease struct{ id, token string }

// caller is one closed-loop caller: the next call starts when the last one was
// answered. Slices that it returns are valid until its next call.
type caller interface {
	// enqueue adds n jobs and returns their ids.
	enqueue(ctx context.Context, n int) ([]string, error)
	// work settles leases and fetches up to n more without waiting. refused
	// counts settlements that the server did not take.
	work(ctx context.Context, settle []lease, n int) (got []lease, refused int, err error)
	// await fetches one job, waiting for it.
	await(ctx context.Context, wait time.Duration) ([]lease, error)
}

// conn is one connection and its callers.
type conn interface {
	caller() caller
	close()
}

// dialer opens connections of one protocol to one server and queue.
type dialer struct {
	server    *url.URL
	apiKey    string
	namespace string
	queue     string
	payload   string
	moves     atomic.Int64 // Streams that were told that another node leads.
}

func (d *dialer) dial(ctx context.Context, p Protocol) (conn, error) {
	switch p {
	case HTTP:
		return d.dialHTTP(ctx)
	case RPC:
		return d.dialRPC(), nil
	case Stream:
		return d.dialStream(ctx), nil
	}
	return nil, fmt.Errorf("unknown protocol %q", p)
}

// client speaks the RPC protocol over one HTTP/2 connection of its own.
func (d *dialer) client() (corvov1connect.WorkerServiceClient, func()) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		Protocols:           &protocols,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1,
	}
	base := strings.TrimRight(d.server.String(), "/")
	client := corvov1connect.NewWorkerServiceClient(&http.Client{Transport: &keyed{next: stream.Join(transport), dialer: d}}, base,
		connect.WithAcceptCompression("gzip", nil, nil))
	return client, transport.CloseIdleConnections
}

// keyed adds the credentials to every request and joins the messages of streams.
type keyed struct {
	next   http.RoundTripper
	dialer *dialer
}

func (k *keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	k.dialer.credentials(r.Header.Set)
	return k.next.RoundTrip(r)
}

func (d *dialer) credentials(set func(name, value string)) {
	if d.apiKey != "" {
		set("X-API-Key", d.apiKey)
	}
	if d.namespace != "" {
		set("X-Corvo-Namespace", d.namespace)
	}
}
