package callstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
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

// What arrives is what was sent, both ways.
func TestCall_ArrivesAsItWasSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err != nil || int64(len(b)) != q.ContentLength {
			t.Errorf("read %d of %d bytes: %v", len(b), q.ContentLength, err)
		}
		w.Header()["X-Two"] = []string{"a", "b"}
		w.Header().Set("X-Saw", fmt.Sprint(q.Method, " ", q.URL.Path, " ", q.URL.RawQuery, " ", q.Host, " ", q.Header["X-Many"], q.Header.Get("User-Agent"), q.ProtoMajor))
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(b)
	})
	q := r.request(t.Context(), "PUT", "/a%20b?x=1&y=%2F", "some body")
	q.Host = "acme.example"
	q.Header["X-Many"] = []string{"1", "", "3"}
	q.Header.Set("User-Agent", "")
	resp, err := r.transport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := resp.Header.Get("X-Saw"), "PUT /a b x=1&y=%2F acme.example [1  3]2"; got != want {
		t.Errorf("the server saw %q, want %q", got, want)
	}
	if resp.StatusCode != 202 || resp.ContentLength != 9 || !slices.Equal(resp.Header["X-Two"], []string{"a", "b"}) || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("answer: %v", resp)
	}
	if got := text(t, resp); got != "some body" {
		t.Errorf("body: %q", got)
	}
}

func TestCall_AnswersOfEveryKind(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB, several windows.
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		rc := http.NewResponseController(w)
		switch q.URL.Path {
		case "/nothing":
		case "/no-content":
			w.WriteHeader(http.StatusNoContent)
		case "/large", "/known":
			if q.URL.Path == "/known" {
				w.Header().Set("Content-Length", strconv.Itoa(len(large)))
			}
			_, _ = io.WriteString(w, large)
		case "/flushed":
			for range 3 {
				_, _ = io.WriteString(w, "abc")
				if err := rc.Flush(); err != nil {
					t.Error(err)
				}
			}
		case "/short":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "abc")
		case "/encoded":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "\x1f\x8b\x08")
		case "/trailers":
			w.Header().Set("Trailer", "X-Declared")
			_, _ = io.WriteString(w, "abc")
			w.Header().Set("X-Declared", "1")
			w.Header().Set(http.TrailerPrefix+"X-Late", "2")
		}
	})
	for _, c := range []struct {
		method, path string
		status       int
		body         string
		length       int64
		trailer      string
	}{
		{"GET", "/nothing", 200, "", 0, ""},
		{"GET", "/no-content", 204, "", -1, ""},
		{"GET", "/large", 200, large, -1, ""},
		{"GET", "/known", 200, large, int64(len(large)), ""},
		{"HEAD", "/known", 200, "", int64(len(large)), ""},
		{"GET", "/flushed", 200, "abcabcabc", -1, ""},
		{"GET", "/trailers", 200, "abc", -1, "12"},
	} {
		resp := r.do(c.method, c.path, "")
		body := text(t, resp)
		if resp.StatusCode != c.status || body != c.body || resp.ContentLength != c.length {
			t.Errorf("%s %s: %d with %d bytes, %d announced", c.method, c.path, resp.StatusCode, len(body), resp.ContentLength)
		}
		if got := resp.Trailer.Get("X-Declared") + resp.Trailer.Get("X-Late"); got != c.trailer {
			t.Errorf("%s: trailers %q", c.path, got)
		}
	}
	if _, err := r.transport.RoundTrip(r.request(t.Context(), "GET", "/short", "")); !errors.Is(err, errBroken) {
		t.Errorf("an answer that is shorter than announced: %v", err)
	}
	if kind, ok := r.do("GET", "/encoded", "").Header["Content-Type"]; ok {
		t.Errorf("the type of an encoded body is %s", kind)
	}
	if n := r.elsewhere.Load(); n != 0 {
		t.Errorf("%d calls went elsewhere", n)
	}
}

