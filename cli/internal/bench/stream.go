package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

// gatherMax is how long a frame waits for the callers that were just answered.
// Without it they split into two halves that alternate, and half of the
// throughput of closed-loop callers is lost.
const gatherMax = 100 * time.Microsecond

// streamConn is one StreamLifecycle shared by its callers.
type streamConn struct {
	dialer    *dialer
	open      func() *stream.Stream
	stream    *stream.Stream // Used by one goroutine: the only caller, or the frame loop.
	closeIdle func()
	item      *corvov1.LifecycleEnqueueItem // The one job there is to add.
	queues    []string
	noWait    int64

	mu      sync.Mutex
	waiting []*turn // Guarded by mu: calls for the next frame.
	members int     // Guarded by mu: callers of this connection.

	wake chan struct{} // One token: waiting is not empty. Never closed.
	done chan struct{} // Closed by the frame loop when it ends.
	stop context.CancelFunc
}

// turn is one call of one caller: what it wants, then what it got.
type turn struct {
	enqueue int
	settle  []lease
	fetch   int

	ids     []string
	got     []lease
	refused int
	err     error
	ready   chan struct{} // One token when the turn was answered.
}

func (d *dialer) dialStream(ctx context.Context) (conn, error) {
	client, err := d.client()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	open := func() *stream.Stream { return stream.Open(ctx, client.RPC(), stream.Options{Pipelined: true}) }
	c := &streamConn{
		dialer: d, open: open, stream: open(), closeIdle: client.Close,
		item:   &corvov1.LifecycleEnqueueItem{Queue: d.queue, PayloadJson: d.payload},
		queues: []string{d.queue}, wake: make(chan struct{}, 1), done: make(chan struct{}), stop: stop,
	}
	go c.frames(ctx) // close waits for it.
	return c, nil
}

func (c *streamConn) close() {
	_ = c.stream.Close() // The run is over; what mattered was answered.
	c.stop()
	<-c.done
	c.closeIdle()
}

func (c *streamConn) caller() caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members++
	return &streamCaller{conn: c, turn: turn{ready: make(chan struct{}, 1)}}
}

type streamCaller struct {
	conn *streamConn
	turn turn
}

func (s *streamCaller) enqueue(ctx context.Context, n int) ([]string, error) {
	s.turn.enqueue, s.turn.settle, s.turn.fetch = n, nil, 0
	err := s.ride(ctx)
	return s.turn.ids, err
}

func (s *streamCaller) work(ctx context.Context, settle []lease, n int) ([]lease, int, error) {
	s.turn.enqueue, s.turn.settle, s.turn.fetch = 0, settle, n
	err := s.ride(ctx)
	return s.turn.got, s.turn.refused, err
}

// ride puts the turn into the next frame and waits for its answer. A caller
// alone on its connection sends the frame itself.
func (s *streamCaller) ride(ctx context.Context) error {
	t := &s.turn
	t.ids, t.got, t.refused, t.err = t.ids[:0], t.got[:0], 0, nil
	c := s.conn
	c.mu.Lock()
	if c.members == 1 {
		c.mu.Unlock()
		c.send(ctx, []*turn{t})
		return t.err
	}
	c.waiting = append(c.waiting, t)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	select {
	case <-t.ready:
		return t.err
	case <-c.done:
		return errors.New("the stream ended")
	}
}

func (s *streamCaller) await(ctx context.Context, wait time.Duration) ([]lease, error) {
	ms := wait.Milliseconds()
	reply, err := s.conn.stream.Do(ctx, &corvov1.LifecycleStreamRequest{Queues: s.conn.queues, WorkerId: "corvo-bench", LeaseDuration: leaseSeconds,
		FetchCount: 1, WaitMs: &ms})
	if err != nil {
		return nil, err
	}
	if reply.GetError() != "" {
		return nil, errors.New(reply.GetError())
	}
	s.turn.got = appendLeases(s.turn.got[:0], reply.GetJobs())
	return s.turn.got, nil
}

