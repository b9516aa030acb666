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

// admission holds the enqueues of namespaces to what their plan allows. Its buckets are
// in the leader's memory only: a new leader starts with full ones.
type admission struct {
	limits func(job.Namespace) PlanLimits

	mu      sync.Mutex // Guards buckets.
	buckets map[job.Namespace]*rate.Limiter
}

func newAdmission(limits func(job.Namespace) PlanLimits) *admission {
	if limits == nil {
		limits = func(job.Namespace) PlanLimits { return PlanLimits{} }
	}
	return &admission{limits: limits, buckets: make(map[job.Namespace]*rate.Limiter)}
}

// admit lets n enqueues pass, all or none.
func (a *admission) admit(ns job.Namespace, n int, now time.Time) error {
	l := a.limits(ns)
	if err := l.Hold.refusesEnqueue(now); err != nil {
		return err
	}
	return a.take(ns, n, &l, now)
}

// take takes n enqueues out of the namespace's bucket, all or none. The bucket holds the
// plan's burst, or a second's worth. A call passes if there is anything in it and may take more than that, up
// to a whole batch: what it owes, later calls wait for. So no batch is too large to ever
// pass, or passes only when nobody else enqueues, and single jobs are held to the limit.
//
// The library's bucket can't owe, so it is larger by BatchMax, and is empty at that.
func (a *admission) take(ns job.Namespace, n int, l *PlanLimits, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.PerSecond <= 0 {
		delete(a.buckets, ns)
		return nil
	}
	b := a.bucket(ns, l, now)
	if missing := BatchMax + 1 - b.TokensAt(now); missing > 0 {
		wait := inSeconds(missing / float64(l.PerSecond))
		return &fault.Error{
			Code: fault.Exhausted, Reason: "RATE_LIMITED", RetryAfter: wait,
			Limit: &fault.Limit{Name: limitPerSecond, Value: l.PerSecond},
			Message: fmt.Sprintf("this namespace enqueues more jobs than its plan allows (%d per second, %s); nothing was enqueued, try again in %s",
				l.PerSecond, limitPerSecond, (wait + time.Second - 1).Truncate(time.Second)), // People see no header.
		}
	}
	b.AllowN(now, n)
	return nil
}

func inSeconds(s float64) time.Duration { return time.Duration(math.Ceil(s * float64(time.Second))) }

// size of the bucket.
func (l *PlanLimits) size() int64 {
	if l.Burst > 0 {
		return l.Burst
	}
	return l.PerSecond
}

// bucket of a namespace. It is called with mu held.
func (a *admission) bucket(ns job.Namespace, l *PlanLimits, now time.Time) *rate.Limiter {
	burst := int(l.size()) + BatchMax
	b, ok := a.buckets[ns]
	if !ok {
		b = rate.NewLimiter(rate.Limit(l.PerSecond), burst)
		a.buckets[ns] = b
	}
	if b.Burst() != burst || b.Limit() != rate.Limit(l.PerSecond) {
		b.SetLimitAt(now, rate.Limit(l.PerSecond))
		b.SetBurstAt(now, burst)
	}
	return b
}

// EnqueueQuota is what a namespace may enqueue at the moment.
type EnqueueQuota struct {
	Limit  int64         // At once, after a pause of Window.
	Window time.Duration // In which as many are allowed again.
	Left   int64
	Full   time.Duration // Until Left is Limit.
}

// EnqueueQuota reports false if the plan doesn't limit the rate of the caller's namespace.
func (s *Service) EnqueueQuota(c Caller) (EnqueueQuota, bool) {
	return s.gate.quota(c.Namespace, time.Now())
}

func (a *admission) quota(ns job.Namespace, now time.Time) (EnqueueQuota, bool) {
	l := a.limits(ns)
	if l.PerSecond <= 0 {
		return EnqueueQuota{}, false
	}
	a.mu.Lock()
	tokens := a.bucket(ns, &l, now).TokensAt(now) - BatchMax
	a.mu.Unlock()
	size, perSecond := float64(l.size()), float64(l.PerSecond)
	return EnqueueQuota{
		Limit: l.size(), Window: inSeconds(size / perSecond),
		Left: int64(max(tokens, 0)), Full: inSeconds(max(size-tokens, 0) / perSecond),
	}, true
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