// Many calls share one connection, and no answer goes to another call.
func TestCall_ManyAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		_, _ = fmt.Fprintf(w, "%s %s", q.URL.Path, b)
	})
	var callers sync.WaitGroup
	for i := range 40 {
		callers.Go(func() {
			for j := range 50 {
				path, body := fmt.Sprintf("/%d/%d", i, j), strings.Repeat("x", i*j)
				resp, err := r.transport.RoundTrip(r.request(t.Context(), "POST", path, body))
				if err != nil {
					t.Error(err)
					return
				}
				if got := text(t, resp); got != path+" "+body {
					t.Errorf("%s: answer of another call: %.40q", path, got)
				}
			}
		})
	}
	callers.Wait()
	if n := len(r.ends); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A client that doesn't read an answer holds up no other call, and not more than the window.
func TestBody_UnreadHoldsUpNobody(t *testing.T) {
	t.Parallel()
	var written atomic.Int64
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/quick" {
			return
		}
		piece := make([]byte, 10_000)
		for range 1000 {
			n, err := w.Write(piece)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	slow := r.do("GET", "/slow", "")
	eventually.True(t, patience, "the window is full", func() bool { return written.Load() > windowBytes-2*dataMax })
	for range 10 {
		r.do("GET", "/quick", "")
	}
	if n := written.Load(); n > windowBytes+2*dataMax {
		t.Errorf("%d bytes were sent to a client that reads nothing", n)
	}
	if n := len(text(t, slow)); n != 10_000_000 {
		t.Errorf("read %d bytes", n)
	}
}

// The handler learns that nobody waits any more, and the caller that it gave up.
func TestCancel_EndsTheHandlersContext(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/body" {
			_ = http.NewResponseController(w).Flush()
		}
		began <- struct{}{}
		<-q.Context().Done()
		ended <- struct{}{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	if _, err := r.transport.RoundTrip(r.request(ctx, "POST", "/wait", "")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotSent) {
		t.Errorf("a call that was given up: %v", err)
	}
	learns := func() { eventually.Returns(t, patience, "the handler learns it", func() { <-ended }) }
	learns()
	for name, give := range map[string]func(*http.Response, context.CancelFunc){
		"closed": func(resp *http.Response, _ context.CancelFunc) { _ = resp.Body.Close() },
		"ended":  func(_ *http.Response, cancel context.CancelFunc) { cancel() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := r.transport.RoundTrip(r.request(ctx, "POST", "/body", ""))
		if err != nil {
			t.Fatal(err)
		}
		<-began
		give(resp, cancel)
		learns()
		if _, err := resp.Body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: the body goes on with %v", name, err)
		}
		cancel()
	}
}

// A handler that gives up breaks its own answer off, and no other.
func TestPanic_BreaksOffItsOwnAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/before":
			panic("a bug")
		case "/midway":
			_, _ = io.WriteString(w, "abc")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	if _, err := r.transport.RoundTrip(r.request(t.Context(), "GET", "/before", "")); !errors.Is(err, errBroken) || errors.Is(err, ErrNotSent) {
		t.Errorf("before the answer: %v", err)
	}
	b, err := io.ReadAll(r.do("GET", "/midway", "").Body)
	if string(b) != "abc" || !errors.Is(err, errBroken) {
		t.Errorf("midway: %q, %v", b, err)
	}
	r.do("GET", "/after", "")
	if n := len(r.ends); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// Only what has surely not been seen says so.
func TestLost_OnlyWhatWasNotSentSaysSo(t *testing.T) {
	t.Parallel()
	waits := make(chan struct{})
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/wait" {
			close(waits)
			<-q.Context().Done()
		}
	})
	go func() { <-waits; r.http.CloseClientConnections(); r.server.Close() }()
	if _, err := r.transport.RoundTrip(r.request(t.Context(), "POST", "/wait", "")); err == nil || errors.Is(err, ErrNotSent) {
		t.Errorf("a call that was under way: %v", err)
	}
	r.http.Close()
	_, err := r.transport.RoundTrip(r.request(t.Context(), "POST", "/", ""))
	if op := new(net.OpError); !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("nobody listens: %v", err)
	}
}

