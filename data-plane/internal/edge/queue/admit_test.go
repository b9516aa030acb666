package queue

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

func TestAdmission_ANamespaceIsHeldToItsRateAndOthersAreNot(t *testing.T) {
	t.Parallel()
	limited, free := job.Namespace{1}, job.Namespace{2}
	limit := int64(2000)
	a := newAdmission(func(ns job.Namespace) int64 {
		if ns == limited {
			return limit
		}
		return 0
	})
	now := time.Now()
	for range 2 {
		if err := a.admit(limited, 1000, now); err != nil {
			t.Fatalf("within the bucket: %v", err)
		}
	}
	err := a.admit(limited, 1000, now)
	f := fault.As(err)
	if f == nil || f.Code != fault.Exhausted || f.Reason != "RATE_LIMITED" {
		t.Fatalf("beyond the bucket: %v", err)
	}
	if f.RetryAfter < 499*time.Millisecond || f.RetryAfter > 501*time.Millisecond {
		t.Fatalf("come back after %s, want half a second", f.RetryAfter)
	}
	if err := a.admit(free, 1000, now); err != nil {
		t.Fatalf("a neighbour pays: %v", err)
	}
	if err := a.admit(limited, 1000, now.Add(f.RetryAfter)); err != nil {
		t.Fatalf("after the given time: %v", err)
	}
	limit = 0
	if err := a.admit(limited, 1000, now); err != nil {
		t.Fatalf("after the limit was lifted: %v", err)
	}
}

func TestAdmission_AWholeBatchPassesEvenASmallLimit(t *testing.T) {
	t.Parallel()
	a := newAdmission(func(job.Namespace) int64 { return 1 })
	if err := a.admit(job.Namespace{1}, BatchMax, time.Now()); err != nil {
		t.Fatalf("a batch that could never pass: %v", err)
	}
}
