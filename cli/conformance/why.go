package conformance

import (
	"net/http"
	"slices"
	"time"
)

// whyView is why a job does not run.
type whyView struct {
	JobID   string       `json:"job_id"`
	State   string       `json:"state"`
	Reasons []reasonView `json:"reasons"`
	ETA     time.Time    `json:"eta"`
}

type reasonView struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Until   time.Time      `json:"until"`
	Detail  map[string]any `json:"detail"`
}

// Why asks why a job does not run, and wants these reasons in this order.
func (t *T) Why(id string, codes ...string) whyView {
	w := Get[whyView](t, jobPath(id, "/why"))
	var got []string
	for _, r := range w.Reasons {
		if got = append(got, r.Code); r.Message == "" {
			t.Fatalf("%s has no text for people", r.Code)
		}
	}
	t.FailIf(w.JobID != id || !slices.Equal(got, codes), "%s does not run because %v, want %v", w.JobID, got, codes)
	return w
}

// worked is a queue that a worker asks for jobs.
func (t *T) worked() string {
	q := t.Queue()
	t.Asks(q, q)
	return q
}

// Asks lets a worker ask for jobs that are not there, under a name of its own: other
// rules share theirs, and only the last queues that one asked for are known.
func (t *T) Asks(worker string, queues ...string) {
	leases := t.FetchMany(Fetch{Queues: queues, Worker: worker, Hostname: "h1", Lease: time.Minute})
	Equal(t, "jobs for "+worker, len(leases), 0)
}

// FetchFor is Fetch by the worker of a queue that is worked.
func (t *T) FetchFor(q string) Lease {
	return t.FetchAs(Fetch{Queues: []string{q}, Worker: q, Lease: time.Minute, Wait: soon})
}

// noETA wants it not to be known when the job runs.
func (t *T) noETA(w whyView) {
	t.FailIf(!w.ETA.IsZero(), "it is to run at %s, for %+v", w.ETA, w.Reasons)
}

// endsAt wants the first reason to end at a time, and the job to be able to run then.
func (t *T) endsAt(w whyView, at time.Time) {
	t.FailIf(!w.Reasons[0].Until.Equal(at) || !w.ETA.Equal(at), "until %s, to run at %s, want %s", w.Reasons[0].Until, w.ETA, at)
}

