package corvo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
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

func TestWorker_ReturnValueBecomesResult(t *testing.T) {
	t.Parallel()
	for _, polling := range []bool{false, true} {
		t.Run(fmt.Sprintf("polling=%v", polling), func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{Prefix: "/t/acme"})
			id := s.Add("emails", `{"to":"a"}`, nil)
			opts := []WorkerOption{WorkerID("w1")}
			if polling {
				opts = append(opts, Polling())
			}
			r := start(t, newWorker(t, s, 2, ok, opts...))
			j := s.AwaitState(id, "completed")
			if j.Result != `{"id":"r-a"}` {
				t.Errorf("result %q", j.Result)
			}
			mustStop(t, r)
			if got := r.Stats(); got.Completed != 1 || got.Running != 0 {
				t.Errorf("stats %+v", got)
			}
		})
	}
}

func TestWorker_DrainFinishesRunningJobsAndRenewsTheirLeases(t *testing.T) {
	t.Parallel()
	for _, polling := range []bool{false, true} {
		t.Run(fmt.Sprintf("polling=%v", polling), func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			id := s.Add("emails", `{"to":"a"}`, nil)
			release := make(chan struct{})
			opts := []WorkerOption{Lease(3 * time.Second)}
			if polling {
				opts = append(opts, Polling())
			}
			r := start(t, newWorker(t, s, 1, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return receipt{}, context.Cause(ctx)
			}, opts...))
			r.awaitRunning(s)
			r.cancel()
			before := s.Job(id).Renewed
			late := s.Add("emails", `{"to":"late"}`, nil)
			// Longer than the lease: only renewals keep it.
			s.Await("the lease is renewed four times during the drain", func() bool { return s.Job(id).Renewed >= before+4 })
			if j := s.Job(id); j.State != "active" || j.Attempt != 1 {
				t.Fatalf("job during drain: %+v", j)
			}
			close(release)
			if err := r.wait(); err != nil {
				t.Fatalf("Run: %v", err)
			}
			if j := s.Job(id); j.State != "completed" {
				t.Errorf("job after drain: %+v", j)
			}
			if j := s.Job(late); j.State != "pending" {
				t.Errorf("job enqueued during drain: %+v", j)
			}
		})
	}
}

func TestWorker_SoftTimeoutCancelsAndReleases(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	causes := make(chan error, 1)
	r := start(t, newWorker(t, s, 1, func(ctx context.Context, _ *Job[sendEmail]) (receipt, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return receipt{}, errors.New("interrupted")
	}, SoftTimeout(20*time.Millisecond)))
	r.awaitRunning(s)
	mustStop(t, r)
	if cause := <-causes; !errors.Is(cause, ErrShutdown) {
		t.Errorf("cause %v", cause)
	}
	if j := s.Job(id); j.State != "pending" || j.Released != 1 || j.Attempt != 0 {
		t.Errorf("job %+v, want it released without spending the attempt", j)
	}
}

func TestWorker_HardTimeoutReleasesLeasesOfStuckHandlers(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	stuck, gone := make(chan struct{}), make(chan struct{})
	w := newWorker(t, s, 1, func(context.Context, *Job[sendEmail]) (receipt, error) {
		defer close(gone)
		<-stuck
		return receipt{}, nil
	}, SoftTimeout(10*time.Millisecond), HardTimeout(30*time.Millisecond))
	r := start(t, w)
	r.awaitRunning(s)
	if err := r.stop(); err == nil || !strings.Contains(err.Error(), "did not stop in time") {
		t.Errorf("Run: %v", err)
	}
	if j := s.Job(id); j.State != "pending" || j.Released != 1 {
		t.Errorf("job %+v", j)
	}
	close(stuck)
	<-gone
	if j := s.Job(id); j.State != "pending" {
		t.Errorf("a handler that came too late changed the job: %+v", j)
	}
}

func TestWorker_LostLeaseCancelsHandlerAndDropsItsAck(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	causes := make(chan error, 1)
	r := start(t, newWorker(t, s, 1, func(ctx context.Context, _ *Job[sendEmail]) (receipt, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return receipt{ID: "too late"}, nil
	}, Lease(3*time.Second)))
	r.awaitRunning(s)
	s.Expire(id)
	s.Take(id)
	if cause := <-causes; !errors.Is(cause, ErrLeaseLost) {
		t.Errorf("cause %v", cause)
	}
	mustStop(t, r)
	if j := s.Job(id); j.State != "active" || j.Result != "" {
		t.Errorf("job of the new holder: %+v", j)
	}
	for _, f := range s.Frames() {
		if len(f.GetAcks()) > 0 {
			t.Errorf("an ack was sent for a lost lease: %v", f)
		}
	}
	if got := r.Stats(); got.Lost != 1 || got.Completed != 0 {
		t.Errorf("stats %+v", got)
	}
}

