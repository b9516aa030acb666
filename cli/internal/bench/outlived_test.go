package bench

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The stand-in keeps its jobs in memory, so one that was restarted with them is itself, and
// another one has lost them all.
func TestOutlived_ServerWithoutWhatWasPutIsInvalid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults  faults
		waiting int
		anew    bool
		problem string // Empty: none.
	}{
		"jobs that wait are there":     {waiting: 300},
		"finished jobs are there":      {},
		"an empty store, jobs waited":  {waiting: 300, anew: true, problem: "after kill -9: the server's own counts were not compared"},
		"an empty store, jobs ended":   {anew: true, problem: "after kill -9: the server's own counts were not compared"},
		"finished jobs are forgotten":  {faults: faults{forgets: true}, problem: "which was completed"},
		"counted, and not handed out":  {faults: faults{loseEvery: 100}, waiting: 300, problem: "lost: accepted and never handed out"},
		"completed jobs pend again":    {faults: faults{revive: true}, waiting: 300, problem: "after kill -9: the server counts 301 pending"},
		"more are completed than were": {faults: faults{invent: true}, problem: "after kill -9: the server counts 501 completed jobs, 500 were acked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newStandin(c.faults)
			target := ours(listen(t, q))
			o := small(Lifecycle, Stream)
			o.Backlog, o.KeepBacklog = c.waiting, true
			r, err := prepare(o, target)
			if err != nil {
				t.Fatal(err)
			}
			r.stall = 300 * time.Millisecond
			if report, err := r.report(t.Context()); err != nil || !report.Valid {
				t.Fatalf("before the kill: %v %+v", err, report)
			}
			if c.anew {
				target = ours(serve(t, faults{}))
			} else {
				q.killed()
			}
			report, err := outlivedAll(t.Context(), []*run{r}, target)
			if err != nil {
				t.Fatal(err)
			}
			if said := strings.Join(report.Problems, "; "); report.Valid != (c.problem == "") || !strings.Contains(said, c.problem) {
				t.Errorf("valid %v: %s", report.Valid, said)
			}
			want := c.waiting
			if want == 0 { // New ones.
				want = outlivedSample
			}
			if c.problem == "" && report.Phase.Jobs != want {
				t.Errorf("%d jobs were taken as a sample, want %d", report.Phase.Jobs, want)
			}
		})
	}
}

// The problems of every queue count, not of the last alone.
func TestOutlived_OneOfSeveralRunsLostItsJobs(t *testing.T) {
	t.Parallel()
	kept, lost := ours(serve(t, faults{})), ours(serve(t, faults{}))
	var runs []*run
	for _, target := range []*Target{lost, kept} {
		r, err := prepare(small(Lifecycle, Stream), target)
		if err != nil {
			t.Fatal(err)
		}
		if report, err := r.report(t.Context()); err != nil || !report.Valid {
			t.Fatalf("%v %+v", err, report)
		}
		runs = append(runs, r)
	}
	if report, err := outlivedAll(t.Context(), runs, kept); err != nil || report.Valid {
		t.Errorf("%v %+v", err, report)
	}
}

// ours is a target as if we had started it, relaxed as the stand-in is.
func ours(t *Target) *Target {
	t.pid, t.relaxed = os.Getpid(), true
	return t
}
