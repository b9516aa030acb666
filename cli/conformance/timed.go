package conformance

import (
	"context"
	"sync/atomic"
	"time"
)

// watch remembers how long the slowest call took, and whether events ended because another
// node leads: whoever listens comes again, but a rule would have to begin anew.
type watch struct {
	longest atomic.Int64
	cut     atomic.Bool
}

// stalled: what a rule about time saw may not be the server's doing.
func (w *watch) stalled() bool { return time.Duration(w.longest.Load()) >= stall }

func (w *watch) took(since time.Time) {
	d := int64(time.Since(since))
	for was := w.longest.Load(); d > was && !w.longest.CompareAndSwap(was, d); was = w.longest.Load() {
	}
}

// electionPause is between two tries while a shard has no leader.
const electionPause = 100 * time.Millisecond

// led makes a call again for as long as it is refused because the shard has no leader, which
// any caller must expect: then nothing was done.
func led[R any](ctx context.Context, call func() (R, error)) (R, error) {
	for {
		out, err := call()
		if r := AsRefusal(err); r == nil || r.Code != "LEADER_UNAVAILABLE" && r.Code != "NOT_LEADER" {
			return out, err
		}
		select {
		case <-time.After(electionPause):
		case <-ctx.Done():
			return out, err
		}
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

func watched[R any](ctx context.Context, w *watch, call func() (R, error)) (R, error) {
	defer w.took(time.Now())
	return led(ctx, call)
}

func (c *timed) Enqueue(ctx context.Context, j Job) (Enqueued, error) {
	return watched(ctx, c.watch, func() (Enqueued, error) { return c.Client.Enqueue(ctx, j) })
}

func (c *timed) EnqueueBatch(ctx context.Context, jobs []Job, b *Batch) (EnqueuedBatch, error) {
	return watched(ctx, c.watch, func() (EnqueuedBatch, error) { return c.Client.EnqueueBatch(ctx, jobs, b) })
}

func (c *timed) Fetch(ctx context.Context, f Fetch) ([]Lease, error) {
	if f.Wait == 0 {
		return watched(ctx, c.watch, func() ([]Lease, error) { return c.Client.Fetch(ctx, f) })
	}
	return led(ctx, func() ([]Lease, error) { return c.Client.Fetch(ctx, f) })
}

func (c *timed) Ack(ctx context.Context, a Ack) error {
	_, err := watched(ctx, c.watch, func() (struct{}, error) { return struct{}{}, c.Client.Ack(ctx, a) })
	return err
}

func (c *timed) AckBatch(ctx context.Context, worker string, acks []Ack) ([]error, error) {
	return watched(ctx, c.watch, func() ([]error, error) { return c.Client.AckBatch(ctx, worker, acks) })
}

func (c *timed) Fail(ctx context.Context, f Fail) (Failed, error) {
	return watched(ctx, c.watch, func() (Failed, error) { return c.Client.Fail(ctx, f) })
}

func (c *timed) Heartbeat(ctx context.Context, h Heartbeat) (map[string]HeartbeatResult, error) {
	return watched(ctx, c.watch, func() (map[string]HeartbeatResult, error) { return c.Client.Heartbeat(ctx, h) })
}
