package callstream

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

const patience = 5 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server and a client of it.
type rig struct {
	testing.TB
	server    *Server
	http      *httptest.Server
	transport *Transport
	elsewhere atomic.Int64 // Calls over the other transport.
	ends      []*cutConn   // Connections that the client opened.
	mu        sync.Mutex
}

// cutConn is a connection whose other side can fall silent.
type cutConn struct {
	net.Conn
	silent atomic.Bool
}

func (c *cutConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.silent.Load() {
			return n, err
		}
	}
}

func newRig(t testing.TB, h http.HandlerFunc, change ...func(*rig, *Options)) *rig {
	t.Helper()
	r := &rig{TB: t}
	r.server = NewServer(h, slog.New(slog.DiscardHandler))
	mux := http.NewServeMux()
	mux.Handle(Path, r.server)
	r.http = httptest.NewUnstartedServer(mux)
	opts := Options{
		PingEvery: time.Second, PingTimeout: time.Second,
		Sign: func(q *http.Request) error { q.Header.Set("Signature", "good"); return nil },
		Next: roundTripper(func(q *http.Request) (*http.Response, error) {
			r.elsewhere.Add(1)
			_, err := io.Copy(io.Discard, q.Body)
			return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, err
		}),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c := &cutConn{Conn: conn}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ends = append(r.ends, c)
			return c, nil
		},
	}
	for _, f := range change {
		f(r, &opts)
	}
	if r.http.TLS != nil {
		r.http.StartTLS()
	} else {
		r.http.Start()
	}
	r.transport = NewTransport(opts)
	t.Cleanup(func() {
		r.transport.CloseIdleConnections()
		r.server.Close()
		r.http.Close()
	})
	return r
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *rig) request(ctx context.Context, method, path, body string) *http.Request {
	q, err := http.NewRequestWithContext(ctx, method, r.http.URL+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	return q
}

func (r *rig) do(method, path, body string) *http.Response {
	r.Helper()
	resp, err := r.transport.RoundTrip(r.request(context.Background(), method, path, body))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func text(t testing.TB, resp *http.Response) string {
	t.Helper()
	var b []byte
	eventually.Returns(t, patience, "the body ends", func() {
		var err error
		if b, err = io.ReadAll(resp.Body); err != nil {
			t.Error(err)
		}
	})
	return string(b)
}