// A server that stands still is noticed, and its calls are told (R28).
func TestPing_EndsTheCallsOfASilentServer(t *testing.T) {
	t.Parallel()
	waits := make(chan struct{})
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/wait" {
			close(waits)
			<-q.Context().Done()
		}
	}, func(_ *rig, o *Options) { o.PingEvery, o.PingTimeout = 50*time.Millisecond, 50*time.Millisecond })
	r.do("GET", "/", "")
	go func() { <-waits; r.ends[0].silent.Store(true) }()
	eventually.Returns(t, patience, "the call ends", func() {
		if _, err := r.transport.RoundTrip(r.request(t.Context(), "POST", "/wait", "")); err == nil || errors.Is(err, ErrNotSent) {
			t.Errorf("a call at a silent server: %v", err)
		}
	})
}

// Pings don't end a connection on which nothing else happens.
func TestPing_KeepsAnIdleConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(http.ResponseWriter, *http.Request) {}, func(_ *rig, o *Options) { o.PingEvery, o.PingTimeout = 20*time.Millisecond, time.Second })
	r.do("GET", "/", "")
	time.Sleep(200 * time.Millisecond) // The subject is time.
	r.do("GET", "/", "")
	if n := len(r.ends); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// While a server shuts down, each call is either answered, or surely not sent, or goes elsewhere.
func TestShutdown_LosesNoCall(t *testing.T) {
	t.Parallel()
	var done sync.Map
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) { done.Store(q.URL.Path, true) })
	var answered, elsewhere atomic.Int64
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			for j := 0; ; j++ {
				path := fmt.Sprintf("/%d/%d", i, j)
				resp, err := r.transport.RoundTrip(r.request(t.Context(), "POST", path, ""))
				_, seen := done.Load(path)
				switch {
				case err == nil && resp.StatusCode == http.StatusOK && seen:
					answered.Add(1)
				case !seen && (errors.Is(err, ErrNotSent) || err == nil && resp.StatusCode == http.StatusTeapot):
					elsewhere.Add(1)
					return
				default:
					t.Errorf("%s: seen: %v, %v, %v", path, seen, resp, err)
					return
				}
			}
		})
	}
	eventually.True(t, patience, "calls go on", func() bool { return answered.Load() > 500 })
	r.server.Shutdown(t.Context())
	callers.Wait()
	if elsewhere.Load() != 20 {
		t.Errorf("%d callers of 20 were sent elsewhere", elsewhere.Load())
	}
}

// An answer that is on its way when a server shuts down arrives, whatever its client still sends.
func TestShutdown_CutsNoAnswer(t *testing.T) {
	t.Parallel()
	const size = 240 << 10
	began, release := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-release
		_, _ = io.WriteString(w, strings.Repeat("x", size))
	}, func(r *rig, o *Options) {
		r.http.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			if c, ok := c.(*net.TCPConn); ok {
				_ = c.SetWriteBuffer(1 << 20) // All of it is sent before the client has read any.
			}
			return ctx
		}
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return slowConn{conn}, err
		}
	})
	go func() {
		<-began
		// So that the client has been told to leave; the answer has to arrive either way.
		go func() { defer close(release); time.Sleep(20 * time.Millisecond) }()
		r.server.Shutdown(context.Background())
	}()
	if n := len(text(t, r.do("GET", "/", ""))); n != size {
		t.Errorf("read %d bytes of %d", n, size)
	}
}

// slowConn reads little at a time.
type slowConn struct{ net.Conn }

func (c slowConn) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return c.Conn.Read(p[:min(len(p), 4096)])
}

