package callstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

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
