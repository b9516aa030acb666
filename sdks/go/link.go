package corvo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

// link is a way to the server that carries frames: a stream, or unary calls where
// streams do not get through. When it breaks, what was under way is unknown.
type link interface {
	// exchange sends a frame that does not wait for jobs.
	exchange(ctx context.Context, frame *stream.Request) (*stream.Response, error)
	// fetch sends a frame that waits for jobs. When stop is closed it gives the
	// wait up, and still returns what was granted before the server heard of it.
	fetch(ctx context.Context, frame *stream.Request, stop <-chan struct{}) (*stream.Response, error)
	// drained is closed when work should move to another link.
	drained() <-chan struct{}
	// done is closed when the link broke.
	done() <-chan struct{}
	err() error
	// answered reports whether the server ever replied without an error.
	answered() bool
	close() error
}

// answerTimeout is how long a frame may stay without an answer, beyond the wait
// that it asked for, before the link counts as broken.
const answerTimeout = 15 * time.Second

// cancelTimeout is the same for a fetch that was taken back.
const cancelTimeout = 5 * time.Second

var (
	errNoAnswer     = errors.New("no answer in time")
	errNoPipelining = errors.New("the server does not know pipelined streams")
)

// streamLink is one pipelined stream.
type streamLink struct {
	s       *stream.Stream
	replied atomic.Bool
}

func openStreamLink(ctx context.Context, rpc corvov1connect.WorkerServiceClient, late func([]*corvov1.FetchBatchJob)) *streamLink {
	s := stream.Open(ctx, rpc, stream.Options{
		Pipelined: true,
		Late: func(r *stream.Response) {
			if len(r.GetJobs()) > 0 {
				late(r.GetJobs())
			}
		},
	})
	return &streamLink{s: s}
}

func (l *streamLink) exchange(ctx context.Context, frame *stream.Request) (*stream.Response, error) {
	call, err := l.send(frame)
	if err != nil {
		return nil, err
	}
	return l.await(ctx, call, answerTimeout)
}

// send writes a frame. A server that does not read would block it for ever.
func (l *streamLink) send(frame *stream.Request) (*stream.Call, error) {
	guard := time.AfterFunc(answerTimeout, func() { l.s.Cut(errNoAnswer) })
	defer guard.Stop()
	return l.s.Send(frame)
}

func (l *streamLink) fetch(ctx context.Context, frame *stream.Request, stop <-chan struct{}) (*stream.Response, error) {
	call, err := l.send(frame)
	if err != nil {
		return nil, err
	}
	limit := time.NewTimer(answerTimeout + time.Duration(frame.GetWaitMs())*time.Millisecond)
	defer limit.Stop()
	select {
	case <-call.Done():
	case <-limit.C:
		return nil, errNoAnswer
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-stop:
		// The answer still counts: it says which jobs were granted meanwhile.
		if _, err := l.send(&stream.Request{WorkerId: frame.WorkerId, Cancels: []uint64{call.ID}}); err != nil {
			return nil, err
		}
	}
	return l.await(ctx, call, cancelTimeout)
}

func (l *streamLink) await(ctx context.Context, call *stream.Call, limit time.Duration) (*stream.Response, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-call.Done():
	case <-timer.C:
		return nil, errNoAnswer
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	reply, err := call.Reply()
	if err == nil && reply.GetError() == "" && !l.replied.Load() {
		l.replied.Store(true)
	}
	return reply, err
}

func (l *streamLink) drained() <-chan struct{} { return l.s.Drained() }
func (l *streamLink) done() <-chan struct{}    { return l.s.Done() }
func (l *streamLink) err() error               { return l.s.Err() }
func (l *streamLink) answered() bool           { return l.replied.Load() }
func (l *streamLink) close() error             { return l.s.Close() }

// pollWait is short because a long poll cannot be taken back without risking a
// job that was granted into a closed connection: a drain waits it out.
const pollWait = 2 * time.Second

// pollTurn is how long polling lasts before the stream is tried again.
const pollTurn = time.Minute

// pollLink carries frames as unary calls.
type pollLink struct {
	rpc     corvov1connect.WorkerServiceClient
	turn    *time.Timer
	over    chan struct{} // Closed by turn.
	never   chan struct{}
	replied atomic.Bool
}

func openPollLink(rpc corvov1connect.WorkerServiceClient, turn time.Duration) *pollLink {
	l := &pollLink{rpc: rpc, over: make(chan struct{}), never: make(chan struct{})}
	l.turn = time.AfterFunc(turn, func() { close(l.over) })
	return l
}

func (l *pollLink) drained() <-chan struct{} { return l.over }
func (l *pollLink) done() <-chan struct{}    { return l.never }
func (l *pollLink) err() error               { return nil }
func (l *pollLink) answered() bool           { return l.replied.Load() }

func (l *pollLink) close() error {
	l.turn.Stop()
	return nil
}

func (l *pollLink) exchange(ctx context.Context, frame *stream.Request) (*stream.Response, error) {
	reply := &stream.Response{}
	for _, step := range []func(context.Context, *stream.Request, *stream.Response) error{l.acks, l.fails, l.heartbeats, l.jobs} {
		if err := step(ctx, frame, reply); err != nil {
			if !refusedForNow(err) {
				return nil, err
			}
			sayRefusal(reply, err)
			return reply, nil
		}
	}
	if reply.GetError() == "" {
		l.replied.Store(true)
	}
	return reply, nil
}