// A client that doesn't read keeps no server from shutting down.
func TestShutdown_WaitsForNoClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	s := NewServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	server, client := net.Pipe()
	served := make(chan struct{})
	go func() { defer close(served); s.serve(context.Background(), server, "peer", newReader(server)) }()
	if _, err := io.ReadFull(client, make([]byte, len(upgraded))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	eventually.Returns(t, patience, "the shutdown ends with its context", func() { s.Shutdown(ctx) })
	_ = client.Close()
	<-served
}

// A call that was seen never says that it was not sent, also when the connection breaks while
// the client answers a server that is leaving.
func TestLost_WhileTheServerLeaves(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	conn := &heldConn{release: make(chan struct{})}
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) { close(seen); <-q.Context().Done() }, func(_ *rig, o *Options) {
		o.PingEvery = time.Hour
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			var err error
			conn.Conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return conn, err
		}
	})
	lost := make(chan error, 1)
	go func() {
		_, err := r.transport.RoundTrip(r.request(context.Background(), "POST", "/seen", ""))
		lost <- err
	}()
	<-seen
	conn.holds.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	go r.server.Shutdown(ctx)
	eventually.True(t, patience, "what the server says is read, and not looked at", conn.held.Load)
	conn.broken.Store(true)
	if _, err := r.transport.RoundTrip(r.request(t.Context(), "POST", "/broken", "")); err == nil {
		t.Error("a call was sent over a broken connection")
	}
	close(conn.release)
	if err := <-lost; err == nil || errors.Is(err, ErrNotSent) {
		t.Errorf("a call that was seen: %v", err)
	}
}

// heldConn keeps what it reads, and breaks, when a test wants it to.
type heldConn struct {
	net.Conn
	holds, held, broken atomic.Bool
	release             chan struct{}
}

func (c *heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.holds.Load() {
		c.held.Store(true)
		<-c.release
	}
	return n, err
}

func (c *heldConn) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

// Calls at a server that is leaving end with the Transport.
func TestClose_EndsConnectionsThatWereLeft(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/wait" {
			close(began)
			<-q.Context().Done()
		}
	})
	lost := make(chan error, 1)
	go func() {
		_, err := r.transport.RoundTrip(r.request(context.Background(), "GET", "/wait", ""))
		lost <- err
	}()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.server.Shutdown(ctx)
	eventually.True(t, patience, "calls go elsewhere", func() bool {
		return r.do("GET", "/2", "").StatusCode == http.StatusTeapot
	})
	r.transport.CloseIdleConnections()
	if err := <-lost; err == nil {
		t.Error("a call was answered")
	}
}

// Calls that were given up, and whose handlers go on, take no other call with them.
func TestServer_TooManyCallsBreakOffAlone(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/stuck" {
			<-release
		}
	})
	r.do("GET", "/", "")
	r.server.mu.Lock()
	var ss *session
	for ss = range r.server.sessions {
	}
	r.server.mu.Unlock()
	ss.mu.Lock()
	for i := range uint64(2 * callsMax) {
		ss.open[1<<40+i] = nil
	}
	ss.mu.Unlock()
	if _, err := r.transport.RoundTrip(r.request(t.Context(), "GET", "/", "")); !errors.Is(err, errBroken) {
		t.Errorf("one call too many: %v", err)
	}
	ss.mu.Lock()
	clear(ss.open)
	ss.mu.Unlock()
	close(release)
	r.do("GET", "/", "")
	if n := len(r.ends); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A client says that no call is to come once all that were begun are sent, and not before.
func TestShutdown_NoCallComesAfterTheLastWord(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	c := &connection{in: frames{from: newReader(client)}, out: &pipe{conn: client}, open: make(map[uint64]*pending), over: make(chan struct{})}
	said := make(chan kind, 2)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in := frames{from: newReader(server)}
		for f, err := in.next(); err == nil; f, err = in.next() {
			said <- f.kind
		}
	}()
	if _, err := c.add(&pending{}); err != nil {
		t.Fatal(err)
	}
	if err := c.receive(frame{kind: kindLeave}); err != nil {
		t.Fatal(err)
	}
	select {
	case k := <-said:
		t.Errorf("kind %d was sent while a call was to come", k)
	case <-time.After(50 * time.Millisecond):
	}
	c.sent()
	eventually.Returns(t, patience, "the last word is said", func() {
		if k := <-said; k != kindLeave {
			t.Errorf("kind %d was sent", k)
		}
	})
	_ = client.Close()
	<-ended
}

