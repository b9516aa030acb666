package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// A queue of jobs that each failed once is swept, in entries that are applied together
// as after a restart. Run it with -benchtime 1x. When removed ranges were walked, four
// times the entries took nineteen times as long.
func BenchmarkReplay_SweepEntries(b *testing.B) {
	for _, entries := range []int{16, 32, 64} {
		b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				r, sweeps := failedJobs(b, entries)
				b.StartTimer()
				r.apply(b, sweeps...)
				b.StopTimer()
				r.close(b)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(entries*command.SweepMax), "µs/job")
		})
	}
}

// failedJobs is a replica and the entries that sweep its jobs, of which the queue was
// deleted.
func failedJobs(b *testing.B, entries int) (*replica, []logEntry) {
	b.Helper()
	r, ns, now := newReplica(b), job.Namespace{1}, epoch
	var sweeps []logEntry
	for e := range entries {
		add, fetch, fail := logEntry{now: now}, &command.Fetch{NS: ns, Worker: "w", Lease: time.Minute}, logEntry{now: now}
		sweep := &command.Sweep{NS: ns, Queue: "q"}
		for n := range command.SweepMax {
			id := job.ID{byte(e), byte(n >> 8), byte(n), 1}
			add.cmds = append(add.cmds, &command.Enqueue{NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry()})
			fetch.Jobs = append(fetch.Jobs, id)
			fail.cmds = append(fail.cmds, &command.Fail{NS: ns, ID: id, Error: "no"})
			sweep.Jobs = append(sweep.Jobs, id)
		}
		r.apply(b, add, logEntry{now: now, cmds: []command.Command{fetch}}, fail)
		slices.Reverse(sweep.Jobs) // No order that would be easy.
		sweeps = append(sweeps, logEntry{now: now, cmds: []command.Command{sweep}})
	}
	r.do(b, now, &command.DeleteQueue{NS: ns, Queue: "q"})
	return r, sweeps
}
