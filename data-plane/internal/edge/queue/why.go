package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// whyReason is one thing that keeps a job from running, or tells its state.
type whyReason struct {
	wire.WhyReason
	informs bool // It does not keep the job from running.
	fatal   bool // When it ends the job is dead.
}

// conditions are all that decides whether a job runs, at one moment.
type conditions struct {
	now            time.Time
	queue          string
	state          job.State
	attempt        int
	maxRetries     int
	worker         string
	lease          time.Time
	due            time.Time // Of a scheduled or retrying job.
	finished       time.Time
	expires        time.Time // When it is dead if it has not ended; zero: never.
	deadReason     string
	blocked        bool
	waitsFor       []string
	hold           *wire.Hold
	approvedAtLast bool      // When its hold is over it is approved, else rejected.
	shut           time.Time // Until then a spent budget stops the queue; zero: none does.
	tagShut        string    // A tag of the job whose budget is spent; "": none is.
	tagShutUntil   time.Time
	paused         bool
	draining       bool
	opens          time.Time // When the throttle lets a job start; zero: now.
	throttle       Throttle
	leased         int64
	maxConcurrency int
	ahead          int
	workers        []string // Who fetches from the queue, by id.
	dispatchHeld   *wire.DispatchHeld
}

// Why looks at a job, its queue and its workers.
func (v *Views) Why(ctx context.Context, c Caller, id job.ID) (wire.Why, error) {
	s, err := look(ctx, v.shard, errNoJob(id), func(g *statedb.Group) (stateread.RunConditions, error) {
		return stateread.ReadRunConditions(g, c.Namespace, id)
	})
	if err != nil {
		return wire.Why{}, err
	}
	if err := c.mayOn(permission.JobRead, s.Head.Queue, errNoJob(id)); err != nil {
		return wire.Why{}, err
	}
	st := conditionsOf(&s, v.shard.Group().Now())
	st.dispatchHeld = v.service.DispatchHeld(c.Namespace)
	for _, w := range v.service.workers.list(c.Namespace, time.Now()) {
		if slices.Contains(w.Queues, st.queue) {
			st.workers = append(st.workers, w.ID)
		}
	}
	out := st.why()
	out.JobID = id.String()
	return out, nil
}

func conditionsOf(s *stateread.RunConditions, at stateread.Times) *conditions {
	h, now := &s.Head, at.Calendar
	st := &conditions{
		now: when(now), queue: h.Queue, state: h.State, attempt: int(h.Attempt), maxRetries: int(h.Retry.MaxRetries),
		worker: h.Worker, finished: when(h.Finished), expires: when(h.ExpireAt), deadReason: h.Reason.String(), blocked: h.Blocked(),
		paused: s.Config.Paused, draining: s.Config.Draining, throttle: Throttle{Limit: int(s.Config.Throttle.Limit), Window: s.Config.Throttle.Window},
		leased: s.Counts.Leased(), maxConcurrency: int(s.Config.MaxConcurrency), ahead: s.Ahead,
	}
	switch {
	case h.State.Leased():
		st.lease = when(at.OnCalendar(h.Due))
	case h.State == job.Retrying:
		st.due = when(at.OnCalendar(h.Due))
	case h.State == job.Scheduled:
		st.due = when(h.Due)
	}
	if h.State == job.Held && s.Hold != nil {
		st.hold, st.approvedAtLast = viewHold(s.Hold), s.Hold.ApproveAtLast
	}
	if n, limited := s.Limits.Starts(at); limited && n == 0 {
		opens := s.Limits.Opens(at)
		st.opens = when(max(opens.Calendar, at.OnCalendar(max(opens.Lease, at.Lease))))
	}
	if s.ShutUntil > now {
		st.shut = when(s.ShutUntil)
	}
	if s.TagShutUntil > now {
		st.tagShut, st.tagShutUntil = s.TagShut, when(s.TagShutUntil)
	}
	for _, id := range s.WaitsFor {
		st.waitsFor = append(st.waitsFor, id.String())
	}
	return st
}

