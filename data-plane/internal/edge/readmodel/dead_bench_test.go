package readmodel

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// slice is the nth thousand of rows: of jobs that completed, or (causes > 0) died of so
// many causes.
func slice(n, causes int) *change {
	c := &change{anyhow: true, mark: mark{seq: 1}}
	for i := range sliceMax {
		k := n*sliceMax + i
		at := epoch + int64(k)*int64(time.Millisecond)
		r := Row{
			ID: job.ID{0: 1, 12: byte(k >> 24), 13: byte(k >> 16), 14: byte(k >> 8), 15: byte(k)}, Queue: fmt.Sprint("queue-", k%20),
			State: job.Completed, Priority: job.Normal, Attempt: 1, MaxRetries: 2, Worker: "w1",
			CreatedAt: at, ScheduledAt: at, StartedAt: at + 1, FinishedAt: at + 2,
		}
		if causes > 0 {
			r.State, r.Reason, r.FailedAt = job.Dead, records.DeadRetries, at+2
			r.Queue = fmt.Sprint("queue-", k%causes%20)
			r.LastError = fmt.Sprintf("%s: no answer from the other side", word(k%causes))
		}
		c.rows = append(c.rows, r)
	}
	return c
}

// word is a name without digits, so that it is a part of the cause.
func word(n int) string {
	w := []byte{}
	for ; n > 0; n /= 26 {
		w = append(w, byte('a'+n%26))
	}
	return "host-" + string(w)
}

// BenchmarkWrite measures the cost of inserting and changing rows: other jobs must not
// pay for dead ones.
func BenchmarkWrite(b *testing.B) {
	const slices = 20
	for _, kind := range []struct {
		name   string
		causes int
	}{{"plain", 0}, {"dead of 10 causes", 10}, {"dead of 10,000 causes", 10_000}, {"dead of a cause each", slices * sliceMax}} {
		b.Run(kind.name, func(b *testing.B) {
			var in, changed time.Duration
			for b.Loop() {
				f, err := openFile(b.Context(), nsA, filepath.Join(b.TempDir(), "a.db"))
				if err != nil {
					b.Fatal(err)
				}
				in += write(b, f, slices, func(n int) *change { return slice(n, kind.causes) })
				changed += write(b, f, slices, func(n int) *change {
					c := slice(n, kind.causes)
					for i := range c.rows {
						c.rows[i].State = job.Pending
					}
					return c
				})
				if err := f.close(); err != nil {
					b.Fatal(err)
				}
			}
			rows := float64(b.N * slices * sliceMax)
			b.ReportMetric(float64(in.Nanoseconds())/rows, "cpu-ns/new")
			b.ReportMetric(float64(changed.Nanoseconds())/rows, "cpu-ns/changed")
		})
	}
}

func write(b *testing.B, f *file, slices int, of func(int) *change) (used time.Duration) {
	for n := range slices {
		c := of(n)
		before := cpuTime(b)
		if err := f.apply(context.Background(), c); err != nil {
			b.Fatal(err)
		}
		used += cpuTime(b) - before
	}
	return used
}

// BenchmarkDead measures the console's queries about many dead jobs.
func BenchmarkDead(b *testing.B) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	for _, causes := range []int{10, 10_000, n} {
		b.Run(fmt.Sprintf("%d of %d causes", n, causes), func(b *testing.B) {
			f, err := openFile(b.Context(), nsA, filepath.Join(b.TempDir(), "a.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = f.close() }()
			used := write(b, f, n/sliceMax, func(i int) *change { return slice(i, causes) })
			largest := groupsOf(b, f, 1, nil).Groups[0].Cause
			for name, ask := range map[string]func() error{
				"100 groups":          func() error { groupsOf(b, f, 100, nil); return nil },
				"1000 groups":         func() error { groupsOf(b, f, 1000, nil); return nil },
				"the queues are gone": func() error { groupsOf(b, f, 100, allGone()); return nil },
				"a group's jobs":      func() error { return pageOf(f, &Filter{Cause: largest}) },
				"of a worker":         func() error { return pageOf(f, &Filter{Cause: largest, Worker: "nobody"}) },
				"of a queue and state": func() error {
					return pageOf(f, &Filter{Cause: largest, Queue: "queue-0", States: []job.State{job.Dead}})
				},
				"of another state":      func() error { return pageOf(f, &Filter{Cause: largest, States: []job.State{job.Completed}}) },
				"a group of a cut list": func() error { return pageOf(f, &Filter{Cause: largest, Created: Span{Before: epoch + 1}}) },
			} {
				b.Run(name, func(b *testing.B) {
					var took []time.Duration
					for b.Loop() {
						began := time.Now()
						if err := ask(); err != nil {
							b.Fatal(err)
						}
						took = append(took, time.Since(began))
					}
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
					b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
					b.ReportMetric(float64(used.Nanoseconds())/float64(n), "cpu-ns/written")
				})
			}
		})
	}
}

func allGone() map[string]stateread.DeletedQueue {
	gone := map[string]stateread.DeletedQueue{}
	for i := range 20 {
		gone[fmt.Sprint("queue-", i)] = stateread.DeletedQueue{Kept: 9, Alive: 9}
	}
	return gone
}

func groupsOf(b *testing.B, f *file, limit int, gone map[string]stateread.DeletedQueue) (d DeadGroups) {
	if err := d.read(context.Background(), f.read, nil, limit, gone); err != nil {
		b.Fatal(err)
	}
	return d
}

// pageOf reads a page and counts all that fit, as a list does.
func pageOf(f *file, q *Filter) error {
	q.Limit, q.CountTo = 50, 10_000
	if _, err := list(context.Background(), f.read, q, nil, inTime); err != nil {
		return err
	}
	_, err := count(context.Background(), f.read, q, nil, inTime)
	return err
}

// inTime is for walks that may take as long as they need.
func inTime() bool { return false }
