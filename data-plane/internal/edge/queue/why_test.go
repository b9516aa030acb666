package queue

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

func TestWhy_ListsEveryReasonInOrder(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0).UTC()
	soon, later := now.Add(time.Minute), now.Add(time.Hour)
	here := []string{"w1"}
	for _, c := range []struct {
		name  string
		is    conditions
		codes wire.WhyCode
		eta   time.Time
		says  string
	}{
		{"completed", conditions{state: job.Completed, paused: true, finished: now}, wire.WhyFinished, time.Time{}, "won't run again"},
		{"dead", conditions{state: job.Dead, deadReason: "crash_loop"}, wire.WhyFinished, time.Time{}, "(crash_loop)"},
		{"running", conditions{state: job.Active, worker: "w1", attempt: 2, maxRetries: 3, lease: soon, paused: true}, wire.WhyRunning, time.Time{}, "w1 is running attempt 2 of 3"},
		{"let go", conditions{state: job.Cancelling}, wire.WhyCancelling, time.Time{}, "Its worker was asked"},
		{"next", conditions{state: job.Pending, workers: here}, wire.WhyRunsNext, now, "Ready to run"},
		{"draining", conditions{state: job.Pending, workers: here, draining: true}, wire.WhyQueueDraining + " " + wire.WhyRunsNext, now, "still runs the ones it has"},
		{"dispatch held", conditions{state: job.Pending, workers: here, dispatchHeld: &wire.DispatchHeld{Limit: "jobs_per_month", Value: 5, OpensAt: now.Add(time.Hour), Message: "dispatch is held: the plan's limit jobs_per_month (5) is reached"}}, wire.WhyDispatchHeld, now.Add(time.Hour), "dispatch is held: the plan's limit jobs_per_month (5)"},
		{"paused", conditions{state: job.Pending, workers: here, paused: true}, wire.WhyQueuePaused, time.Time{}, "after it is resumed"},
		{"throttled", conditions{state: job.Pending, workers: here, opens: soon, throttle: Throttle{Limit: 5, Window: time.Minute}}, wire.WhyThrottled, soon, "throttle of 5 jobs in 1m0s"},
		{"concurrency", conditions{state: job.Pending, workers: here, leased: 3, maxConcurrency: 3}, wire.WhyAtConcurrency, time.Time{}, "3 jobs of queue mail are active"},
		{"room", conditions{state: job.Pending, workers: here, leased: 2, maxConcurrency: 3}, wire.WhyRunsNext, now, ""},
		{"blocked", conditions{state: job.Pending, workers: here, blocked: true, waitsFor: []string{"job_a", "job_b"}}, wire.WhyWaitingForOthers, time.Time{}, "job_a, job_b"},
		{"held", conditions{state: job.Held, workers: here, hold: &wire.Hold{Reason: "too dear."}}, wire.WhyHeld, time.Time{}, "rejected: too dear."},
		{"held for a time", conditions{state: job.Held, workers: here, hold: &wire.Hold{Until: later}, approvedAtLast: true}, wire.WhyHeld, later, ""},
		{"held to its end", conditions{state: job.Held, workers: here, hold: &wire.Hold{Until: later}}, wire.WhyHeld, time.Time{}, ""},
		{"budget", conditions{state: job.Pending, workers: here, shut: later}, wire.WhyBudgetSpent, later, "A daily budget is spent"},
		{"budget of a tag", conditions{state: job.Pending, workers: here, tagShut: "team:a", tagShutUntil: soon, shut: later}, wire.WhyBudgetSpent + " " + wire.WhyBudgetSpent, later, "of tag team:a is spent"},
		{"backing off", conditions{state: job.Retrying, workers: here, attempt: 1, maxRetries: 3, due: soon}, wire.WhyBackingOff, soon, "Attempt 1 of 3 failed"},
		{"scheduled", conditions{state: job.Scheduled, workers: here, due: later}, wire.WhyScheduled, later, "start later"},
		{"expires before", conditions{state: job.Scheduled, workers: here, due: later, expires: soon}, wire.WhyScheduled, time.Time{}, ""},
		{"the latest counts", conditions{state: job.Scheduled, workers: here, due: soon, opens: later}, wire.WhyThrottled + " " + wire.WhyScheduled, later, ""},
		{"one ahead", conditions{state: job.Pending, workers: here, ahead: 1}, wire.WhyBehindOtherJobs, time.Time{}, "1 job in the queue is ahead"},
		{"many ahead", conditions{state: job.Pending, workers: here, ahead: stateread.AheadMax}, wire.WhyBehindOtherJobs, time.Time{}, "At least 1000 jobs"},
		{"nobody there", conditions{state: job.Pending}, wire.WhyNoWorker, time.Time{}, "No worker has fetched"},
		{
			"everything", conditions{state: job.Retrying, paused: true, draining: true, opens: soon, leased: 1, maxConcurrency: 1, due: soon},
			wire.WhyQueuePaused + " " + wire.WhyQueueDraining + " " + wire.WhyThrottled + " " + wire.WhyAtConcurrency + " " + wire.WhyBackingOff + " " + wire.WhyNoWorker, time.Time{}, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.is.now, c.is.queue = now, "mail"
			w := c.is.why()
			var codes []string
			var all strings.Builder
			for _, r := range w.Reasons {
				codes = append(codes, string(r.Code))
				all.WriteString(r.Message)
			}
			if got := strings.Join(codes, " "); got != string(c.codes) {
				t.Errorf("codes %s, want %s", got, c.codes)
			}
			if !w.ETA.Equal(c.eta) {
				t.Errorf("eta %s, want %s", w.ETA, c.eta)
			}
			if !strings.Contains(all.String(), c.says) {
				t.Errorf("says %q", all.String())
			}
		})
	}
}

