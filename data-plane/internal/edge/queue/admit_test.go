package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// refused is how long the caller is told to wait; it fails if the call passes.
func refused(t *testing.T, err error) time.Duration {
	t.Helper()
	f := fault.As(err)
	if f == nil || f.Code != fault.Exhausted || f.Reason != "RATE_LIMITED" || f.RetryAfter <= 0 {
		t.Fatalf("beyond the limit: %v", err)
	}
	return f.RetryAfter
}

func passes(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestAdmission_ANamespaceIsHeldToItsRateAndOthersAreNot(t *testing.T) {
	t.Parallel()
	limited, free := job.Namespace{1}, job.Namespace{2}
	limit := int64(2)
	a := newAdmission(func(ns job.Namespace) PlanLimits {
		if ns == limited {
			return PlanLimits{PerSecond: limit}
		}
		return PlanLimits{}
	})
	now := time.Now()
	for range limit {
		passes(t, "within the second", a.admit(limited, 1, now))
	}
	if wait := refused(t, a.admit(limited, 1, now)); wait < 499*time.Millisecond || wait > 501*time.Millisecond {
		t.Fatalf("come back after %s, want half a second", wait)
	}
	passes(t, "a neighbour", a.admit(free, 1000, now))
	const seconds = 100
	enqueued := int64(0)
	for range seconds * 10 {
		now = now.Add(time.Second / 10)
		if a.admit(limited, 1, now) == nil {
			enqueued++
		}
	}
	if most := seconds * limit; enqueued > most || enqueued < most-1 {
		t.Fatalf("%d in %d s, want %d", enqueued, seconds, most)
	}
	limit = 0
	passes(t, "after the limit was lifted", a.admit(limited, 1000, now))
}

// A batch that is larger than what is left passes and owes the rest, also while single jobs
// take every other place. Whoever waits as long as it was told is let in.
func TestAdmission_ABatchPassesAndOwesTheRest(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{1, 2, 3, 7, 999, 1000, 5000} {
		a := newAdmission(func(job.Namespace) PlanLimits { return PlanLimits{PerSecond: limit} })
		now := time.Now()
		passes(t, "one first", a.admit(job.Namespace{1}, 1, now))
		if limit == 1 {
			now = now.Add(time.Second)
		}
		enqueued, began := int64(0), now
		for range 5 {
			for a.admit(job.Namespace{1}, BatchMax, now) == nil {
				enqueued += BatchMax
			}
			wait := refused(t, a.admit(job.Namespace{1}, BatchMax, now))
			refused(t, a.admit(job.Namespace{1}, 1, now.Add(wait-wait/50-time.Microsecond)))
			now = now.Add(wait)
			passes(t, "after the wait", a.admit(job.Namespace{1}, 1, now))
			enqueued++
		}
		if most := int64(now.Sub(began).Seconds()*float64(limit)) + limit + BatchMax; enqueued > most {
			t.Fatalf("%d a second: %d in %s, want at most %d", limit, enqueued, now.Sub(began), most)
		}
	}
}

func TestAdmission_AChangedLimitCountsAtOnce(t *testing.T) {
	t.Parallel()
	limit := int64(1)
	a := newAdmission(func(job.Namespace) PlanLimits { return PlanLimits{PerSecond: limit} })
	now := time.Now()
	passes(t, "a batch", a.admit(job.Namespace{1}, BatchMax, now))
	err := a.admit(job.Namespace{1}, 1, now.Add(time.Millisecond))
	if wait := refused(t, err); wait != BatchMax*time.Second-time.Millisecond || !strings.Contains(err.Error(), "more jobs than its plan allows (1 per second, enqueue_per_second)") || !strings.HasSuffix(err.Error(), "try again in 16m40s") {
		t.Fatalf("wait %s: %v", wait, err)
	}
	limit = 1000
	if wait := refused(t, a.admit(job.Namespace{1}, 1, now)); wait != time.Second {
		t.Fatalf("with the new limit, wait %s", wait)
	}
	passes(t, "a second later", a.admit(job.Namespace{1}, 1, now.Add(time.Second)))
}

func TestAdmission_ABurstIsLetInAtOnceAndTheRateHoldsAfterIt(t *testing.T) {
	t.Parallel()
	l := PlanLimits{PerSecond: 10, Burst: 100}
	a := newAdmission(func(job.Namespace) PlanLimits { return l })
	now, ns := time.Now(), job.Namespace{1}
	for range l.Burst {
		passes(t, "within the burst", a.admit(ns, 1, now))
	}
	if wait := refused(t, a.admit(ns, 1, now)); wait > 100*time.Millisecond {
		t.Fatalf("come back after %s, want a tenth of a second", wait)
	}
	now = now.Add(time.Second)
	for range l.PerSecond {
		passes(t, "a second later", a.admit(ns, 1, now))
	}
	refused(t, a.admit(ns, 1, now))
	l.PerSecond = 20
	refused(t, a.admit(ns, 1, now))
	now = now.Add(time.Second)
	for range l.PerSecond {
		passes(t, "at the changed rate", a.admit(ns, 1, now))
	}
	refused(t, a.admit(ns, 1, now))
}

func TestAdmission_TheQuotaSaysHowManyAreLeftAndWhenAllAreThereAgain(t *testing.T) {
	t.Parallel()
	l := PlanLimits{PerSecond: 10, Burst: 100}
	a := newAdmission(func(job.Namespace) PlanLimits { return l })
	now, ns := time.Now(), job.Namespace{1}
	wants := func(what string, left int64, full time.Duration) {
		t.Helper()
		q, ok := a.quota(ns, now)
		if want := (EnqueueQuota{Limit: 100, Window: 10 * time.Second, Left: left, Full: full}); !ok || q != want {
			t.Fatalf("%s: %+v, want %+v", what, q, want)
		}
	}
	wants("before any", 100, 0)
	passes(t, "some", a.admit(ns, 40, now))
	wants("after 40", 60, 4*time.Second)
	passes(t, "a batch", a.admit(ns, 160, now))
	wants("in debt", 0, 20*time.Second)
	l = PlanLimits{}
	if q, ok := a.quota(ns, now); ok {
		t.Fatalf("without a limit: %+v", q)
	}
}

func TestAdmission_AHoldRefusesUntilItEndsAndSaysWhich(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := PlanLimits{Hold: PlanHold{Enqueue: true, Limit: "jobs_per_month", Value: 10_000, Until: now.Add(time.Hour)}}
	a := newAdmission(func(job.Namespace) PlanLimits { return l })
	f := fault.As(a.admit(job.Namespace{1}, 1, now))
	if f == nil || f.Code != fault.Exhausted || f.Reason != "PLAN_LIMIT" || f.RetryAfter != time.Hour ||
		*f.Limit != (fault.Limit{Name: "jobs_per_month", Value: 10_000, OpensAt: l.Hold.Until}) {
		t.Fatalf("held: %+v", f)
	}
	for _, said := range []string{"jobs_per_month", "10000", l.Hold.Until.UTC().Format(time.RFC3339), "plan and usage in the console"} {
		if !strings.Contains(f.Message, said) {
			t.Errorf("%q does not say %s", f.Message, said)
		}
	}
	passes(t, "when it ends by itself", a.admit(job.Namespace{1}, 1, l.Hold.Until))
	l.Hold.Until = time.Time{}
	if f := fault.As(a.admit(job.Namespace{1}, 1, now.Add(1000*time.Hour))); f == nil || f.RetryAfter != time.Minute {
		t.Fatalf("one without an end: %+v", f)
	}
	l.Hold = PlanHold{Dispatch: true, Limit: "jobs_per_month"}
	passes(t, "while dispatch alone is held", a.admit(job.Namespace{1}, 1, now))
}
