// Package stream is the low level of the worker protocol: one open
// StreamLifecycle, frames out, replies in, matched by request id. The worker
// runtime of package corvo is built on it, and so are load generators.
//
// It owns request ids and the life of one stream. It knows nothing of retries,
// leases or handlers, and it never follows an address that a server names.
//
// Surprising fact: on a pipelined stream more than one frame in flight makes a
// worker slower, not faster. Settle with one frame at a time and let what
// finishes meanwhile ride in the next one; keep extra frames for fetches that
// wait, because those would hold everything else back.
package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

// Request and Response are one frame and its reply as they stand on the wire.
type (
	Request  = corvov1.LifecycleStreamRequest
	Response = corvov1.LifecycleStreamResponse
)

// ErrClosed is returned for frames on a stream that ended without an error of
// its own: this side closed it, or the server did so in good order.
var ErrClosed = errors.New("stream closed")

// NotLeaderError says that the server cannot serve the stream and closed it.
// Leader is informative: a client must not dial an address outside the origin
// that its user configured.
type NotLeaderError struct {
	Leader string
}

func (e *NotLeaderError) Error() string { return "the node does not lead this namespace" }

// Text that stands in Response.error. Everything else is for people.
const (
	TextNotLeader        = "NOT_LEADER"
	TextOverloadedPrefix = "OVERLOADED:"
)

// closeTimeout bounds the wait for a server to end its half after Close.
const closeTimeout = time.Second

// Options configure Open. The zero value is a lock-step stream.
type Options struct {
	// Pipelined lets replies come in any order. Without it the server answers
	// frame by frame, and a fetch that waits holds back what comes after it.
	Pipelined bool
	// Late receives replies that no call waits for any more: the second reply to
	// a frame, or one that came after its caller gave up. It may carry leased
	// jobs, so whoever cancels calls should set it. It is called by the receiving
	// goroutine and must not block.
	Late func(*Response)
}

// Stream is one open StreamLifecycle. Its methods may be called by several
// goroutines.
type Stream struct {
	conn   *connect.BidiStreamForClient[Request, Response]
	cancel context.CancelFunc
	opts   Options

	// sending has a token while a frame is written, so that ids leave in order. A channel,
	// because a write lasts until the peer takes it, and time has to pass meanwhile in tests
	// with a clock of their own.
	sending chan struct{}
	nextID  uint64 // Guarded by sending.

	mu    sync.Mutex // Guards calls, err, ended.
	calls map[uint64]*Call
	err   error
	ended bool

	drainOnce sync.Once
	drained   chan struct{} // Closed by receive, once.
	done      chan struct{} // Closed by receive when it returns.
}

// Call is a frame that was sent.
type Call struct {
	// ID is the request id of the frame, for Request.Cancels.
	ID    uint64
	done  chan struct{} // Closed by whoever removes the call from Stream.calls.
	reply *Response
	err   error
}

// Done is closed when the reply is there or the stream has ended.
func (c *Call) Done() <-chan struct{} { return c.done }

// Reply waits for the answer. A reply may itself report trouble in its error
// field; an error here means that there is none and that what the frame asked
// for may or may not have happened.
func (c *Call) Reply() (*Response, error) {
	<-c.done
	return c.reply, c.err
}

// Open starts a stream. It does not wait for the server: a refusal shows in the
// first call. The stream ends when ctx does; Close must be called in any case.
func Open(ctx context.Context, client corvov1connect.WorkerServiceClient, opts Options) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{
		conn:    client.StreamLifecycle(ctx),
		cancel:  cancel,
		opts:    opts,
		sending: make(chan struct{}, 1),
		calls:   make(map[uint64]*Call),
		drained: make(chan struct{}),
		done:    make(chan struct{}),
	}
	// The receiver needs the request to be under way. Headers alone are enough.
	if err := s.conn.Send(nil); err != nil && !errors.Is(err, io.EOF) {
		cancel()
		s.finish(err)
		close(s.done)
		return s
	}
	go s.receive()
	return s
}

