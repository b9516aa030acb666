package conformance

import (
	"context"
	"sync/atomic"
	"time"
)

// watch remembers how long the slowest call took, and whether one met a change of
// leaders, which any caller must expect.
type watch struct {
	longest  atomic.Int64
	election atomic.Bool
}

// disturbed: what a rule about time saw may not be the server's doing.
func (w *watch) disturbed() bool {
	return w.election.Load() || time.Duration(w.longest.Load()) >= stall
}

// met looks at a call's error.
func (w *watch) met(err error) {
	if r := AsRefusal(err); r != nil && (r.Code == "LEADER_UNAVAILABLE" || r.Code == "NOT_LEADER") {
		w.election.Store(true)
	}
}

func (w *watch) took(since time.Time) {
	d := int64(time.Since(since))
	for was := w.longest.Load(); d > was && !w.longest.CompareAndSwap(was, d); was = w.longest.Load() {
	}
}

// sameDay tells whether a day's budget was the same at both times.
func sameDay(a, b time.Time) bool {
	const day = 24 * time.Hour
	return a.UTC().Truncate(day).Equal(b.UTC().Truncate(day))
}

// timed watches the calls of a client, but for a fetch that waits and for events.
type timed struct {
	Client
	watch *watch
}

func watched[R any](w *watch, call func() (R, error)) (R, error) {
	defer w.took(time.Now())
	out, err := call()
	w.met(err)
	return out, err
}

func (c *timed) Enqueue(ctx context.Context, j Job) (Enqueued, error) {
	return watched(c.watch, func() (Enqueued, error) { return c.Client.Enqueue(ctx, j) })
}

func (c *timed) EnqueueBatch(ctx context.Context, jobs []Job, b *Batch) (EnqueuedBatch, error) {
	return watched(c.watch, func() (EnqueuedBatch, error) { return c.Client.EnqueueBatch(ctx, jobs, b) })
}

func (c *timed) Fetch(ctx context.Context, f Fetch) ([]Lease, error) {
	if f.Wait == 0 {
		return watched(c.watch, func() ([]Lease, error) { return c.Client.Fetch(ctx, f) })
	}
	out, err := c.Client.Fetch(ctx, f)
	c.watch.met(err)
	return out, err
}

func (c *timed) Ack(ctx context.Context, a Ack) error {
	_, err := watched(c.watch, func() (struct{}, error) { return struct{}{}, c.Client.Ack(ctx, a) })
	return err
}

func (c *timed) AckBatch(ctx context.Context, worker string, acks []Ack) ([]error, error) {
	return watched(c.watch, func() ([]error, error) { return c.Client.AckBatch(ctx, worker, acks) })
}

func (c *timed) Fail(ctx context.Context, f Fail) (Failed, error) {
	return watched(c.watch, func() (Failed, error) { return c.Client.Fail(ctx, f) })
}

func (c *timed) Heartbeat(ctx context.Context, h Heartbeat) (map[string]HeartbeatResult, error) {
	return watched(c.watch, func() (map[string]HeartbeatResult, error) { return c.Client.Heartbeat(ctx, h) })
}
