package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// wrong is an enqueue that must be refused, and the fields that must be named.
type wrong struct {
	what   string
	job    Job
	fields []string
}

func wrongJobs(q string) []wrong {
	tags := map[string]string{}
	for i := range 65 {
		tags[fmt.Sprint(i)] = "v"
	}
	long := strings.Repeat("x", 257)
	return []wrong{
		{"no queue", Job{}, []string{"queue"}},
		{"a queue with a separator", Job{Queue: "other::queue"}, []string{"queue"}},
		{"a queue with a control character", Job{Queue: "q\x00"}, []string{"queue"}},
		{"a queue of 129 characters", Job{Queue: strings.Repeat("q", 129)}, []string{"queue"}},
		{"a priority nobody knows", Job{Queue: q, Priority: "urgent"}, []string{"priority"}},
		{"attempts below zero", Job{Queue: q, MaxRetries: new(-1)}, []string{"max_retries"}},
		{"too many attempts", Job{Queue: q, MaxRetries: new(1001)}, []string{"max_retries"}},
		{"a backoff nobody knows", Job{Queue: q, Backoff: "random"}, []string{"retry_backoff"}},
		{"a negative delay", Job{Queue: q, BaseDelay: new(-time.Second)}, []string{"retry_base_delay"}},
		{"a delay of a year", Job{Queue: q, MaxDelay: new(365 * 24 * time.Hour)}, []string{"retry_max_delay"}},
		{"a time in eleven years", Job{Queue: q, ScheduledAt: time.Now().Add(11 * 365 * 24 * time.Hour)}, []string{"scheduled_at"}},
		{"a delay of eleven years", Job{Queue: q, Delay: new(11 * 365 * 24 * time.Hour)}, []string{"delay"}},
		{"a delay and a time", Job{Queue: q, Delay: new(time.Hour), ScheduledAt: time.Now().Add(time.Hour)}, []string{"delay"}},
		{"65 tags", Job{Queue: q, Tags: tags}, []string{"tags"}},
		{"a tag of 257 bytes", Job{Queue: q, Tags: map[string]string{"k": long}}, []string{"tags.k"}},
		{"a tag without a key", Job{Queue: q, Tags: map[string]string{"": "v"}}, []string{"tags"}},
		{"a unique key of 257 bytes", Job{Queue: q, UniqueKey: long}, []string{"unique_key"}},
		{"a period without a unique key", Job{Queue: q, UniqueSeconds: new(60)}, []string{"unique_period"}},
		{"a unique period of more than a year", Job{Queue: q, UniqueKey: "u", UniqueSeconds: new(365*24*3600 + 1)}, []string{"unique_period"}},
		{"an idempotency key of 257 bytes", Job{Queue: q, IdempotencyKey: long}, []string{"idempotency_key"}},
		{"several things at once", Job{Queue: "a/b", Priority: "x", MaxRetries: new(-1), Backoff: "y"}, []string{"max_retries", "priority", "queue", "retry_backoff"}},
	}
}

