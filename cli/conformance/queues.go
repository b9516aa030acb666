package conformance

import (
	"net/http"
	"time"
)

// later is a time that does not come during a run.
func later() time.Time { return time.Now().Add(24 * time.Hour) }

var queueRules = []Rule{
	{Name: "counts are exact at every moment", Run: func(t *T, q string) {
		for _, state := range []string{"retrying", "completed", "dead", "cancelled", "cancelling", "active", "scheduled", "pending"} {
			t.inState(q, state)
		}
		v := t.QueueNow(q)
		got := [...]int{v.Pending, v.Scheduled, v.Active, v.Cancelling, v.Retrying, v.Completed, v.Dead, v.Cancelled}
		Equal(t, "counts", got, [...]int{1, 1, 1, 1, 1, 1, 1, 1})
		Equal(t, "enqueued", v.Enqueued, 8)
		Equal(t, "failed attempts", v.Failed, 2)
	}},
	{Name: "a paused queue takes jobs in and hands out none", Run: func(t *T, q string) {
		t.DoQueue(q, "pause", "paused")
		e := t.Enqueue(Job{Queue: q})
		t.Nothing(q)
		t.FailIf(!t.QueueNow(q).Paused, "the queue is not shown as paused")
		t.DoQueue(q, "resume", "resumed")
		Equal(t, "job", t.Fetch(q).ID, e.ID)
	}},
	{Name: "a resumed queue wakes who waits for it", Run: func(t *T, q string) {
		t.DoQueue(q, "pause", "paused")
		e := t.Enqueue(Job{Queue: q})
		t.Woken(q, e.ID, func() { t.DoQueue(q, "resume", "resumed") })
	}},
	{Name: "no more jobs are held than a queue's concurrency", Run: func(t *T, q string) {
		t.Call(http.MethodPost, queuePath(q, "/concurrency"), object{"max": 2}, nil)
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q}, Job{Queue: q}, Job{Queue: q})
		leases := t.FetchMany(Fetch{Queues: []string{q}, Count: 4, Lease: time.Minute})
		Equal(t, "jobs handed out", len(leases), 2)
		t.Nothing(q)
		t.Ack(leases[0])
		t.Fetch(q)
		t.Nothing(q)
		t.Call(http.MethodPost, queuePath(q, "/concurrency"), object{"max": 0}, nil)
		t.Fetch(q)
	}},
	{Name: "no more jobs start in a window than a queue's throttle", Timed: true, Run: func(t *T, q string) {
		t.Call(http.MethodPost, queuePath(q, "/throttle"), object{"rate": 2, "window_ms": 1500}, nil)
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q}, Job{Queue: q}, Job{Queue: q}, Job{Queue: q})
		first, second := t.Fetch(q), t.Fetch(q)
		t.Ack(first)
		t.Ack(second)
		t.Nothing(q)
		third := t.Fetch(q)
		gap := t.Job(third.ID).StartedAt.Sub(t.Job(first.ID).StartedAt)
		t.FailIf(gap < 1500*time.Millisecond, "the third job of two in 1.5 s started %s after the first", gap)
		t.Call(http.MethodDelete, queuePath(q, "/throttle"), nil, nil)
		t.Fetch(q)
		t.Fetch(q)
	}},
	{Name: "a throttle may be said as rate and period", Timed: true, Once: true, Run: func(t *T, q string) {
		t.Call(http.MethodPost, queuePath(q, "/throttle"), object{"rate": 5, "period": "2m"}, nil)
		v := t.QueueNow(q)
		Equal(t, "rate", v.RateLimit, 5)
		Equal(t, "window", v.RateWindowMS, 120_000)
	}},
	{Name: "a queue can be described before it has jobs", Once: true, Run: func(t *T, q string) {
		t.SetQueue(q, object{"paused": true, "max_concurrency": 3, "throttle": object{"limit": 5, "window_ms": 1000}})
		v := t.QueueNow(q)
		t.FailIf(!v.Paused || v.MaxConcurrency != 3 || v.RateLimit != 5 || v.RateWindowMS != 1000, "described as %+v", v)
		t.SetQueue(q, object{})
		v = t.QueueNow(q)
		t.FailIf(!v.Paused || v.MaxConcurrency != 0 || v.RateLimit != 0, "described as nothing, it is %+v", v)
	}},
	{Name: "a queue says how long its finished jobs are kept", Once: true, Run: func(t *T, q string) {
		t.SetQueue(q, object{"retention": object{"completed": "1h", "dead_ms": 7_200_000, "finished_max": 50}})
		v := t.QueueNow(q)
		Equal(t, "retention", v.Retention, Retention{CompletedMS: 3_600_000, DeadMS: 7_200_000, FinishedMax: 50})
		t.FailIf(v.EffectiveRetention.CompletedMS != 3_600_000 || v.EffectiveRetention.CancelledMS == 0, "what counts is %+v", v.EffectiveRetention)
		id := t.Enqueue(Job{Queue: q}).ID
		t.Ack(t.Fetch(q))
		j := t.Job(id)
		Equal(t, "kept after the end", j.RetainedUntil.Sub(j.CompletedAt), time.Hour)
		t.SetQueue(q, object{})
		v = t.QueueNow(q)
		Equal(t, "retention", v.Retention, Retention{})
		t.Refused(t.Try(http.MethodPut, queuePath(q, ""), object{"retention": object{"completed": "1s", "finished_max": -1, "mistyped": 1}}, nil),
			invalid, "retention.completed_ms", "retention.finished_max", "retention.mistyped")
	}},
	{Name: "settings that are wrong are refused by name and change nothing", Once: true, Run: func(t *T, q string) {
		t.Refused(t.Try(http.MethodPut, queuePath(q, ""), object{"max_concurrency": -1, "throttle": object{"limit": 0, "window_ms": 1000}, "mistyped": 1}, nil),
			invalid, "max_concurrency", "mistyped", "throttle.limit")
		t.Refused(t.Try(http.MethodPost, queuePath(q, "/throttle"), object{"rate": 1}, nil), invalid, "window_ms")
		t.Refused(t.Try(http.MethodPost, queuePath("a b", "/pause"), nil, nil), invalid, "queue")
		t.Refused(t.Try(http.MethodGet, queuePath(q, ""), nil, nil), notFound)
	}},
	{Name: "deleting a queue takes everything with it, unless it is not confirmed", Run: func(t *T, q string) {
		held, _ := t.inState(q, "active")
		dead, _ := t.inState(q, "dead")
		unique := t.Enqueue(Job{Queue: q, UniqueKey: "u"})
		t.SetQueue(q, object{"max_concurrency": 1})
		t.Refused(t.Try(http.MethodDelete, queuePath(q, "?confirm=false"), nil, nil), invalid, "confirm")
		t.State(dead, "dead")
		t.Call(http.MethodDelete, queuePath(q, "?confirm=true"), nil, nil)
		for _, id := range []string{held, dead, unique.ID} {
			t.Gone(id)
		}
		t.Refused(t.Try(http.MethodGet, queuePath(q, ""), nil, nil), notFound)
		t.Refused(t.Try(http.MethodDelete, queuePath(q, "?confirm=true"), nil, nil), notFound)
		t.Nothing(q)
	}},
	{Name: "a queue made again after its delete is a new one", Run: func(t *T, q string) {
		old, l := t.inState(q, "active")
		t.Enqueue(Job{Queue: q, UniqueKey: "u"})
		t.Call(http.MethodPost, queuePath(q, "/concurrency"), object{"max": 1}, nil)
		t.Call(http.MethodDelete, queuePath(q, ""), nil, nil) // As existing clients do.
		e := t.Enqueue(Job{Queue: q, UniqueKey: "u"})
		t.FailIf(e.Existing || e.ID == old, "the new queue answered %+v", e)
		Equal(t, "job", t.Fetch(q).ID, e.ID)
		t.Refused(t.Client.Ack(t.Context, Ack{ID: old, Token: l.Token}), notFound)
		v := t.QueueNow(q)
		Equal(t, "enqueued", v.Enqueued, 1)
		Equal(t, "concurrency", v.MaxConcurrency, 0)
	}},
	{Name: "a draining queue takes no job in on any path, and hands out what it has", Needs: "drain", Run: func(t *T, q string) {
		kept := t.Enqueue(Job{Queue: q, MaxRetries: new(2), Backoff: "none", UniqueKey: "u"})
		t.inState(q, "scheduled")
		out := Post[drainView](t, queuePath(q, "/drain"), nil)
		Equal(t, "answer", out, drainView{"draining", 2})
		t.FailIf(!t.QueueNow(q).Draining, "the queue is not shown as draining")
		t.EnqueueRefused(Job{Queue: q}, draining, "queue")
		_, err := t.Client.EnqueueBatch(t.Context, []Job{{Queue: t.Queue()}, {Queue: q}}, nil)
		t.Refused(err, draining, "queue")
		t.Refused(t.Try(http.MethodPost, "/api/v1/webhooks/"+q, verbatim("{}"), nil), draining, "queue")
		Equal(t, "holder of a key", t.Enqueue(Job{Queue: q, UniqueKey: "u"}).ID, kept.ID)
		t.Failed(t.Fetch(q), "retrying") // What is there may come again.
		t.Ack(t.Fetch(q))
		Equal(t, "enqueued", t.QueueNow(q).Enqueued, 2)
		t.DoQueue(q, "resume", "resumed")
		t.Enqueue(Job{Queue: q})
	}},
	{Name: "a drain waits until the queue is empty, if it is asked to", Needs: "drain", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q})
		soonOut := Post[drainView](t, queuePath(q, "/drain?wait=50ms"), nil)
		Equal(t, "answer in time", soonOut, drainView{"draining", 1})
		got := make(chan drainView, 1)
		go func() { // Ends with the call, which waits no longer than soon.
			var out drainView
			_ = t.Try(http.MethodPost, queuePath(q, "/drain?wait=20s"), nil, &out) // Compared below.
			got <- out
		}()
		t.Ack(l)
		Equal(t, "answer at the end", <-got, drainView{"draining", 0})
	}},
	{Name: "a queue's retry defaults are for jobs whose producers say nothing", Needs: "retry defaults", Run: func(t *T, q string) {
		before := t.Enqueue(Job{Queue: q})
		t.SetQueue(q, object{"max_retries": 7, "retry_backoff": "fixed", "retry_base_delay_ms": 1500})
		for _, e := range []struct {
			job     Job
			retries int
			backoff string
			base    int64
		}{
			{Job{Queue: q}, 7, "fixed", 1500},
			{Job{Queue: q, MaxRetries: new(2)}, 2, "fixed", 1500},
			{Job{Queue: q, Backoff: "linear", BaseDelay: new(time.Second)}, 7, "linear", 1000},
		} {
			j := t.Job(t.Enqueue(e.job).ID)
			t.FailIf(j.MaxRetries != e.retries || j.Backoff != e.backoff || j.BaseDelayMS != e.base || j.MaxDelayMS != 600_000, "asked for %+v, got %+v", e.job, j)
		}
		Equal(t, "attempts of a job that was there", t.Job(before.ID).MaxRetries, 3)
		t.SetQueue(q, object{})
		Equal(t, "attempts without a default", t.Job(t.Enqueue(Job{Queue: q}).ID).MaxRetries, 3)
	}},
}

// drainView answers a drain.
type drainView struct {
	Status    string `json:"status"`
	Remaining int    `json:"remaining"`
}
