package corvo

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/sdks/go/internal/peertest"
)

type sendEmail struct {
	To string `json:"to"`
}

func (sendEmail) Kind() string { return "emails" }

type receipt struct {
	ID string `json:"id"`
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func newClient(t *testing.T, s *peertest.Server, opts ...Option) *Client {
	t.Helper()
	opts = append([]Option{WithURL(s.URL()), WithAPIKey("corvo_dp_test"), WithLogger(quiet())}, opts...)
	c, err := New(opts...)
	if err != nil {
		t.Fatalf("new client: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// running is a worker under test. stop begins the drain and waits for Run.
type running struct {
	*Worker
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func start(t *testing.T, w *Worker) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Worker: w, t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = w.Run(ctx)
	}()
	t.Cleanup(func() { r.cancel(); <-r.done })
	return r
}

func (r *running) stop() error {
	r.t.Helper()
	r.cancel()
	return r.wait()
}

func (r *running) wait() error {
	r.t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(20 * time.Second):
		r.t.Fatal("Run did not return")
		return nil
	}
}

// awaitRunning waits until a handler is at work: a job that is active at the server
// may still be on its way.
func (r *running) awaitRunning(s *peertest.Server) {
	r.t.Helper()
	s.Await("a handler runs", func() bool { return r.Stats().Running > 0 })
}

// newWorker is a worker for the queue "emails" with a given handler.
func newWorker(t *testing.T, s *peertest.Server, slots int, fn func(context.Context, *Job[sendEmail]) (receipt, error), opts ...WorkerOption) *Worker {
	t.Helper()
	w := NewWorker(newClient(t, s), append([]WorkerOption{Queue("emails", slots)}, opts...)...)
	Handle(w, fn)
	return w
}

func ok(_ context.Context, j *Job[sendEmail]) (receipt, error) {
	return receipt{ID: "r-" + j.Args.To}, nil
}

func mustStop(t *testing.T, r *running) {
	t.Helper()
	if err := r.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
}

// awaitSettled waits until the worker got a job and holds none any more.
func (r *running) awaitSettled(s *peertest.Server) {
	r.t.Helper()
	s.Await("a job came and went", func() bool {
		fails := 0
		for _, f := range s.Frames() {
			fails += len(f.GetFails())
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return fails > 0 && len(r.tasks) == 0
	})
}
