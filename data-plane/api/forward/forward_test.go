package forward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// serve starts an h2c and HTTP/1.1 server on loopback and returns its URL.
func serve(t *testing.T, h http.Handler) (*http.Server, *url.URL) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	srv := &http.Server{Handler: h, Protocols: &p, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	u, err := url.Parse("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return srv, u
}

func front(t *testing.T, target *url.URL, topts TransportOptions, opts Options) *url.URL {
	t.Helper()
	tr := NewTransport(topts)
	t.Cleanup(tr.CloseIdleConnections)
	f := New(tr)
	_, u := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := f.Forward(w, r, target, opts); err != nil {
			code := http.StatusBadGateway
			if NeverSent(err) {
				code = http.StatusServiceUnavailable
			}
			http.Error(w, err.Error(), code)
		}
	}))
	return u
}

func h2cClient(t *testing.T) *http.Client {
	t.Helper()
	tr := NewTransport(TransportOptions{})
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func echo(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	w.WriteHeader(200)
	_ = rc.Flush()
	lines := bufio.NewReader(r.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		_, _ = io.WriteString(w, line)
		_ = rc.Flush()
	}
}

// openStream starts a bidirectional request whose body stays open.
func openStream(t *testing.T, c *http.Client, u *url.URL) (*http.Response, *io.PipeWriter) {
	t.Helper()
	pr, pw := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.String()+"/stream", pr)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pw.Close(); _ = resp.Body.Close() })
	return resp, pw
}

func TestForward_CarriesBothDirectionsOfAStream(t *testing.T) {
	t.Parallel()
	_, back := serve(t, http.HandlerFunc(echo))
	u := front(t, back, TransportOptions{}, Options{})
	resp, pw := openStream(t, h2cClient(t), u)
	lines := bufio.NewReader(resp.Body)
	for _, msg := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(pw, msg); err != nil {
			t.Fatal(err)
		}
		got, err := lines.ReadString('\n')
		if err != nil || got != msg {
			t.Fatalf("read %q, %v; want %q", got, err, msg)
		}
	}
	_ = pw.Close()
	if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) {
		t.Fatalf("after half-close: %v, want EOF", err)
	}
}

func TestForward_HeadersArriveBeforeTheFirstByteOfTheBody(t *testing.T) {
	t.Parallel()
	_, back := serve(t, http.HandlerFunc(echo))
	u := front(t, back, TransportOptions{}, Options{})
	eventually.Returns(t, 3*time.Second, "open", func() { openStream(t, h2cClient(t), u) })
}

func TestForward_AllStreamsAreToldWhenTheTargetDies(t *testing.T) {
	t.Parallel()
	const streams = 50
	srv, back := serve(t, http.HandlerFunc(echo))
	u := front(t, back, TransportOptions{}, Options{})
	c := h2cClient(t)
	var told sync.WaitGroup
	for range streams {
		resp, _ := openStream(t, c, u)
		told.Go(func() {
			if _, err := resp.Body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("broken stream ended with %v, want an error", err)
			}
		})
	}
	_ = srv.Close()
	eventually.Returns(t, 2*time.Second, "telling all streams", told.Wait)
}

// A response of known length that breaks off is an error while nothing of it was sent
// on, so that the caller may retry. One that is too large to be buffered breaks off.
func TestForward_AnswerThatBreaksOffIsAnErrorOrABrokenAnswer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		length int
		status int // 0: the connection breaks off.
	}{
		{"small", 10, http.StatusBadGateway},
		{"the largest kept", wholeBytesMax, http.StatusBadGateway},
		{"larger", wholeBytesMax + 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(tc.length))
				_, _ = io.WriteString(w, "half")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}))
			u := front(t, back, TransportOptions{}, Options{})
			resp, err := h2cClient(t).Get(u.String())
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			_, err = io.ReadAll(resp.Body)
			if tc.status == 0 && err == nil {
				t.Error("a broken answer looks complete")
			}
			if tc.status != 0 && (err != nil || resp.StatusCode != tc.status) {
				t.Errorf("status %d, %v; want %d", resp.StatusCode, err, tc.status)
			}
		})
	}
}

func TestForward_AnswerToHEADHasALengthAndNoBody(t *testing.T) {
	t.Parallel()
	_, back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
	}))
	u := front(t, back, TransportOptions{}, Options{})
	resp, err := h2cClient(t).Head(u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength != 10 {
		t.Errorf("status %d, length %d; want 200, 10", resp.StatusCode, resp.ContentLength)
	}
}

func TestForward_TargetMayEndFirstWithTrailers(t *testing.T) {
	t.Parallel()
	_, back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "5")
	}))
	u := front(t, back, TransportOptions{}, Options{})
	resp, _ := openStream(t, h2cClient(t), u)
	eventually.Returns(t, 2*time.Second, "end of stream", func() {
		if b, err := io.ReadAll(resp.Body); err != nil || len(b) != 0 {
			t.Errorf("body %q, %v", b, err)
		}
	})
	if got := resp.Trailer.Get("Grpc-Status"); got != "5" {
		t.Fatalf("trailer = %q, want 5", got)
	}
}