// why lists every reason that applies: those to act on come first.
func (s *conditions) why() wire.Why {
	if r, ok := s.settled(); ok {
		return wire.Why{State: stateOf(s.state), Reasons: []wire.WhyReason{r.WhyReason}}
	}
	reasons := s.reasons()
	return wire.Why{State: stateOf(s.state), ETA: s.eta(reasons), Reasons: each(reasons, func(r *whyReason) wire.WhyReason { return r.WhyReason })}
}

func (s *conditions) reasons() (out []whyReason) {
	for _, look := range []func() (whyReason, bool){
		s.isDispatchHeld, s.isPaused, s.isDraining, s.isThrottled, s.atConcurrency, s.isWaiting, s.isHeld, s.isOverBudget, s.isOverTagBudget, s.backsOff, s.isScheduled, s.isBehind, s.hasNoWorker,
	} {
		if r, ok := look(); ok {
			out = append(out, r)
		}
	}
	if !slices.ContainsFunc(out, func(r whyReason) bool { return !r.informs }) {
		next := because(wire.WhyRunsNext, nil, "Ready to run: the next free worker of its queue gets it.").until(s.now)
		next.informs = true
		out = append(out, next)
	}
	return out
}

// because is a reason in words; what stands in them is in detail for programs.
func because(code wire.WhyCode, detail map[string]any, format string, args ...any) whyReason {
	if detail == nil {
		detail = map[string]any{}
	}
	return whyReason{WhyReason: wire.WhyReason{Code: code, Message: fmt.Sprintf(format, args...), Detail: detail}}
}

// until says when the reason ends.
func (r whyReason) until(t time.Time) whyReason { r.Until = t; return r }

// eta is when the last of the reasons ends; zero if the end of one is not known, or
// if the job will not run then.
func (s *conditions) eta(reasons []whyReason) time.Time {
	at := s.now
	for _, r := range reasons {
		switch {
		case r.informs:
		case r.Until.IsZero() || r.fatal:
			return time.Time{}
		case r.Until.After(at):
			at = r.Until
		}
	}
	if !s.expires.IsZero() && !at.Before(s.expires) {
		return time.Time{}
	}
	return at
}

// settled is the reason of a job that runs or will not run again.
func (s *conditions) settled() (whyReason, bool) {
	attempt := map[string]any{"worker_id": s.worker, "attempt": s.attempt}
	switch {
	case s.state == job.Dead:
		return because(wire.WhyFinished, map[string]any{"finished_at": s.finished, "dead_reason": s.deadReason},
			"This job is dead (%s) and won't run again unless you retry it.", s.deadReason), true
	case s.state.Terminal():
		return because(wire.WhyFinished, map[string]any{"finished_at": s.finished}, "This job is %s and won't run again unless you retry it.", s.state), true
	case s.state == job.Active:
		return because(wire.WhyRunning, attempt, "%s is running attempt %d of %d.", nameOr(s.worker, "A worker"), s.attempt, s.maxRetries).until(s.lease), true
	case s.state == job.Cancelling:
		return because(wire.WhyCancelling, attempt, "%s was asked to stop.", nameOr(s.worker, "Its worker")).until(s.lease), true
	}
	return whyReason{}, false
}

// ofQueue is the detail that names the job's queue.
func (s *conditions) ofQueue() map[string]any { return map[string]any{"queue": s.queue} }

func (s *conditions) isDispatchHeld() (whyReason, bool) {
	h := s.dispatchHeld
	if h == nil {
		return whyReason{}, false
	}
	return because(wire.WhyDispatchHeld, map[string]any{"limit": h.Limit, "value": h.Value}, "No job starts: %s.", h.Message).until(h.OpensAt), true
}

func (s *conditions) isPaused() (whyReason, bool) {
	return because(wire.WhyQueuePaused, s.ofQueue(), "Queue %s is paused. Its jobs start after it is resumed.", s.queue), s.paused
}

func (s *conditions) isDraining() (whyReason, bool) {
	r := because(wire.WhyQueueDraining, s.ofQueue(), "Queue %s is draining: it takes no new jobs, but still runs the ones it has.", s.queue)
	r.informs = true
	return r, s.draining
}

