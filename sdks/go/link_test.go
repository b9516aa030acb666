package corvo

import (
	"context"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/sdks/go/internal/peertest"
)

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
