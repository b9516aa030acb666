package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

type (
	frame  = corvov1.LifecycleStreamRequest
	answer = corvov1.LifecycleStreamResponse
	wire   = connect.BidiStreamForClient[frame, answer]
)

// overStream speaks the worker stream, one call per frame. The stream is opened with
// the first call, and again when the server says that its leader is elsewhere.
type overStream struct {
	rpc  *overRPC
	stop context.CancelFunc
	ctx  context.Context // The life of the stream, which is longer than a call's.

	mu      sync.Mutex // Guards what follows, and sending.
	open    *wire
	last    uint64
	waiting map[uint64]chan *answer // Closed without an answer when the stream ends.
}

func newStream(target Target) *overStream {
	ctx, stop := context.WithCancel(context.Background())
	return &overStream{rpc: newRPC(target), ctx: ctx, stop: stop, waiting: make(map[uint64]chan *answer)}
}

func (s *overStream) Close() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	if open != nil {
		_ = open.CloseRequest()  // Nobody waits for an answer any more.
		_ = open.CloseResponse() // The same.
	}
	s.stop()
	s.rpc.Close()
}

const (
	// reopenings and reopenEvery bound how long a frame follows a leader around.
	reopenings  = 100
	reopenEvery = 50 * time.Millisecond
)

// do sends one frame and waits for its answer, which may be a refusal.
func (s *overStream) do(ctx context.Context, f *frame) (*answer, error) {
	for range reopenings {
		got, err := s.once(ctx, f)
		switch {
		case err != nil:
			return nil, err
		case got == nil || got.GetError() == "NOT_LEADER":
			select {
			case <-time.After(reopenEvery):
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return got, refusedOverStream(got)
	}
	return nil, errors.New("no leader takes the stream")
}

func (s *overStream) once(ctx context.Context, f *frame) (*answer, error) {
	ch, err := s.send(f)
	if err != nil {
		return nil, err
	}
	select {
	case got := <-ch:
		return got, nil // Nil: the stream ended, and the frame was not answered.
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *overStream) send(f *frame) (<-chan *answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = s.rpc.client.StreamLifecycle(s.ctx)
		go s.receive(s.open) // Ends with the stream.
	}
	s.last++
	f.RequestId, f.Pipelined = s.last, true
	ch := make(chan *answer, 1)
	s.waiting[s.last] = ch
	if err := s.open.Send(f); err != nil {
		delete(s.waiting, s.last)
		s.open = nil
		close(ch)
	}
	return ch, nil
}

// receive hands answers to their callers until the stream ends.
func (s *overStream) receive(w *wire) {
	for {
		got, err := w.Receive()
		s.mu.Lock()
		if err != nil || got.GetError() == "NOT_LEADER" {
			for id, ch := range s.waiting {
				delete(s.waiting, id)
				close(ch)
			}
			if s.open == w {
				s.open = nil
			}
			s.mu.Unlock()
			return
		}
		ch := s.waiting[got.GetRequestId()]
		delete(s.waiting, got.GetRequestId())
		s.mu.Unlock()
		if ch != nil {
			ch <- got
		}
	}
}

// refusedOverStream is the error of a frame's part.
func refusedOverStream(a *answer) error {
	if a.GetError() == "" {
		return nil
	}
	_, text, _ := strings.Cut(strings.TrimPrefix(a.GetError(), "OVERLOADED: "), ": ") // Behind the word for the part.
	r := &Refusal{Code: a.GetCode(), Text: text}
	for _, v := range a.GetViolations() {
		r.Fields = append(r.Fields, v.GetField())
	}
	r.Fields = plainFields(r.Fields)
	return r
}

func (s *overStream) enqueue(ctx context.Context, jobs []Job) ([]Enqueued, error) {
	f := &frame{}
	for i := range jobs {
		f.Enqueues = append(f.Enqueues, like(&corvov1.LifecycleEnqueueItem{}, jobToProto(&jobs[i])))
	}
	a, err := s.do(ctx, f)
	if err != nil {
		return nil, err
	}
	out := make([]Enqueued, len(a.GetEnqueueResults()))
	for i, r := range a.GetEnqueueResults() {
		out[i] = enqueuedFromProto(r)
	}
	if len(out) != len(jobs) {
		return nil, fmt.Errorf("%d results of %d enqueues", len(out), len(jobs))
	}
	return out, nil
}

func (s *overStream) Enqueue(ctx context.Context, j Job) (Enqueued, error) {
	out, err := s.enqueue(ctx, []Job{j})
	if err != nil {
		return Enqueued{}, err
	}
	return out[0], nil
}

func (s *overStream) EnqueueBatch(ctx context.Context, jobs []Job, b *Batch) (EnqueuedBatch, error) {
	if b != nil {
		return EnqueuedBatch{}, cannot("a frame makes no batch; its jobs join one that is open")
	}
	out, err := s.enqueue(ctx, jobs)
	return EnqueuedBatch{Jobs: out}, err
}

func (s *overStream) Fetch(ctx context.Context, f Fetch) ([]Lease, error) {
	a, err := s.do(ctx, &frame{
		Queues: f.Queues, WorkerId: f.Worker, Hostname: f.Hostname, LeaseDuration: int32(f.Lease / time.Second), FetchCount: int32(max(f.Count, 1)),
		WaitMs: new(f.Wait.Milliseconds()),
	})
	if err != nil {
		return nil, err
	}
	return leasesFromProto(a.GetJobs())
}

// Limits implements Client.
func (s *overStream) Limits(ctx context.Context, to, from string) (Limits, error) {
	enqueued, err := s.do(ctx, &frame{Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: to}}})
	if err != nil {
		return Limits{}, err
	}
	fetched, err := s.do(ctx, &frame{Queues: []string{from}, FetchCount: 1, WaitMs: new(int64(0))})
	q := enqueued.GetEnqueueQuota()
	return Limits{Quota: q.GetLimit(), Left: q != nil && q.GetRemaining() <= q.GetLimit(), Held: fetched.GetHeld().GetLimit()}, err
}