func (r *rig) why(v *Views, id job.ID) (codes []wire.WhyCode) {
	r.t.Helper()
	w, err := v.Why(r.ctx(), r.caller, id)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, reason := range w.Reasons {
		codes = append(codes, reason.Code)
	}
	return codes
}

func TestWhy_OfARealShard(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.views()
	wants := func(id job.ID, want ...wire.WhyCode) {
		t.Helper()
		if got := r.why(v, id); !slices.Equal(got, want) {
			t.Fatalf("reasons %v, want %v", got, want)
		}
	}
	first := r.enqueue(EnqueueInput{Queue: "mail"})
	second := r.enqueue(EnqueueInput{Queue: "mail"})
	wants(first, wire.WhyNoWorker)
	wants(second, wire.WhyBehindOtherJobs, wire.WhyNoWorker)
	urgent := r.enqueue(EnqueueInput{Queue: "mail", Priority: "critical"})
	wants(first, wire.WhyBehindOtherJobs, wire.WhyNoWorker)
	wants(urgent, wire.WhyNoWorker)
	r.fetch(FetchInput{Queues: []string{"mail"}, WorkerID: "w1", Count: 1})
	wants(urgent, wire.WhyRunning)
	wants(first, wire.WhyRunsNext)
	if err := r.PauseQueue(r.ctx(), r.caller, "mail"); err != nil {
		t.Fatal(err)
	}
	wants(first, wire.WhyQueuePaused)
	wants(second, wire.WhyQueuePaused, wire.WhyBehindOtherJobs)
	waits := r.enqueue(EnqueueInput{Queue: "print", DependsOn: []string{first.String(), second.String()}})
	w, err := v.Why(r.ctx(), r.caller, waits)
	if err != nil || w.Reasons[0].Code != wire.WhyWaitingForOthers || !slices.Equal(w.Reasons[0].Detail["job_ids"].([]string), []string{first.String(), second.String()}) {
		t.Fatalf("%+v, %v", w, err)
	}
	if _, err := v.Why(r.ctx(), r.caller, job.ID{1}); fault.CodeOf(err) != fault.NotFound {
		t.Fatalf("of no job: %v", err)
	}
}

func TestRecent_PagesByNumber(t *testing.T) {
	t.Parallel()
	r := start(t)
	v := r.views()
	for range 7 {
		r.enqueue(EnqueueInput{Queue: "mail"})
	}
	var seqs []uint64
	for after := uint64(0); ; after = seqs[len(seqs)-1] {
		p, err := v.Recent(r.ctx(), r.caller, after, 3)
		if err != nil || p.Lost {
			t.Fatal(p, err)
		}
		for _, e := range p.Events {
			seqs = append(seqs, e.Seq)
		}
		if len(p.Events) < 3 {
			break
		}
	}
	for i, seq := range seqs {
		if seq != uint64(i)+1 {
			t.Fatalf("numbers %v", seqs)
		}
	}
	if len(seqs) < 7 {
		t.Fatalf("%d events of 7 jobs", len(seqs))
	}
	if p, err := v.Recent(r.ctx(), r.caller, 1<<40, 3); err != nil || !p.Lost || len(p.Events) != 0 {
		t.Fatal(p, err)
	}
	if _, err := v.Recent(r.ctx(), r.caller, 0, RecentMax+1); fault.CodeOf(err) != fault.Invalid {
		t.Fatal(err)
	}
}
