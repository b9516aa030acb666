package streams

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

type (
	frameIn  = corvov1.LifecycleStreamRequest
	frameOut = corvov1.LifecycleStreamResponse
)

const (
	// IdlePause paces a worker that asks for nothing or finds nothing.
	IdlePause = 100 * time.Millisecond
	// writeTimeout ends a stream whose client stopped reading.
	writeTimeout = 10 * time.Second
	// RecheckEvery is how soon a revoked key loses its open streams.
	RecheckEvery = 500 * time.Millisecond
)

// textNotLeader and textOverloaded are error words that existing clients match on.
const (
	textNotLeader  = "NOT_LEADER"
	textOverloaded = "OVERLOADED"
)

// Frames is what a stream is to us; connect's BidiStream is one. Receive and Send
// may run at the same time, each from one goroutine.
type Frames interface {
	Receive() (*frameIn, error)
	Send(*frameOut) error
}

// Session is who opened a stream, and what the stream may ask of the server.
type Session struct {
	Backend Backend
	Caller  queue.Caller
	// Tenant is by whom frames in flight are divided.
	Tenant string
	// Recheck asks whether the credential still holds; nil when somebody in front watches
	// that.
	Recheck func() error
	// TenantURL is where a client looks for another leader; empty: the leader's own address.
	TenantURL string
	// Forwarded: another node sits between the client and this one.
	Forwarded bool
	// Placement is who served the namespace when the stream came.
	Placement Placement
}

// Backend is the server that accepted the stream.
type Backend interface {
	// May refuses what the caller lacks.
	May(p permission.Permission) error
	// Enter waits until the node has room for so many units of work; leave ends it.
	Enter(ctx context.Context, units int64) (leave func(), err error)
	// Place finds who serves the caller's namespace, and waits a moment for a leader;
	// Route answers from memory.
	Place(ctx context.Context) (Placement, error)
	Route() (Placement, error)
	// Release gives back jobs that never reached their worker.
	Release(jobs *queue.Service, workerID string, grants []wire.FetchedJob)
	// TakeUnread counts jobs among what the tenant's clients have not read yet, or refuses them
	// when that is too much; GiveUnread ends it.
	TakeUnread(grants []wire.FetchedJob) (taken int64, err error)
	GiveUnread(taken int64)
	// Show is what of an error may be shown, Word its stable word, RetryAfterMS when to come
	// back (0 if that isn't known), and RPC how it ends a stream.
	Show(err error) *fault.Error
	Word(f *fault.Error) string
	RetryAfterMS(f *fault.Error) int64
	RPC(err error) error
}

// Placement is who serves a namespace.
type Placement struct {
	Jobs      *queue.Service // Nil when another node leads.
	LeaderURL string
}

// Stream is one open worker stream.
type Stream struct {
	Session

	set  *Set
	wire Frames
	rc   *http.ResponseController
	// ctx ends when the client is gone, a send failed or the stream is cut.
	ctx    context.Context
	cancel context.CancelFunc

	ending    atomic.Bool   // Set by End: the server wants this stream closed.
	ended     chan struct{} // Closed by End.
	pipelined atomic.Bool
	stuck     *Timeout // Started for each Send.
	strikes   int      // Frames in a row that failed; lock-step only.
}

// Reply is one answer and what to undo when it can not be delivered.
type Reply struct {
	Msg    *frameOut
	grants []wire.FetchedJob
	jobs   *queue.Service
	worker string
	unread int64 // What TakeUnread took for it.
	parked bool  // It has a place of its pipeline.
	// Last: close the stream after it.
	Last bool
}

// New makes the stream of a request; w is its answer, f its frames.
func New(ctx context.Context, w http.ResponseWriter, f Frames, set *Set, s Session) *Stream {
	st := &Stream{Session: s, set: set, wire: f, rc: http.NewResponseController(w), ended: make(chan struct{})}
	st.ctx, st.cancel = context.WithCancel(ctx)
	st.stuck = NewTimeout(func() {
		st.cancel()
		CutWrites(st.rc)
	})
	return st
}

// Close ends what the stream still waits for.
func (st *Stream) Close() { st.cancel() }

// Serve serves the stream in the mode its first frame asks for, until it ends.
func (st *Stream) Serve() error {
	if st.Session.Placement.Jobs == nil {
		return st.send(st.notLeader(0, st.Session.Placement))
	}
	if err := st.set.Add(st.Tenant, st); err != nil {
		return st.Backend.RPC(err)
	}
	defer st.set.Remove(st)
	// Some clients send their first frame only after the response headers.
	if err := st.wire.Send(nil); err != nil {
		return err
	}
	first, err := st.wire.Receive()
	if err != nil {
		return st.closing(err)
	}
	if first.GetPipelined() {
		return st.servePipelined(first)
	}
	return st.serveLockstep(first)
}