// frames sends one frame at a time, each with all calls that wait for one.
func (c *streamConn) frames(ctx context.Context) {
	defer close(c.done)
	var riders []*turn
	for {
		if riders = c.take(riders[:0]); len(riders) == 0 {
			select {
			case <-c.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		c.send(ctx, riders)
		all := len(riders) + c.waits()
		for _, t := range riders {
			t.ready <- struct{}{}
		}
		c.gather(all)
	}
}

func (c *streamConn) take(into []*turn) []*turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	into = append(into, c.waiting...)
	c.waiting = c.waiting[:0]
	return into
}

// gather lets the callers that were just answered come back, on top of those
// that wait already. It yields instead of sleeping: timers are coarser than the
// whole wait.
func (c *streamConn) gather(want int) {
	for began := time.Now(); c.waits() < want && time.Since(began) < gatherMax; {
		runtime.Gosched()
	}
}

func (c *streamConn) waits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// movesMax is how often a frame may find the leader gone before the run ends.
const movesMax = 100

// send carries the riders' turns in one frame and hands out the answer. A frame
// of which nothing was done, because of overload or because another node leads
// now, is sent again.
func (c *streamConn) send(ctx context.Context, riders []*turn) {
	for moves := 0; ; {
		reply, err := c.stream.Do(ctx, c.frame(riders))
		if err == nil && reply.GetError() != "" {
			switch {
			case untouched(reply) && strings.HasPrefix(reply.GetError(), stream.TextOverloadedPrefix):
				time.Sleep(overloadPause)
				continue
			case untouched(reply) && reply.GetError() == stream.TextNotLeader && moves < movesMax:
				moves++
				c.reopen()
				continue
			}
			err = errors.New(reply.GetError())
		}
		if err == nil {
			err = share(riders, reply)
		}
		if err != nil {
			for _, t := range riders {
				t.err = err
			}
		}
		return
	}
}

// reopen starts over where the address leads now.
func (c *streamConn) reopen() {
	c.dialer.moves.Add(1)
	_ = c.stream.Close() // It ended with its last answer.
	time.Sleep(overloadPause)
	c.stream = c.open()
}

func (c *streamConn) frame(riders []*turn) *corvov1.LifecycleStreamRequest {
	frame := &corvov1.LifecycleStreamRequest{}
	for _, t := range riders {
		for range t.enqueue {
			frame.Enqueues = append(frame.Enqueues, c.item)
		}
		for _, l := range t.settle {
			frame.Acks = append(frame.Acks, &corvov1.AckBatchItem{JobId: l.id, LeaseToken: l.token})
		}
		frame.FetchCount += int32(t.fetch)
	}
	if frame.FetchCount > 0 {
		frame.Queues, frame.WorkerId, frame.LeaseDuration, frame.WaitMs = c.queues, "corvo-bench", leaseSeconds, &c.noWait
	}
	return frame
}

func untouched(r *corvov1.LifecycleStreamResponse) bool {
	return len(r.GetEnqueuedJobIds()) == 0 && len(r.GetEnqueueResults()) == 0 && len(r.GetJobs()) == 0 && len(r.GetAckOutcomes()) == 0 && r.GetAcked() == 0
}

// share gives every rider its part of the reply, in the order of the frame.
func share(riders []*turn, reply *corvov1.LifecycleStreamResponse) error {
	ids, outcomes, jobs := reply.GetEnqueuedJobIds(), reply.GetAckOutcomes(), reply.GetJobs()
	var enqueues, settles int
	for _, t := range riders {
		enqueues += t.enqueue
		settles += len(t.settle)
	}
	if len(ids) != enqueues {
		return fmt.Errorf("sent %d enqueues, got %d ids", enqueues, len(ids))
	}
	if len(outcomes) != settles {
		return fmt.Errorf("sent %d acks, got %d outcomes", settles, len(outcomes))
	}
	for _, t := range riders {
		t.ids, ids = append(t.ids, ids[:t.enqueue]...), ids[t.enqueue:]
		for _, o := range outcomes[:len(t.settle)] {
			if o.GetCode() != "" {
				t.refused++
			}
		}
		outcomes = outcomes[len(t.settle):]
		n := min(t.fetch, len(jobs))
		t.got, jobs = appendLeases(t.got, jobs[:n]), jobs[n:]
	}
	if len(jobs) > 0 {
		return fmt.Errorf("got %d more jobs than were asked for", len(jobs))
	}
	return nil
}

func appendLeases(to []lease, jobs []*corvov1.FetchBatchJob) []lease {
	for _, j := range jobs {
		to = append(to, lease{j.GetJobId(), j.GetLeaseToken()})
	}
	return to
}
