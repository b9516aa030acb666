package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Why answers why a job does not run. The reasons are ordered: those to act on come
// first.
type Why struct {
	JobID   job.ID
	State   job.State
	Reasons []Reason
	// ETA is when the last reason ends, if time alone decides; else zero.
	ETA time.Time
}

// Reason is one thing that keeps a job from running, or tells its state.
type Reason struct {
	Code    string
	Message string
	Until   time.Time // Zero: not known.
	Detail  map[string]any
	informs bool // It does not keep the job from running.
	fatal   bool // When it ends the job is dead.
}

// Codes of reasons. Clients compare them.
const (
	WhyFinished    = "finished"
	WhyRunning     = "running"
	WhyCancelling  = "cancelling"
	WhyPaused      = "queue_paused"
	WhyDraining    = "queue_draining"
	WhyThrottled   = "throttled"
	WhyConcurrency = "at_concurrency"
	WhyWaiting     = "waiting_for_dependencies"
	WhyHeld        = "held"
	WhyBudget      = "budget_spent"
	WhyBackingOff  = "backing_off"
	WhyScheduled   = "scheduled"
	WhyBehind      = "behind_other_jobs"
	WhyNoWorker    = "no_worker"
	WhyNext        = "runs_next"
)

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
	hold           *Hold
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
}