func TestWorker_CutOffTellsHandlersWhenTheirLeaseIsOver(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]WorkerOption{"stream": nil, "polling": {Polling()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			id := s.Add("emails", `{}`, nil)
			causes := make(chan error, 1)
			r := start(t, newWorker(t, s, 1, func(ctx context.Context, _ *Job[sendEmail]) (receipt, error) {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return receipt{ID: "late"}, nil
			}, append(opts, Lease(time.Second))...))
			r.awaitRunning(s)
			s.Await("the lease is renewed", func() bool { return s.Job(id).Renewed > 0 })
			s.Set(peertest.Faults{Code: connect.CodeUnavailable})
			s.KillStreams()
			s.Extend(id, time.Minute) // Nobody else gets it.
			began := time.Now()
			select {
			case cause := <-causes:
				if !errors.Is(cause, ErrLeaseLost) {
					t.Errorf("cause %v", cause)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the handler still works, though its lease is over")
			}
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("told after %s", d)
			}
			s.Set(peertest.Faults{})
			if j := s.AwaitState(id, "completed"); j.Result != `{"id":"late"}` || j.Attempt != 1 {
				t.Errorf("job %+v", j)
			}
			mustStop(t, r)
		})
	}
}

func TestWorker_ErrorOfACutOffHandlerGivesTheJobBack(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	var returned atomic.Int64
	r := start(t, newWorker(t, s, 1, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
		if returned.Load() > 0 {
			return receipt{}, nil
		}
		<-ctx.Done()
		if err := j.Progress(ctx, 1); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("progress: %v", err)
		}
		returned.Add(1)
		return receipt{}, context.Cause(ctx)
	}, Lease(time.Second)))
	r.awaitRunning(s)
	s.Set(peertest.Faults{Code: connect.CodeUnavailable})
	s.KillStreams()
	s.Extend(id, time.Minute)
	s.Await("the handler gave up", func() bool { return returned.Load() == 1 })
	s.Set(peertest.Faults{})
	if j := s.AwaitState(id, "completed"); j.Released != 1 || j.Attempt != 1 {
		t.Errorf("job %+v", j)
	}
	mustStop(t, r)
}

func TestWorker_RenewedLeaseIsNoLongerOver(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	r := start(t, newWorker(t, s, 1, func(ctx context.Context, _ *Job[sendEmail]) (receipt, error) {
		select {
		case <-ctx.Done():
			return receipt{}, context.Cause(ctx)
		case <-time.After(2500 * time.Millisecond):
			return receipt{}, nil
		}
	}, Lease(time.Second)))
	if j := s.AwaitState(id, "completed"); j.Attempt != 1 {
		t.Errorf("job %+v", j)
	}
	mustStop(t, r)
}

func TestWorker_AckRefusedAsLostIsNotCountedAsDone(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	release := make(chan struct{})
	r := start(t, newWorker(t, s, 1, func(context.Context, *Job[sendEmail]) (receipt, error) {
		<-release
		return receipt{ID: "mine"}, nil
	}))
	r.awaitRunning(s)
	s.Expire(id)
	s.Take(id)
	close(release)
	s.Await("the ack is refused", func() bool { return r.Stats().Lost == 1 })
	mustStop(t, r)
	if got := r.Stats(); got.Completed != 0 {
		t.Errorf("stats %+v", got)
	}
}

func TestWorker_CancelReachesHandler(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	r := start(t, newWorker(t, s, 1, func(ctx context.Context, _ *Job[sendEmail]) (receipt, error) {
		<-ctx.Done()
		return receipt{}, context.Cause(ctx)
	}, Lease(3*time.Second)))
	r.awaitRunning(s)
	s.Cancel(id)
	j := s.AwaitState(id, "cancelled")
	if !strings.Contains(j.Error, "cancelled") {
		t.Errorf("error %q", j.Error)
	}
	mustStop(t, r)
	if got := r.Stats(); got.Cancelled != 1 {
		t.Errorf("stats %+v", got)
	}
}

func TestWorker_JobWithoutHandlerIsReleasedNeverAcked(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, map[string]string{KindTag: "unheard.of"})
	w := newWorker(t, s, 2, ok)
	w.hold = 20 * time.Millisecond
	r := start(t, w)
	s.Await("the job was released three times", func() bool { return s.Job(id).Released >= 3 })
	known := s.Add("emails", `{"to":"b"}`, nil)
	s.AwaitState(known, "completed")
	mustStop(t, r)
	j := s.Job(id)
	if j.State != "pending" || j.Attempt != 0 || j.Result != "" {
		t.Errorf("job %+v", j)
	}
	if got := r.Stats(); got.Unhandled < 3 || got.Completed != 1 {
		t.Errorf("stats %+v", got)
	}
}

func TestWorker_JobWithoutHandlerIsHeldBeforeItsRelease(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, map[string]string{KindTag: "unheard.of"})
	w := newWorker(t, s, 1, ok)
	w.hold = time.Hour
	r := start(t, w)
	s.Await("it is seen", func() bool { return r.Stats().Unhandled == 1 })
	if j := s.Job(id); j.State != "active" {
		t.Errorf("job %+v, want it held back", j)
	}
	mustStop(t, r) // A drain does not wait for the hold.
	if j := s.Job(id); j.Released != 1 {
		t.Errorf("job %+v", j)
	}
}

