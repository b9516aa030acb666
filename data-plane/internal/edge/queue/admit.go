package queue

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// admission limits the enqueue rate of namespaces to what their plan allows. It is
// in the leader's memory only: a new leader starts with full buckets.
type admission struct {
	// perSecond is the plan's limit of a namespace; 0 is unlimited.
	perSecond func(job.Namespace) int64

	mu      sync.Mutex // Guards buckets.
	buckets map[job.Namespace]*rate.Limiter
}

func newAdmission(perSecond func(job.Namespace) int64) *admission {
	return &admission{perSecond: perSecond, buckets: make(map[job.Namespace]*rate.Limiter)}
}

// admit takes n enqueues out of the namespace's bucket, all or none. A bucket
// holds a second's worth, and at least a whole batch, so that no call is too large
// to ever pass.
func (a *admission) admit(ns job.Namespace, n int, now time.Time) error {
	limit := a.perSecond(ns)
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit <= 0 {
		delete(a.buckets, ns)
		return nil
	}
	b, ok := a.buckets[ns]
	burst := int(max(limit, BatchMax))
	switch {
	case !ok:
		b = rate.NewLimiter(rate.Limit(limit), burst)
		a.buckets[ns] = b
	case b.Burst() != burst || b.Limit() != rate.Limit(limit):
		b.SetLimitAt(now, rate.Limit(limit))
		b.SetBurstAt(now, burst)
	}
	r := b.ReserveN(now, n)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	r.CancelAt(now)
	return &fault.Error{
		Code: fault.Exhausted, Reason: "RATE_LIMITED", RetryAfter: wait,
		Message: "this namespace enqueues faster than its plan allows; nothing was enqueued, try again after the time in Retry-After",
	}
}

// giveBack returns what admit took for n enqueues of which certainly none was made:
// a call that is held during a change of leader comes here many times.
func (a *admission) giveBack(ns job.Namespace, n int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b, ok := a.buckets[ns]; ok {
		b.ReserveN(now, -n)
	}
}
