package state

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// BenchmarkMetering tells what counting adds to apply: the same entries at the version
// before it and at the one with it. Some jobs at a time go through one and the other, so
// that both meet the same moments of a machine that is never equally fast for long. One
// operation is a whole log at both; the ratio is of the thread's processor time, of the
// median operation. Apply is a part of what a job costs: see BenchmarkMetering of package
// shard.
//
//	go test ./internal/engine/state -run - -bench 'Metering$' -benchtime 30x
func BenchmarkMetering(b *testing.B) {
	for _, perEntry := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("commands=%d", perEntry), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			log, ratios := meteredLog(perEntry), []float64(nil)
			var sum [2]time.Duration
			for range b.N {
				took := meteredApply(b, log)
				ratios = append(ratios, float64(took[1])/float64(took[0]))
				sum[0], sum[1] = sum[0]+took[0], sum[1]+took[1]
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
			b.ReportMetric(float64(sum[0].Nanoseconds())/float64(b.N*meteredJobs), "ns/job-without")
			b.ReportMetric(float64(sum[1].Nanoseconds())/float64(b.N*meteredJobs), "ns/job-with")
			b.ReportMetric(0, "ns/op") // Says nothing.
		})
	}
}

// BenchmarkMeteringWork is the same log at one version alone, for what can be counted
// rather than timed: instructions, allocations, bytes that are written.
func BenchmarkMeteringWork(b *testing.B) {
	for _, perEntry := range []int{1, 8, 64} {
		for _, version := range meteredVersions {
			b.Run(fmt.Sprintf("commands=%d/version=%d", perEntry, version), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				log := meteredLog(perEntry)
				b.ReportAllocs()
				for range b.N {
					r := newReplica(b)
					r.version = version
					for _, turn := range log {
						for _, e := range turn {
							r.apply(b, e)
						}
					}
					r.close(b)
				}
			})
		}
	}
}

var meteredVersions = []cellversion.Version{cellversion.First, cellversion.Metering}

const (
	meteredJobs = 4096
	meteredTurn = 64 // Jobs that are applied before it is the other version's turn.
)

// meteredLog takes jobs from their enqueue to their end, in entries of so many commands.
func meteredLog(perEntry int) (turns [][]logEntry) {
	ns, payload := job.Namespace{1}, make([]byte, 100)
	id := func(n int) (id job.ID) { binary.BigEndian.PutUint64(id[:], uint64(n)+1); return id }
	var turn []logEntry
	for first := 0; first < meteredJobs; first += perEntry {
		var enqueues, acks []command.Command
		fetch := &command.Fetch{NS: ns, Worker: "w", Lease: time.Minute}
		for n := first; n < first+perEntry; n++ {
			enqueues = append(enqueues, &command.Enqueue{NS: ns, ID: id(n), Queue: "q", Payload: payload, Priority: job.Normal, Retry: command.DefaultRetry()})
			fetch.Jobs = append(fetch.Jobs, id(n))
			acks = append(acks, &command.Ack{NS: ns, ID: id(n)})
		}
		turn = append(turn, logEntry{cmds: enqueues}, logEntry{cmds: []command.Command{fetch}}, logEntry{cmds: acks})
		if (first+perEntry)%meteredTurn == 0 {
			turns, turn = append(turns, turn), nil
		}
	}
	return turns
}

// meteredApply is what the log takes without and with metering.
func meteredApply(b *testing.B, turns [][]logEntry) (took [2]time.Duration) {
	b.Helper()
	var replicas [2]*replica
	for i, version := range meteredVersions {
		replicas[i] = newReplica(b)
		defer replicas[i].close(b)
		replicas[i].version = version
	}
	runtime.GC()
	for turn, log := range turns {
		for i := range replicas {
			which := (turn + i) % 2 // Neither is always first.
			before := threadTime(b)
			for _, e := range log {
				replicas[which].apply(b, e)
			}
			took[which] += threadTime(b) - before
		}
	}
	return took
}

// threadTime is what this thread used of the processors.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	const thisThread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