func TestWorker_KindTagPicksHandler(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	w := NewWorker(newClient(t, s), Queue("shared", 1))
	HandleRaw(w, "other", func(_ context.Context, j *Job[json.RawMessage]) (json.RawMessage, error) {
		return json.RawMessage(`"` + j.Queue + "/" + j.Kind + `"`), nil
	})
	r := start(t, w)
	id := s.Add("shared", `{}`, map[string]string{KindTag: "other"})
	if j := s.AwaitState(id, "completed"); j.Result != `"shared/other"` {
		t.Errorf("result %s", j.Result)
	}
	mustStop(t, r)
}

func TestWorker_ErrorFailsAndPanicFailsWithStack(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	failing := s.Add("emails", `{"to":"fail"}`, nil)
	panicking := s.Add("emails", `{"to":"panic"}`, nil)
	exiting := s.Add("emails", `{"to":"exit"}`, nil)
	garbled := s.Add("emails", `{"to":7}`, nil)
	giving := s.Add("emails", `{"to":"release"}`, nil)
	var released atomic.Bool
	r := start(t, newWorker(t, s, 5, func(_ context.Context, j *Job[sendEmail]) (receipt, error) {
		switch j.Args.To {
		case "panic":
			panicDeep()
		case "exit":
			exitGoroutine()
		case "release":
			if !released.Swap(true) {
				return receipt{}, Release("not today")
			}
			return receipt{}, nil
		}
		return receipt{}, errors.New("smtp says no")
	}))
	if j := s.AwaitState(failing, "retrying"); j.Error != "smtp says no" || j.Backtrace != "" {
		t.Errorf("failed job %+v", j)
	}
	if j := s.AwaitState(panicking, "retrying"); j.Error != "panic: deep trouble" || !strings.Contains(j.Backtrace, "panicDeep") {
		t.Errorf("panicked job %+v", j)
	}
	if j := s.AwaitState(exiting, "retrying"); !strings.Contains(j.Error, "Goexit") {
		t.Errorf("exited job %+v", j)
	}
	if j := s.AwaitState(garbled, "retrying"); !strings.Contains(j.Error, "decode arguments") {
		t.Errorf("garbled job %+v", j)
	}
	if j := s.AwaitState(giving, "completed"); j.Released != 1 || j.Attempt != 1 {
		t.Errorf("released job %+v", j)
	}
	mustStop(t, r)
	if got := r.Stats(); got.Panics != 2 || got.Failed != 4 || got.Released != 1 || got.Completed != 1 {
		t.Errorf("stats %+v", got)
	}
}

// fragile is an error whose text can't be had from a nil pointer.
type fragile struct{ text string }

func (f *fragile) Error() string { return f.text }

func TestWorker_ErrorWhoseTextPanicsFailsWithStack(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	r := start(t, newWorker(t, s, 1, func(context.Context, *Job[sendEmail]) (receipt, error) {
		var f *fragile
		return receipt{}, f
	}))
	if j := s.AwaitState(id, "retrying"); !strings.Contains(j.Error, "nil pointer") || !strings.Contains(j.Backtrace, "fragile") {
		t.Errorf("job %+v", j)
	}
	mustStop(t, r)
	if got := r.Stats(); got.Panics != 1 || got.Failed != 1 || got.Completed != 0 {
		t.Errorf("stats %+v", got)
	}
}

func TestWorker_OutcomeThatNobodySetIsNoSuccess(t *testing.T) {
	t.Parallel()
	if kind := (outcome{}).sendable().kind; kind != outcomeFail {
		t.Errorf("the zero outcome is told as kind %d", kind)
	}
}

func TestWorker_UnansweredAcksAreSentAgainAndConfirmed(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]peertest.Faults{
		"stream dies before the ack is applied": {CutBefore: 2},
		"stream dies after the ack is applied":  {CutAfter: 2},
		"server is overloaded":                  {Overload: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			s.Set(f)
			var ids []string
			for range 20 {
				ids = append(ids, s.Add("emails", `{}`, nil))
			}
			var runs atomic.Int64
			r := start(t, newWorker(t, s, 10, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
				runs.Add(1)
				return ok(ctx, j)
			}))
			s.Await("all are confirmed", func() bool { return r.Stats().Completed == int64(len(ids)) })
			mustStop(t, r)
			for _, id := range ids {
				if j := s.Job(id); j.State != "completed" || j.Attempt != 1 {
					t.Errorf("job %+v", j)
				}
			}
			if runs.Load() != int64(len(ids)) {
				t.Errorf("%d runs of %d jobs", runs.Load(), len(ids))
			}
		})
	}
}

