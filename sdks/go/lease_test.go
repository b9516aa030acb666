package corvo

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/sdks/go/internal/peertest"
)

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
