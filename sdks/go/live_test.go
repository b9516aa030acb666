package corvo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// The live tests run against the server of CORVO_TEST_URL (and CORVO_TEST_API_KEY),
// of any shape. They use queues with names of their own.

func liveClient(tb testing.TB) *Client {
	tb.Helper()
	url := os.Getenv("CORVO_TEST_URL")
	if url == "" {
		tb.Skip("CORVO_TEST_URL is not set")
	}
	c, err := New(WithURL(url), WithAPIKey(os.Getenv("CORVO_TEST_API_KEY")))
	if err != nil {
		tb.Fatalf("new client: %v", err)
	}
	tb.Cleanup(c.Close)
	return c
}

type liveArgs struct {
	N     int    `json:"n"`
	queue string // Not part of the payload.
}

func (liveArgs) Kind() string    { return "live" }
func (a liveArgs) Queue() string { return a.queue }

func liveQueue(name string) string { return fmt.Sprintf("live.%s.%d", name, time.Now().UnixNano()) }

func runLive(t *testing.T, w *Worker) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return stop
}

func TestLive_EveryJobRunsOnceAndIsCompleted(t *testing.T) {
	c, queue, ctx := liveClient(t), liveQueue("once"), t.Context()
	for name, opts := range map[string][]WorkerOption{"stream": nil, "polling": {Polling()}} {
		t.Run(name, func(t *testing.T) {
			const jobs = 500
			var mu sync.Mutex
			seen := make(map[int]int)
			w := NewWorker(c, append(opts, Queue(queue, 16))...)
			Handle(w, func(_ context.Context, j *Job[liveArgs]) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				seen[j.Args.N]++
				return j.Args.N * 2, nil
			})
			stop := runLive(t, w)
			var last *Enqueued
			var batch []*JobSpec
			for i := range jobs {
				batch = append(batch, NewJob(liveArgs{N: i, queue: queue}))
			}
			out, err := c.EnqueueBatch(ctx, batch)
			if err != nil {
				t.Fatalf("enqueue: %v", err)
			}
			last = out[jobs-1]
			eventually.True(t, time.Minute, "all are done", func() bool { return w.Stats().Completed == jobs })
			if err := stop(); err != nil {
				t.Errorf("Run: %v", err)
			}
			for i := range jobs {
				if seen[i] != 1 {
					t.Errorf("job %d ran %d times", i, seen[i])
				}
			}
			job, err := c.Job(ctx, last.ID)
			if err != nil || job.State != StateCompleted || string(job.Result) != fmt.Sprint((jobs-1)*2) {
				t.Errorf("job %+v, %v", job, err)
			}
		})
	}
}