func TestWorker_NothingIsDoneBeforeItIsConfirmed(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	hold := make(chan struct{})
	s.Set(peertest.Faults{HoldSettle: hold})
	id := s.Add("emails", `{}`, nil)
	r := start(t, newWorker(t, s, 1, ok))
	s.Await("the ack is on its way", func() bool { return s.MaxSettling() == 1 })
	r.cancel()
	select {
	case <-r.done:
		t.Fatal("Run returned with an unconfirmed ack")
	case <-time.After(50 * time.Millisecond):
	}
	if got := r.Stats(); got.Completed != 0 {
		t.Errorf("stats %+v", got)
	}
	close(hold)
	if err := r.wait(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if s.Job(id).State != "completed" || r.Stats().Completed != 1 {
		t.Errorf("job %+v, stats %+v", s.Job(id), r.Stats())
	}
}

func TestWorker_RefusedResultFailsTheAttempt(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	s.Set(peertest.Faults{RefuseResult: 1})
	id := s.Add("emails", `{}`, nil)
	r := start(t, newWorker(t, s, 1, ok))
	if j := s.AwaitState(id, "retrying"); !strings.Contains(j.Error, "too large") {
		t.Errorf("job %+v", j)
	}
	mustStop(t, r)
}

func TestWorker_DelayOfARetryIsKeptWithinTheServersLimits(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{
		-time.Second: 0, time.Minute: time.Minute, 31 * 24 * time.Hour: 30 * 24 * time.Hour,
	} {
		t.Run(asked.String(), func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			id := s.Add("emails", `{}`, nil)
			r := start(t, newWorker(t, s, 1, func(context.Context, *Job[sendEmail]) (receipt, error) {
				return receipt{}, RetryIn(asked, errors.New("later"))
			}))
			if j := s.AwaitState(id, "retrying"); j.Error != "later" || j.Delay == nil || *j.Delay != want {
				t.Errorf("job %+v, want it delayed by %s", j, want)
			}
			mustStop(t, r)
		})
	}
}

func TestWorker_RefusedUsageLosesNoOutcome(t *testing.T) {
	t.Parallel()
	for name, polling := range map[string][]WorkerOption{"stream": nil, "polling": {Polling()}} {
		for what, u := range map[string]Usage{"no number": {CostUSD: math.NaN()}, "negative": {Input: -1}} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				s := peertest.New(t, peertest.Options{})
				good, bad := s.Add("emails", `{"to":"good"}`, nil), s.Add("emails", `{"to":"bad"}`, nil)
				r := start(t, newWorker(t, s, 2, func(_ context.Context, j *Job[sendEmail]) (receipt, error) {
					j.Usage(u)
					if j.Args.To == "bad" {
						return receipt{}, errors.New("smtp says no")
					}
					return receipt{ID: "r"}, nil
				}, polling...))
				if j := s.AwaitState(good, "completed"); j.Result != `{"id":"r"}` || j.Used {
					t.Errorf("job %+v", j)
				}
				if j := s.AwaitState(bad, "retrying"); j.Error != "smtp says no" {
					t.Errorf("job %+v", j)
				}
				mustStop(t, r)
			})
		}
	}
}

func TestWorker_RefusedFailureIsToldOnceMoreWithNothingButItsText(t *testing.T) {
	t.Parallel()
	for refusals, want := range map[int]string{1: "retrying", 2: "active"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			s.Set(peertest.Faults{RefuseFail: refusals})
			id := s.Add("emails", `{}`, nil)
			r := start(t, newWorker(t, s, 1, func(context.Context, *Job[sendEmail]) (receipt, error) {
				return receipt{}, RetryIn(time.Minute, errors.New("later"))
			}))
			r.awaitSettled(s)
			if j := s.Job(id); j.State != want {
				t.Errorf("job %+v", j)
			}
			mustStop(t, r)
		})
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

func TestWorker_OutcomeThatNoFrameCanCarryFailsItsOwnJobAlone(t *testing.T) {
	t.Parallel()
	tooLong := strings.Repeat("x", 5<<20)
	for name, c := range map[string]struct {
		end  func(j *Job[json.RawMessage]) (json.RawMessage, error)
		says string
	}{
		"error that is not UTF-8":  {func(*Job[json.RawMessage]) (json.RawMessage, error) { return nil, errors.New("no\xff") }, "no\uFFFD"},
		"error of 5 MiB":           {func(*Job[json.RawMessage]) (json.RawMessage, error) { return nil, errors.New(tooLong) }, strings.Repeat("x", errorBytesMax)},
		"panic that is not UTF-8":  {func(*Job[json.RawMessage]) (json.RawMessage, error) { panic("no\xff") }, "panic: no\uFFFD"},
		"result that is not UTF-8": {func(*Job[json.RawMessage]) (json.RawMessage, error) { return json.RawMessage("\"\xff\""), nil }, "not valid UTF-8"},
		"result of 5 MiB":          {func(*Job[json.RawMessage]) (json.RawMessage, error) { return json.RawMessage(`"` + tooLong + `"`), nil }, "the result is 5242882 bytes long"},
		"checkpoint of 5 MiB":      {func(*Job[json.RawMessage]) (json.RawMessage, error) { return nil, Continue(tooLong) }, "the checkpoint is 5242882 bytes long"},
		"checkpoint that is not UTF-8": {func(*Job[json.RawMessage]) (json.RawMessage, error) {
			return nil, HoldFor("", json.RawMessage("\"\xff\""))
		}, "not valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			bad := s.Add("emails", `{}`, map[string]string{KindTag: "bad"})
			good := s.Add("emails", `{}`, map[string]string{KindTag: "good"})
			w := NewWorker(newClient(t, s), Queue("emails", 2))
			HandleRaw(w, "bad", func(_ context.Context, j *Job[json.RawMessage]) (json.RawMessage, error) { return c.end(j) })
			HandleRaw(w, "good", func(context.Context, *Job[json.RawMessage]) (json.RawMessage, error) { return nil, nil })
			r := start(t, w)
			s.AwaitState(good, "completed")
			if j := s.AwaitState(bad, "retrying"); !strings.Contains(j.Error, c.says) || len(j.Error) > errorBytesMax {
				t.Errorf("the job failed with %.200q (%d bytes)", j.Error, len(j.Error))
			}
			mustStop(t, r)
			if n := r.Stats().Reconnects; n != 0 {
				t.Errorf("%d reconnects", n)
			}
		})
	}
}

