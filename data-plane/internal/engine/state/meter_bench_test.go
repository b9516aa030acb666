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
// before it and at the one with it, by turns. One operation is both; the ratio is of the
// thread's processor time, of the median turn. Apply is a part of what a job costs: see
// BenchmarkMetering of package shard.
//
//	go test ./internal/engine/state -run - -bench Metering -benchtime 30x
func BenchmarkMetering(b *testing.B) {
	for _, perEntry := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("commands=%d", perEntry), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took [2][]time.Duration
			for i := range 2 * b.N {
				which := (i + i/2) % 2 // 0 1 1 0 0 1 1 0: neither is always first.
				took[which] = append(took[which], meteredApply(b, []cellversion.Version{cellversion.First, cellversion.Metering}[which], perEntry))
			}
			for i := range took {
				slices.Sort(took[i])
			}
			without, with := took[0][b.N/2], took[1][b.N/2]
			b.ReportMetric(float64(with)/float64(without), "ratio")
			b.ReportMetric(float64(without.Nanoseconds())/meteredJobs, "ns/job-without")
			b.ReportMetric(float64(with.Nanoseconds())/meteredJobs, "ns/job-with")
			b.ReportMetric(0, "ns/op") // Says nothing.
		})
	}
}

const meteredJobs = 4096

// meteredApply takes jobs from their enqueue to their end, in entries of so many commands.
func meteredApply(b *testing.B, version cellversion.Version, perEntry int) time.Duration {
	b.Helper()
	r := newReplica(b)
	defer r.close(b)
	r.version = version
	ns, payload := job.Namespace{1}, make([]byte, 100)
	id := func(n int) (id job.ID) { binary.BigEndian.PutUint64(id[:], uint64(n)+1); return id }
	var log []logEntry
	for first := 0; first < meteredJobs; first += perEntry {
		var enqueues, acks []command.Command
		fetch := &command.Fetch{NS: ns, Worker: "w", Lease: time.Minute}
		for n := first; n < first+perEntry; n++ {
			enqueues = append(enqueues, &command.Enqueue{NS: ns, ID: id(n), Queue: "q", Payload: payload, Priority: job.Normal, Retry: command.DefaultRetry()})
			fetch.Jobs = append(fetch.Jobs, id(n))
			acks = append(acks, &command.Ack{NS: ns, ID: id(n)})
		}
		log = append(log, logEntry{cmds: enqueues}, logEntry{cmds: []command.Command{fetch}}, logEntry{cmds: acks})
	}
	runtime.GC()
	before := threadTime(b)
	for _, e := range log {
		r.apply(b, e)
	}
	return threadTime(b) - before
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
