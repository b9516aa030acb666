package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

type (
	frameIn  = corvov1.LifecycleStreamRequest
	frameOut = corvov1.LifecycleStreamResponse
)

const (
	// idlePause paces a worker that asks for nothing or finds nothing.
	idlePause = 100 * time.Millisecond
	// writeTimeout ends a stream whose client stopped reading.
	writeTimeout = 10 * time.Second
	// recheckEvery is how soon a revoked key loses its open streams.
	recheckEvery = 500 * time.Millisecond
)

// textNotLeader is the error word existing clients match on.
const textNotLeader = "NOT_LEADER"

// past is a deadline that has passed: it unblocks a read or a write at once.
var past = time.Unix(1, 0)

// frames is what a stream is to us; connect's BidiStream is one. Receive and Send
// may run at the same time, each from one goroutine.
type frames interface {
	Receive() (*frameIn, error)
	Send(*frameOut) error
}

// stream is one open worker stream.
type stream struct {
	s    *Server
	c    *call
	wire frames
	rc   *http.ResponseController
	// ctx ends when the client is gone, a send failed or the stream is cut.
	ctx    context.Context
	cancel context.CancelFunc

	ending    atomic.Bool   // Set by end: the server wants this stream closed.
	ended     chan struct{} // Closed by end.
	pipelined atomic.Bool
	stuck     *fuse // Lit while a Send runs.
	strikes   int   // Frames in a row that failed; lock-step only.
}

// reply is one answer and what to undo when it can not be delivered.
type reply struct {
	msg    *frameOut
	grants []wire.FetchedJob
	jobs   *queue.Service
	worker string
	// last: close the stream after it.
	last bool
}

// enterStream chooses how a stream is served: carried to the leader, as a single
// exchange, or here.
func (s *Server) enterStream(c *call) error {
	if isUnary(c.r) {
		if c.place.Local == nil {
			return s.carry(c)
		}
		return s.singleExchange(c)
	}
	if c.place.Local == nil && c.who.Identity.ProxyStream && !s.isDraining() {
		if _, err := s.target(c); err == nil {
			err := s.carryStream(c)
			if err == nil || fault.CodeOf(err) == fault.Exhausted {
				return err
			}
			// Nothing was sent to the client yet: it is told NOT_LEADER below and
			// opens a new stream, by then with a new leader.
		}
	}
	return c.route.handle(c)
}

// isUnary: the TypeScript worker posts one frame as an ordinary JSON call.
func isUnary(r *http.Request) bool {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (t == "application/json" || t == "application/proto")
}

func (s *Server) singleExchange(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	var req frameIn
	asJSON := c.r.Header.Get("Content-Type") != "application/proto"
	if asJSON {
		err = shape.UnmarshalJSON(orEmpty(body), &req)
	} else {
		err = shape.UnmarshalProto(body, &req)
	}
	if err != nil {
		return fault.New(fault.Invalid, "PARSE_ERROR", "the frame can't be parsed")
	}
	st := s.newStream(c, nil)
	defer st.cancel()
	r := st.answer(&req)
	out, contentType := []byte(nil), "application/proto"
	if asJSON {
		contentType = "application/json"
		out, err = protojson.Marshal(r.msg)
	} else {
		out, err = proto.Marshal(r.msg)
	}
	if err == nil {
		err = handOver(c.w, c.r, contentType, out)
	}
	if err != nil {
		st.undo(r)
	}
	return nil
}

func (s *Server) newStream(c *call, w frames) *stream {
	st := &stream{s: s, c: c, wire: w, rc: http.NewResponseController(c.w), ended: make(chan struct{})}
	st.ctx, st.cancel = context.WithCancel(c.r.Context())
	st.stuck = newFuse(func() {
		st.cancel()
		_ = st.rc.SetWriteDeadline(past) // On HTTP/2, where streams live, it is supported.
	})
	return st
}

// StreamLifecycle serves one stream in the mode its first frame asks for.
func (h *workers) StreamLifecycle(ctx context.Context, bidi *connect.BidiStream[frameIn, frameOut]) error {
	c, s := callOf(ctx), h.s
	c.r = c.r.WithContext(ctx)
	st := s.newStream(c, bidi)
	defer st.cancel()
	if c.place.Local == nil {
		return st.send(st.notLeader(0, c.place))
	}
	if !s.streams.add(st, s.opts.StreamsMax) {
		return rpcError(ctx, s.log, errTooManyStreams())
	}
	defer s.streams.remove(st)
	if s.isDraining() {
		st.end() // Drain may have passed before we were in the set.
	}
	// Some clients send their first frame only after the response headers.
	if err := bidi.Send(nil); err != nil {
		return err
	}
	first, err := bidi.Receive()
	if err != nil {
		return st.closing(err)
	}
	if first.GetPipelined() {
		return st.servePipelined(first)
	}
	return st.serveLockstep(first)
}

