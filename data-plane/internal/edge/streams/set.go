package streams

import (
	"context"
	"sync"

	"github.com/corvo-cloud/corvo/data-plane/api/fair"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Open is a stream served here or carried to a leader. End asks it to close
// in good order, Cut closes it now; neither blocks.
type Open interface {
	End()
	Cut()
}

// Set is the open streams of a server.
type Set struct {
	streams *fair.Budget[string] // Open, by tenant.
	frames  *fair.Budget[string] // In flight, by tenant.

	mu       sync.Mutex      // Guards what follows.
	open     map[Open]string // To its tenant.
	draining bool
	empty    chan struct{} // Closed when open becomes empty while draining; nil before.
}

// NewSet makes a Set that takes so many streams, and frames in flight on all of them,
// which weight divides among tenants.
func NewSet(streamsMax, framesMax int, weight func(tenant string) int64) *Set {
	return &Set{
		streams: fair.NewBudget(int64(streamsMax), weight), frames: fair.NewBudget(int64(framesMax), weight),
		open: make(map[Open]string),
	}
}

// Add counts a stream of a tenant in, or refuses it. While the set drains, the stream is
// told to end at once.
func (t *Set) Add(tenant string, st Open) error {
	if !t.streams.Take(tenant, 1) {
		return fault.New(fault.Exhausted, "OVERLOADED", "OVERLOADED: too many open streams")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[st] = tenant
	if t.draining {
		st.End()
	}
	return nil
}

// Remove counts a stream out.
func (t *Set) Remove(st Open) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.streams.Give(t.open[st], 1)
	delete(t.open, st)
	if len(t.open) == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
}

// BeginFrame takes the permit of one frame, if there is one left for the tenant; EndFrame
// gives it back.
func (t *Set) BeginFrame(tenant string) bool { return t.frames.Take(tenant, 1) }

// EndFrame gives back the permit of a frame.
func (t *Set) EndFrame(tenant string) { t.frames.Give(tenant, 1) }

// Drain tells every open stream to end and waits until none is left; when ctx ends first
// it cuts the rest.
func (t *Set) Drain(ctx context.Context) error {
	t.mu.Lock()
	t.draining = true
	if len(t.open) == 0 {
		t.mu.Unlock()
		return nil
	}
	empty := make(chan struct{})
	t.empty = empty
	for st := range t.open {
		st.End()
	}
	t.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		t.cut()
		return ctx.Err()
	}
}

// cut ends the streams whose clients did not leave when they were told.
func (t *Set) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for st := range t.open {
		st.Cut()
	}
}