// A shutdown that runs out of time breaks off what is left.
func TestShutdown_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	waits := make(chan struct{})
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) {
		close(waits)
		<-q.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-waits; cancel() }()
	go func() { <-waits; r.server.Shutdown(ctx) }()
	if _, err := r.transport.RoundTrip(r.request(t.Context(), "POST", "/", "")); err == nil || errors.Is(err, ErrNotSent) {
		t.Errorf("a call that was broken off: %v", err)
	}
}

// What a connection for calls can't carry goes over the other transport.
func TestElsewhere_WhatIsNotCarried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server  func(*rig, *Options)
		request func(*http.Request)
	}{
		"large body":          {request: func(q *http.Request) { setBody(q, strings.Repeat("x", bodyMax+1)) }},
		"body not here":       {request: func(q *http.Request) { setBody(q, "x"); q.GetBody = nil }},
		"large headers":       {request: func(q *http.Request) { q.Header.Set("X", strings.Repeat("x", headMax)) }},
		"TLS that isn't set":  {server: func(r *rig, _ *Options) { r.http.TLS = &tls.Config{} }},
		"stream":              {server: func(_ *rig, o *Options) { o.Carries = func(*http.Request) bool { return false } }},
		"server of old":       {server: func(r *rig, _ *Options) { r.http.Config.Handler = http.NotFoundHandler() }},
		"server that refuses": {server: func(r *rig, _ *Options) { r.http.Config.Handler = http.HandlerFunc(refuse) }},
		"server of HTTP/2": {server: func(r *rig, _ *Options) {
			r.http.Config.Protocols = new(http.Protocols)
			r.http.Config.Protocols.SetUnencryptedHTTP2(true)
			r.http.Config.ReadHeaderTimeout = 100 * time.Millisecond
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("it was carried") }, append([]func(*rig, *Options){}, orNone(c.server))...)
			for range 2 {
				q := r.request(t.Context(), "POST", "/", "")
				if c.request != nil {
					c.request(q)
				}
				if resp, err := r.transport.RoundTrip(q); err != nil || resp.StatusCode != http.StatusTeapot {
					t.Errorf("%v, %v", resp, err)
				}
			}
			if n := len(r.ends); n > 1 {
				t.Errorf("the server was asked %d times", n)
			}
		})
	}
}

func orNone(f func(*rig, *Options)) func(*rig, *Options) {
	if f == nil {
		return func(*rig, *Options) {}
	}
	return f
}

func refuse(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "you are none of us", http.StatusUnauthorized)
}

func setBody(q *http.Request, body string) {
	q.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
	q.Body, _ = q.GetBody()
	q.ContentLength = int64(len(body))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }, func(r *rig, _ *Options) {
		r.http.TLS = &tls.Config{}
	})
	roots := x509.NewCertPool()
	roots.AddCert(r.http.Certificate())
	r.transport.opts.TLS = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	if got := text(t, r.do("GET", "/", "")); got != "secret" {
		t.Errorf("got %q", got)
	}
}