func TestWorker_ReasonsAreSentAsFarAsTheyCanBe(t *testing.T) {
	t.Parallel()
	held := outcomeOfError(t, HoldFor("a\xff"+strings.Repeat("x", 5<<20), nil)).sendable()
	if r := held.ack.GetHoldReason(); !strings.HasPrefix(r, "a\uFFFDx") || len(r) != holdReasonBytesMax {
		t.Errorf("reason of a hold: %.20q, %d bytes", r, len(r))
	}
	exit := ExitChain(nil, "b\xff")
	if r := outcomeOfError(t, exit).sendable().ack.GetExitReason(); r != "b\uFFFD" {
		t.Errorf("reason of an exit: %q", r)
	}
	if r := outcomeOfError(t, exit).ack.GetExitReason(); r != "b\xff" {
		t.Errorf("the handler's error was changed: %q", r)
	}
}

func outcomeOfError(t *testing.T, err error) outcome {
	t.Helper()
	out, found := requestedOutcome(err)
	if !found {
		t.Fatalf("%v carries no outcome", err)
	}
	return out
}

func TestWorker_ModelNamesCannotKeepAnOutcomeFromBeingSent(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	r := start(t, newWorker(t, s, 1, func(_ context.Context, j *Job[sendEmail]) (receipt, error) {
		j.Usage(Usage{Model: "m\xff", Provider: strings.Repeat("p", 5<<20), Input: 1})
		return receipt{}, nil
	}))
	s.AwaitState(id, "completed")
	mustStop(t, r)
}

func TestWorker_ProgressThatIsNotUTF8FailsItsCallAlone(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	r := start(t, newWorker(t, s, 1, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
		bad := json.RawMessage("\"\xff\"")
		if err := j.Progress(ctx, bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("progress: %v", err)
		}
		if err := j.Checkpoint(ctx, bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("checkpoint: %v", err)
		}
		return receipt{}, nil
	}))
	s.AwaitState(id, "completed")
	mustStop(t, r)
	if n := r.Stats().Reconnects; n != 0 {
		t.Errorf("%d reconnects", n)
	}
}

func TestWorker_SettlementThatEndsEveryLinkGoesAloneAndIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorker(t, peertest.New(t, peertest.Options{}), 2, ok)
	w.life = t.Context()
	l := w.pools[0]
	w.mu.Lock()
	for _, id := range []string{"a", "b"} {
		w.enqueueSettlement(w.admit(l, &corvov1.FetchBatchJob{JobId: id}, time.Now()), outcome{})
	}
	w.mu.Unlock()
	sendAndFail := func(want int, err error) {
		t.Helper()
		batch, _ := w.takeBatch(l)
		if len(batch) != want {
			t.Fatalf("%d settlements in a frame, want %d", len(batch), want)
		}
		w.unsettled(batch, err)
	}
	for range lonelyTries + 1 {
		sendAndFail(2, connect.NewError(connect.CodeUnavailable, errors.New("no way there")))
	}
	refusal := connect.NewError(connect.CodeInternal, errors.New("marshal message"))
	for range lonelyTries {
		sendAndFail(2, refusal)
	}
	for _, task := range w.tasks {
		task.refusedAt = time.Now().Add(-2 * settlePatience)
	}
	sendAndFail(1, refusal)
	sendAndFail(1, refusal)
	if len(w.tasks) != 0 {
		t.Errorf("%d settlements are still tried", len(w.tasks))
	}
}

func TestWorker_ServerDrainMovesToANewStream(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	long := s.Add("emails", `{"to":"long"}`, nil)
	release := make(chan struct{})
	r := start(t, newWorker(t, s, 2, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
		if j.Args.To == "long" {
			<-release
		}
		return ok(ctx, j)
	}))
	r.awaitRunning(s)
	s.Await("a fetch waits", func() bool { return s.Parked() == 1 })
	s.Drain()
	s.Await("there is one new stream", func() bool { open, ever := s.Streams(); return open == 1 && ever == 2 })
	id := s.Add("emails", `{"to":"b"}`, nil)
	s.AwaitState(id, "completed")
	close(release)
	if j := s.AwaitState(long, "completed"); j.Attempt != 1 {
		t.Errorf("job %+v", j)
	}
	mustStop(t, r)
}

