package conformance

import (
	"context"
	"sync/atomic"
	"time"
)

// watch remembers how long the slowest call took.
type watch struct{ longest atomic.Int64 }

func (w *watch) slowest() time.Duration { return time.Duration(w.longest.Load()) }

func (w *watch) took(since time.Time) {
	d := int64(time.Since(since))
	for was := w.longest.Load(); d > was && !w.longest.CompareAndSwap(was, d); was = w.longest.Load() {
	}
}

// timed watches the calls of a client, but for a fetch that waits.
type timed struct {
	Client
	watch *watch
}

func (c *timed) Enqueue(ctx context.Context, j Job) (Enqueued, error) {
	defer c.watch.took(time.Now())
	return c.Client.Enqueue(ctx, j)
}

func (c *timed) EnqueueBatch(ctx context.Context, jobs []Job, b *Batch) (EnqueuedBatch, error) {
	defer c.watch.took(time.Now())
	return c.Client.EnqueueBatch(ctx, jobs, b)
}

func (c *timed) Fetch(ctx context.Context, f Fetch) ([]Lease, error) {
	if f.Wait == 0 {
		defer c.watch.took(time.Now())
	}
	return c.Client.Fetch(ctx, f)
}

func (c *timed) Ack(ctx context.Context, a Ack) error {
	defer c.watch.took(time.Now())
	return c.Client.Ack(ctx, a)
}

func (c *timed) AckBatch(ctx context.Context, worker string, acks []Ack) ([]error, error) {
	defer c.watch.took(time.Now())
	return c.Client.AckBatch(ctx, worker, acks)
}

func (c *timed) Fail(ctx context.Context, f Fail) (Failed, error) {
	defer c.watch.took(time.Now())
	return c.Client.Fail(ctx, f)
}

func (c *timed) Heartbeat(ctx context.Context, h Heartbeat) (map[string]Beat, error) {
	defer c.watch.took(time.Now())
	return c.Client.Heartbeat(ctx, h)
}