// Send writes one frame and returns without waiting for its reply. It sets
// request_id, and pipelined on the first frame. The frame must not be changed
// afterwards.
func (s *Stream) Send(frame *Request) (*Call, error) {
	s.sending <- struct{}{}
	defer func() { <-s.sending }()
	s.nextID++
	frame.RequestId = s.nextID
	if s.nextID == 1 {
		frame.Pipelined = s.opts.Pipelined
	}
	call := &Call{ID: s.nextID, done: make(chan struct{})}
	if err := s.register(call); err != nil {
		return nil, err
	}
	if err := s.conn.Send(frame); err != nil {
		// Connect reports io.EOF here when the server has ended the stream; the
		// reason is with the receiver.
		if errors.Is(err, io.EOF) {
			<-s.done
			return nil, s.Err()
		}
		s.finish(err)
		s.cancel()
		return nil, s.Err()
	}
	return call, nil
}

// Do sends a frame and waits for its reply. If ctx ends first the frame is not
// taken back: the reply goes to Options.Late.
func (s *Stream) Do(ctx context.Context, frame *Request) (*Response, error) {
	call, err := s.Send(frame)
	if err != nil {
		return nil, err
	}
	select {
	case <-call.done:
		return call.reply, call.err
	case <-ctx.Done():
		if s.forget(call) {
			return nil, fmt.Errorf("wait for frame %d: %w", call.ID, context.Cause(ctx))
		}
		return call.Reply()
	}
}

// Drained is closed when the server says that it is going away: what is running
// may still be settled here, new work is to be fetched elsewhere.
func (s *Stream) Drained() <-chan struct{} { return s.drained }

// Done is closed when the stream has ended.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Err is the reason why the stream ended; nil while it lives.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the stream and waits until its goroutine is gone. Frames without a
// reply fail with ErrClosed.
func (s *Stream) Close() error {
	s.finish(ErrClosed)
	err := s.conn.CloseRequest()
	// The server ends its half when it reads the end of ours. One that does not
	// is cut off.
	timer := time.NewTimer(closeTimeout)
	select {
	case <-s.done:
		timer.Stop()
	case <-timer.C:
	}
	s.cancel()
	<-s.done
	if err != nil && !errors.Is(err, io.EOF) && connect.CodeOf(err) != connect.CodeCanceled {
		return fmt.Errorf("close stream: %w", err)
	}
	return nil
}

// Cut ends the stream at once and without waiting, for the given reason. It also
// frees a Send that is stuck because the server does not read.
func (s *Stream) Cut(reason error) {
	s.finish(reason)
	s.cancel()
}

func (s *Stream) register(call *Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return s.err
	}
	s.calls[call.ID] = call
	return nil
}

// forget removes a call that nobody waits for; false if it was answered.
func (s *Stream) forget(call *Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.calls[call.ID]; !ok {
		return false
	}
	delete(s.calls, call.ID)
	return true
}

// finish ends all waiting calls with err. The first reason stays.
func (s *Stream) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	for id, call := range s.calls {
		delete(s.calls, id)
		call.err = err
		close(call.done)
	}
}

// receive is the only reader. Close and the end of ctx stop it.
func (s *Stream) receive() {
	defer close(s.done)
	defer s.cancel()
	for {
		reply, err := s.conn.Receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = ErrClosed
			}
			s.finish(err)
			s.closeResponse()
			return
		}
		if reply.GetRequestId() == 0 {
			if s.unasked(reply) {
				continue
			}
			s.closeResponse()
			return
		}
		s.deliver(reply)
	}
}

// unasked handles a frame with request id 0; false means that the stream is over.
func (s *Stream) unasked(reply *Response) bool {
	switch {
	case reply.GetError() == TextNotLeader:
		s.finish(&NotLeaderError{Leader: reply.GetLeaderAddr()})
		return false
	case reply.GetError() != "":
		s.finish(fmt.Errorf("stream refused: %s", reply.GetError()))
		return false
	case reply.GetDrain():
		s.drainOnce.Do(func() { close(s.drained) })
	}
	return true
}

func (s *Stream) deliver(reply *Response) {
	s.mu.Lock()
	call, ok := s.calls[reply.GetRequestId()]
	if ok {
		delete(s.calls, reply.GetRequestId())
		call.reply = reply
		close(call.done)
	}
	s.mu.Unlock()
	if !ok && s.opts.Late != nil {
		s.opts.Late(reply)
	}
}

// closeResponse frees the connection's side of the stream. Its error says
// nothing that finish was not told.
func (s *Stream) closeResponse() {
	s.cancel()
	if err := s.conn.CloseResponse(); err != nil {
		return
	}
}