func errTooManyStreams() error {
	return fault.New(fault.Exhausted, "OVERLOADED", "OVERLOADED: too many open streams")
}

// end asks the stream to close: lock-step ones between two frames, pipelined ones
// after their client has been told and has taken its leave.
func (st *stream) end() {
	if st.ending.Swap(true) {
		return
	}
	close(st.ended)
	if !st.pipelined.Load() {
		st.wake()
	}
}

// wake unblocks the goroutine that waits for the next frame.
func (st *stream) wake() { _ = st.rc.SetReadDeadline(past) }

// cut ends the stream now.
func (st *stream) cut() {
	st.cancel()
	st.wake()
}

// closing turns the error of a Receive into the end of the stream.
func (st *stream) closing(err error) error {
	if st.ending.Load() && st.ctx.Err() == nil {
		// Tell old clients where to go: they reopen on nothing else.
		p, perr := st.s.router.Route(st.c.who.Caller.Namespace)
		if perr != nil {
			return rpcError(st.ctx, st.s.log, perr)
		}
		return st.send(st.notLeader(0, p))
	}
	if errors.Is(err, io.EOF) || st.ctx.Err() != nil {
		return st.passedOn()
	}
	return err
}

// passedOn tells the client of a stream that was carried here and is over to open
// another: it may be that the node in between goes away, which can not say so
// itself. A client that ended the stream is not listening any more.
func (st *stream) passedOn() error {
	if !st.c.who.Forwarded || st.ctx.Err() != nil {
		return nil
	}
	return st.send(st.notLeader(0, Placement{}))
}

// serveLockstep answers frame by frame, in order.
func (st *stream) serveLockstep(req *frameIn) error {
	for {
		if err := st.recheck(); err != nil {
			return rpcError(st.ctx, st.s.log, err)
		}
		r := st.answer(req)
		if err := st.deliver(r); err != nil {
			return err
		}
		if r.last {
			return nil
		}
		var err error
		if req, err = st.wire.Receive(); err != nil {
			return st.closing(err)
		}
	}
}

func (st *stream) recheck() error {
	if st.c.who.Recheck == nil {
		return nil
	}
	return st.c.who.Recheck()
}

// answer handles one lock-step frame.
func (st *stream) answer(req *frameIn) reply {
	f := parseFrame(req)
	f.wait = 0
	if !f.works() {
		f.wait = idlePause
	}
	if f.empty() {
		// Without a permit: an idle worker must not take a busy one's place.
		st.pause(idlePause)
		return reply{msg: &frameOut{RequestId: req.GetRequestId()}}
	}
	r := st.handle(st.ctx, f)
	if r.msg.GetError() == "" {
		st.strikes = 0
	} else if !r.last {
		// A client that goes on sending what we refuse is slowed down.
		st.strikes = min(st.strikes+1, 10)
		st.pause(time.Duration(st.strikes) * 50 * time.Millisecond)
	}
	return r
}

// pause sleeps unless the stream ends first.
func (st *stream) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-st.ended:
	case <-st.ctx.Done():
	}
}

// deliver sends an answer, or gives its jobs back if the stream is over already. A
// frame that was begun may have been read whatever Send says (see handOver), also
// when the client left right after it: its jobs are not taken back.
func (st *stream) deliver(r reply) error {
	if st.ctx.Err() != nil {
		st.undo(r)
		return context.Cause(st.ctx)
	}
	return st.send(r.msg)
}

// send writes one answer within writeTimeout. Only one goroutine may call it.
func (st *stream) send(msg *frameOut) error {
	st.stuck.light(writeTimeout)
	err := st.wire.Send(msg)
	st.stuck.put()
	if err == nil && st.ctx.Err() != nil {
		err = context.Cause(st.ctx)
	}
	return err
}

// undo gives back the jobs of an answer that did not reach its client.
func (st *stream) undo(r reply) {
	if len(r.grants) > 0 {
		st.s.release(r.jobs, st.c.who.Caller, r.worker, r.grants)
	}
}

// notLeader tells a client where the leader is: through a proxy that is the
// tenant's own URL, since node addresses are nobody's business outside.
func (st *stream) notLeader(requestID uint64, p Placement) *frameOut {
	addr := st.c.who.Identity.TenantURL
	if addr == "" {
		addr = p.LeaderURL
	}
	return &frameOut{RequestId: requestID, Error: textNotLeader, Code: textNotLeader, LeaderAddr: addr}
}