// End asks the stream to close: lock-step ones between two frames, pipelined ones
// after their client has been told and has taken its leave.
func (st *Stream) End() {
	if st.ending.Swap(true) {
		return
	}
	close(st.ended)
	if !st.pipelined.Load() {
		st.wake()
	}
}

// wake unblocks the goroutine that waits for the next frame.
func (st *Stream) wake() { CutReads(st.rc) }

// Cut ends the stream now.
func (st *Stream) Cut() {
	st.cancel()
	st.wake()
}

// closing turns the error of a Receive into the end of the stream.
func (st *Stream) closing(err error) error {
	if st.ending.Load() && st.ctx.Err() == nil {
		// Tell old clients where to go: they reopen on nothing else.
		p, perr := st.Backend.Route()
		if perr != nil {
			return st.Backend.RPC(perr)
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
func (st *Stream) passedOn() error {
	if !st.Forwarded || st.ctx.Err() != nil {
		return nil
	}
	return st.send(st.notLeader(0, Placement{}))
}

// serveLockstep answers frame by frame, in order.
func (st *Stream) serveLockstep(req *frameIn) error {
	for {
		if err := st.recheck(); err != nil {
			return st.Backend.RPC(err)
		}
		r := st.Answer(req)
		if err := st.Deliver(r); err != nil {
			return err
		}
		if r.Last {
			return nil
		}
		var err error
		if req, err = st.wire.Receive(); err != nil {
			return st.closing(err)
		}
	}
}

func (st *Stream) recheck() error {
	if st.Recheck == nil {
		return nil
	}
	return st.Recheck()
}

// Answer handles one lock-step frame.
func (st *Stream) Answer(req *frameIn) Reply {
	f := &frame{req: req}
	if !f.works() {
		f.wait = IdlePause
	}
	if f.empty() {
		// Without a permit: an idle worker must not take a busy one's place.
		st.pause(IdlePause)
		return st.nothing(f)
	}
	r := st.handle(st.ctx, f)
	if r.Msg.GetError() == "" {
		st.strikes = 0
	} else if !r.Last {
		// A client that goes on sending what we refuse is slowed down.
		st.strikes = min(st.strikes+1, 10)
		st.pause(time.Duration(st.strikes) * 50 * time.Millisecond)
	}
	return r
}

// pause sleeps unless the stream ends first.
func (st *Stream) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-st.ended:
	case <-st.ctx.Done():
	}
}

// Deliver sends an answer, or gives its jobs back if the stream is over already. A
// frame that was begun may have been read whatever Send says (see handOver), also
// when the client left right after it: its jobs are not taken back.
func (st *Stream) Deliver(r Reply) error {
	if st.ctx.Err() != nil {
		st.Undo(r)
		return context.Cause(st.ctx)
	}
	defer st.Delivered(r)
	return st.send(r.Msg)
}

// send writes one answer within writeTimeout. Only one goroutine may call it.
func (st *Stream) send(msg *frameOut) error {
	st.stuck.Start(writeTimeout)
	err := st.wire.Send(msg)
	st.stuck.Stop()
	if err == nil && st.ctx.Err() != nil {
		err = context.Cause(st.ctx)
	}
	return err
}

// Undo gives back the jobs of an answer that did not reach its client.
func (st *Stream) Undo(r Reply) {
	if len(r.grants) > 0 {
		st.Backend.Release(r.jobs, r.worker, r.grants)
	}
	st.Backend.GiveUnread(r.unread)
}

// Delivered ends what Undo would undo: the answer is no longer ours.
func (st *Stream) Delivered(r Reply) { st.Backend.GiveUnread(r.unread) }

// undo is Undo for an answer that is sent without its jobs.
func (st *Stream) undo(r *Reply) {
	st.Undo(*r)
	r.grants, r.unread = nil, 0
}

// take gives the jobs of an answer back if clients have left too much unread.
func (st *Stream) take(r *Reply) (err error) {
	if r.unread, err = st.Backend.TakeUnread(r.grants); err != nil {
		st.undo(r)
	}
	return err
}

// notLeader tells a client where the leader is: through a proxy that is the
// tenant's own URL, since node addresses are nobody's business outside.
func (st *Stream) notLeader(requestID uint64, p Placement) *frameOut {
	addr := st.TenantURL
	if addr == "" {
		addr = p.LeaderURL
	}
	return &frameOut{RequestId: requestID, Error: textNotLeader, Code: textNotLeader, LeaderAddr: addr}
}