var whyRules = []Rule{
	{Name: "nothing stands in the way of the next job, others are behind it", Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		t.DoQueue(q, "pause", "paused") // Nobody takes them away.
		first, second := t.Enqueue(Job{Queue: q}).ID, t.Enqueue(Job{Queue: q}).ID
		third := t.Enqueue(Job{Queue: q}).ID
		urgent := t.Enqueue(Job{Queue: q, Priority: "critical"}).ID
		t.DoQueue(q, "resume", "resumed")
		w := t.Why(urgent, "runs_next")
		t.FailIf(w.State != "pending" || w.ETA.IsZero(), "%+v", w)
		for id, ahead := range map[string]float64{first: 1, second: 2, third: 3} {
			w := t.Why(id, "behind_other_jobs")
			Equal(t, "jobs ahead", w.Reasons[0].Detail["ahead"], any(ahead))
			t.noETA(w)
		}
		Equal(t, "job", t.FetchFor(q).ID, urgent)
		t.Why(first, "runs_next")
	}},
	{Name: "who is gone from a queue stands in front of nobody", Needs: "why", Run: func(t *T, _ string) {
		q, to := t.worked(), t.Queue()
		t.DoQueue(q, "pause", "paused") // Nobody takes them away.
		ahead := [4]string{}
		for i := range ahead {
			ahead[i] = t.Enqueue(Job{Queue: q}).ID
		}
		last := t.Enqueue(Job{Queue: q}).ID
		t.DoQueue(q, "resume", "resumed")
		for i, leave := range []func(id string){
			func(id string) { t.Do(id, "cancel", "cancelled") }, t.Delete, func(id string) { t.Move(id, to) }, func(id string) { t.Do(id, "hold", "held") },
		} {
			Equal(t, "jobs ahead", t.Why(last, "behind_other_jobs").Reasons[0].Detail["ahead"], any(float64(len(ahead)-i)))
			leave(ahead[i])
		}
		t.Why(last, "runs_next")
		t.Clear(q, 3)
		t.Why(t.Enqueue(Job{Queue: q}).ID, "runs_next")
	}},
	{Name: "a job that runs, is asked to stop, or has ended says so", Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		id := t.Enqueue(Job{Queue: q}).ID
		l := t.FetchFor(q)
		t.DoQueue(q, "pause", "paused") // That says nothing about a job that runs.
		running := t.Why(id, "running").Reasons[0]
		j := t.Job(id)
		t.FailIf(running.Detail["worker_id"] != q || running.Detail["attempt"] != 1.0 || !about(running.Until.Sub(j.StartedAt), time.Minute), "%+v of a job started at %s", running, j.StartedAt)
		t.Do(id, "cancel", "cancelling")
		t.Why(id, "cancelling")
		t.Ack(l)
		t.Why(id, "finished")
		other := t.Queue()
		dead, _ := t.inState(other, "dead")
		Equal(t, "reason", t.Why(dead, "finished").Reasons[0].Detail["dead_reason"], any("max_retries"))
		cancelled, _ := t.inState(other, "cancelled")
		t.noETA(t.Why(cancelled, "finished"))
	}},
	{Name: "a queue that is paused says so, and nobody knows until when", Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		id := t.Enqueue(Job{Queue: q}).ID
		t.DoQueue(q, "pause", "paused")
		w := t.Why(id, "queue_paused")
		t.noETA(w)
		Equal(t, "queue", w.Reasons[0].Detail["queue"], any(q))
		t.DoQueue(q, "resume", "resumed")
		t.Why(id, "runs_next")
	}},
	{Name: "a queue that is draining says so, and stands in nobody's way", Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		id := t.Enqueue(Job{Queue: q}).ID
		t.Call(http.MethodPost, queuePath(q, "/drain"), nil, nil)
		w := t.Why(id, "queue_draining", "runs_next")
		t.FailIf(w.ETA.IsZero(), "%+v", w)
		Equal(t, "job", t.FetchFor(q).ID, id)
	}},
	{Name: "a throttled queue says until when", Timed: true, Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		t.Call(http.MethodPost, queuePath(q, "/throttle"), object{"rate": 1, "window_ms": 2000}, nil)
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q})
		l := t.FetchFor(q)
		next := t.EnqueueBatch(nil, Job{Queue: q, Priority: "critical"}).Jobs[0].ID
		started := t.Job(l.ID).StartedAt
		w := t.Why(next, "throttled")
		r := w.Reasons[0]
		t.endsAt(w, r.Until)
		t.FailIf(r.Until.Before(started.Add(2*time.Second)) || !about(r.Until.Sub(started), 2*time.Second) || r.Detail["rate"] != 1.0 || r.Detail["window_ms"] != 2000.0, "%+v; the one before started at %s", r, started)
		t.FetchFor(q)
		at := t.Job(next).StartedAt
		t.FailIf(at.Before(r.Until), "throttled until %s, it started at %s", r.Until, at)
	}},
	{Name: "a queue at its concurrency says how many jobs are held", Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		t.SetQueue(q, object{"max_concurrency": 2})
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q}, Job{Queue: q})
		l := t.FetchFor(q)
		t.FetchFor(q)
		id := t.Enqueue(Job{Queue: q, Priority: "high"}).ID
		w := t.Why(id, "at_concurrency")
		t.noETA(w)
		Equal(t, "held and most", [2]any{w.Reasons[0].Detail["held"], w.Reasons[0].Detail["max"]}, [2]any{2.0, 2.0})
		t.Ack(l)
		t.Why(id, "runs_next")
	}},
	{Name: "a job that waits for others says for which", Needs: "why", Run: func(t *T, _ string) {
		a, b, q := t.Queue(), t.Queue(), t.worked()
		one, two := t.Enqueue(Job{Queue: a}).ID, t.Enqueue(Job{Queue: b}).ID
		id := t.Enqueue(Job{Queue: q, DependsOn: []string{one, two}}).ID
		waits := func(want ...string) {
			w := t.Why(id, "waiting_for_dependencies")
			t.noETA(w)
			list, _ := w.Reasons[0].Detail["job_ids"].([]any)
			var got []string
			for _, v := range list {
				s, _ := v.(string)
				got = append(got, s)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Fatalf("waits for %v, want %v", got, want)
			}
		}
		waits(slices.Sorted(slices.Values([]string{one, two}))...)
		t.Ack(t.Fetch(a))
		t.Eventually("the end of the first", func() bool { return t.Job(id).WaitingOn == 1 })
		waits(two)
		t.Ack(t.Fetch(b))
		t.Eventually("the end of the second", func() bool { return t.Job(id).WaitingOn == 0 })
		t.Why(id, "runs_next")
	}},
	{Name: "a held job says why, and only one that is approved in the end has a time", Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		id := t.Enqueue(Job{Queue: q}).ID
		t.Call(http.MethodPost, jobPath(id, "/hold"), object{"reason": "look first"}, nil)
		w := t.Why(id, "held")
		Equal(t, "reason", w.Reasons[0].Detail["reason"], any("look first"))
		t.noETA(w)
		for _, on := range []string{"approve", "reject"} {
			p := t.Policy(object{"queue": q, "expires_after": "1h", "on_expire": on})
			id := t.Enqueue(Job{Queue: q}).ID
			until := t.Held(id, p).Hold.Until
			w := t.Why(id, "held")
			Equal(t, "policy", w.Reasons[0].Detail["policy"], any(p.ID))
			if on == "approve" {
				t.endsAt(w, until)
			} else {
				t.noETA(w) // It is dead then.
				Equal(t, "until", w.Reasons[0].Until, until)
			}
			t.Call(http.MethodDelete, policiesPath+"/"+p.ID, nil, nil)
		}
	}},
	{Name: "a queue whose budget is spent says so, until the day ends", Timed: true, Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		t.Budget("queue", q, object{"daily_usd": 1})
		t.Enqueue(Job{Queue: q})
		l := t.FetchFor(q)
		id := t.Enqueue(Job{Queue: q}).ID
		t.Why(id, "runs_next")
		t.AckAs(Ack{ID: l.ID, Token: l.Token, Usage: &Usage{CostUSD: 1, Model: "m"}})
		t.endsAt(t.Why(id, "budget_spent"), endOfDay(t.Job(id).CreatedAt))
		t.NoBudget("queue", q)
		t.Why(id, "runs_next")
	}},
	{Name: "a job of a tag whose budget is spent says so, before it is held and then", Timed: true, Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		tags := map[string]string{"team": q}
		t.Budget("tag", "team:"+q, object{"daily_usd": 1})
		t.Enqueue(Job{Queue: q, Tags: tags})
		l := t.FetchFor(q)
		id, free := t.Enqueue(Job{Queue: q, Tags: tags}).ID, t.Enqueue(Job{Queue: q}).ID
		t.Why(id, "runs_next")
		t.AckAs(Ack{ID: l.ID, Token: l.Token, Usage: &Usage{CostUSD: 1, Model: "m"}})
		w := t.Why(id, "budget_spent")
		t.endsAt(w, endOfDay(t.Job(id).CreatedAt))
		Equal(t, "tag", w.Reasons[0].Detail["tag"], any("team:"+q))
		Equal(t, "job", t.FetchFor(q).ID, free)
		t.State(id, "held")
		t.endsAt(t.Why(id, "held", "budget_spent"), endOfDay(t.Job(id).CreatedAt)) // It is approved by itself.
	}},
	{Name: "a job that is scheduled or backs off says until when", Timed: true, Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		scheduled := t.Enqueue(Job{Queue: q, ScheduledAt: later()}).ID
		t.endsAt(t.Why(scheduled, "scheduled"), t.Job(scheduled).ScheduledAt)
		t.Enqueue(Job{Queue: q, Backoff: "fixed", BaseDelay: new(time.Minute)})
		l := t.FetchFor(q)
		next := t.Failed(l, "retrying").NextAt
		w := t.Why(l.ID, "backing_off")
		t.endsAt(w, next)
		Equal(t, "attempts", [2]any{w.Reasons[0].Detail["attempt"], w.Reasons[0].Detail["max_retries"]}, [2]any{1.0, 3.0})
	}},
	{Name: "a job that will have expired by then has no time", Timed: true, Needs: "why", Run: func(t *T, _ string) {
		q := t.worked()
		dies := t.Enqueue(Job{Queue: q, ScheduledAt: later(), ExpireAfter: new(time.Hour)}).ID
		t.noETA(t.Why(dies, "scheduled"))
		lives := t.Enqueue(Job{Queue: q, ScheduledAt: later(), ExpireAfter: new(48 * time.Hour)}).ID
		t.endsAt(t.Why(lives, "scheduled"), t.Job(lives).ScheduledAt)
	}},
	{Name: "a queue that no worker asks says so, until one does", Needs: "why", Run: func(t *T, q string) {
		t.DoQueue(q, "pause", "paused") // So that the worker gets nothing.
		id := t.Enqueue(Job{Queue: q}).ID
		t.noETA(t.Why(id, "queue_paused", "no_worker"))
		t.Asks(q, t.Queue(), q)
		t.Why(id, "queue_paused")
		t.DoQueue(q, "resume", "resumed")
		t.Why(id, "runs_next")
	}},
	{Name: "all reasons that apply are told, in order, and the last to end decides the time", Timed: true, Needs: "why", Run: func(t *T, _ string) {
		q := t.Queue() // Only workers without a name ask for its jobs.
		fetch := func() Lease {
			return t.FetchAs(Fetch{Queues: []string{q}, Lease: time.Minute, Wait: soon})
		}
		t.SetQueue(q, object{"max_concurrency": 1, "throttle": object{"limit": 2, "window_ms": 3_600_000}})
		t.Budget("queue", q, object{"daily_usd": 1})
		backing := t.Enqueue(Job{Queue: q, Backoff: "fixed", BaseDelay: new(time.Minute)}).ID
		t.Failed(fetch(), "retrying")
		t.Enqueue(Job{Queue: q})
		l := fetch()
		t.Cost(l, "total", 1)
		scheduled := t.Enqueue(Job{Queue: q, ScheduledAt: time.Now().Add(72 * time.Hour)}).ID
		blocked := t.Enqueue(Job{Queue: q, DependsOn: []string{l.ID}}).ID
		t.Enqueue(Job{Queue: q})
		behind := t.Enqueue(Job{Queue: q}).ID
		held, _ := t.inState(q, "held")
		t.Call(http.MethodPost, queuePath(q, "/drain"), nil, nil)
		t.DoQueue(q, "pause", "paused")
		queue := []string{"queue_paused", "queue_draining", "throttled", "at_concurrency"}
		for id, own := range map[string][]string{
			backing: {"budget_spent", "backing_off"}, scheduled: {"budget_spent", "scheduled"}, behind: {"budget_spent", "behind_other_jobs"},
			blocked: {"waiting_for_dependencies", "budget_spent"}, held: {"held", "budget_spent"},
		} {
			t.noETA(t.Why(id, slices.Concat(queue, own, []string{"no_worker"})...))
		}
		t.Ack(l)
		t.DoQueue(q, "resume", "resumed") // It drains no more, either.
		t.Asks(q, q)                      // The throttle is shut.
		w := t.Why(scheduled, "throttled", "budget_spent", "scheduled")
		Equal(t, "time to run", w.ETA, t.Job(scheduled).ScheduledAt)
	}},
	{Name: "a job that is not there has no reasons", Needs: "why", Once: true, Run: func(t *T, _ string) {
		id := t.Enqueue(Job{Queue: t.Queue()}).ID
		t.Delete(id)
		for _, id := range []string{id, "nonsense"} {
			t.Refused(t.Try(http.MethodGet, jobPath(id, "/why"), nil, nil), notFound)
		}
	}},
}

// endOfDay is when the UTC day of a time ends.
func endOfDay(at time.Time) time.Time {
	const day = 24 * time.Hour
	return at.UTC().Truncate(day).Add(day)
}