// The request for the upgrade is signed, and bad ones are told what is missing.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(http.ResponseWriter, *http.Request) {})
	upgrade := r.http.Config.Handler
	r.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Upgrade") == protocol && q.Header.Get("Signature") != "good" {
			t.Error("not signed")
		}
		upgrade.ServeHTTP(w, q)
	})
	r.do("GET", "/", "")
	resp, err := http.Get(r.http.URL + Path)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusUpgradeRequired || resp.Header.Get("Upgrade") != protocol {
		t.Errorf("without an upgrade: %v", resp)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

// Whatever comes in place of a message, it is read or refused; what was read is written the same.
func FuzzMessage(f *testing.F) {
	m := message{texts: [3]string{"POST", "/a?b", "host"}, headers: http.Header{"A": {"1", "2"}, "B-C": {""}}}
	whole := append(m.append(nil), "body"...)
	for i := range whole {
		f.Add(whole[:i+1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again message
		body, err := m.read(b)
		if err != nil {
			return
		}
		body2, err := again.read(append(m.append(nil), body...))
		if err != nil || body2 != body || again.texts != m.texts || fmt.Sprint(again.headers) != fmt.Sprint(m.headers) {
			t.Errorf("%v, then %v: %v", m, again, err)
		}
	})
}

// Whatever a client sends, a server answers calls and holds no more than it should.
func FuzzServer(f *testing.F) {
	m := message{texts: [3]string{"GET", "/", "host"}, headers: http.Header{"A": {"1"}}}
	call := end(m.append(begin(kindCall, 1, 0)))
	f.Add(slices.Concat(call, end(begin(kindCancel, 1, 0)), end(append(begin(kindMore, 1, 0), 5)), end(begin(kindPing, 0, 0)), end(begin(kindLeave, 0, 0))))
	f.Fuzz(func(t *testing.T, b []byte) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		go func() { _, _ = client.Write(b); _ = client.Close() }()
		s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { _, _ = io.Copy(w, q.Body) }), slog.New(slog.DiscardHandler))
		s.serve(context.Background(), server, "peer", newReader(server))
		_ = server.Close()
	})
}

// Whatever a server sends, each call of a client ends.
func FuzzClient(f *testing.F) {
	m := message{texts: [3]string{"200"}, headers: http.Header{"A": {"1"}}}
	f.Add(end(append(m.append(begin(kindWhole, 1, 0)), "body"...)))
	f.Add(slices.Concat(end(m.append(begin(kindHead, 1, 0))), end(append(begin(kindData, 1, 0), "abc"...)), end((&message{}).append(begin(kindEnd, 1, 0)))))
	f.Add(slices.Concat(end(m.append(begin(kindHead, 1, 0))), end(begin(kindLeave, 0, 0)), end(begin(kindBroken, 1, 0))))
	f.Fuzz(func(t *testing.T, b []byte) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		c := &connection{in: frames{from: newReader(client)}, out: &pipe{conn: client}, open: make(map[uint64]*pending), over: make(chan struct{})}
		q, err := http.NewRequest("GET", "http://host/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		called := make(chan struct{})
		go func() {
			defer close(called)
			if resp, err := c.call(q); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
		eventually.True(t, patience, "the call is under way", func() bool { return c.find(1) != nil })
		go func() { _, _ = server.Write(b); _ = server.Close() }()
		c.read()
		<-called
	})
}

// BenchmarkCall is 50 callers that ask for an echo, over a connection for calls and over HTTP/2.
func BenchmarkCall(b *testing.B) {
	echo := func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		_, _ = w.Write(body)
	}
	h2 := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	h2.Config.Protocols = new(http.Protocols)
	h2.Config.Protocols.SetUnencryptedHTTP2(true)
	h2.Start()
	defer h2.Close()
	over := &http.Transport{Protocols: h2.Config.Protocols}
	defer over.CloseIdleConnections()
	r := newRig(b, echo)
	for name, c := range map[string]struct {
		url string
		t   http.RoundTripper
	}{"callstream": {r.http.URL, r.transport}, "http2": {h2.URL, over}} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(25)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				payload := bytes.Repeat([]byte("x"), 200)
				for pb.Next() {
					q, err := http.NewRequest("POST", c.url+"/api/v1/enqueue", bytes.NewReader(payload))
					if err != nil {
						b.Error(err)
						return
					}
					for i := range 12 {
						q.Header.Set("X-Corvo-Header-"+strconv.Itoa(i), strconv.Itoa(int(time.Now().UnixNano())))
					}
					resp, err := c.t.RoundTrip(q)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			})
		})
	}
}