// refusedForNow: the server said no to one call, as it would to one frame of a stream.
func refusedForNow(err error) bool {
	if !connect.IsWireError(err) || blamesFrame(err) {
		return false
	}
	code := errorFromRPC(err).Code
	return code == CodeExhausted || code == CodeUnavailable
}

// sayRefusal writes err into the reply as a stream would.
func sayRefusal(reply *stream.Response, err error) {
	e := errorFromRPC(err)
	reply.Error, reply.RetryAfterMs = err.Error(), e.RetryAfter.Milliseconds()
	if e.Code == CodeExhausted {
		reply.Error = stream.TextOverloadedPrefix + " " + reply.Error
	}
}

// fetch ignores stop; see pollWait.
func (l *pollLink) fetch(ctx context.Context, frame *stream.Request, _ <-chan struct{}) (*stream.Response, error) {
	wait := min(frame.GetWaitMs(), pollWait.Milliseconds())
	frame.WaitMs = &wait
	return l.exchange(ctx, frame)
}

func (l *pollLink) acks(ctx context.Context, frame *stream.Request, reply *stream.Response) error {
	if len(frame.GetAcks()) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	resp, err := l.rpc.AckBatch(ctx, connect.NewRequest(&corvov1.AckBatchRequest{Items: frame.GetAcks(), WorkerId: frame.GetWorkerId()}))
	if err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	reply.Acked, reply.AckOutcomes = resp.Msg.GetAcked(), resp.Msg.GetOutcomes()
	return nil
}

func (l *pollLink) fails(ctx context.Context, frame *stream.Request, reply *stream.Response) error {
	for _, f := range frame.GetFails() {
		out, err := l.fail(ctx, f, frame.GetWorkerId())
		if err != nil {
			return err
		}
		reply.FailOutcomes = append(reply.FailOutcomes, out)
	}
	return nil
}

func (l *pollLink) fail(ctx context.Context, f *corvov1.LifecycleFailItem, worker string) (*corvov1.LifecycleFailOutcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	resp, err := l.rpc.Fail(ctx, connect.NewRequest(&corvov1.FailRequest{
		JobId: f.GetJobId(), Error: f.GetError(), Backtrace: f.GetBacktrace(),
		LeaseToken: f.GetLeaseToken(), WorkerId: worker, Release: f.GetRelease(),
		Terminal: f.GetTerminal(), DelayMs: f.DelayMs, Usage: f.GetUsage(),
	}))
	out := &corvov1.LifecycleFailOutcome{JobId: f.GetJobId()}
	if err != nil {
		e := errorFromRPC(err)
		code, refused := outcomeOfRefusal(e)
		if !refused {
			return nil, fmt.Errorf("fail: %w", err)
		}
		out.Code, out.Error = code, e.Message
		return out, nil
	}
	out.Status, out.NextAttemptAt = resp.Msg.GetStatus(), resp.Msg.GetNextAttemptAt()
	out.AttemptsRemaining = resp.Msg.GetAttemptsRemaining()
	return out, nil
}

// outcomeOfRefusal is the word a batch would have said.
func outcomeOfRefusal(e *Error) (string, bool) {
	switch e.Code {
	case CodeLeaseLost:
		return "LEASE_LOST", true
	case CodeNotFound:
		return "NOT_FOUND", true
	case CodeConflict:
		return "NOT_ACTIVE", true
	case CodeInvalid, CodeTooLarge:
		return "VALIDATION_ERROR", true
	}
	return "", false
}

func (l *pollLink) heartbeats(ctx context.Context, frame *stream.Request, reply *stream.Response) error {
	if len(frame.GetHeartbeats()) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	resp, err := l.rpc.Heartbeat(ctx, connect.NewRequest(&corvov1.HeartbeatRequest{
		Jobs: frame.GetHeartbeats(), WorkerId: frame.GetWorkerId(), LeaseDuration: frame.GetLeaseDuration(),
	}))
	if err != nil {
		e := errorFromRPC(err)
		if e.Code != CodeInvalid && e.Code != CodeTooLarge {
			return fmt.Errorf("heartbeat: %w", err)
		}
		reply.Error = "heartbeat: " + e.Message
		for _, f := range append(e.Fields, Field{Name: "jobs", Message: "refused"}) {
			reply.Violations = append(reply.Violations, &corvov1.FieldViolation{Field: f.Name, Message: f.Message})
		}
		return nil
	}
	reply.Heartbeats = resp.Msg.GetJobs()
	return nil
}

func (l *pollLink) jobs(ctx context.Context, frame *stream.Request, reply *stream.Response) error {
	if frame.GetFetchCount() == 0 {
		return nil
	}
	wait := frame.GetWaitMs()
	limit := answerTimeout + time.Duration(wait)*time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNoAnswer)
	defer cancel()
	resp, err := l.rpc.FetchBatch(ctx, connect.NewRequest(&corvov1.FetchBatchRequest{
		Queues: frame.GetQueues(), WorkerId: frame.GetWorkerId(), Hostname: frame.GetHostname(),
		LeaseDuration: frame.GetLeaseDuration(), Count: frame.GetFetchCount(), WaitMs: &wait,
	}))
	if err != nil {
		err = fmt.Errorf("fetch: %w", err)
		if len(frame.GetAcks())+len(frame.GetFails()) == 0 {
			return err
		}
		// Settlements of this frame have been answered; the fetch can be repeated.
		sayRefusal(reply, err)
		return nil
	}
	reply.Jobs, reply.Held = resp.Msg.GetJobs(), resp.Msg.GetHeld()
	return nil
}
