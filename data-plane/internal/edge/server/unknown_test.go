package server

import (
	"encoding/json"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// A misspelt option must not become a job that runs with a default instead.
func TestUnknown_AnEnqueueIsRefusedByTheNameOfTheMember(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, c := range []struct{ path, body, field, near string }{
		{"enqueue", `{"queue":"q","prioritty":"high"}`, "prioritty", "priority"},
		{"enqueue", `{"queue":"q","maxRetries":1}`, "maxRetries", "max_retries"},
		{"enqueue", `{"queue":"q","colour":1}`, "colour", ""},
		{"enqueue", `{"queue":"q","agent":{"max_iteration":1}}`, "agent.max_iteration", "max_iterations"},
		{"enqueue", `{"queue":"q","chain":{"steps":[{"queue":"q"},{"queu":"r"}]}}`, "chain.steps[1].queu", "queue"},
		{"enqueue", `{"queue":"q","chain":{"steps":[{"queue":"q"},{"queue":"r"}],"onexit":{}}}`, "chain.onexit", "on_exit"},
		{"enqueue", `{"jobs":[{"queue":"q"},{"queue":"q","dely":"1s"}]}`, "jobs[1].dely", "delay"},
		{"enqueue/batch", `{"jobs":[{"queue":"q","tag":{}}]}`, "jobs[0].tag", "tags"},
		{"enqueue/batch", `{"jobs":[],"bacth":{}}`, "bacth", "batch"},
		{"enqueue/batch", `{"jobs":[{"queue":"q"}],"batch":{"callback_que":"q"}}`, "batch.callback_que", "callback_queue"},
		{"webhooks/q?prioritty=high", `{}`, "prioritty", "priority"},
		{"schedules", `{"name":"n","cron":"@daily","queue":"q","prioritty":"high"}`, "prioritty", "priority"},
		{"fetch", `{"queues":["q"],"worker":"w"}`, "worker", "worker_id"},
		{"fetch", `{"queues":["q"],"leas":"1s"}`, "leas", "lease"},
		{"corvo.v1.WorkerService/Enqueue", `{"queue":"q","prioritty":"high"}`, "prioritty", "options.priority"},
		{"corvo.v1.WorkerService/Enqueue", `{"queue":"q","options":{"prioritty":"high"}}`, "options.prioritty", "priority"},
		{"corvo.v1.WorkerService/EnqueueBatch", `{"jobs":[{"queue":"q"},{"queue":"q","options":{"chain":{"step":[]}}}]}`, "jobs[1].options.chain.step", "steps"},
		{"corvo.v1.WorkerService/EnqueueBatch", `{"jobs":[],"batch":{"opn":true}}`, "batch.opn", "open"},
		{"corvo.v1.WorkerService/StreamLifecycle", `{"requestId":1,"enqueues":[{"queue":"q","payloadJsn":"{}"}]}`, "enqueues[0].payloadJsn", "payload_json"},
	} {
		path := "/api/v1/" + c.path
		if strings.HasPrefix(c.path, "corvo.") {
			path = "/" + c.path
		}
		a := b.post(path, c.body, "Content-Type", "application/json")
		if a.status != 400 && !strings.HasSuffix(c.path, "StreamLifecycle") {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.body)
		}
		text := strings.ReplaceAll(string(a.body), `\"`, `"`)
		if !strings.Contains(text, c.field+": is not a member of this request") && !strings.Contains(text, c.field+": is not a parameter") {
			t.Errorf("%s %s: %s does not name %s", c.path, c.body, text, c.field)
		}
		if near := strings.Contains(text, `did you mean "`+c.near+`"?`); near != (c.near != "") {
			t.Errorf("%s %s: %s does not suggest %q", c.path, c.body, text, c.near)
		}
	}
	if a := b.post("/api/v1/fetch", `{"queues":["q"],"wait":0}`); a.status != 204 && !strings.Contains(string(a.body), `"job_id":""`) {
		t.Errorf("a job came through: %s", a.body)
	}
}

// In binary form a field that a newer client sends has no name, but a number.
func TestUnknown_AFieldThatThisServerDoesNotHaveIsRefusedByItsNumber(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	newer := protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1)
	m := &corvov1.EnqueueRequest{Queue: "q", Options: &corvov1.EnqueueOptions{}}
	m.Options.ProtoReflect().SetUnknown(newer)
	_, err := b.client(true).Enqueue(t.Context(), connect.NewRequest(m))
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "options: has the unknown field number 999") {
		t.Errorf("Enqueue: %v", err)
	}
}

