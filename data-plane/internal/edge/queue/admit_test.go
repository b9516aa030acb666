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
	a := newAdmission(func(ns job.Namespace) int64 {
		if ns == limited {
			return limit
		}
		return 0
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
		a := newAdmission(func(job.Namespace) int64 { return limit })
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
	a := newAdmission(func(job.Namespace) int64 { return limit })
	now := time.Now()
	passes(t, "a batch", a.admit(job.Namespace{1}, BatchMax, now))
	err := a.admit(job.Namespace{1}, 1, now.Add(time.Millisecond))
	if wait := refused(t, err); wait != BatchMax*time.Second-time.Millisecond || !strings.Contains(err.Error(), "more jobs than its plan allows (1 per second)") || !strings.HasSuffix(err.Error(), "try again in 16m40s") {
		t.Fatalf("wait %s: %v", wait, err)
	}
	limit = 1000
	if wait := refused(t, a.admit(job.Namespace{1}, 1, now)); wait != time.Second {
		t.Fatalf("with the new limit, wait %s", wait)
	}
	passes(t, "a second later", a.admit(job.Namespace{1}, 1, now.Add(time.Second)))
}
