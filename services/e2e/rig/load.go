package rig

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// LoadOptions of StartLoad. Zero values take the defaults.
type LoadOptions struct {
	Queue     string        // "load"
	Producers int           // 4
	Workers   int           // 4; -1 for none.
	Pace      time.Duration // Between two enqueues of a producer; 5 ms.
	Lease     time.Duration // 10 s
}

// Load is producers and workers over HTTP that go on whatever answer they get.
type Load struct {
	History *History

	stop context.CancelFunc
	done sync.WaitGroup
}

// StartLoad begins; every producer and worker has its own choice of tenants, which
// are clients of the same tenant, perhaps through different proxies.
func StartLoad(history *History, o LoadOptions, tenants ...Tenant) *Load {
	o = o.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{History: history, stop: cancel}
	for i := range o.Producers {
		l.done.Go(func() { l.produce(ctx, tenants[i%len(tenants)], o, i) })
	}
	for i := range o.Workers {
		l.done.Go(func() { l.work(ctx, tenants[i%len(tenants)], o, i) })
	}
	return l
}

func (o LoadOptions) withDefaults() LoadOptions {
	o.Queue = cmp.Or(o.Queue, "load")
	o.Producers = cmp.Or(o.Producers, 4)
	o.Workers = cmp.Or(o.Workers, 4)
	o.Pace = cmp.Or(o.Pace, 5*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	return o
}

// Stop ends the load; calls in progress are cancelled and count as not answered.
func (l *Load) Stop() {
	l.stop()
	l.done.Wait()
}

func (l *Load) produce(ctx context.Context, tenant Tenant, o LoadOptions, number int) {
	for n := 0; ctx.Err() == nil; n++ {
		id, err := tenant.Enqueue(ctx, o.Queue, map[string]any{"producer": number, "n": n})
		if err == nil {
			l.History.Enqueued(id)
		}
		pause(ctx, o.Pace)
	}
}

func (l *Load) work(ctx context.Context, tenant Tenant, o LoadOptions, number int) {
	for ctx.Err() == nil {
		asked := time.Now()
		job, ok, err := tenant.FetchLease(ctx, o.Queue, fmt.Sprintf("worker-%d", number), time.Second, o.Lease)
		if err != nil {
			pause(ctx, o.Pace)
		}
		if !ok {
			continue
		}
		l.History.Fetched(job.JobID, asked)
		if err := tenant.Ack(ctx, job); err == nil {
			l.History.Acked(job.JobID)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