// A black hole: accepts, answers, then falls silent without closing.
func TestForward_PingsFindASilentTarget(t *testing.T) {
	t.Parallel()
	_, back := serve(t, http.HandlerFunc(echo))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{ln: ln, to: back.Host, silent: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(r.run)
	t.Cleanup(func() { r.close(); running.Wait() })

	target := &url.URL{Scheme: "http", Host: ln.Addr().String()}
	u := front(t, target, TransportOptions{PingEvery: 100 * time.Millisecond, PingTimeout: 100 * time.Millisecond}, Options{})
	resp, pw := openStream(t, h2cClient(t), u)
	lines := bufio.NewReader(resp.Body)
	_, _ = io.WriteString(pw, "hello\n")
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	close(r.silent)
	eventually.Returns(t, 5*time.Second, "noticing the silent target", func() {
		if _, err := lines.ReadByte(); err == nil {
			t.Error("read a byte from a silent target")
		}
	})
}

// relay copies between its listener and a target until silent is closed; then it
// keeps connections open and drops every byte.
type relay struct {
	ln     net.Listener
	to     string
	silent chan struct{}
	mu     sync.Mutex // Guards conns.
	conns  []net.Conn
	copies sync.WaitGroup
}

func (r *relay) run() {
	for {
		in, err := r.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, in, out)
		r.mu.Unlock()
		r.copies.Go(func() { r.copy(in, out) })
		r.copies.Go(func() { r.copy(out, in) })
	}
}

func (r *relay) copy(dst, src net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-r.silent:
		default:
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

func (r *relay) close() {
	_ = r.ln.Close()
	r.mu.Lock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.copies.Wait()
}

// What a client doesn't read waits at the far side, but for a window: thousands of such
// streams must fit into memory.
func TestForward_AnswerThatNobodyReadsIsNotTakenIn(t *testing.T) {
	t.Parallel()
	var written atomic.Int64
	_, back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for part := make([]byte, 16<<10); ; {
			n, err := w.Write(part)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	u := front(t, back, TransportOptions{}, Options{})
	c := h2cClient(t)
	c.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	// It writes fast until nobody takes any more.
	eventually.True(t, 5*time.Second, "the far side waits", func() bool {
		before := written.Load()
		time.Sleep(100 * time.Millisecond)
		return before >= windowPerStream && written.Load() == before
	})
	// Besides the window, buffers on the way hold some.
	if n := written.Load(); n > windowPerStream+128<<10 {
		t.Errorf("%d KiB were taken in", n>>10)
	}
}

func TestForward_HopHeadersAndThoseNamedByConnectionStay(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	_, back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
	}))
	u := front(t, back, TransportOptions{}, Options{
		Prepare: func(h http.Header) { h.Set("X-Signed", "by-us") },
	})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, u.String()+"/a?b=c", strings.NewReader("body"))
	req.Header.Set("Connection", "X-Signed, X-Evil")
	req.Header.Set("X-Evil", "1")
	req.Header.Set("X-Signed", "forged")
	req.Header.Set("Upgrade", "h2c")
	req.Header.Set("Te", "trailers, deflate")
	req.Header.Set("User-Agent", "") // The client sends none.
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Answer") != "yes" {
		t.Fatalf("answer %d %v", resp.StatusCode, resp.Header)
	}
	h := <-seen
	if h.Get("X-Signed") != "by-us" {
		t.Errorf("X-Signed = %q: a client removed or forged what we added", h.Get("X-Signed"))
	}
	if h.Get("X-Evil") != "" || h.Get("Upgrade") != "" || h.Get("Connection") != "" {
		t.Errorf("hop headers passed: %v", h)
	}
	if agent, ok := h["User-Agent"]; ok {
		t.Errorf("User-Agent = %q, the client sent none", agent)
	}
	if h.Get("Te") != "trailers" {
		t.Errorf("Te = %q, want trailers", h.Get("Te"))
	}
}

func TestForward_DeadTargetIsNeverSent(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := &url.URL{Scheme: "http", Host: ln.Addr().String()}
	_ = ln.Close()
	u := front(t, dead, TransportOptions{}, Options{})
	resp, err := http.Post(u.String()+"/x", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("status %d, want 503 (NeverSent)", resp.StatusCode)
	}
}

func TestForward_ClientThatLeavesEndsTheTargetsRequest(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	_, back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	u := front(t, back, TransportOptions{}, Options{})
	ctx, leave := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	defer pw.Close()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), pr)
	resp, err := h2cClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	_ = resp.Body.Close()
	eventually.Returns(t, 3*time.Second, "ending the target's request", func() { <-ended })
}