func (s *overStream) Ack(ctx context.Context, a Ack) error {
	errs, err := s.AckBatch(ctx, a.Worker, []Ack{a})
	switch {
	case err != nil:
		return err
	case len(errs) != 1:
		return fmt.Errorf("%d outcomes of one ack", len(errs))
	}
	return errs[0]
}

func (s *overStream) AckBatch(ctx context.Context, worker string, acks []Ack) ([]error, error) {
	a, err := s.do(ctx, &frame{WorkerId: worker, Acks: acksToProto(acks)})
	if err != nil {
		return nil, err
	}
	return outcomesFromProto(a.GetAckOutcomes()), nil
}

func (s *overStream) Fail(ctx context.Context, f Fail) (Failed, error) {
	a, err := s.do(ctx, &frame{WorkerId: f.Worker, Fails: []*corvov1.LifecycleFailItem{like(&corvov1.LifecycleFailItem{}, failToProto(&f))}})
	if err != nil {
		return Failed{}, err
	}
	if len(a.GetFailOutcomes()) != 1 {
		return Failed{}, fmt.Errorf("%d outcomes of one fail", len(a.GetFailOutcomes()))
	}
	o := a.GetFailOutcomes()[0]
	return failedFromProto(like(&corvov1.FailResponse{}, o)), itemError(o.GetCode(), o.GetError())
}

func (s *overStream) Heartbeat(ctx context.Context, h Heartbeat) (map[string]HeartbeatResult, error) {
	a, err := s.do(ctx, &frame{WorkerId: h.Worker, LeaseDuration: int32(h.Lease / time.Second), Heartbeats: updatesToProto(h.Jobs)})
	if err != nil {
		return nil, err
	}
	return resultsFromProto(a.GetHeartbeats()), nil
}
