package streams

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/messages"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Bounds of one pipelined stream.
const (
	// ParkedMax is how many fetches may wait at a time, for jobs or for their answer to be
	// sent.
	ParkedMax = 64
	// concurrentMax frames may wait for their commit; the next one is not read
	// until one of them is answered.
	concurrentMax = 64
	repliesMax    = 64
)

// pipeline is a stream whose frames are handled at the same time and answered in
// any order. Three kinds of goroutine: the handler's own reads frames, one each
// handles a frame, one writes answers. Nothing is locked while anything is sent.
type pipeline struct {
	*Stream
	replies  chan Reply         // Closed after the last handler is done.
	handlers sync.WaitGroup     // The goroutines that handle frames.
	slots    chan struct{}      // Permits of frames that do not park.
	places   chan struct{}      // Permits of those that do, until the writer takes their answer.
	parking  context.Context    // Parent of every parked fetch.
	giveUp   context.CancelFunc // Ends parking.
	leaving  atomic.Bool        // Our last answer is out; the client is not read any more.
	refused  atomic.Int32       // Frames in a row that were refused.

	mu     sync.Mutex // Guards parked.
	parked map[uint64]context.CancelFunc
}

func (st *Stream) servePipelined(first *frameIn) error {
	st.pipelined.Store(true)
	p := &pipeline{
		Stream: st, replies: make(chan Reply, repliesMax), slots: make(chan struct{}, concurrentMax),
		places: make(chan struct{}, ParkedMax), parked: make(map[uint64]context.CancelFunc),
	}
	p.parking, p.giveUp = context.WithCancel(st.ctx)
	watching, stopWatching := context.WithCancel(st.ctx)
	var writer, watcher sync.WaitGroup
	writer.Go(p.write)
	watcher.Go(func() { p.watch(watching) })

	err := p.read(first)

	p.giveUp()
	p.handlers.Wait()
	stopWatching()
	watcher.Wait() // It sends replies too.
	close(p.replies)
	writer.Wait()
	if err == nil && !p.leaving.Load() {
		return st.passedOn()
	}
	return err
}

// read takes frames until the client half-closes, the stream is cut or fails.
func (p *pipeline) read(req *frameIn) error {
	for {
		p.dispatch(req)
		var err error
		if req, err = p.wire.Receive(); err != nil {
			if p.leaving.Load() || p.ctx.Err() != nil || errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func (p *pipeline) dispatch(req *frameIn) {
	for _, id := range req.GetCancels() {
		p.cancelParked(id)
	}
	f := &frame{req: req}
	// A fetch beside other work takes what is ready and does not wait. A frame that asks for
	// nothing may be long, and has its turn like others.
	if f.works() || f.empty() || f.waitFor() == 0 || p.ending.Load() {
		p.inSlot(func() Reply { return p.handle(p.ctx, f) })
		return
	}
	p.park(f)
}

// waitFor is how long a fetch of its own may wait.
func (f *frame) waitFor() time.Duration {
	if f.req.WaitMs == nil {
		return queue.WaitDefault
	}
	return messages.Millis(f.req.GetWaitMs())
}

// inSlot answers a frame when one of the stream's slots is free; until then no
// further frame is read, which is the only back-pressure a client can feel.
func (p *pipeline) inSlot(do func() Reply) {
	select {
	case p.slots <- struct{}{}:
	case <-p.ctx.Done():
		return
	}
	p.handlers.Go(func() {
		defer func() { <-p.slots }()
		r := do()
		p.slowDown(r)
		p.reply(r)
	})
}

const (
	// refusalPause is how much longer each refusal in a row takes, up to refusalPauseMax.
	refusalPause    = 10 * time.Millisecond
	refusalPauseMax = 250 * time.Millisecond
)

// slowDown holds back the refusal of a frame whose client goes on sending what is refused:
// reading and decoding frames for nothing costs the neighbours as much as doing them. Some
// refusals come before a frame had to wait for its turn.
func (p *pipeline) slowDown(r Reply) {
	if r.Last || r.Msg.GetError() == "" {
		p.refused.Store(0)
		return
	}
	n := p.refused.Add(1)
	p.pause(min(time.Duration(n)*refusalPause, refusalPauseMax))
}

// park lets a fetch wait beside everything else.
func (p *pipeline) park(f *frame) {
	id := f.req.GetRequestId()
	ctx, cancel := context.WithCancel(p.parking)
	if err := p.register(id, cancel); err != nil {
		cancel()
		p.inSlot(func() Reply { return p.failed(f, "fetch", err) })
		return
	}
	f.wait = f.waitFor()
	p.handlers.Go(func() {
		r := p.handle(ctx, f)
		p.mu.Lock()
		delete(p.parked, id)
		p.mu.Unlock()
		cancel()
		p.slowDown(r)
		r.parked = true
		p.reply(r)
	})
}

func (p *pipeline) register(id uint64, cancel context.CancelFunc) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.parked[id]; taken {
		return fault.New(fault.Invalid, "VALIDATION_ERROR", "request_id is already in use")
	}
	select {
	case p.places <- struct{}{}:
		p.parked[id] = cancel
		return nil
	default:
		return &fault.Error{
			Code: fault.Exhausted, Reason: "OVERLOADED", Message: "too many fetches wait on this stream",
			Limit: &fault.Limit{Name: "stream_fetches_max", Value: ParkedMax, Current: ParkedMax},
		}
	}
}

func (p *pipeline) cancelParked(id uint64) {
	p.mu.Lock()
	cancel := p.parked[id]
	p.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// reply hands an answer to the writer, which takes answers until the channel is
// closed, also after a failure.
func (p *pipeline) reply(r Reply) { p.replies <- r }

// write sends answers; after the first that fails, it gives back the jobs of the
// rest.
func (p *pipeline) write() {
	broken := false
	for r := range p.replies {
		if r.parked {
			<-p.places // Before it is sent: who has read it may send the next fetch.
		}
		if broken {
			p.Undo(r)
			continue
		}
		if err := p.Deliver(r); err != nil {
			broken = true
			p.Cut()
			continue
		}
		if r.Last {
			// What is in flight is answered; no further frame is read.
			p.giveUp()
			p.leaving.Store(true)
			p.wake()
		}
	}
}

// watch tells the client to leave when the server drains, and cuts the stream
// when its credential is revoked.
func (p *pipeline) watch(ctx context.Context) {
	var tick <-chan time.Time
	if p.Recheck != nil {
		t := time.NewTicker(RecheckEvery)
		defer t.Stop()
		tick = t.C
	}
	ended := p.ended
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			ended = nil
			p.giveUp()
			p.tellDrain(ctx)
		case <-tick:
			if p.recheck() != nil {
				p.Cut()
			}
		}
	}
}

// tellDrain sends the drain frame; the client closes its side when it is done,
// and Drain's deadline cuts those that do not.
func (p *pipeline) tellDrain(ctx context.Context) {
	msg := p.notLeader(0, p.Session.Placement)
	msg.Error, msg.Drain = "", true
	select {
	case p.replies <- Reply{Msg: msg}:
	case <-ctx.Done():
	}
}
