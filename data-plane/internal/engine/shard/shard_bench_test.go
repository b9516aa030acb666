package shard

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
)

// BenchmarkLifecycle runs jobs through the shard without a network: enqueue all,
// then callers that fetch and settle in frames. One operation is one job.
func BenchmarkLifecycle(b *testing.B) {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		for _, c := range []struct{ callers, frame int }{{10, 1}, {50, 1}, {10, 64}} {
			b.Run(fmt.Sprintf("sync=%s/callers=%d/frame=%d", delay, c.callers, c.frame), func(b *testing.B) {
				benchLifecycle(b, delay, c.callers, c.frame)
			})
		}
	}
}

func benchLifecycle(b *testing.B, delay time.Duration, callers, frame int) {
	fs := vfs.Default
	if delay > 0 {
		fs = disk.DelayedSync(fs, delay)
	}
	r := start(b, rigDisks{Disks: grouptest.Disks{Log: fs, State: vfs.Default}}, b.TempDir()+"/", raftlog.Options{})
	defer r.stop(b)
	ns := job.Namespace{1}
	payload := make([]byte, 100)
	for i := 0; i < b.N; i += 500 {
		var q Request
		for j := i; j < min(i+500, b.N); j++ {
			c := &command.Enqueue{NS: ns, Queue: "q", Payload: payload, Priority: job.Normal, Retry: command.DefaultRetry()}
			binary.BigEndian.PutUint64(c.ID[:], uint64(j)+1)
			q.After = append(q.After, c)
		}
		r.must(b, q)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() { worker(b, r, ns, frame, &left) })
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64(r.stats.Requests.Load())/float64(r.stats.Entries.Load()), "requests/entry")
}

func worker(b *testing.B, r *rig, ns job.Namespace, frame int, left *atomic.Int64) {
	var q Request
	for {
		q.Fetch = &Fetch{NS: ns, Queues: []string{"q"}, Count: frame, Worker: "w", Lease: time.Minute}
		rep, err := r.Do(context.Background(), q)
		if err != nil {
			b.Error(err)
			return
		}
		left.Add(-int64(len(q.Settle)))
		q.Settle = nil
		for _, g := range rep.Grants {
			q.Settle = append(q.Settle, &command.Ack{NS: ns, ID: g.ID, By: command.Holder{Token: command.Token{Attempt: g.Attempt, Epoch: g.Epoch}}})
		}
		if len(q.Settle) == 0 {
			return
		}
	}
}