func (s *conditions) isThrottled() (whyReason, bool) {
	return because(wire.WhyThrottled, map[string]any{"queue": s.queue, "rate": s.throttle.Limit, "window_ms": s.throttle.Window.Milliseconds()},
		"Queue %s reached its throttle of %d jobs in %s.", s.queue, s.throttle.Limit, s.throttle.Window).until(s.opens), !s.opens.IsZero()
}

func (s *conditions) atConcurrency() (whyReason, bool) {
	return because(wire.WhyAtConcurrency, map[string]any{"queue": s.queue, "held": s.leased, "max": s.maxConcurrency},
		"%d jobs of queue %s are active, and its concurrency limit is %d.", s.leased, s.queue, s.maxConcurrency), s.maxConcurrency > 0 && s.leased >= int64(s.maxConcurrency)
}

func (s *conditions) isWaiting() (whyReason, bool) {
	return because(wire.WhyWaitingForOthers, map[string]any{"job_ids": s.waitsFor},
		"It depends on jobs that aren't completed: %s.", nameOr(strings.Join(s.waitsFor, ", "), "not known yet")), s.blocked
}

func (s *conditions) isHeld() (whyReason, bool) {
	r := because(wire.WhyHeld, nil, "It is held until it is approved or rejected.")
	h := s.hold
	if s.state != job.Held || h == nil {
		return r, s.state == job.Held
	}
	if r.Until = h.Until; !h.Until.IsZero() {
		r.fatal, r.Detail["on_expire"] = !s.approvedAtLast, onExpire(s.approvedAtLast)
	}
	r.Detail["reason"], r.Detail["by"] = h.Reason, h.By
	if h.Reason != "" {
		r.Message = fmt.Sprintf("It is held until it is approved or rejected: %s.", strings.TrimSuffix(h.Reason, "."))
	}
	if h.Policy != "" {
		r.Detail["policy"] = h.Policy
	}
	return r, true
}

func (s *conditions) isOverBudget() (whyReason, bool) {
	return because(wire.WhyBudgetSpent, s.ofQueue(), "A daily budget is spent. Queue %s starts no jobs until 00:00 UTC.", s.queue).until(s.shut), !s.shut.IsZero()
}

func (s *conditions) isOverTagBudget() (whyReason, bool) {
	return because(wire.WhyBudgetSpent, map[string]any{"tag": s.tagShut},
		"The daily budget of tag %s is spent. Its jobs are held instead of starting until 00:00 UTC.", s.tagShut).until(s.tagShutUntil), s.tagShut != ""
}

func (s *conditions) backsOff() (whyReason, bool) {
	return because(wire.WhyBackingOff, map[string]any{"attempt": s.attempt, "max_retries": s.maxRetries},
		"Attempt %d of %d failed. It is waiting for its next attempt.", s.attempt, s.maxRetries).until(s.due), s.state == job.Retrying
}

func (s *conditions) isScheduled() (whyReason, bool) {
	return because(wire.WhyScheduled, nil, "It is scheduled to start later.").until(s.due), s.state == job.Scheduled
}

func (s *conditions) isBehind() (whyReason, bool) {
	count := fmt.Sprint(s.ahead)
	if s.ahead >= stateread.AheadMax {
		count = fmt.Sprintf("At least %d", s.ahead)
	}
	verb := "jobs in the queue are ahead of it."
	if s.ahead == 1 {
		verb = "job in the queue is ahead of it."
	}
	return because(wire.WhyBehindOtherJobs, map[string]any{"ahead": s.ahead, "at_least": s.ahead >= stateread.AheadMax}, "%s %s", count, verb), s.ahead > 0
}

func (s *conditions) hasNoWorker() (whyReason, bool) {
	return because(wire.WhyNoWorker, s.ofQueue(),
		"No worker has fetched from queue %s in the last %.0f minutes.", s.queue, workerSilent.Minutes()), len(s.workers) == 0
}

func onExpire(approves bool) wire.OnExpire {
	if approves {
		return wire.ExpireApprove
	}
	return wire.ExpireReject
}

func nameOr(name, other string) string {
	if name == "" {
		return other
	}
	return name
}
