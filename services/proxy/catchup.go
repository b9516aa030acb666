package proxy

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

const (
	// lagCheckMax is how long a request with an unknown key waits for a check.
	lagCheckMax = 250 * time.Millisecond
	// lagCheckEvery is the pause between two checks, however many requests wait.
	lagCheckEvery = 20 * time.Millisecond
	// lagCheckWaitersMax bounds the requests that wait; more are answered at once.
	lagCheckWaitersMax = 256
)

// lagChecks asks the cell whether this proxy is behind, for requests whose key it
// does not know. All waiting requests share one check, so that the cost to the cell
// does not grow with their number.
type lagChecks struct {
	ask func(ctx context.Context) error
	// max is lagCheckMax; tests on a busy machine wait longer.
	max  time.Duration
	wake chan struct{} // One waiting note; never closed.

	mu sync.Mutex
	// Guarded by mu.
	next    *lagCheck // The check that has not begun; nil if no request waits.
	waiting int
}

// lagCheck is one check. ok may be read when done is closed.
type lagCheck struct {
	done chan struct{}
	ok   bool
}

func newLagChecks(ask func(ctx context.Context) error) *lagChecks {
	return &lagChecks{ask: ask, max: lagCheckMax, wake: make(chan struct{}, 1)}
}

// caughtUp reports, within max, whether the proxy now has everything that the cell
// had when the request came. A request never joins a check under way: that may have
// been answered before the request's key was made.
func (l *lagChecks) caughtUp(ctx context.Context) bool {
	mine := l.join()
	if mine == nil {
		return false
	}
	defer l.leave()
	late := time.NewTimer(l.max)
	defer late.Stop()
	select {
	case <-mine.done:
		return mine.ok
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

func (l *lagChecks) join() *lagCheck {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= lagCheckWaitersMax {
		return nil
	}
	l.waiting++
	if l.next == nil {
		l.next = &lagCheck{done: make(chan struct{})}
		select {
		case l.wake <- struct{}{}:
		default: // It is awake.
		}
	}
	return l.next
}

func (l *lagChecks) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
}

// run makes one check after another until ctx ends.
func (l *lagChecks) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		l.mu.Lock()
		mine := l.next
		l.next = nil
		l.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, l.max)
		mine.ok = l.ask(limited) == nil
		cancel()
		close(mine.done)
		wait(ctx, lagCheckEvery)
	}
}

// catchUp returns nil when the proxy has applied what the leader of the cell has.
func (p *Proxy) catchUp(ctx context.Context) error {
	err := errors.New("no node is known")
	for _, base := range p.watchedFirst() {
		client := cellv1connect.NewCellServiceClient(p.cellClient, base)
		var res *connect.Response[cellv1.GetIndexResponse]
		if res, err = client.GetIndex(ctx, connect.NewRequest(&cellv1.GetIndexRequest{})); err == nil {
			if ours := p.view.current().cell; ours != "" && res.Msg.GetCellId() != "" && res.Msg.GetCellId() != ours {
				err = errOther
				continue
			}
			return p.applied.reach(ctx, res.Msg.GetIndex())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	p.log.Debug("ask the cell for its index", "err", err)
	return err
}

// watchedFirst lists the nodes that are being followed, then all others.
func (p *Proxy) watchedFirst() []string {
	bases := p.nodes.bases()
	p.watchedMu.Lock()
	defer p.watchedMu.Unlock()
	var first, rest []string
	for _, b := range bases {
		if p.watched[b] {
			first = append(first, b)
		} else {
			rest = append(rest, b)
		}
	}
	return append(first, rest...)
}

// progress is the index up to which the state is applied, also to calls under way.
type progress struct {
	mu    sync.Mutex
	index uint64        // Guarded by mu.
	moved chan struct{} // Guarded by mu; closed at the next move.
}

func newProgress() *progress { return &progress{moved: make(chan struct{})} }

func (p *progress) set(index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if index <= p.index {
		return
	}
	p.index = index
	close(p.moved)
	p.moved = make(chan struct{})
}

// restart forgets the index of a cell that was replaced.
func (p *progress) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.index = 0
}

// now is the index, and a channel that is closed when it moves.
func (p *progress) now() (index uint64, moved <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.index, p.moved
}

func (p *progress) reach(ctx context.Context, index uint64) error {
	for {
		at, moved := p.now()
		if at >= index {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
