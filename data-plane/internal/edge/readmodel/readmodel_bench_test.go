package readmodel

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// fill adds n jobs to a namespace, most of them finished, as a service that has run
// for a while has them. Without a term it only fills the state.
func (r *rig) fill(ns job.Namespace, n int) { r.Helper(); r.fillWith(ns, n, true) }

func (r *rig) fillWith(ns job.Namespace, n int, tagged bool) {
	r.Helper()
	const perEntry = 500
	for done := 0; done < n; done += perEntry {
		var add []command.Command
		var all []job.ID
		for i := range min(perEntry, n-done) {
			c := r.newJob(ns, fmt.Sprintf("queue-%d", i%20))
			if tagged {
				c.Tags = []command.Tag{{Key: "customer", Value: fmt.Sprint((done + i) % 5000)}, {Key: "env", Value: "production"}}
			}
			add = append(add, c)
			if i%10 != 0 {
				all = append(all, c.ID)
			}
		}
		r.apply(add...)
		var ack []command.Command
		for _, g := range r.apply(&command.Fetch{NS: ns, Jobs: all, Worker: "w1", Lease: time.Minute}).Results[0].Grants {
			ack = append(ack, &command.Ack{NS: ns, ID: g.ID, By: command.Holder{Token: command.Token{Attempt: 1, Epoch: g.Epoch}}})
		}
		r.apply(ack...)
	}
}

// BenchmarkList measures pages of a namespace with many jobs: the median and the
// 95th percentile over the filters a console uses.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		if n > 100_000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b)
			r.fill(nsA, n)
			began := time.Now()
			r.run()
			r.settledWithin(nsA, 10*time.Minute)
			rebuilt := float64(n) / time.Since(began).Seconds()
			for name, f := range map[string]Filter{
				"first page":      {},
				"queue and state": {Queue: "queue-3", States: []job.State{job.Pending, job.Completed}},
				"rare state":      {States: []job.State{job.Dead}},
				"rare tag":        {Tags: []command.Tag{{Key: "customer", Value: "17"}}},
				"common tag":      {Tags: []command.Tag{{Key: "env", Value: "production"}}, States: []job.State{job.Pending}},
				"time":            {Created: Span{After: epoch, Before: r.now - int64(time.Minute)}},
			} {
				b.Run(name, func(b *testing.B) {
					var took []time.Duration
					for b.Loop() {
						began := time.Now()
						r.page(nsA, f)
						took = append(took, time.Since(began))
					}
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
					b.ReportMetric(float64(took[len(took)*95/100].Microseconds()), "p95-µs")
					b.ReportMetric(rebuilt, "rebuilt-jobs/s")
				})
			}
		})
	}
}

// BenchmarkProject measures how fast whole lives of jobs (three events each) come
// into the read model while nothing else runs, and what that takes of a processor.
func BenchmarkProject(b *testing.B) {
	for name, tagged := range map[string]bool{"plain": false, "two tags": true} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b)
			r.run()
			r.enqueue(nsA, "mail")
			r.settled(nsA)
			const lives = 20_000
			var used time.Duration
			b.ResetTimer()
			for b.Loop() {
				b.StopTimer()
				r.stop()
				r.fillWith(nsA, lives, tagged)
				before := cpuTime(b)
				b.StartTimer()
				r.run()
				r.settledWithin(nsA, 5*time.Minute)
				used += cpuTime(b) - before
			}
			b.ReportMetric(float64(lives*b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(used.Microseconds())/float64(lives*b.N), "cpu-µs/job")
		})
	}
}

// BenchmarkRebuild measures a rebuild that has the machine for itself, and what a job takes of a processor.
func BenchmarkRebuild(b *testing.B) {
	for name, tagged := range map[string]bool{"plain": false, "two tags": true} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b)
			const jobs = 200_000
			r.fillWith(nsA, jobs, tagged)
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				r.halt()
				if err := r.models.remove(nsA); err != nil {
					b.Fatal(err)
				}
				r.open()
				before := cpuTime(b)
				b.StartTimer()
				r.run()
				r.settledWithin(nsA, 10*time.Minute)
				used += cpuTime(b) - before
			}
			b.ReportMetric(float64(jobs*b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(used.Microseconds())/float64(jobs*b.N), "cpu-µs/job")
		})
	}
}

// BenchmarkFill measures how long the lists take to catch up with a namespace that was filled
// while the projector had no processor, and what a job takes of one. The work is fixed: a
// million jobs, a tenth of it with -short.
func BenchmarkFill(b *testing.B) {
	jobs := 1_000_000
	if testing.Short() {
		jobs = 100_000
	}
	for b.Loop() {
		b.StopTimer()
		r := newRig(b)
		r.run()
		r.enqueue(nsA, "mail")
		r.settled(nsA)
		r.stop()
		r.pour(nsA, jobs)
		before := cpuTime(b)
		b.StartTimer()
		r.run()
		r.settledWithin(nsA, 10*time.Minute)
		b.StopTimer()
		b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(jobs), "cpu-µs/job")
		r.halt()
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s-late")
}

// pour enqueues n jobs and does no more.
func (r *rig) pour(ns job.Namespace, n int) {
	r.Helper()
	const perEntry = 500
	for done := 0; done < n; done += perEntry {
		var add []command.Command
		for i := range min(perEntry, n-done) {
			add = append(add, r.newJob(ns, fmt.Sprintf("queue-%d", i%20)))
		}
		r.apply(add...)
	}
}

// cpuTime is what the process has used of the processors.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
