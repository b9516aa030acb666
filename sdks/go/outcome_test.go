package corvo

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/sdks/go/internal/peertest"
)

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

func panicDeep() { panic("deep trouble") }