func TestWorker_NotLeaderIsReconnectedToTheSameAddress(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	s.Set(peertest.Faults{NotLeader: streamTries + 1, RefuseStreams: streamTries + 1})
	id := s.Add("emails", `{}`, nil)
	r := start(t, newWorker(t, s, 1, ok))
	s.AwaitState(id, "completed")
	mustStop(t, r)
	if got := r.Stats().Reconnects; got < 2*streamTries {
		t.Errorf("%d reconnects", got)
	}
	if n := s.Calls("POST /corvo.v1.WorkerService/FetchBatch"); n > 0 {
		t.Error("the worker polls, although streams get through")
	}
}

func TestWorker_KilledStreamsAreReplaced(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	r := start(t, newWorker(t, s, 4, ok))
	for range 5 {
		s.Await("a fetch waits", func() bool { return s.Parked() == 1 })
		s.KillStreams()
		s.AwaitState(s.Add("emails", `{}`, nil), "completed")
	}
	mustStop(t, r)
}

func TestWorker_FallsBackToPolling(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server peertest.Options
		worker []WorkerOption
	}{
		"streams not implemented":      {server: peertest.Options{NoStreams: true}},
		"only HTTP/1.1":                {server: peertest.Options{HTTP1Only: true}},
		"only HTTP/1.1, which we know": {server: peertest.Options{HTTP1Only: true}, worker: []WorkerOption{Polling()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, c.server)
			id := s.Add("emails", `{"to":"a"}`, nil)
			r := start(t, newWorker(t, s, 1, ok, c.worker...))
			s.AwaitState(id, "completed")
			mustStop(t, r)
		})
	}
}

func TestWorker_RefusedFetchWaitsAsLongAsTheServerAsks(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]WorkerOption{"stream": nil, "polling": {Polling()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			s.Add("emails", `{}`, nil)
			release := make(chan struct{})
			r := start(t, newWorker(t, s, 2, func(context.Context, *Job[sendEmail]) (receipt, error) {
				<-release
				return receipt{}, nil
			}, opts...))
			r.awaitRunning(s)
			const refusals = 1000
			s.Set(peertest.Faults{RefuseFetch: refusals})
			s.KillStreams() // The fetch that waits is to be repeated.
			refused := func() int { return refusals - s.FetchRefusalsLeft() }
			s.Await("a fetch is refused", func() bool { return refused() > 0 })
			before := r.Stats().Reconnects
			time.Sleep(2 * time.Second)
			if n := refused(); n > 3 {
				t.Errorf("%d fetches in two seconds", n)
			}
			if n := r.Stats().Reconnects - before; n > 0 {
				t.Errorf("%d reconnects", n)
			}
			s.Set(peertest.Faults{})
			close(release)
			s.AwaitState(s.Add("emails", `{}`, nil), "completed")
			mustStop(t, r)
		})
	}
}

func TestWorker_StreamsThatNeverAnswerFallBackToPollingAndAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	s.Set(peertest.Faults{CutStreams: streamTries})
	w := newWorker(t, s, 1, ok)
	w.pollTurn = 10 * time.Millisecond
	r := start(t, w)
	s.Await("a poll was made", func() bool { return s.Calls("POST /corvo.v1.WorkerService/FetchBatch") > 0 })
	s.Add("emails", `{}`, nil) // Ends the long poll early.
	s.Await("there is a stream again", func() bool { open, _ := s.Streams(); return open == 1 })
	mustStop(t, r)
}

func TestWorker_InFlightNeverExceedsSlots(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	for range 300 {
		s.Add("emails", `{}`, nil)
	}
	var now, most atomic.Int64
	r := start(t, newWorker(t, s, 7, func(context.Context, *Job[sendEmail]) (receipt, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				return receipt{}, nil
			}
		}
	}))
	s.Await("all are completed", func() bool { return r.Stats().Completed == 300 })
	mustStop(t, r)
	if most.Load() > 7 {
		t.Errorf("%d handlers at once, want at most 7", most.Load())
	}
	if s.MaxSettling() > 1 {
		t.Errorf("%d settlement frames at once, want 1", s.MaxSettling())
	}
}

func TestWorker_JobsBeyondTheSlotsAreGivenBack(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	s.Set(peertest.Faults{Extra: 2})
	for range 3 {
		s.Add("emails", `{}`, nil)
	}
	release := make(chan struct{})
	r := start(t, newWorker(t, s, 1, func(context.Context, *Job[sendEmail]) (receipt, error) {
		<-release
		return receipt{}, nil
	}))
	s.Await("two are released", func() bool { return r.Stats().Released >= 2 })
	if n := r.Stats().Running; n != 1 {
		t.Errorf("%d run", n)
	}
	s.Set(peertest.Faults{})
	close(release)
	s.Await("all are completed", func() bool { return s.Count("completed") == 3 })
	mustStop(t, r)
}