func TestLive_OutcomesAreStored(t *testing.T) {
	c, queue, ctx := liveClient(t), liveQueue("outcomes"), t.Context()
	var released atomic.Bool
	w := NewWorker(c, Queue(queue, 4), Lease(2*time.Second))
	cancelled := make(chan error, 1)
	Handle(w, func(ctx context.Context, j *Job[liveArgs]) (any, error) {
		switch j.Args.N {
		case 1:
			return nil, errors.New("no luck")
		case 2:
			panic("no sense")
		case 3:
			if !released.Swap(true) {
				return nil, Release("not now")
			}
			return "done", nil
		case 4:
			if err := j.Checkpoint(ctx, "half"); err != nil {
				return nil, err
			}
			if err := j.Progress(ctx, 0.5); err != nil {
				return nil, err
			}
			<-ctx.Done()
			cancelled <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		}
		return nil, nil
	})
	stop := runLive(t, w)
	ids := make(map[int]string)
	for n := range 5 {
		e, err := c.Enqueue(ctx, liveArgs{N: n, queue: queue}, MaxRetries(1), Tags(map[string]string{"n": fmt.Sprint(n)}))
		if err != nil {
			t.Fatalf("enqueue: %v", err)
		}
		ids[n] = e.ID
	}
	state := func(n int) *JobInfo {
		j, err := c.Job(ctx, ids[n])
		if err != nil {
			t.Fatalf("job %d: %v", n, err)
		}
		return j
	}
	eventually.True(t, time.Minute, "the checkpoint is stored", func() bool { return string(state(4).Checkpoint) == `"half"` })
	if status, err := c.Cancel(ctx, ids[4]); err != nil || status != "cancelling" {
		t.Errorf("cancel: %q, %v", status, err)
	}
	if cause := <-cancelled; !errors.Is(cause, ErrCancelled) {
		t.Errorf("cause %v", cause)
	}
	for n, want := range map[int]JobState{0: StateCompleted, 1: StateDead, 2: StateDead, 3: StateCompleted, 4: StateCancelled} {
		eventually.True(t, time.Minute, fmt.Sprintf("job %d is %s", n, want), func() bool { return state(n).State == want })
	}
	if j := state(2); len(j.Errors) != 1 || j.Errors[0].Error != "panic: no sense" || !strings.Contains(j.Errors[0].Backtrace, "live_test.go") {
		t.Errorf("panicked job %+v", j)
	}
	if j := state(3); j.Attempt != 1 {
		t.Errorf("released job %+v", j)
	}
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestLive_DrainKeepsLeasesAlive(t *testing.T) {
	c, queue, ctx := liveClient(t), liveQueue("drain"), t.Context()
	started := make(chan struct{})
	w := NewWorker(c, Queue(queue, 1), Lease(time.Second))
	Handle(w, func(ctx context.Context, _ *Job[liveArgs]) (any, error) {
		close(started)
		if !sleep(ctx, 2500*time.Millisecond) { // More than two leases.
			return nil, context.Cause(ctx)
		}
		return "kept", nil
	})
	stop := runLive(t, w)
	e, err := c.Enqueue(ctx, liveArgs{queue: queue})
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	<-started
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if j, err := c.Job(ctx, e.ID); err != nil || j.State != StateCompleted || j.Attempt != 1 || string(j.Result) != `"kept"` {
		t.Errorf("job %+v, %v", j, err)
	}
}

func TestLive_RefusalsHaveTheirType(t *testing.T) {
	c, ctx := liveClient(t), t.Context()
	var e *Error
	_, err := c.EnqueueRaw(ctx, "no queue", nil, Backoff("odd", 0, 0))
	if !errors.As(err, &e) || !errors.Is(err, ErrInvalid) || len(e.Fields) < 2 || e.RequestID == "" {
		t.Errorf("enqueue: %v", err)
	}
	if _, err := c.Job(ctx, "job_00000000000000000000000000"); !errors.Is(err, ErrNotFound) {
		t.Errorf("job: %v", err)
	}
	w := NewWorker(c, Queue("no queue", 1))
	Handle(w, ok)
	if err := w.Run(ctx); !errors.Is(err, ErrInvalid) {
		t.Errorf("Run: %v", err)
	}
}

// BenchmarkLive_Lifecycle is one job through a worker: fetched, handled, and its ack
// confirmed. Jobs are enqueued outside the measured time.
func BenchmarkLive_Lifecycle(b *testing.B) {
	c := liveClient(b)
	for _, slots := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			b.ReportAllocs()
			queue := liveQueue("bench")
			for left := b.N; left > 0; left -= 1000 {
				var batch []*JobSpec
				for i := range min(left, 1000) {
					batch = append(batch, NewJob(liveArgs{N: i, queue: queue}))
				}
				if _, err := c.EnqueueBatch(b.Context(), batch); err != nil {
					b.Fatalf("enqueue: %v", err)
				}
			}
			w := NewWorker(c, Queue(queue, slots))
			Handle(w, func(context.Context, *Job[liveArgs]) (any, error) { return nil, nil })
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			done := make(chan error, 1)
			b.ResetTimer()
			go func() { done <- w.Run(ctx) }()
			for w.Stats().Completed < int64(b.N) {
				sleep(ctx, time.Millisecond)
			}
			b.StopTimer()
			cancel()
			if err := <-done; err != nil {
				b.Errorf("Run: %v", err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
