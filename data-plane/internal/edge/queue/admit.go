package queue

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// admission holds the enqueues of namespaces to what their plan allows. Its buckets are
// in the leader's memory only: a new leader starts with full ones.
type admission struct {
	limits func(job.Namespace) PlanLimits
	// counted is what a namespace has: every entry keeps it.
	counted func(job.Namespace) (records.Reading, error)

	mu      sync.Mutex // Guards buckets.
	buckets map[job.Namespace]*rate.Limiter
}

func newAdmission(limits func(job.Namespace) PlanLimits, counted func(job.Namespace) (records.Reading, error)) *admission {
	if limits == nil {
		limits = func(job.Namespace) PlanLimits { return PlanLimits{} }
	}
	return &admission{limits: limits, counted: counted, buckets: make(map[job.Namespace]*rate.Limiter)}
}

// admit lets n enqueues with payloads of so many bytes pass, all or none.
func (a *admission) admit(ns job.Namespace, n, bytes int, now time.Time) error {
	l := a.limits(ns)
	if err := l.Hold.refusesEnqueue(now); err != nil {
		return err
	}
	if err := a.fits(ns, n, bytes, &l); err != nil {
		return err
	}
	return a.take(ns, n, &l, now)
}

// Pauses before what is full is asked again: jobs end, and what has ended is deleted.
const (
	openJobsPause    = 5 * time.Second
	storedBytesPause = time.Minute
)

// fits compares what the namespace has with what its plan allows. What is on its way into
// the log isn't counted yet: limits may be exceeded by the calls of that moment.
func (a *admission) fits(ns job.Namespace, n, bytes int, l *PlanLimits) error {
	if l.OpenJobs <= 0 && l.StoredBytes <= 0 {
		return nil
	}
	has, err := a.counted(ns)
	if err != nil {
		return fmt.Errorf("read what namespace %s has: %w", ns, err)
	}
	if over(l.OpenJobs, has.OpenJobs, n) {
		return full(limitOpenJobs, l.OpenJobs, has.OpenJobs, "open jobs", openJobsPause)
	}
	if over(l.StoredBytes, has.StoredBytes, bytes) {
		return full(limitStoredBytes, l.StoredBytes, has.StoredBytes, "stored bytes", storedBytesPause)
	}
	return nil
}

func over(limit int64, has uint64, more int) bool {
	return limit > 0 && has+uint64(more) > uint64(limit)
}

func full(name string, limit int64, has uint64, what string, pause time.Duration) error {
	return &fault.Error{
		Code: fault.Exhausted, Reason: string(wire.CodePlanLimit), RetryAfter: pause,
		Limit: &fault.Limit{Name: name, Value: limit, Current: int64(has)},
		Message: fmt.Sprintf("this namespace has %d %s, and its plan allows %d (%s), so these don't fit; nothing was enqueued; to raise it, %s",
			has, what, limit, name, seeConsole),
	}
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