func TestWorker_ParkedFetchDoesNotHoldAcksBack(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	release := make(chan struct{})
	r := start(t, newWorker(t, s, 2, func(context.Context, *Job[sendEmail]) (receipt, error) {
		<-release
		return receipt{}, nil
	}))
	r.awaitRunning(s)
	s.Await("a fetch waits", func() bool { return s.Parked() == 1 })
	close(release)
	s.AwaitState(id, "completed")
	s.Await("it is confirmed", func() bool { return r.Stats().Completed == 1 })
	mustStop(t, r)
}

func TestWorker_SplitRepliesLoseNoJob(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	s.Set(peertest.Faults{Split: true})
	for range 50 {
		s.Add("emails", `{}`, nil)
	}
	r := start(t, newWorker(t, s, 5, ok))
	s.Await("all are completed", func() bool { return s.Count("completed") == 50 })
	mustStop(t, r)
	if n := s.Count("active"); n != 0 {
		t.Errorf("%d jobs are still leased", n)
	}
}

func TestWorker_DrainTakesParkedFetchesBack(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	r := start(t, newWorker(t, s, 2, ok))
	s.Await("a fetch waits", func() bool { return s.Parked() == 1 })
	began := time.Now()
	mustStop(t, r)
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("the drain of an idle worker took %s", d)
	}
	if s.Parked() != 0 {
		t.Error("a fetch still waits")
	}
}

func TestWorker_DrainWhileJobsPourInLeavesNoLease(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	stopFeeding := make(chan struct{})
	var feed sync.WaitGroup
	feed.Go(func() {
		for {
			select {
			case <-stopFeeding:
				return
			default:
				s.Add("emails", `{}`, nil)
			}
		}
	})
	r := start(t, newWorker(t, s, 8, ok))
	s.Await("some are completed", func() bool { return r.Stats().Completed > 20 })
	mustStop(t, r)
	close(stopFeeding)
	feed.Wait()
	if n := s.Count("active"); n != 0 {
		t.Errorf("%d jobs are leased after the drain", n)
	}
}

func TestWorker_CheckpointIsConfirmedAndReachesTheNextAttempt(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	var first atomic.Bool
	got := make(chan int, 1)
	r := start(t, newWorker(t, s, 1, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
		if !first.Swap(true) {
			if err := j.Checkpoint(ctx, map[string]int{"row": 41}); err != nil {
				return receipt{}, err
			}
			if c := s.Job(id).Checkpoint; c != `{"row":41}` {
				t.Errorf("checkpoint at the server when the call returned: %q", c)
			}
			return receipt{}, Release("again")
		}
		var at struct{ Row int }
		found, err := j.LoadCheckpoint(&at)
		if err != nil || !found {
			t.Errorf("load checkpoint: %v, %v", found, err)
		}
		got <- at.Row
		return receipt{}, nil
	}))
	if row := <-got; row != 41 {
		t.Errorf("row %d", row)
	}
	s.AwaitState(id, "completed")
	mustStop(t, r)
}

