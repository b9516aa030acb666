package readmodel

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// wantMinutes compares the minutes of a namespace in which anything happened.
func (r *rig) wantMinutes(ns job.Namespace, want ...Minute) {
	r.Helper()
	r.settled(ns)
	all, asOf, err := r.Throughput(r.ctx(), ns, Reader{}, time.Unix(0, r.now))
	if err != nil || len(all) != Minutes || asOf.IsZero() {
		r.Fatalf("%d minutes, as of %s, %v", len(all), asOf, err)
	}
	var got []Minute
	for i, m := range all {
		if i > 0 && m.At.Sub(all[i-1].At) != time.Minute {
			r.Fatalf("%s follows %s", m.At, all[i-1].At)
		}
		if m.Enqueued+m.Completed+m.Failed > 0 {
			got = append(got, Minute{Enqueued: m.Enqueued, Completed: m.Completed, Failed: m.Failed})
		}
	}
	if last := all[Minutes-1].At; !last.Equal(time.Unix(0, r.now).Truncate(time.Minute)) {
		r.Fatalf("the last minute is %s", last)
	}
	if len(got) != len(want) {
		r.Fatalf("minutes %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			r.Fatalf("minutes %+v, want %+v", got, want)
		}
	}
}

// busy lets some things happen, and a minute pass.
func (r *rig) busy() {
	r.finish(nsA, r.enqueue(nsA, "mail"))
	r.fail(nsA, r.enqueue(nsA, "mail"), "no")
	r.enqueue(nsA, "mail")
	r.now += int64(time.Minute)
}

func TestThroughput_CountsWhatHappenedInEachMinute(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	for range 3 {
		r.busy()
	}
	each := Minute{Enqueued: 3, Completed: 1, Failed: 1}
	r.wantMinutes(nsA, each, each, each)
	r.wantMinutes(nsB)
	r.now += int64(58 * time.Minute)
	r.wantMinutes(nsA, each)
	r.busy()
	r.now += int64(70 * time.Minute)
	r.busy()
	r.wantMinutes(nsA, each)
}

// Events are counted once, whoever reads them and however often: the mark moves in
// the same transaction.
func TestThroughput_SurvivesRestartsAndOtherLeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	each := Minute{Enqueued: 3, Completed: 1, Failed: 1}
	r.busy()
	r.wantMinutes(nsA, each)
	r.stop()
	r.busy() // Another node leads.
	r.run()
	r.wantMinutes(nsA, each, each)
	r.halt()
	r.open()
	r.run()
	r.busy()
	r.wantMinutes(nsA, each, each, each)
}

// Where the feed does not reach back, the jobs are counted: without deleted ones, and
// only the last of several failures.
func TestThroughput_IsRebuiltFromTheJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	r.busy()
	each := Minute{Enqueued: 3, Completed: 1, Failed: 1}
	r.wantMinutes(nsA, each)
	r.halt()
	r.busy()
	gone := r.enqueue(nsA, "mail")
	r.apply(&command.Delete{NS: nsA, ID: gone})
	r.trim(nsA)
	r.open()
	r.run()
	r.wantMinutes(nsA, each, each)
	r.busy()
	r.wantMinutes(nsA, each, each, each)
}