// A settlement reports work that is done: an unknown member does not undo it.
func TestUnknown_SettlementsIgnoreIt(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	c := &optionClient{bench: e.bench.as(t), ns: nsA}
	id := c.postFor("job_id", "/api/v1/enqueue", object{"queue": "q"})
	c.done("/api/v1/fetch", object{"queues": []string{"q"}})
	c.done("/api/v1/heartbeat", object{"jobs": object{id: object{"stream_delta": "x"}}, "more": 1})
	c.done("/api/v1/ack/"+id, object{"trace": object{}})
}

// Every member that the contract gives to an existing client's enqueue.
func TestUnknown_WhatExistingClientsSendIsAccepted(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.post("/api/v1/enqueue", `{"queue":"q","payload":{},"checkpoint":{},"priority":"low","unique_key":"u","unique_period":60,"max_retries":0,
		"retry_backoff":"fixed","retry_base_delay":"1s","retry_max_delay":"1m","scheduled_at":"2031-01-02T03:04:05Z","expire_after":"1h",
		"tags":{"a":"b"},"agent":{"max_iterations":1,"max_cost_usd":1,"iteration_timeout":"1m"},"parent_id":"","chain_id":"","chain_step":0,
		"chain_config":null,"depends_on":[],"chain":{"steps":[{"queue":"q","payload":{}},{"queue":"r"}],"on_failure":"stop","on_exit":{"queue":"e","payload":{}}},
		"retry_base_delay_ms":1000,"retry_max_delay_ms":60000,"expire_after_ms":3600000,"group":"g","batch_id":""}`).want(t, 201)
	b.post("/api/v1/enqueue/batch", `{"jobs":[{"queue":"q"}],"batch":{"callback_queue":"q","callback_payload":{}}}`).want(t, 201)
	b.post("/api/v1/fetch/batch", `{"queues":["q"],"worker_id":"w","hostname":"h","timeout":1,"count":1,"wait":0}`).want(t, 200)
}

// There is no priority low and there never was, but existing clients send it; and 0
// attempts is how they say that there is to be no second one.
func TestExistingClients_LowIsNormalAndNoRetriesIsOneAttempt(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	for i, path := range enqueuePaths {
		c := &optionClient{bench: e.bench.as(t), ns: job.Namespace{14: 77, 15: byte(i)}}
		id := path.enqueue(c, &enqueueOption{
			json:  object{"priority": "low", "max_retries": 0},
			proto: object{"options": object{"priority": "low", "max_retries": 0}},
			query: "priority=low&max_retries=0",
		})
		if j := e.read(t, c.ns, id); j.Priority != job.Normal || j.Retry.MaxRetries != 1 {
			t.Errorf("%s: priority %s, %d attempts", path.name, j.Priority, j.Retry.MaxRetries)
		}
	}
	c := &optionClient{bench: e.bench.as(t), ns: nsA}
	made := object{"name": "n", "cron": "@daily", "queue": "q", "priority": "low", "max_retries": 0}
	var s struct {
		Priority   string `json:"priority"`
		MaxRetries int    `json:"max_retries"`
	}
	raw, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	c.post("/api/v1/schedules", string(raw), optionHeader, nsA.String()).want(t, 201).into(t, &s)
	if s.Priority != "normal" || s.MaxRetries != 1 {
		t.Errorf("a schedule has %+v", s)
	}
}

func TestEnqueue_DelayAndScheduledAtAreNotBothTaken(t *testing.T) {
	t.Parallel()
	b := startEngine(t).bench
	for path, body := range map[string]string{
		"/api/v1/enqueue":                 `{"queue":"q","delay":"1s","scheduled_at":"2031-01-02T03:04:05Z"}`,
		"/corvo.v1.WorkerService/Enqueue": `{"queue":"q","options":{"delayMs":"1","scheduledAt":"2031-01-02T03:04:05Z"}}`,
	} {
		if a := b.post(path, body, "Content-Type", "application/json", optionHeader, nsA.String()).want(t, 400); !strings.Contains(string(a.body), "combined with scheduled_at") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	b.post("/api/v1/enqueue", `{"queue":"q","delay":"-1s"}`, optionHeader, nsA.String()).want(t, 400)
	b.post("/api/v1/enqueue", `{"queue":"q","delay":"1s","scheduled_at":""}`, optionHeader, nsA.String()).want(t, 201)
}

// Queue names with a colon are no longer valid; the refusal says what to do.
func TestQueueName_WithAColonIsToldHowToMove(t *testing.T) {
	t.Parallel()
	b := startEngine(t).bench
	for path, body := range map[string]string{"/api/v1/enqueue": `{"queue":"mail:send"}`, "/api/v1/fetch": `{"queues":["mail:send"]}`} {
		a := b.post(path, body, optionHeader, nsA.String()).want(t, 400)
		if text := string(a.body); !strings.Contains(text, "mail.send") || !strings.Contains(text, "Moving from existing clients") {
			t.Errorf("%s: %s", path, text)
		}
	}
}
