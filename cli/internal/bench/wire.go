package bench

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
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
		return d.dialRPC()
	case Stream:
		return d.dialStream(ctx)
	}
	return nil, fmt.Errorf("unknown protocol %q", p)
}

// client has connections of its own: one over HTTP/2 for unary calls and streams.
func (d *dialer) client() (*corvo.Client, error) {
	return corvo.New(corvo.WithURL(d.server.String()), corvo.WithAPIKey(d.apiKey), corvo.WithNamespace(d.namespace), corvo.WithUserAgent("corvo-bench"))
}
