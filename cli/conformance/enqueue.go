package conformance

import (
	"net/http"
	"strings"
	"time"
)

var enqueueRules = []Rule{
	{Name: "what a producer gives is what a worker gets", Run: func(t *T, q string) {
		e := t.Enqueue(Job{
			Queue: q, Payload: `{"b":[1.50,"ü"],"a":{"x":null}}`, Checkpoint: `{"at":7}`, Tags: map[string]string{"k": "v", "ключ": "ü"},
			MaxRetries: new(7), Priority: "high",
		})
		Equal(t, "status", e.Status, "pending")
		l := t.FetchAs(Fetch{Queues: []string{q}, Worker: "w1", Hostname: "h1", Lease: 90 * time.Second, Wait: soon})
		Equal(t, "id", l.ID, e.ID)
		Equal(t, "queue", l.Queue, q)
		Equal(t, "payload", l.Payload, `{"b":[1.50,"ü"],"a":{"x":null}}`)
		Equal(t, "checkpoint", l.Checkpoint, `{"at":7}`)
		Equal(t, "tag", l.Tags["k"]+l.Tags["ключ"], "vü")
		Equal(t, "attempt", l.Attempt, 1)
		Equal(t, "attempts at most", l.MaxRetries, 7)
		Equal(t, "lease in seconds", l.Seconds, 90)
		t.FailIf(l.Token == "", "no lease token")
		j := t.State(e.ID, "active")
		Equal(t, "worker", j.WorkerID+" "+j.Hostname, "w1 h1")
		Equal(t, "priority", j.Priority, 1)
	}},
	{Name: "the trace context of a producer reaches the worker", Run: func(t *T, q string) {
		const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		Equal(t, "trace context", t.Leased(Job{Queue: q, TraceParent: parent}).TraceParent, parent)
	}},
	{Name: "a job may name the job that it came out of", Run: func(t *T, q string) {
		parent := t.Enqueue(Job{Queue: q}).ID
		Equal(t, "parent", t.Job(t.Enqueue(Job{Queue: q, ParentID: parent}).ID).ParentID, parent)
		t.EnqueueRefused(Job{Queue: q, ParentID: "nonsense"}, invalid, "parent_id")
	}},
	{Name: "what is not said has the documented defaults", Run: func(t *T, q string) {
		j := t.State(t.Enqueue(Job{Queue: q}).ID, "pending")
		Equal(t, "payload", string(j.Payload), "{}")
		Equal(t, "attempts at most", j.MaxRetries, 3)
		Equal(t, "backoff", j.Backoff, "exponential")
		Equal(t, "base delay", j.BaseDelayMS, 5000)
		Equal(t, "longest delay", j.MaxDelayMS, 600_000)
		Equal(t, "priority", j.Priority, 2)
		Equal(t, "attempt", j.Attempt, 0)
		l := t.Fetch(q)
		t.FailIf(l.Payload != "{}" || l.Checkpoint != "" || l.Tags != nil, "fetch gave %+v", l)
	}},
	{Name: "any JSON is a payload and comes back as it was sent", Run: func(t *T, q string) {
		for _, payload := range []JSON{`"text"`, `[1,2]`, `1e2`, `true`, `{"<&>":" \u00e4"}`, `123456789012345678901234567890`} {
			Equal(t, "payload", t.Leased(Job{Queue: q, Payload: payload}).Payload, payload)
		}
	}},
	{Name: "the retry options are kept", Run: func(t *T, _ string) {
		j := t.State(t.Enqueue(Job{
			Queue: t.Queue(), MaxRetries: new(9), Backoff: "linear", BaseDelay: new(1500 * time.Millisecond), MaxDelay: new(time.Minute),
		}).ID, "pending")
		Equal(t, "attempts at most", j.MaxRetries, 9)
		Equal(t, "backoff", j.Backoff, "linear")
		Equal(t, "base delay", j.BaseDelayMS, 1500)
		Equal(t, "longest delay", j.MaxDelayMS, 60_000)
	}},
	{Name: "a scheduled job waits for its time and then goes out", Timed: true, Run: func(t *T, q string) {
		at := time.Now().Add(1500 * time.Millisecond)
		e := t.Enqueue(Job{Queue: q, ScheduledAt: at})
		Equal(t, "status", e.Status, "scheduled")
		j := t.State(e.ID, "scheduled")
		t.FailIf(!j.ScheduledAt.Equal(at), "scheduled at %s, asked for %s", j.ScheduledAt, at)
		t.Nothing(q)
		l := t.Fetch(q)
		j = t.Job(l.ID)
		t.FailIf(l.ID != e.ID || j.StartedAt.Before(at), "started at %s, was due at %s", j.StartedAt, at)
	}},
	{Name: "a delay is a time counted from the enqueue", Timed: true, Run: func(t *T, q string) {
		e := t.Enqueue(Job{Queue: q, Delay: new(time.Hour)})
		Equal(t, "status", e.Status, "scheduled")
		j := t.State(e.ID, "scheduled")
		t.FailIf((j.ScheduledAt.Sub(j.CreatedAt)-time.Hour).Abs() > time.Minute, "made at %s and scheduled at %s, an hour later was asked for", j.CreatedAt, j.ScheduledAt)
		t.Nothing(q)
		Equal(t, "status without a delay", t.Enqueue(Job{Queue: q, Delay: new(time.Duration(0))}).Status, "pending")
	}},
	{Name: "what existing clients say is taken: low is normal, and no retries are one attempt", Run: func(t *T, _ string) {
		e := t.Enqueue(Job{Queue: t.Queue(), Priority: "low", MaxRetries: new(0)})
		j := t.Job(e.ID)
		Equal(t, "priority", j.Priority, 2)
		Equal(t, "attempts at most", j.MaxRetries, 1)
	}},
	{Name: "a member that an enqueue does not have is refused by name", Once: true, Run: func(t *T, q string) {
		err := t.Try(http.MethodPost, "/api/v1/enqueue", object{"queue": q, "prioritty": "high"}, nil)
		t.Refused(err, invalid, "prioritty")
		t.FailIf(!strings.Contains(err.Error(), `did you mean "priority"?`), "%v does not say what may have been meant", err)
		t.Refused(t.Try(http.MethodPost, "/api/v1/enqueue/batch", object{"jobs": []any{object{"queue": q}, object{"queue": q, "dely": "1s"}}}, nil), invalid, "dely")
		t.Refused(t.Try(http.MethodGet, queuePath(q, ""), nil, nil), notFound)
	}},
	{Name: "a time that has passed is at once", Run: func(t *T, _ string) {
		e := t.Enqueue(Job{Queue: t.Queue(), ScheduledAt: time.Now().Add(-time.Hour)})
		Equal(t, "status", e.Status, "pending")
	}},
	{Name: "a unique key answers its job while that is alive", Run: func(t *T, q string) {
		one := t.Enqueue(Job{Queue: q, UniqueKey: "u"})
		two := t.Enqueue(Job{Queue: q, UniqueKey: "u"})
		t.FailIf(two.ID != one.ID || two.Status != "duplicate" || !two.Existing, "%+v, then %+v", one, two)
		Equal(t, "unique key", t.Job(one.ID).UniqueKey, "u")
		l := t.Fetch(q)
		Equal(t, "holder while it runs", t.Enqueue(Job{Queue: q, UniqueKey: "u"}).ID, one.ID)
		t.Nothing(q)
		t.Ack(l)
		three := t.Enqueue(Job{Queue: q, UniqueKey: "u"})
		t.FailIf(three.ID == one.ID || three.Existing, "after its end the key answered %+v", three)
	}},
	{Name: "a unique key holds in its queue alone", Run: func(t *T, _ string) {
		one, two := t.Enqueue(Job{Queue: t.Queue(), UniqueKey: "u"}), t.Enqueue(Job{Queue: t.Queue(), UniqueKey: "u"})
		t.FailIf(one.ID == two.ID || two.Existing, "%+v, then in another queue %+v", one, two)
	}},
	{Name: "every ending frees a unique key: dead, cancelled, deleted", Run: func(t *T, q string) {
		again := func(what, last string) string {
			e := t.Enqueue(Job{Queue: q, UniqueKey: "u", MaxRetries: new(1)})
			t.FailIf(e.ID == last || e.Existing, "a job that was %s still holds the key", what)
			return e.ID
		}
		id := again("never there", "")
		t.Failed(t.Fetch(q), "dead")
		id = again("dead", id)
		t.Do(id, "cancel", "cancelled")
		id = again("cancelled", id)
		t.Delete(id)
		again("deleted", id)
	}},
	{Name: "a unique key ends with its period", Timed: true, Run: func(t *T, q string) {
		one := t.Enqueue(Job{Queue: q, UniqueKey: "u", UniqueSeconds: new(1)})
		t.Eventually("end of the period", func() bool { return t.Enqueue(Job{Queue: q, UniqueKey: "u"}).ID != one.ID })
	}},
	{Name: "an idempotency key answers the first result again", Run: func(t *T, q string) {
		one := t.Enqueue(Job{Queue: q, IdempotencyKey: "i"})
		Equal(t, "second answer", t.Enqueue(Job{Queue: q, IdempotencyKey: "i"}), one)
		t.Ack(t.Fetch(q))
		Equal(t, "answer after the end", t.Enqueue(Job{Queue: q, IdempotencyKey: "i"}), one)
		t.Delete(one.ID)
		Equal(t, "answer after the delete", t.Enqueue(Job{Queue: q, IdempotencyKey: "i"}), one)
		t.Nothing(q)
	}},
	{Name: "an idempotency key also repeats that a job was a duplicate", Run: func(t *T, q string) {
		one := t.Enqueue(Job{Queue: q, UniqueKey: "u"})
		two := t.Enqueue(Job{Queue: q, UniqueKey: "u", IdempotencyKey: "i"})
		t.Ack(t.Fetch(q))
		three := t.Enqueue(Job{Queue: q, UniqueKey: "u", IdempotencyKey: "i"})
		t.FailIf(three != two || three.ID != one.ID, "%+v, repeated %+v", two, three)
	}},
	{Name: "a batch goes in whole and in order, with every option of a single job", Run: func(t *T, q string) {
		at := time.Now().Add(time.Hour)
		out := t.EnqueueBatch(nil,
			Job{Queue: q, Payload: "0", Tags: map[string]string{"k": "v"}, Checkpoint: "5"},
			Job{Queue: q, Payload: "1", UniqueKey: "u", MaxRetries: new(8), Backoff: "fixed", BaseDelay: new(2 * time.Second)},
			Job{Queue: q, Payload: "2", UniqueKey: "u"},
			Job{Queue: q, Payload: "3", ScheduledAt: at},
			Job{Queue: q, Payload: "4", IdempotencyKey: "i", Priority: "critical"},
			Job{Queue: q, Payload: "5", IdempotencyKey: "i"})
		for i, want := range []string{"pending", "pending", "duplicate", "scheduled", "pending", "pending"} {
			Equal(t, "status", out.Jobs[i].Status, want)
		}
		Equal(t, "duplicate", out.Jobs[2].ID, out.Jobs[1].ID)
		Equal(t, "repetition", out.Jobs[5].ID, out.Jobs[4].ID)
		j := t.Job(out.Jobs[3].ID)
		t.FailIf(!j.ScheduledAt.Equal(at), "scheduled at %s, asked for %s", j.ScheduledAt, at)
		if j := t.Job(out.Jobs[1].ID); j.MaxRetries != 8 || j.Backoff != "fixed" || j.BaseDelayMS != 2000 || j.UniqueKey != "u" {
			t.Fatalf("the batch made %+v", j)
		}
		for _, want := range []JSON{"4", "0", "1"} { // The critical one first.
			l := t.Fetch(q)
			Equal(t, "payload", l.Payload, want)
			t.FailIf(want == "0" && (l.Checkpoint != "5" || l.Tags["k"] != "v"), "fetch gave %+v", l)
		}
		t.Nothing(q)
	}},
	{Name: "one bad job refuses the whole batch", Run: func(t *T, q string) {
		_, err := t.Client.EnqueueBatch(t.Context, []Job{{Queue: q}, {Queue: q, Priority: "urgent"}, {Queue: "no/slash"}}, nil)
		t.Refused(err, invalid, "priority", "queue")
		t.Refused(t.Try(http.MethodGet, queuePath(q, ""), nil, nil), notFound)
	}},
	{Name: "the header Idempotency-Key means the same as the field", Once: true, Run: func(t *T, q string) {
		one := t.Enqueue(Job{Queue: q, IdempotencyKey: "i"})
		var two Enqueued
		h := *t.admin
		h.target = h.target.with("Idempotency-Key", "i")
		_, err := h.call(t.Context, http.MethodPost, "/api/v1/enqueue", object{"queue": q}, &two)
		t.must("enqueue", err)
		Equal(t, "repetition", two, one)
	}},
	{Name: "what another server posts to a webhook becomes a job", Needs: "webhooks", Once: true, Run: func(t *T, q string) {
		for _, w := range []struct{ body, payload JSON }{{`{"a":[1]}`, `{"a":[1]}`}, {"plain text", `"plain text"`}} {
			out := Post[Enqueued](t, "/api/v1/webhooks/"+q+"?priority=high&max_retries=2&tags=k:v,l:w&unique_key="+string(w.payload[:2]), verbatim(w.body))
			Equal(t, "status", out.Status, "pending")
			l := t.Fetch(q)
			Equal(t, "payload", l.Payload, w.payload)
			Equal(t, "attempts at most", l.MaxRetries, 2)
			Equal(t, "tags", l.Tags["k"]+l.Tags["l"], "vw")
			Equal(t, "priority", t.Job(out.ID).Priority, 1)
		}
		t.Refused(t.Try(http.MethodPost, "/api/v1/webhooks/"+q+"?priority=urgent", verbatim("{}"), nil), invalid, "priority")
	}},
}