var limitRules = []Rule{
	{Name: "a wrong enqueue is refused with every wrong field named", Run: func(t *T, q string) {
		for _, w := range wrongJobs(q) {
			_, err := t.Client.Enqueue(t.Context, w.job)
			t.RefusedFor(w.what, err, invalid, w.fields...)
		}
		t.Nothing(q)
	}},
	{Name: "a wrong enqueue in a batch is refused with the same fields", Run: func(t *T, q string) {
		for _, w := range wrongJobs(q) {
			_, err := t.Client.EnqueueBatch(t.Context, []Job{{Queue: q}, w.job}, nil)
			t.RefusedFor(w.what, err, invalid, w.fields...)
		}
		t.Nothing(q)
	}},
	{Name: "a payload or checkpoint above its limit is refused by name", Run: func(t *T, q string) {
		large := quoted(strings.Repeat("x", 256<<10))
		_, err := t.Client.Enqueue(t.Context, Job{Queue: q, Payload: large})
		r := AsRefusal(err)
		t.FailIf(r == nil || r.Code != invalid && r.Code != "PAYLOAD_TOO_LARGE" || !slices.Equal(r.Fields, []string{"payload"}), "payload: %v", err)
		t.EnqueueRefused(Job{Queue: q, Checkpoint: large}, invalid, "checkpoint")
		t.Nothing(q)
	}},
	{Name: "a payload of exactly the limit goes through", Run: func(t *T, q string) {
		most := quoted(strings.Repeat("x", 256<<10-2))
		Equal(t, "length", len(t.Leased(Job{Queue: q, Payload: most}).Payload), len(most))
	}},
	{Name: "what is no JSON is refused by name", Run: func(t *T, q string) {
		if t.Protocol == "http" {
			t.Unable("a payload is part of the JSON body: what is no JSON is no request")
		}
		for _, text := range []JSON{"{", "'x'", "1 2", `{"a":}`, `{"a":1,"a":2}`, JSON(strings.Repeat("[", 20_000))} {
			t.EnqueueRefused(Job{Queue: q, Payload: text}, invalid, "payload")
		}
		t.Nothing(q)
	}},
	{Name: "a batch of none, and one above the limit, are refused", Run: func(t *T, q string) {
		many := make([]Job, 1001)
		for i := range many {
			many[i].Queue = q
		}
		for _, jobs := range [][]Job{nil, many} {
			if jobs == nil && t.Protocol == "stream" {
				continue // A frame without enqueues enqueues nothing.
			}
			_, err := t.Client.EnqueueBatch(t.Context, jobs, nil)
			t.FailIf(len(t.RefusedAs(len(jobs), err, invalid).Fields) != 1, "%d jobs: %v", len(jobs), err)
		}
		t.Nothing(q)
	}},
	{Name: "a wrong fetch is refused with every wrong field named", Run: func(t *T, q string) {
		for _, w := range []struct {
			what   string
			fetch  Fetch
			fields []string
		}{
			{"no queue", Fetch{}, []string{"queues"}},
			{"a bad name", Fetch{Queues: []string{q, "a/b"}}, []string{"queues[1]"}},
			{"65 queues", Fetch{Queues: slices.Repeat([]string{q}, 65)}, []string{"queues"}},
			{"a worker of 257 bytes", Fetch{Queues: []string{q}, Worker: strings.Repeat("w", 257)}, []string{"worker_id"}},
			{"a count of 513", Fetch{Queues: []string{q}, Count: 513}, []string{"count"}},
			{"a lease of two days", Fetch{Queues: []string{q}, Lease: 48 * time.Hour}, []string{"lease"}},
		} {
			_, err := t.Client.Fetch(t.Context, w.fetch)
			t.RefusedFor(w.what, err, invalid, w.fields...)
		}
	}},
	{Name: "what is left of the plan's rate, and what holds dispatch, is told as over HTTP", Timed: true, Run: func(t *T, q string) {
		want, err := t.admin.Limits(t.Context, q, t.Queue())
		t.must("ask over HTTP", err)
		t.FailIf((want.Quota > 0) != want.Left, "over HTTP a quota of %d, what is left of it told: %t", want.Quota, want.Left)
		got, err := t.Client.Limits(t.Context, q, t.Queue())
		t.must("ask", err)
		Equal(t, "limits", got, want)
	}},
	{Name: "a wrong ack is refused by field, and the job stays its worker's", Run: func(t *T, _ string) {
		l := t.Leased(Job{})
		err := t.Client.Ack(t.Context, Ack{ID: l.ID, Token: "not a token"})
		t.RefusedAs("a token that is none", err, invalid)
		err = t.Client.Ack(t.Context, Ack{ID: l.ID, Token: l.Token, Result: quoted(strings.Repeat("x", 256<<10))})
		t.RefusedAs("a result above the limit", err, invalid)
		t.State(l.ID, "active")
		t.Ack(l)
	}},
}