// The caller of Forward may end a stream for reasons of its own, while the client
// keeps both sides open and says nothing.
func TestForward_CancelledContextEndsAStreamWithAnOpenBody(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	_, back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		echo(w, r)
	}))
	tr := NewTransport(TransportOptions{})
	defer tr.CloseIdleConnections()
	cancels := make(chan context.CancelFunc, 1)
	_, u := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		cancels <- cancel
		_ = New(tr).Forward(w, r.WithContext(ctx), back, Options{})
	}))
	resp, pw := openStream(t, h2cClient(t), u)
	if _, err := io.WriteString(pw, "one\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(resp.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	(<-cancels)()
	eventually.Returns(t, time.Second, "telling the client and the target", func() {
		if _, err := lines.ReadByte(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("the client read %v", err)
		}
		<-ended
	})
}

func TestForward_BodiesOfEverySizeArriveWhole(t *testing.T) {
	t.Parallel()
	_, back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	u := front(t, back, TransportOptions{}, Options{})
	var text strings.Builder
	for i := range 1 << 20 {
		text.WriteByte(byte('a' + i*7%26))
	}
	c := h2cClient(t)
	for _, n := range []int{1, smallBufferBytes - 1, smallBufferBytes, smallBufferBytes + 1, copyBufferBytes, copyBufferBytes + 1, 3 * copyBufferBytes, 1 << 20} {
		want := text.String()[:n]
		resp, err := c.Post(u.String(), "text/plain", io.MultiReader(strings.NewReader(want)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("%d bytes: %d came back, %v", n, len(got), err)
		}
	}
}

func TestForward_BodyReadBeforeCanBeSentToTwoTargets(t *testing.T) {
	t.Parallel()
	_, back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	dead, deadURL := serve(t, http.NotFoundHandler())
	_ = dead.Close()
	tr := NewTransport(TransportOptions{})
	defer tr.CloseIdleConnections()
	_, u := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if err := New(tr).Forward(w, r, deadURL, Options{Body: body}); !NeverSent(err) {
			t.Errorf("dead target: %v", err)
		}
		if err := New(tr).Forward(w, r, back, Options{Body: body}); err != nil {
			t.Error(err)
		}
	}))
	for _, c := range []*http.Client{http.DefaultClient, h2cClient(t)} {
		for _, text := range []string{"", "the body"} {
			resp, err := c.Post(u.String(), "text/plain", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || string(got) != text {
				t.Errorf("%q came back as %q, %v", text, got, err)
			}
		}
	}
}

func TestForward_UnaryOverHTTP1WithAnUnreadBodyDoesNotHang(t *testing.T) {
	t.Parallel()
	_, back := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden) // Refuses without reading.
	}))
	u := front(t, back, TransportOptions{}, Options{})
	pr, pw := io.Pipe()
	defer pw.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, u.String(), pr)
	eventually.Returns(t, 3*time.Second, "the refusal", func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

// A far side that answers before it has read everything leaves a connection that can't be used again,
// so the client must be told: it would send its next request into it, and hear nothing.
func TestForward_OverHTTP1NoRequestIsSentAfterABodyThatWasLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		reads bool
		size  int
	}{{"read", true, 300 << 10}, {"a short one is left", false, 12}, {"a long one is left", false, 300 << 10}} {
		_, target := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.reads {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "answer")
		}))
		u := front(t, target, TransportOptions{}, Options{})
		tr := &http.Transport{MaxConnsPerHost: 1}
		t.Cleanup(tr.CloseIdleConnections)
		client := &http.Client{Transport: tr}
		for i := range 100 {
			resp, err := client.Post(u.String(), "application/octet-stream", strings.NewReader(strings.Repeat("x", c.size)))
			if err != nil && c.size > 300 { // It was still being sent, perhaps.
				continue
			}
			if err != nil {
				t.Fatalf("%s, request %d: %v", c.name, i, err)
			}
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(got) != "answer" || err != nil {
				t.Fatalf("%s, request %d: %q, %v", c.name, i, got, err)
			}
			if c.reads && resp.Close {
				t.Fatal("the connection could have been used again")
			}
		}
	}
}

func TestForward_HalfCloseEndsAStreamInGoodOrder(t *testing.T) {
	t.Parallel()
	_, back := serve(t, http.HandlerFunc(echo))
	leaving, leave := context.WithCancel(context.Background())
	defer leave()
	u := front(t, back, TransportOptions{}, Options{HalfClose: leaving})
	resp, pw := openStream(t, h2cClient(t), u)
	lines := bufio.NewReader(resp.Body)
	_, _ = io.WriteString(pw, "one\n")
	if got, err := lines.ReadString('\n'); err != nil || got != "one\n" {
		t.Fatalf("%q, %v", got, err)
	}
	leave()
	eventually.Returns(t, 3*time.Second, "the end of the stream", func() {
		if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("ended with %v, want EOF", err)
		}
	})
}
