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

// BenchmarkMetering tells what counting costs a whole shard, from the proposal to the
// answer: the same jobs at the version before it and at the one with it, some at a time by
// turns, because a machine is never equally fast for long. One operation is a turn of both;
// the ratios are of processor time and of time.
//
//	go test ./internal/engine/shard -run - -bench 'Metering$' -benchtime 100x
func BenchmarkMetering(b *testing.B) {
	for _, c := range meteredCases {
		b.Run(c.String(), func(b *testing.B) {
			var shards [2]*meteredShard
			for i, version := range meteredVersions {
				shards[i] = startMetered(b, c, version)
				defer shards[i].stop(b)
			}
			for turn := range b.N {
				for i := range shards {
					shards[(turn+i)%2].live(b, c.callers, c.frame) // Neither is always first.
				}
			}
			without, with := shards[0], shards[1]
			b.ReportMetric(float64(with.processor)/float64(without.processor), "processor-ratio")
			b.ReportMetric(float64(with.took)/float64(without.took), "time-ratio")
			b.ReportMetric(float64(without.processor.Nanoseconds())/float64(without.made.Load()), "processor-ns/job-without")
			b.ReportMetric(0, "ns/op") // Says nothing.
		})
	}
}

// BenchmarkMeteringWork is a turn at one version alone, for what can be counted rather than
// timed: instructions, allocations, entries.
func BenchmarkMeteringWork(b *testing.B) {
	for _, c := range meteredCases {
		for _, version := range meteredVersions {
			b.Run(fmt.Sprintf("%s/version=%d", c, version), func(b *testing.B) {
				s := startMetered(b, c, version)
				defer s.stop(b)
				b.ReportAllocs()
				for range b.N {
					s.live(b, c.callers, c.frame)
				}
				applied := s.Group().AppliedIndex()
				b.ReportMetric(float64(applied)/float64(s.made.Load()), "entries/job")
			})
		}
	}
}

var (
	meteredCases    = []meteredCase{{1, 1, true}, {1, 1, false}, {50, 1, false}, {10, 64, false}}
	meteredVersions = []cellversion.Version{cellversion.First, cellversion.Metering}
)

type meteredCase struct {
	callers, frame int
	synced         bool // On a disk, as in service. In memory there is no sync to wait for or pay.
}

func (c meteredCase) String() string {
	return fmt.Sprintf("callers=%d/frame=%d/synced=%t", c.callers, c.frame, c.synced)
}

func startMetered(b *testing.B, c meteredCase, version cellversion.Version) *meteredShard {
	b.Helper()
	disks, dir := grouptest.InMemory(), ""
	if c.synced {
		disks, dir = grouptest.Disks{Log: vfs.Default, State: vfs.Default}, b.TempDir()+"/"
	}
	return &meteredShard{rig: start(b, rigDisks{Disks: disks, version: version}, dir, raftlog.Options{})}
}

type meteredShard struct {
	*rig
	made            atomic.Int64
	processor, took time.Duration
}

// live runs jobs from their enqueue to their end.
func (s *meteredShard) live(b *testing.B, callers, frame int) {
	b.Helper()
	const jobs = 2560 // What frames of 64 divide.
	ns, payload := job.Namespace{1}, make([]byte, 100)
	before, began := processorTime(b), time.Now()
	end := s.made.Load() + jobs
	var left, next atomic.Int64
	left.Store(jobs)
	next.Store(s.made.Load())
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				var q Request
				for range frame {
					n := next.Add(1)
					if n > end {
						break
					}
					c := &command.Enqueue{NS: ns, Queue: "q", Payload: payload, Priority: job.Normal, Retry: command.DefaultRetry()}
					binary.BigEndian.PutUint64(c.ID[:], uint64(n))
					q.After = append(q.After, c)
				}
				if len(q.After) == 0 {
					break
				}
				if _, err := s.Do(b.Context(), q); err != nil {
					b.Error(err)
					return
				}
			}
			worker(b, s.rig, ns, frame, &left)
		})
	}
	wg.Wait()
	s.made.Store(end)
	s.processor += processorTime(b) - before
	s.took += time.Since(began)
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
