package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).readLoop"))
}

var (
	nsA = job.Namespace{15: 1}
	nsB = job.Namespace{15: 2}
)

// patience is how long a test waits for what must happen.
const patience = 5 * time.Second

var cellSecret = []byte("0123456789abcdef0123456789abcdef")

func newSigner(t testing.TB) *identity.Signer {
	t.Helper()
	s, err := identity.NewSigner(cellsecret.Must(cellSecret))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fixedRouter is a Router whose answer a test can change.
type fixedRouter struct {
	routes  int
	mu      sync.Mutex // Guards place, err and changed.
	place   Placement
	err     error
	changed chan struct{}
	next    *Placement // Set once by then.
	every   bool       // Every namespace exists, not only A and B.
}

func newRouter(p Placement) *fixedRouter {
	return &fixedRouter{place: p, changed: make(chan struct{})}
}

func (r *fixedRouter) set(p Placement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.place = p
	close(r.changed)
	r.changed = make(chan struct{})
}

// then changes the placement after it was asked for once more.
func (r *fixedRouter) then(p Placement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = &p
}

// asked is how often a placement was asked for.
func (r *fixedRouter) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.routes
}

func (r *fixedRouter) Route(ns job.Namespace) (Placement, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.routes++
	if ns != nsA && ns != nsB && !r.every {
		return Placement{}, fault.New(fault.NotFound, "NOT_FOUND", "there is no such namespace")
	}
	p := r.place
	if r.next != nil {
		r.place, r.next = *r.next, nil
	}
	return p, r.err
}

func (r *fixedRouter) WaitLeader(ctx context.Context, ns job.Namespace) (Placement, error) {
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		p, err := r.Route(ns)
		if err != nil || p.Local != nil || p.LeaderURL != "" {
			return p, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return r.Route(ns)
		}
	}
}

// bench is one server under test, on a real socket.
type bench struct {
	*testing.T
	srv    *Server
	jobs   *local // Nil if the test has a router of its own.
	router *fixedRouter
	url    string
	http   *http.Server
	h1     *http.Client
	h2     *http.Client
}

type benchOptions struct {
	Options
	auth   Authenticator
	router *fixedRouter
	events *scripted
	// refused is told what callers may not do; nil: nobody is.
	refused func(c queue.Caller, p permission.Permission, queue string)
}

// inCell is the cell of every server under test.
func inCell() string { return "cell_a" }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newBench(t *testing.T, o benchOptions) *bench {
	t.Helper()
	b := &bench{T: t, router: o.router}
	if b.router == nil {
		b.jobs = startLocal(t)
		b.router = newRouter(b.jobs.place())
	}
	if o.auth == nil {
		o.auth = NewOpen(nsA)
	}
	if o.Version == "" {
		o.Version = "1.2.3"
	}
	transport := forward.NewTransport(forward.TransportOptions{})
	o.Transport = transport
	b.srv = New(quiet(), time.Now, b.router, o.auth, o.Options)
	if o.events != nil {
		b.srv.events = o.events.open
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	b.http = &http.Server{Handler: b.srv, Protocols: &p, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	done := make(chan struct{})
	go func() { defer close(done); _ = b.http.Serve(ln) }()
	b.url = "http://" + ln.Addr().String()
	h1 := &http.Transport{DisableCompression: true}
	h2 := forward.NewTransport(forward.TransportOptions{})
	b.h1, b.h2 = &http.Client{Transport: h1}, &http.Client{Transport: h2}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = b.srv.Drain(ctx)
		_ = b.http.Close()
		<-done
		h1.CloseIdleConnections()
		h2.CloseIdleConnections()
		transport.CloseIdleConnections()
	})
	return b
}

// mortal gives the bench an HTTP/2 client of its own and returns what kills its
// connections, as the end of a process does.
func (b *bench) mortal() (die func()) {
	var mu sync.Mutex
	var conns []net.Conn
	tr := forward.NewTransport(forward.TransportOptions{})
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
		return c, err
	}
	b.h2 = &http.Client{Transport: tr}
	b.Cleanup(tr.CloseIdleConnections)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

type answerOf struct {
	status int
	header http.Header
	body   []byte
}

func (b *bench) do(method, path, body string, header ...string) answerOf {
	b.Helper()
	return b.doWith(b.h1, method, path, body, header...)
}

func (b *bench) doWith(c *http.Client, method, path, body string, header ...string) answerOf {
	b.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(b.Context(), method, b.url+path, in)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		b.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatalf("%s %s: read: %v", method, path, err)
	}
	return answerOf{status: resp.StatusCode, header: resp.Header, body: out}
}

func (b *bench) post(path, body string, header ...string) answerOf {
	b.Helper()
	return b.do(http.MethodPost, path, body, header...)
}

// want fails unless the answer has this status.
func (a answerOf) want(t testing.TB, status int) answerOf {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d; body %s", a.status, status, a.body)
	}
	return a
}

func (a answerOf) problem(t testing.TB) wire.Problem {
	t.Helper()
	var p wire.Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("body is no problem: %v: %s", err, a.body)
	}
	return p
}

func (a answerOf) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// golden compares body with testdata/name.json.
func golden(t *testing.T, name string, body []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".json")
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, bytes.TrimSpace(body), "", "  "); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	pretty.WriteByte('\n')
	if *rewrite {
		if err := os.WriteFile(file, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, pretty.Bytes()) {
		t.Errorf("%s differs (rewrite with -rewrite):\n%s", file, pretty.Bytes())
	}
}

func jobNumber(n byte) job.ID { return job.ID{15: n} }

// drains lets the server leave; it does not wait for those who read on.
func (b *bench) drains() {
	b.Helper()
	eventually.Returns(b, patience, "the drain", func() {
		if err := b.srv.Drain(b.Context()); err != nil {
			b.Error(err)
		}
	})
}

func callerIn(ns job.Namespace) queue.Caller {
	return queue.Caller{Namespace: ns, Rights: permission.Here{All: permission.OfLevel(permission.OfNamespace)}}
}

func asConnect(err error, target **connect.Error) bool { return errors.As(err, target) }
