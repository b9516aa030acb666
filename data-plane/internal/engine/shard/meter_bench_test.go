package shard

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
)

// BenchmarkMetering tells what counting costs: the same jobs at the version before it and
// at the one with it, by turns, because a machine is never as fast as a minute ago. One
// operation is both runs; the ratios are of processor time and of time.
//
//	go test ./internal/engine/shard -run - -bench Metering -benchtime 20x
func BenchmarkMetering(b *testing.B) {
	for _, c := range []struct{ callers, frame int }{{50, 1}, {10, 64}} {
		b.Run(fmt.Sprintf("callers=%d/frame=%d", c.callers, c.frame), func(b *testing.B) {
			versions := [2]cellversion.Version{cellversion.First, cellversion.Metering}
			var cost [2]meterCost
			for i := range 2 * b.N {
				which := (i + i/2) % 2 // 0 1 1 0 0 1 1 0: neither is always first.
				cost[which].add(meteredLife(b, versions[which], c.callers, c.frame))
			}
			b.ReportMetric(float64(cost[1].processor)/float64(cost[0].processor), "processor-ratio")
			b.ReportMetric(float64(cost[1].took)/float64(cost[0].took), "time-ratio")
			b.ReportMetric(0, "ns/op") // Says nothing.
		})
	}
}

type meterCost struct{ processor, took time.Duration }

func (c *meterCost) add(d meterCost) {
	c.processor += d.processor
	c.took += d.took
}

// meteredLife runs jobs from their enqueue to their end.
func meteredLife(b *testing.B, version cellversion.Version, callers, frame int) meterCost {
	b.Helper()
	const jobs = 20_000
	r := start(b, rigDisks{Disks: grouptest.Disks{Log: vfs.NewMem(), State: vfs.NewMem()}, version: version}, "", raftlog.Options{})
	defer r.stop(b)
	ns, payload := job.Namespace{1}, make([]byte, 100)
	before, began := processorTime(b), time.Now()
	var left, next atomic.Int64
	left.Store(jobs)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				var q Request
				for range frame {
					n := next.Add(1)
					if n > jobs {
						break
					}
					c := &command.Enqueue{NS: ns, Queue: "q", Payload: payload, Priority: job.Normal, Retry: command.DefaultRetry()}
					binary.BigEndian.PutUint64(c.ID[:], uint64(n))
					q.After = append(q.After, c)
				}
				if len(q.After) == 0 {
					break
				}
				if _, err := r.Do(b.Context(), q); err != nil {
					b.Error(err)
					return
				}
			}
			worker(b, r, ns, frame, &left)
		})
	}
	wg.Wait()
	return meterCost{processorTime(b) - before, time.Since(began)}
}

// processorTime is what this process used of the processors.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