// Why looks at a job, its queue and its workers.
func (v *Views) Why(ctx context.Context, c Caller, id job.ID) (Why, error) {
	s, err := shard.Read(ctx, v.shard, func(g *statedb.Group) (stateread.RunConditions, error) {
		return stateread.ReadRunConditions(g, c.Namespace, id)
	})
	if errors.Is(err, statedb.ErrNotFound) {
		return Why{}, errNoJob(id)
	}
	if err != nil {
		return Why{}, err
	}
	st := conditionsOf(&s, v.shard.Group().Now())
	for _, w := range v.service.workers.list(c.Namespace, time.Now()) {
		if slices.Contains(w.Queues, st.queue) {
			st.workers = append(st.workers, w.ID)
		}
	}
	out := st.why()
	out.JobID = id
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

// why lists every reason that applies, most important first.
func (s *conditions) why() Why {
	w := Why{State: s.state}
	if r, ok := s.settled(); ok {
		w.Reasons = []Reason{r}
		return w
	}
	for _, look := range []func() (Reason, bool){
		s.isPaused, s.isDraining, s.isThrottled, s.atConcurrency, s.isWaiting, s.isHeld, s.isOverBudget, s.isOverTagBudget, s.backsOff, s.isScheduled, s.isBehind, s.hasNoWorker,
	} {
		if r, ok := look(); ok {
			w.Reasons = append(w.Reasons, r)
		}
	}
	if !slices.ContainsFunc(w.Reasons, func(r Reason) bool { return !r.informs }) {
		w.Reasons = append(w.Reasons, Reason{Code: WhyNext, Message: "Ready to run: the next free worker of its queue gets it.", Until: s.now, informs: true})
	}
	w.ETA = s.eta(w.Reasons)
	return w
}

// eta is when the last of the reasons ends; zero if the end of one is not known, or
// if the job will not run then.
func (s *conditions) eta(reasons []Reason) time.Time {
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
func (s *conditions) settled() (Reason, bool) {
	switch {
	case s.state.Terminal():
		r := Reason{Code: WhyFinished, Message: fmt.Sprintf("This job is %s and won't run again unless you retry it.", s.state), Detail: map[string]any{"finished_at": s.finished}}
		if s.state == job.Dead {
			r.Message = fmt.Sprintf("This job is dead (%s) and won't run again unless you retry it.", s.deadReason)
			r.Detail["dead_reason"] = s.deadReason
		}
		return r, true
	case s.state == job.Active:
		return Reason{
			Code: WhyRunning, Message: fmt.Sprintf("%s is running attempt %d of %d.", nameOr(s.worker, "A worker"), s.attempt, s.maxRetries),
			Until: s.lease, Detail: map[string]any{"worker_id": s.worker, "attempt": s.attempt},
		}, true
	case s.state == job.Cancelling:
		return Reason{
			Code: WhyCancelling, Message: fmt.Sprintf("%s was asked to stop.", nameOr(s.worker, "Its worker")),
			Until: s.lease, Detail: map[string]any{"worker_id": s.worker, "attempt": s.attempt},
		}, true
	}
	return Reason{}, false
}

func (s *conditions) isPaused() (Reason, bool) {
	return Reason{Code: WhyPaused, Message: fmt.Sprintf("Queue %s is paused. Its jobs start after it is resumed.", s.queue), Detail: map[string]any{"queue": s.queue}}, s.paused
}

func (s *conditions) isDraining() (Reason, bool) {
	return Reason{Code: WhyDraining, Message: fmt.Sprintf("Queue %s is draining: it takes no new jobs, but still runs the ones it has.", s.queue), Detail: map[string]any{"queue": s.queue}, informs: true}, s.draining
}

func (s *conditions) isThrottled() (Reason, bool) {
	return Reason{
		Code: WhyThrottled, Message: fmt.Sprintf("Queue %s reached its throttle of %d jobs in %s.", s.queue, s.throttle.Limit, s.throttle.Window),
		Until: s.opens, Detail: map[string]any{"queue": s.queue, "rate": s.throttle.Limit, "window_ms": s.throttle.Window.Milliseconds()},
	}, !s.opens.IsZero()
}

func (s *conditions) atConcurrency() (Reason, bool) {
	return Reason{
		Code: WhyConcurrency, Message: fmt.Sprintf("%d jobs of queue %s are active, and its concurrency limit is %d.", s.leased, s.queue, s.maxConcurrency),
		Detail: map[string]any{"queue": s.queue, "held": s.leased, "max": s.maxConcurrency},
	}, s.maxConcurrency > 0 && s.leased >= int64(s.maxConcurrency)
}

func (s *conditions) isWaiting() (Reason, bool) {
	return Reason{
		Code: WhyWaiting, Message: fmt.Sprintf("It depends on jobs that aren't completed: %s.", nameOr(strings.Join(s.waitsFor, ", "), "not known yet")),
		Detail: map[string]any{"job_ids": s.waitsFor},
	}, s.blocked
}

func (s *conditions) isHeld() (Reason, bool) {
	if s.state != job.Held {
		return Reason{}, false
	}
	r := Reason{Code: WhyHeld, Message: "It is held until it is approved or rejected.", Detail: map[string]any{}}
	if h := s.hold; h != nil {
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
	}
	return r, true
}

func (s *conditions) isOverBudget() (Reason, bool) {
	return Reason{
		Code: WhyBudget, Message: fmt.Sprintf("A daily budget is spent. Queue %s starts no jobs until 00:00 UTC.", s.queue),
		Until: s.shut, Detail: map[string]any{"queue": s.queue},
	}, !s.shut.IsZero()
}

func (s *conditions) isOverTagBudget() (Reason, bool) {
	return Reason{
		Code: WhyBudget, Message: fmt.Sprintf("The daily budget of tag %s is spent. Its jobs are held instead of starting until 00:00 UTC.", s.tagShut),
		Until: s.tagShutUntil, Detail: map[string]any{"tag": s.tagShut},
	}, s.tagShut != ""
}

func (s *conditions) backsOff() (Reason, bool) {
	return Reason{
		Code: WhyBackingOff, Message: fmt.Sprintf("Attempt %d of %d failed. It is waiting for its next attempt.", s.attempt, s.maxRetries),
		Until: s.due, Detail: map[string]any{"attempt": s.attempt, "max_retries": s.maxRetries},
	}, s.state == job.Retrying
}

func (s *conditions) isScheduled() (Reason, bool) {
	return Reason{Code: WhyScheduled, Message: "It is scheduled to start later.", Until: s.due}, s.state == job.Scheduled
}

func (s *conditions) isBehind() (Reason, bool) {
	count := fmt.Sprint(s.ahead)
	if s.ahead >= stateread.AheadMax {
		count = fmt.Sprintf("At least %d", s.ahead)
	}
	verb := "jobs in the queue are ahead of it."
	if s.ahead == 1 {
		verb = "job in the queue is ahead of it."
	}
	return Reason{
		Code: WhyBehind, Message: count + " " + verb, Detail: map[string]any{"ahead": s.ahead, "at_least": s.ahead >= stateread.AheadMax},
	}, s.ahead > 0
}

func (s *conditions) hasNoWorker() (Reason, bool) {
	return Reason{
		Code: WhyNoWorker, Message: fmt.Sprintf("No worker has fetched from queue %s in the last %.0f minutes.", s.queue, workerSilent.Minutes()),
		Detail: map[string]any{"queue": s.queue},
	}, len(s.workers) == 0
}

func onExpire(approves bool) string {
	if approves {
		return "approve"
	}
	return "reject"
}

func nameOr(name, other string) string {
	if name == "" {
		return other
	}
	return name
}
