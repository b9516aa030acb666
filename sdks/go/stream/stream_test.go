package stream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/sdks/go/internal/peertest"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, s *peertest.Server) corvov1connect.WorkerServiceClient {
	t.Helper()
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &p}
	t.Cleanup(tr.CloseIdleConnections)
	return corvov1connect.NewWorkerServiceClient(&http.Client{Transport: tr}, s.URL())
}

func open(t *testing.T, s *peertest.Server, o stream.Options) *stream.Stream {
	t.Helper()
	st := stream.Open(t.Context(), dial(t, s), o)
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return st
}

func do(t *testing.T, s *stream.Stream, f *stream.Request) *stream.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := s.Do(ctx, f)
	if err != nil {
		t.Fatalf("do: %v", err)
	}
	return r
}

func fetch(n int32, wait time.Duration) *stream.Request {
	return &stream.Request{Queues: []string{"q"}, FetchCount: n, WaitMs: new(wait.Milliseconds()), LeaseDuration: 30}
}

func TestStream_FrameCombinesEnqueueFetchAndAck(t *testing.T) {
	t.Parallel()
	for _, pipelined := range []bool{false, true} {
		t.Run(fmt.Sprintf("pipelined=%v", pipelined), func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{Prefix: "/t/acme"})
			st := open(t, s, stream.Options{Pipelined: pipelined})
			r := do(t, st, &stream.Request{Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "q", PayloadJson: `{"n":1}`}, {Queue: "q"}}})
			if len(r.GetEnqueuedJobIds()) != 2 || r.GetRequestId() != 1 {
				t.Fatalf("reply %v", r)
			}
			jobs := do(t, st, fetch(1, 0)).GetJobs()
			if len(jobs) != 1 || jobs[0].GetPayloadJson() != `{"n":1}` || jobs[0].GetLeaseToken() == "" {
				t.Fatalf("jobs %v", jobs)
			}
			f := fetch(5, 0)
			f.Acks = []*corvov1.AckBatchItem{
				{JobId: jobs[0].GetJobId(), LeaseToken: jobs[0].GetLeaseToken()}, {JobId: jobs[0].GetJobId(), LeaseToken: "stale"},
			}
			r = do(t, st, f)
			if o := r.GetAckOutcomes(); len(o) != 2 || o[0].GetCode() != "" || o[1].GetCode() == "" || len(r.GetJobs()) != 1 {
				t.Errorf("reply %v", r)
			}
			if first := s.Frames()[0]; first.GetPipelined() != pipelined {
				t.Errorf("first frame %v", first)
			}
		})
	}
}

func TestStream_ParkedFetchHoldsNothingBackAndCanBeCancelled(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	st := open(t, s, stream.Options{Pipelined: true})
	parked, err := st.Send(fetch(1, time.Minute))
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	if r := do(t, st, &stream.Request{Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "other"}}}); len(r.GetEnqueuedJobIds()) != 1 {
		t.Errorf("reply %v", r)
	}
	select {
	case <-parked.Done():
		t.Fatal("the fetch did not wait")
	default:
	}
	do(t, st, &stream.Request{Cancels: []uint64{parked.ID}})
	if r, err := parked.Reply(); err != nil || len(r.GetJobs()) != 0 {
		t.Errorf("cancelled fetch: %v, %v", r, err)
	}
}

func TestStream_ReplyNobodyWaitsForGoesToLate(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	late := make(chan *stream.Response, 1)
	st := open(t, s, stream.Options{Pipelined: true, Late: func(r *stream.Response) { late <- r }})
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := st.Do(ctx, fetch(1, time.Minute))
		gaveUp <- err
	}()
	s.Await("the fetch waits", func() bool { return s.Parked() == 1 })
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	id := s.Add("q", `{}`, nil)
	if r := <-late; len(r.GetJobs()) != 1 || r.GetJobs()[0].GetJobId() != id {
		t.Errorf("late reply %v", r)
	}
}

func TestStream_EndsWithItsReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts   peertest.Options
		faults peertest.Faults
		check  func(error) bool
	}{
		"not leader": {faults: peertest.Faults{NotLeader: 1}, check: func(err error) bool {
			var nl *stream.NotLeaderError
			return errors.As(err, &nl) && nl.Leader != ""
		}},
		"refused": {faults: peertest.Faults{Code: connect.CodeUnauthenticated}, check: func(err error) bool {
			return connect.CodeOf(err) == connect.CodeUnauthenticated
		}},
		"no streams": {opts: peertest.Options{NoStreams: true}, check: func(err error) bool {
			return connect.CodeOf(err) == connect.CodeUnimplemented
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, c.opts)
			s.Set(c.faults)
			st := open(t, s, stream.Options{Pipelined: true})
			if _, err := st.Do(t.Context(), fetch(1, 0)); !c.check(err) {
				t.Errorf("do: %v", err)
			}
			<-st.Done()
			if _, err := st.Send(fetch(1, 0)); !c.check(err) || !c.check(st.Err()) {
				t.Errorf("send: %v, stream: %v", err, st.Err())
			}
		})
	}
}

func TestStream_DeathEndsAllCalls(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	st := open(t, s, stream.Options{Pipelined: true})
	var calls []*stream.Call
	for range 5 {
		c, err := st.Send(fetch(1, time.Minute))
		if err != nil {
			t.Fatalf("send: %v", err)
		}
		calls = append(calls, c)
	}
	s.Await("all wait", func() bool { return s.Parked() == 5 })
	s.KillStreams()
	for _, c := range calls {
		if r, err := c.Reply(); err == nil {
			t.Errorf("reply %v", r)
		}
	}
}

func TestStream_CutEndsAtOnceWithItsReason(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	st := open(t, s, stream.Options{Pipelined: true})
	c, err := st.Send(fetch(1, time.Minute))
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	reason := errors.New("enough")
	st.Cut(reason)
	if _, err := c.Reply(); !errors.Is(err, reason) {
		t.Errorf("reply: %v", err)
	}
	<-st.Done()
}

func TestStream_DrainIsTold(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	st := open(t, s, stream.Options{Pipelined: true})
	do(t, st, &stream.Request{})
	s.Drain()
	select {
	case <-st.Drained():
	case <-time.After(10 * time.Second):
		t.Fatal("the stream does not know")
	}
	do(t, st, &stream.Request{}) // It still works.
}

func TestStream_ManySendersGetTheirOwnReplies(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	st := open(t, s, stream.Options{Pipelined: true})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 25 {
				payload := fmt.Sprintf(`"%d-%d"`, i, j)
				r, err := st.Do(t.Context(), &stream.Request{Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "q", PayloadJson: payload}}})
				if err != nil {
					t.Errorf("do: %v", err)
					return
				}
				if got := s.Job(r.GetEnqueuedJobIds()[0]).Payload; got != payload {
					t.Errorf("payload %s, want %s", got, payload)
				}
			}
		})
	}
	wg.Wait()
}

func TestStream_CloseOfAnIdleStreamIsQuick(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	st := stream.Open(t.Context(), dial(t, s), stream.Options{Pipelined: true})
	do(t, st, &stream.Request{})
	began := time.Now()
	if err := st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if d := time.Since(began); d > 900*time.Millisecond {
		t.Errorf("took %s", d)
	}
	if _, err := st.Send(&stream.Request{}); !errors.Is(err, stream.ErrClosed) {
		t.Errorf("send after close: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
