package queue

import (
	"fmt"
	"math"
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

// admit takes n enqueues out of the namespace's bucket, all or none. The bucket holds a
// second's worth. A call passes if there is anything in it and may take more than that, up
// to a whole batch: what it owes, later calls wait for. So no batch is too large to ever
// pass, or passes only when nobody else enqueues, and single jobs are held to the limit.
//
// The library's bucket can't owe, so it is larger by BatchMax, and is empty at that.
func (a *admission) admit(ns job.Namespace, n int, now time.Time) error {
	limit := a.perSecond(ns)
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit <= 0 {
		delete(a.buckets, ns)
		return nil
	}
	b := a.bucket(ns, limit, now)
	if missing := BatchMax + 1 - b.TokensAt(now); missing > 0 {
		wait := time.Duration(math.Ceil(missing / float64(limit) * float64(time.Second)))
		return &fault.Error{
			Code: fault.Exhausted, Reason: "RATE_LIMITED", RetryAfter: wait,
			Message: fmt.Sprintf("this namespace enqueues more jobs than its plan allows (%d per second); nothing was enqueued, try again in %s",
				limit, (wait + time.Second - 1).Truncate(time.Second)), // People see no header.
		}
	}
	b.AllowN(now, n)
	return nil
}

// bucket of a namespace. It is called with mu held.
func (a *admission) bucket(ns job.Namespace, limit int64, now time.Time) *rate.Limiter {
	burst := int(limit) + BatchMax
	b, ok := a.buckets[ns]
	if !ok {
		b = rate.NewLimiter(rate.Limit(limit), burst)
		a.buckets[ns] = b
	}
	if b.Burst() != burst {
		b.SetLimitAt(now, rate.Limit(limit))
		b.SetBurstAt(now, burst)
	}
	return b
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
