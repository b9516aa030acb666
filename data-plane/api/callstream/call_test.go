package callstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

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
