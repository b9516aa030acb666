package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

var errReset = errors.New("stream closed")

// lateReset is a connection whose client, or a proxy between, resets it the moment it
// has read size bytes of the body (0: all of it). net/http does not say then how much
// was sent: the reset may overtake the result of the write (HTTP/2), and the writer
// returns an error for bytes that were read.
type lateReset struct {
	size   int
	header http.Header
	body   bytes.Buffer
	leave  context.CancelFunc
}

func (w *lateReset) Header() http.Header { return w.header }
func (w *lateReset) WriteHeader(int)     {}
func (w *lateReset) Flush()              {}

func (w *lateReset) Write(p []byte) (int, error) {
	w.body.Write(p)
	if w.body.Len() >= w.until() {
		w.leave()
		return 0, errReset
	}
	return len(p), nil
}

func (w *lateReset) until() int {
	if w.size > 0 {
		return w.size
	}
	n, err := strconv.Atoi(w.header.Get("Content-Length"))
	if err != nil {
		return 1 // Of unknown length: what came is all.
	}
	return n
}

func (w *lateReset) whole() bool { return strconv.Itoa(w.body.Len()) == w.header.Get("Content-Length") }

// exchange makes one call over such a connection.
func (b *bench) exchange(path, contentType, body string, size int) *lateReset {
	ctx, leave := context.WithCancel(b.Context())
	defer leave()
	w := &lateReset{size: size, header: http.Header{}, leave: leave}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	r.RemoteAddr = "127.0.0.1:1"
	b.srv.ServeHTTP(w, r)
	return w
}

// fill enqueues jobs whose payloads together are larger than any buffer.
func (b *bench) fill(jobs int) {
	for range jobs {
		b.post("/api/v1/enqueue", `{"queue":"q","payload":"`+strings.Repeat("x", 400)+`"}`).want(b.T, 201)
	}
}

func (b *bench) states() map[job.State]int {
	seen := make(map[job.State]int)
	for _, id := range b.jobs.ids() {
		seen[b.jobs.stateOf(id)]++
	}
	return seen
}

const batch = `{"queues":["q"],"count":40}`

// Seen once in 3,350 rounds: 40 leases that a worker had just read were given back.
func TestFetch_ADeliveryThatWasReadIsNeverTakenBack(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"batch": "/api/v1/fetch/batch", "one": "/api/v1/fetch",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchOptions{})
			b.fill(40)
			want := 40
			if name == "one" {
				want = 1
			}
			w := b.exchange(path, "application/json", batch, 0)
			if !w.whole() {
				t.Fatalf("the client read %d bytes of %s", w.body.Len(), w.header.Get("Content-Length"))
			}
			if seen := b.states(); seen[job.Active] != want {
				t.Errorf("jobs after the client has read %d of them: %v", want, seen)
			}
		})
	}
}

// If a response breaks off, its client has not read all of it: its jobs are released.
func TestFetch_ADeliveryThatBrokeOffIsGivenBackAndNeverWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.fill(40)
	w := b.exchange("/api/v1/fetch/batch", "application/json", batch, 5000)
	if w.whole() {
		t.Fatal("the answer went out whole")
	}
	if seen := b.states(); seen[job.Pending] != 40 {
		t.Errorf("jobs of an answer that broke off: %v", seen)
	}
}

func TestStream_ADeliveryThatWasReadIsNeverTakenBack(t *testing.T) {
	t.Parallel()
	t.Run("one frame in a call", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, benchOptions{})
		b.fill(40)
		w := b.exchange("/corvo.v1.WorkerService/StreamLifecycle", "application/json",
			`{"request_id":1,"queues":["q"],"worker_id":"w","fetch_count":40}`, 0)
		if !w.whole() {
			t.Fatalf("the client read %d bytes of %q", w.body.Len(), w.header.Get("Content-Length"))
		}
		if seen := b.states(); seen[job.Active] != 40 {
			t.Errorf("jobs after the client has read 40: %v", seen)
		}
	})
	for _, failure := range []error{nil, errReset} {
		for _, pipelined := range []bool{false, true} {
			t.Run("a stream", func(t *testing.T) {
				t.Parallel()
				b := newBench(t, benchOptions{})
				b.fill(40)
				b.srv.streamOver(t, &lastWire{fail: failure, first: &frameIn{
					RequestId: 1, Queues: []string{"q"}, WorkerId: "w", FetchCount: 40, Pipelined: pipelined,
				}}, b)
				if seen := b.states(); seen[job.Active] != 40 {
					t.Errorf("pipelined %v, send %v: jobs after the client has read 40: %v", pipelined, failure, seen)
				}
			})
		}
	}
}

// lastWire is a stream whose client leaves the moment it has read the first answer.
type lastWire struct {
	first *frameIn
	fail  error
	leave context.CancelFunc
	gone  chan struct{} // Closed by leaving.
}

func (w *lastWire) Receive() (*frameIn, error) {
	if first := w.first; first != nil {
		w.first = nil
		return first, nil
	}
	<-w.gone
	return nil, io.EOF
}

func (w *lastWire) Send(m *frameOut) error {
	if m == nil {
		return nil // The headers.
	}
	w.leave()
	return w.fail
}

// streamOver serves one stream over w, to its end.
func (s *Server) streamOver(t *testing.T, w *lastWire, b *bench) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	w.leave, w.gone = leave, make(chan struct{})
	context.AfterFunc(ctx, func() { close(w.gone) })
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	who, err := NewOpen(nsA).Authenticate(r)
	if err != nil {
		t.Fatal(err)
	}
	c := &call{s: s, w: &lateReset{header: http.Header{}, leave: leave}, r: r, who: who, place: Placement{Local: b.jobs.Service}}
	st := c.stream(w)
	defer st.Close()
	if err := st.Serve(); err != nil {
		t.Logf("the stream ended: %v", err)
	}
}
