package corvo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/sdks/go/internal/peertest"
)

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
		var stored string
		if found, err := j.LoadCheckpoint(&stored); found || err != nil {
			t.Errorf("a checkpoint that was refused is loaded, %d bytes: %v", len(stored), err)
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

// Calls that share a frame are confirmed together, in whichever order their callers are woken: what is
// loaded is what the server has.
func TestWorker_OfSeveralCheckpointsThatOfTheServerIsLoaded(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	id := s.Add("emails", `{"to":"x"}`, nil)
	r := start(t, newWorker(t, s, 1, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
		for i := range 300 {
			var all sync.WaitGroup
			for part := range 4 {
				all.Go(func() { _ = j.Checkpoint(ctx, 4*i+part) })
			}
			all.Wait()
			var at int
			if found, err := j.LoadCheckpoint(&at); !found || err != nil || fmt.Sprint(at) != s.Job(id).Checkpoint {
				t.Errorf("loaded %d, and the server has %s: %v", at, s.Job(id).Checkpoint, err)
			}
		}
		return receipt{}, nil
	}))
	s.AwaitState(id, "completed")
	mustStop(t, r)
}

func TestWorker_RunReportsWhatIsWrongWithTheWorker(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	c := newClient(t, s)
	w := NewWorker(c, Queue("emails", 0), Pool(1, "caf\xe9"), Lease(time.Millisecond), WorkerID("w-\xff"))
	Handle(w, ok)
	Handle(w, ok)
	err := w.Run(t.Context())
	for _, want := range []string{"two handlers", "0 slots", "below one second", `worker id "w-\xff" is not valid UTF-8`, `queue "caf\xe9" is not valid UTF-8`} {
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
