package conformance

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// workerView is a worker as it is listed. Queues is text that holds a JSON list.
type workerView struct {
	ID            string    `json:"id"`
	Hostname      string    `json:"hostname"`
	Queues        string    `json:"queues"`
	LastHeartbeat time.Time `json:"last_heartbeat"`
	StartedAt     time.Time `json:"started_at"`
}

// Workers lists who asks for jobs.
func (t *T) Workers() []workerView { return Get[[]workerView](t, "/api/v1/workers") }

// Worker finds one in the list.
func (t *T) Worker(id string) (workerView, bool) {
	list := t.Workers()
	at := slices.IndexFunc(list, func(w workerView) bool { return w.ID == id })
	if at < 0 {
		return workerView{}, false
	}
	return list[at], true
}

// Listed wants a worker to be listed with the queues it asked for last.
func (t *T) Listed(id string, queues ...string) workerView {
	w, ok := t.Worker(id)
	t.FailIf(!ok, "worker %s is not listed", id)
	var got []string
	err := json.Unmarshal([]byte(w.Queues), &got)
	t.FailIf(err != nil || !slices.Equal(got, queues), "worker %s asks for %q, want %v", id, w.Queues, queues)
	return w
}

var workerRules = []Rule{
	{Name: "a worker is listed from its first fetch on, with its host and the queues of its last", Needs: "workers", Run: func(t *T, _ string) {
		a, b := t.Queue(), t.Queue()
		_, ok := t.Worker(a)
		t.FailIf(ok, "listed before it came")
		t.Asks(a, a, b)
		first := t.Listed(a, a, b)
		t.FailIf(first.Hostname != "h1" || first.StartedAt.IsZero() || first.LastHeartbeat.Before(first.StartedAt), "listed as %+v", first)
		t.Asks(a, b)
		again := t.Listed(a, b)
		t.FailIf(!again.StartedAt.Equal(first.StartedAt) || !again.LastHeartbeat.After(first.LastHeartbeat), "listed as %+v, before as %+v", again, first)
	}},
	{Name: "a worker is heard of by its heartbeats, and keeps its queues", Needs: "workers", Run: func(t *T, q string) {
		e := t.Enqueue(Job{Queue: q})
		l := t.FetchFor(q)
		Equal(t, "job", l.ID, e.ID)
		before := t.Listed(q, q)
		t.HeartbeatAs(Heartbeat{Worker: q, Jobs: map[string]JobUpdate{l.ID: {Token: l.Token}}})
		after := t.Listed(q, q)
		t.FailIf(!after.LastHeartbeat.After(before.LastHeartbeat), "listed as %+v, before its heartbeat as %+v", after, before)
	}},
	{Name: "a worker that waits for a job is listed", Needs: "workers", Run: func(t *T, q string) {
		var done sync.WaitGroup
		done.Go(func() { // Ends with its job below, or after soon.
			_, _ = t.Client.Fetch(t.Context, Fetch{Queues: []string{q}, Worker: q, Lease: time.Minute, Wait: soon})
		})
		t.Eventually("the worker", func() bool {
			_, ok := t.Worker(q)
			return ok
		})
		t.Enqueue(Job{Queue: q})
		done.Wait()
	}},
	{Name: "workers that fetch many are listed once each, those without a name not at all", Needs: "workers", Run: func(t *T, q string) {
		for _, worker := range []string{q + "-a", q + "-b", q + "-a", ""} {
			leases := t.FetchMany(Fetch{Queues: []string{q}, Worker: worker, Count: 5})
			Equal(t, "jobs", len(leases), 0)
		}
		var got []string
		for _, w := range t.Workers() {
			if w.Queues == `["`+q+`"]` {
				got = append(got, w.ID)
			}
		}
		t.FailIf(!slices.Equal(got, []string{q + "-a", q + "-b"}), "listed are %v", got)
	}},
}

// minuteView is what happened in one minute.
type minuteView struct {
	Minute    time.Time `json:"minute"`
	Enqueued  int       `json:"enqueued"`
	Completed int       `json:"completed"`
	Failed    int       `json:"failed"`
}

// Throughput shows what happened in the last hour.
func (t *T) Throughput() []minuteView { return Get[[]minuteView](t, "/api/v1/metrics/throughput") }

// since counts what happened after an earlier look: enqueued, completed, failed.
func since(before, now []minuteView) (n [3]int) {
	was := make(map[time.Time]minuteView)
	for _, m := range before {
		was[m.Minute] = m
	}
	for _, m := range now {
		n[0] += m.Enqueued - was[m.Minute].Enqueued
		n[1] += m.Completed - was[m.Minute].Completed
		n[2] += m.Failed - was[m.Minute].Failed
	}
	return n
}

// settled looks at the throughput when it has counted what happened so far: a list of
// jobs comes from the same copy.
func (t *T) settled() []minuteView {
	q := t.Queue()
	t.Enqueue(Job{Queue: q})
	t.Eventually("the job in the list", func() bool {
		page := Get[rowsView](t, "/api/v1/jobs?queue="+q)
		return len(page.Jobs) == 1
	})
	return t.Throughput()
}

var throughputRules = []Rule{
	{Name: "the throughput is that of the last 60 minutes, the one that runs at last", Timed: true, Needs: "throughput", Once: true, Run: func(t *T, _ string) {
		e := t.Enqueue(Job{Queue: t.Queue()})
		list := t.Throughput()
		Equal(t, "minutes", len(list), 60)
		for i, m := range list {
			t.FailIf(m.Minute.Second() != 0 || i > 0 && m.Minute.Sub(list[i-1].Minute) != time.Minute, "minute %d is %s", i, m.Minute)
		}
		gap := list[59].Minute.Sub(t.Job(e.ID).CreatedAt.Truncate(time.Minute))
		t.FailIf(gap != 0 && gap != time.Minute, "the last minute is %s", list[59].Minute)
	}},
	{Name: "every enqueue, completion and failed attempt is counted once, however it came", Timed: true, Needs: "throughput", Whole: true, Run: func(t *T, q string) {
		before := t.settled()
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q}, Job{Queue: q}, Job{Queue: q, Backoff: "none"})
		t.Enqueue(Job{Queue: q, ScheduledAt: later()})
		t.Enqueue(Job{Queue: q, UniqueKey: "u", Priority: "normal"})
		t.Enqueue(Job{Queue: q, UniqueKey: "u"}) // That is none.
		a, b := t.Fetch(q), t.Fetch(q)
		t.Ack(t.Fetch(q))
		t.Failed(t.Fetch(q), "retrying") // The one without a back-off: it is behind the others.
		t.AckBatch(Ack{ID: a.ID, Token: a.Token}, Ack{ID: a.ID, Token: a.Token}, Ack{ID: b.ID, Token: b.Token})
		l := t.Fetch(q)
		t.Fail(Fail{ID: l.ID, Token: l.Token, Release: true}) // No attempt failed.
		l = t.Fetch(q)
		t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "no use", Terminal: true})
		got := since(before, t.settled())
		Equal(t, "enqueued, completed and failed", got, [3]int{7, 3, 2}) // With the job of the second look.
	}},
}