func TestWorker_ProgressIsCoalesced(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{}`, nil)
	release := make(chan struct{})
	r := start(t, newWorker(t, s, 1, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
		for i := range 1000 {
			if err := j.Progress(ctx, i); err != nil {
				return receipt{}, err
			}
		}
		<-release
		return receipt{}, nil
	}))
	s.Await("the last value arrived", func() bool { return s.Job(id).Progress == "999" })
	close(release)
	s.AwaitState(id, "completed")
	mustStop(t, r)
	beats := 0
	for _, f := range s.Frames() {
		if len(f.GetHeartbeats()) > 0 {
			beats++
		}
	}
	if beats > 5 {
		t.Errorf("%d frames for 1000 calls", beats)
	}
}

func TestWorker_RefusedKeyIsReturnedAtOnce(t *testing.T) {
	t.Parallel()
	for code, want := range map[connect.Code]error{
		connect.CodeUnauthenticated: ErrUnauthorized, connect.CodePermissionDenied: ErrForbidden,
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			s.Set(peertest.Faults{Code: code})
			r := start(t, newWorker(t, s, 1, ok))
			if err := r.wait(); !errors.Is(err, want) {
				t.Errorf("Run: %v, want %v", err, want)
			}
		})
	}
}

func TestWorker_KeyThatIsRefusedLaterEndsTheWorkerAndItsHandlers(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]WorkerOption{"stream": nil, "polling": {Polling()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			cause := make(chan error, 1)
			r := start(t, newWorker(t, s, 1, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
				if j.Args.To == "" {
					return receipt{}, nil
				}
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return receipt{}, nil
			}, append(opts, Lease(3*time.Second))...))
			s.AwaitState(s.Add("emails", `{}`, nil), "completed")
			s.Add("emails", `{"to":"ada"}`, nil)
			r.awaitRunning(s)
			s.Set(peertest.Faults{Code: connect.CodeUnauthenticated})
			s.KillStreams()
			if err := r.wait(); !errors.Is(err, ErrUnauthorized) {
				t.Errorf("Run: %v", err)
			}
			if err := <-cause; !errors.Is(err, ErrLeaseLost) {
				t.Errorf("the handler's cause: %v", err)
			}
		})
	}
}

func TestWorker_KeyWithoutRightsLaterDoesNotEndTheWorker(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	r := start(t, newWorker(t, s, 1, ok))
	s.AwaitState(s.Add("emails", `{}`, nil), "completed")
	s.Await("it is confirmed", func() bool { return r.Stats().Completed == 1 })
	s.Set(peertest.Faults{Code: connect.CodePermissionDenied})
	s.KillStreams()
	s.Await("it tried again", func() bool { return r.Stats().Reconnects >= 2 })
	s.Set(peertest.Faults{})
	s.AwaitState(s.Add("emails", `{}`, nil), "completed")
	mustStop(t, r)
}

func TestWorker_BadQueueNameIsReturnedAtOnce(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	w := NewWorker(newClient(t, s), Queue("-bad", 1))
	Handle(w, ok)
	err := start(t, w).wait()
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeInvalid || len(e.Fields) != 1 || e.Fields[0].Name != "queues[0]" {
		t.Errorf("Run: %v", err)
	}
}

func TestWorker_RefusedCheckpointFailsItsCallAlone(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	good := s.Add("emails", `{"to":"good"}`, nil)
	bad := s.Add("emails", `{"to":"bad"}`, nil)
	release := make(chan struct{})
	r := start(t, newWorker(t, s, 2, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
		if j.Args.To == "good" {
			<-release
			return receipt{}, j.Checkpoint(ctx, "small")
		}
		defer close(release)
		err := j.Checkpoint(ctx, strings.Repeat("x", 100<<10))
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("refused by the server: %v", err)
		}
		err = j.Checkpoint(ctx, strings.Repeat("x", checkpointBytesMax))
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("over the protocol's limit: %v", err)
		}
		if err := j.Progress(ctx, strings.Repeat("x", progressBytesMax)); !errors.Is(err, ErrInvalid) {
			t.Errorf("progress over the protocol's limit: %v", err)
		}
		return receipt{}, nil
	}))
	s.AwaitState(bad, "completed")
	if j := s.AwaitState(good, "completed"); j.Checkpoint != `"small"` {
		t.Errorf("job %+v", j)
	}
	mustStop(t, r)
}

func TestWorker_SettlementOutlivesManyRefusedFrames(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	s.Set(peertest.Faults{RefuseSettle: 9})
	for range 3 {
		s.Add("emails", `{}`, nil)
	}
	r := start(t, newWorker(t, s, 3, ok))
	s.Await("all are confirmed", func() bool { return r.Stats().Completed == 3 })
	mustStop(t, r)
}

func TestWorker_RunReportsWhatIsWrongWithTheWorker(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	c := newClient(t, s)
	w := NewWorker(c, Queue("emails", 0), Lease(time.Millisecond))
	Handle(w, ok)
	Handle(w, ok)
	err := w.Run(t.Context())
	for _, want := range []string{"two handlers", "0 slots", "below one second"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run: %v, want a word on %q", err, want)
		}
	}
	if err := NewWorker(c).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no queue") {
		t.Errorf("Run of an empty worker: %v", err)
	}
}

func TestWorker_PointerArgumentsWork(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("pointed", `{"to":"a"}`, nil)
	w := NewWorker(newClient(t, s), Queue("pointed", 1))
	Handle(w, func(_ context.Context, j *Job[*pointed]) (any, error) { return j.Args.To, nil })
	r := start(t, w)
	if j := s.AwaitState(id, "completed"); j.Result != `"a"` {
		t.Errorf("result %q", j.Result)
	}
	mustStop(t, r)
}

type pointed struct{ To string }

func (p *pointed) Kind() string { _ = p.To; return "pointed" }

func TestWorker_PoolSharesSlotsOverQueues(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	w := NewWorker(newClient(t, s), Pool(3, "emails", "others"), Queue("third", 1))
	Handle(w, ok)
	echo := func(_ context.Context, j *Job[json.RawMessage]) (json.RawMessage, error) { return j.Args, nil }
	HandleRaw(w, "others", echo)
	HandleRaw(w, "third", echo)
	r := start(t, w)
	for i := range 30 {
		s.Add([]string{"emails", "others", "third"}[i%3], `{}`, nil)
	}
	s.Await("all are completed", func() bool { return s.Count("completed") == 30 })
	mustStop(t, r)
}

func TestWorker_DrainWithoutAServerGivesUp(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	s.Add("emails", `{}`, nil)
	release := make(chan struct{})
	w := newWorker(t, s, 1, func(context.Context, *Job[sendEmail]) (receipt, error) {
		<-release
		return receipt{}, nil
	}, HardTimeout(50*time.Millisecond))
	r := start(t, w)
	r.awaitRunning(s)
	s.Set(peertest.Faults{Code: connect.CodeUnavailable})
	s.KillStreams()
	close(release)
	if err := r.stop(); err == nil || !strings.Contains(err.Error(), "could not be settled") {
		t.Errorf("Run: %v", err)
	}
}

func panicDeep() { panic("deep trouble") }
