package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

func (r *real) worker() corvov1connect.WorkerServiceClient {
	return corvov1connect.NewWorkerServiceClient(r.h2, r.url)
}

// lease enqueues a job and fetches it.
func (r *real) lease(queue string, more object) (id, token string) {
	r.Helper()
	body := object{"queue": queue}
	for k, v := range more {
		body[k] = v
	}
	id = fmt.Sprint(r.call(201, "POST", "/api/v1/enqueue", body)["job_id"])
	return id, r.fetchedFrom(queue, id)["lease_token"].(string)
}

// fetchedFrom fetches from a queue, which must answer that job.
func (r *real) fetchedFrom(queue, id string) map[string]any {
	r.Helper()
	got := r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{queue}, "worker_id": "w", "wait": 5, "lease": "1h"})
	if got["job_id"] != id {
		r.Fatalf("fetched %v, want job %s", got, id)
	}
	return got
}

// frame sends one frame and reads its answer.
func (r *real) frame(f *corvov1.LifecycleStreamRequest) *corvov1.LifecycleStreamResponse {
	r.Helper()
	s := r.stream()
	if err := s.Send(f); err != nil {
		r.Fatal(err)
	}
	out, err := s.Receive()
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// invalid is the text of a refusal of arguments.
func invalid(err error) string {
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		return fmt.Sprintf("not invalid: %v", err)
	}
	return err.Error()
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// A report counts the same on every path: ten times 0.1 dollars is one dollar.
func TestUsage_CountsTheSameOnEveryPath(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	w, ctx := r.worker(), t.Context()
	usage := object{"input_tokens": 3, "cost_usd": 0.1, "model": "m", "provider": "p"}
	report := &corvov1.UsageReport{InputTokens: 3, CostUsd: 0.1, Model: "m", Provider: "p"}
	var ids []string
	lease := func() (id, token string) {
		id, token = r.lease("ai", nil)
		ids = append(ids, id)
		return id, token
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	id, token := lease()
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token, "usage": usage})
	id, token = lease()
	r.call(200, "POST", "/api/v1/ack/batch", object{"acks": []object{{"job_id": id, "lease_token": token, "usage": usage}}})
	id, token = lease()
	r.call(200, "POST", "/api/v1/fail/"+id, object{"lease_token": token, "error": "no", "usage": usage})
	id, token = lease()
	beat := object{"jobs": object{id: object{"lease_token": token, "usage": usage}}}
	r.call(200, "POST", "/api/v1/heartbeat", beat)
	r.call(200, "POST", "/api/v1/heartbeat", beat)
	id, token = lease()
	_, err := w.Ack(ctx, connect.NewRequest(&corvov1.AckRequest{JobId: id, LeaseToken: token, Usage: report}))
	must(err)
	id, token = lease()
	_, err = w.AckBatch(ctx, connect.NewRequest(&corvov1.AckBatchRequest{Items: []*corvov1.AckBatchItem{{JobId: id, LeaseToken: token, Usage: report}}}))
	must(err)
	id, token = lease()
	_, err = w.Fail(ctx, connect.NewRequest(&corvov1.FailRequest{JobId: id, LeaseToken: token, Error: "no", Usage: report}))
	must(err)
	id, token = lease()
	_, err = w.Heartbeat(ctx, connect.NewRequest(&corvov1.HeartbeatRequest{Jobs: map[string]*corvov1.HeartbeatJobUpdate{id: {LeaseToken: token, Usage: report}}}))
	must(err)
	a, tokenA := lease()
	b, tokenB := lease()
	out := r.frame(&corvov1.LifecycleStreamRequest{
		RequestId: 1, Acks: []*corvov1.AckBatchItem{{JobId: a, LeaseToken: tokenA, Usage: report}},
		Fails: []*corvov1.LifecycleFailItem{{JobId: b, LeaseToken: tokenB, Error: "no", Usage: report}},
	})
	if out.GetError() != "" || out.GetAcked() != 1 || out.GetFailOutcomes()[0].GetCode() != "" {
		t.Fatalf("frame: %v", out)
	}

	for _, id := range ids {
		view := r.call(200, "GET", "/api/v1/jobs/"+id, nil)
		const want = `{"cache_creation_tokens":0,"cache_read_tokens":0,"cost_usd":0.1,"count":1,"input_tokens":3,"models":[{"cache_creation_tokens":0,"cache_read_tokens":0,"cost_usd":0.1,"count":1,"input_tokens":3,"model":"m","output_tokens":0,"provider":"p"}],"output_tokens":0}`
		if got := asJSON(view["usage"]); got != want {
			t.Errorf("usage of a job: %s", got)
		}
	}
	for by, key := range map[string]string{"queue": "ai", "model": "m", "provider": "p"} {
		sum := r.call(200, "GET", "/api/v1/usage/summary?period=7d&group_by="+by, nil)
		want := fmt.Sprintf(`{"cache_creation_tokens":0,"cache_read_tokens":0,"cost_usd":1,"count":10,"input_tokens":30,"key":%q,"output_tokens":0}`, key)
		if got := asJSON(sum["groups"]); got != "["+want+"]" || asJSON(sum["totals"]) != strings.Replace(want, fmt.Sprintf(`"key":%q,`, key), "", 1) {
			t.Errorf("by %s: %s", by, asJSON(sum))
		}
	}
}

func TestUsage_DeltasAddAndTotalsReplace(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	id, token := r.lease("ai", nil)
	for _, u := range []object{
		{"kind": "delta", "cost_usd": 0.25, "output_tokens": 1}, {"kind": "delta", "cost_usd": 0.25, "output_tokens": 1},
		{"kind": "total", "cost_usd": 0.75, "output_tokens": 4}, {"cost_usd": 0.75, "output_tokens": 4}, {},
	} {
		r.call(200, "POST", "/api/v1/heartbeat", object{"jobs": object{id: object{"lease_token": token, "usage": u}}})
	}
	used := r.call(200, "GET", "/api/v1/jobs/"+id, nil)["usage"].(object)
	if used["cost_usd"] != 0.75 || used["output_tokens"] != 4.0 || used["count"] != 1.0 {
		t.Errorf("used %v", used)
	}
}

func TestUsage_RefusalsNameTheirFieldOnEveryPath(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	w, ctx := r.worker(), t.Context()
	id, token := r.lease("ai", nil)
	fields := func(p map[string]any) string {
		var list []string
		for _, f := range p["fields"].([]any) {
			list = append(list, fmt.Sprint(f.(object)["field"]))
		}
		return strings.Join(list, " ")
	}
	wrong := object{"input_tokens": -1, "cost_usd": 2_000_000, "kind": "both"}
	const want = "usage.input_tokens usage.cost_usd usage.kind"
	if got := fields(r.call(400, "POST", "/api/v1/ack/"+id, object{"lease_token": token, "usage": wrong})); got != want {
		t.Errorf("ack: %s", got)
	}
	if got := fields(r.call(400, "POST", "/api/v1/ack/"+id, object{"usage": object{"cost_usd": "1", "input_tokens": 0.5}})); got != "usage.cost_usd usage.input_tokens" && got != "usage.input_tokens usage.cost_usd" {
		t.Errorf("types: %s", got)
	}
	if got := fields(r.call(400, "POST", "/api/v1/fail/"+id, object{"usage": wrong})); got != want {
		t.Errorf("fail: %s", got)
	}
	beat := fields(r.call(400, "POST", "/api/v1/heartbeat", object{"jobs": object{id: object{"usage": object{"cost_usd": -1}}}}))
	if beat != "jobs."+id+".usage.cost_usd" {
		t.Errorf("heartbeat: %s", beat)
	}
	batch := r.call(200, "POST", "/api/v1/ack/batch", object{"acks": []object{{"job_id": id, "lease_token": token, "usage": wrong}}})
	if one := batch["outcomes"].([]any)[0].(object); one["code"] != "VALIDATION_ERROR" || !strings.Contains(fmt.Sprint(one["error"]), "usage.kind") {
		t.Errorf("batch: %v", batch)
	}
	report := &corvov1.UsageReport{CostUsd: -1}
	_, err := w.Ack(ctx, connect.NewRequest(&corvov1.AckRequest{JobId: id, LeaseToken: token, Usage: report}))
	if text := invalid(err); !strings.Contains(text, "usage.cost_usd") {
		t.Errorf("rpc ack: %s", text)
	}
	_, err = w.Fail(ctx, connect.NewRequest(&corvov1.FailRequest{JobId: id, LeaseToken: token, Usage: report}))
	if text := invalid(err); !strings.Contains(text, "usage.cost_usd") {
		t.Errorf("rpc fail: %s", text)
	}
	out := r.frame(&corvov1.LifecycleStreamRequest{RequestId: 1, Acks: []*corvov1.AckBatchItem{{JobId: id, LeaseToken: token, Usage: report}}})
	if one := out.GetAckOutcomes()[0]; one.GetCode() != "VALIDATION_ERROR" || !strings.Contains(one.GetError(), "usage.cost_usd") {
		t.Errorf("frame: %v", out)
	}
	if got := fields(r.call(400, "GET", "/api/v1/usage/summary?period=1y&group_by=job", nil)); got != "period group_by" {
		t.Errorf("summary: %s", got)
	}
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token, "usage": object{}})
}

// Every way to enqueue makes the same agent job, every way to ack the same loop.
func TestAgent_LoopsOnEveryPath(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	w, ctx := r.worker(), t.Context()
	agent := object{"max_iterations": 5, "max_cost_usd": 2.5, "iteration_timeout": "10m"}
	config := &corvov1.AgentConfig{MaxIterations: 5, MaxCostUsd: 2.5, IterationTimeout: "10m"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	enqueues := []func(q string) string{
		func(q string) string {
			return fmt.Sprint(r.call(201, "POST", "/api/v1/enqueue", object{"queue": q, "agent": agent})["job_id"])
		},
		func(q string) string {
			out := r.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": []object{{"queue": q, "agent": agent}}})
			return fmt.Sprint(out["job_ids"].([]any)[0])
		},
		func(q string) string {
			out, err := w.Enqueue(ctx, connect.NewRequest(&corvov1.EnqueueRequest{Queue: q, Agent: config}))
			must(err)
			return out.Msg.GetJobId()
		},
		func(q string) string {
			out, err := w.EnqueueBatch(ctx, connect.NewRequest(&corvov1.EnqueueBatchRequest{Jobs: []*corvov1.EnqueueRequest{{Queue: q, Agent: config}}}))
			must(err)
			return out.Msg.GetResults()[0].GetJobId()
		},
		func(q string) string {
			return r.frame(&corvov1.LifecycleStreamRequest{RequestId: 1, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: q, Agent: config}}}).GetEnqueuedJobIds()[0]
		},
	}
	usage, report := object{"cost_usd": 0.1}, &corvov1.UsageReport{CostUsd: 0.1}
	acks := []func(id, token, status string){
		func(id, token, status string) {
			r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token, "agent_status": status, "usage": usage, "checkpoint": object{"c": status}})
		},
		func(id, token, status string) {
			out := r.call(200, "POST", "/api/v1/ack/batch", object{"acks": []object{{"job_id": id, "lease_token": token, "agent_status": status, "usage": usage, "checkpoint": object{"c": status}}}})
			if out["acked"] != 1.0 {
				t.Errorf("batch: %v", out)
			}
		},
		func(id, token, status string) {
			_, err := w.Ack(ctx, connect.NewRequest(&corvov1.AckRequest{JobId: id, LeaseToken: token, AgentStatus: status, Usage: report, CheckpointJson: `{"c":"` + status + `"}`}))
			must(err)
		},
		func(id, token, status string) {
			out, err := w.AckBatch(ctx, connect.NewRequest(&corvov1.AckBatchRequest{Items: []*corvov1.AckBatchItem{{JobId: id, LeaseToken: token, AgentStatus: status, Usage: report, CheckpointJson: `{"c":"` + status + `"}`}}}))
			must(err)
			if out.Msg.GetAcked() != 1 {
				t.Errorf("rpc batch: %v", out.Msg)
			}
		},
		func(id, token, status string) {
			out := r.frame(&corvov1.LifecycleStreamRequest{RequestId: 1, Acks: []*corvov1.AckBatchItem{{JobId: id, LeaseToken: token, AgentStatus: status, Usage: report, CheckpointJson: `{"c":"` + status + `"}`}}})
			if out.GetAcked() != 1 {
				t.Errorf("frame: %v", out)
			}
		},
	}
	for i, enqueue := range enqueues {
		q := fmt.Sprint("q", i)
		id := enqueue(q)
		got := r.fetchedFrom(q, id)
		if s := asJSON(got["agent"]); s != `{"iteration":1,"iteration_timeout":"10m0s","max_cost_usd":2.5,"max_iterations":5,"total_cost_usd":0}` || got["lease_duration"] != 600.0 {
			t.Fatalf("path %d: %s, lease %v", i, s, got["lease_duration"])
		}
		token := got["lease_token"].(string)
		acks[i](id, token, "continue")
		acks[i](id, token, "continue") // As if its answer had been lost.
		got = r.fetchedFrom(q, id)
		if s := asJSON(got["agent"]); !strings.Contains(s, `"iteration":2`) || !strings.Contains(s, `"total_cost_usd":0.1`) || got["attempt"] != 1.0 {
			t.Errorf("path %d goes on as %v", i, got)
		}
		acks[i](id, got["lease_token"].(string), "hold")
		r.call(200, "POST", "/api/v1/jobs/"+id+"/approve", object{})
		found, err := w.Fetch(ctx, connect.NewRequest(&corvov1.FetchRequest{Queues: []string{q}, LeaseDuration: 30}))
		must(err)
		if a := found.Msg.GetAgent(); a.GetIteration() != 3 || a.GetTotalCostUsd() != 0.2 || a.GetMaxCostUsd() != 2.5 || a.GetIterationTimeout() != "10m0s" {
			t.Errorf("path %d over rpc: %v", i, a)
		}
		acks[i](id, found.Msg.GetLeaseToken(), "done")
		if view := r.call(200, "GET", "/api/v1/jobs/"+id, nil); view["state"] != "completed" || !strings.Contains(asJSON(view["agent"]), `"total_cost_usd":0.3`) {
			t.Errorf("path %d ends as %v", i, view)
		}
		list := r.call(200, "GET", "/api/v1/jobs/"+id+"/iterations", nil)
		var words []string
		for _, it := range list["iterations"].([]any) {
			row := it.(object)
			words = append(words, fmt.Sprintf("%v %v %v %s", row["iteration"], row["status"], row["cost_usd"], asJSON(row["checkpoint"])))
		}
		if s := fmt.Sprint(words); s != `[1 continue 0.1 {"c":"continue"} 2 hold 0.1 {"c":"hold"} 3 done 0.1 {"c":"done"}]` {
			t.Errorf("path %d: iterations %s", i, s)
		}
	}
}

func TestAgent_ReplayBeginsWhereAnIterationEnded(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	id, token := r.lease("ai", object{"agent": object{"max_iterations": 2}, "payload": object{"p": 1}, "tags": object{"k": "v"}, "priority": "high"})
	r.call(200, "POST", "/api/v1/heartbeat", object{"jobs": object{id: object{"lease_token": token, "checkpoint": object{"c": 1}}}})
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token, "agent_status": "continue"})
	again := r.fetchedFrom("ai", id)
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": again["lease_token"], "agent_status": "continue", "checkpoint": object{"c": 2}})
	if view := r.call(200, "GET", "/api/v1/jobs/"+id, nil); view["state"] != "held" || !strings.Contains(fmt.Sprint(view["hold_reason"]), "max_iterations") {
		t.Errorf("at its limit: %v", view)
	}
	out := r.call(201, "POST", "/api/v1/jobs/"+id+"/replay", object{"from": 1}, "Idempotency-Key", "once")
	replay := fmt.Sprint(out["job_id"])
	if again := r.call(200, "POST", "/api/v1/jobs/"+id+"/replay", object{"from": 1}, "Idempotency-Key", "once"); again["job_id"] != replay {
		t.Errorf("the same key made %v and %v", replay, again["job_id"])
	}
	if out["status"] != "pending" || out["job"].(object)["queue"] != "ai" {
		t.Errorf("replay: %v", out)
	}
	got := r.fetchedFrom("ai", replay)
	if asJSON(got["checkpoint"]) != `{"c":1}` || asJSON(got["payload"]) != `{"p":1}` || asJSON(got["tags"]) != `{"k":"v"}` || !strings.Contains(asJSON(got["agent"]), `"iteration":1,"max_iterations":2`) {
		t.Errorf("the replay is fetched as %v", got)
	}
	if view := r.call(200, "GET", "/api/v1/jobs/"+replay, nil); view["parent_id"] != id || view["priority"] != 1.0 {
		t.Errorf("the replay: %v", view)
	}
	for _, from := range []int{0, 3, -1} {
		r.call(400, "POST", "/api/v1/jobs/"+id+"/replay", object{"from": from})
	}
	r.call(400, "GET", "/api/v1/jobs/"+id+"/iterations?after=x&limit=100000", nil)
	if page := r.call(200, "GET", "/api/v1/jobs/"+id+"/iterations?after=1&limit=1", nil); len(page["iterations"].([]any)) != 1 || page["has_more"] != false {
		t.Errorf("page: %v", page)
	}
}

func TestAgent_StatusOfAnotherJobIsRefusedOnEveryPath(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	w, ctx := r.worker(), t.Context()
	id, token := r.lease("plain", nil)
	p := r.call(400, "POST", "/api/v1/ack/"+id, object{"lease_token": token, "agent_status": "done"})
	if !strings.Contains(asJSON(p["fields"]), `"field":"agent_status"`) {
		t.Errorf("ack: %v", p)
	}
	p = r.call(400, "POST", "/api/v1/ack/"+id, object{"lease_token": token, "agent_status": "stop", "hold_reason": "why"})
	if s := asJSON(p["fields"]); !strings.Contains(s, `"field":"agent_status"`) || !strings.Contains(s, `"field":"hold_reason"`) {
		t.Errorf("words: %v", p)
	}
	p = r.call(400, "POST", "/api/v1/enqueue", object{"queue": "q", "agent": object{"max_iterations": -1, "max_cost_usd": 1e9, "iteration_timeout": "9000h"}})
	if s := asJSON(p["fields"]); strings.Count(s, `"field":"agent.`) != 3 {
		t.Errorf("limits: %v", p)
	}
	item := &corvov1.AckBatchItem{JobId: id, LeaseToken: token, AgentStatus: "done"}
	_, err := w.Ack(ctx, connect.NewRequest(&corvov1.AckRequest{JobId: id, LeaseToken: token, AgentStatus: "done"}))
	if text := invalid(err); !strings.Contains(text, "agent_status") {
		t.Errorf("rpc: %s", text)
	}
	out, err := w.AckBatch(ctx, connect.NewRequest(&corvov1.AckBatchRequest{Items: []*corvov1.AckBatchItem{item}}))
	if err != nil || out.Msg.GetOutcomes()[0].GetCode() != "VALIDATION_ERROR" {
		t.Errorf("rpc batch: %v, %v", out, err)
	}
	frame := r.frame(&corvov1.LifecycleStreamRequest{RequestId: 1, Acks: []*corvov1.AckBatchItem{item}})
	if one := frame.GetAckOutcomes()[0]; one.GetCode() != "VALIDATION_ERROR" || !strings.Contains(one.GetError(), "agent_status") {
		t.Errorf("frame: %v", frame)
	}
	_, err = w.Enqueue(ctx, connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q", Agent: &corvov1.AgentConfig{MaxIterations: -1, MaxCostUsd: -1, IterationTimeout: "soon"}}))
	if text := invalid(err); !strings.Contains(text, "agent.max_cost_usd") || !strings.Contains(text, "agent.iteration_timeout") || !strings.Contains(text, "agent.max_iterations") {
		t.Errorf("rpc enqueue: %s", text)
	}
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token})
}

// A spent budget refuses new jobs on every path, and lets no job start.
func TestBudget_RejectsOnEveryPath(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	w, ctx := r.worker(), t.Context()
	b := r.call(200, "POST", "/api/v1/budgets", object{"scope": "queue", "target": "ai", "daily_usd": 0.3, "on_exceed": "reject"})
	if s := asJSON(b); !strings.Contains(s, `"daily_usd":0.3`) || !strings.Contains(s, `"id":"budget_`) || !strings.Contains(s, `"spent_usd":0`) {
		t.Errorf("budget: %s", s)
	}
	id, token := r.lease("ai", nil)
	waiting := fmt.Sprint(r.call(201, "POST", "/api/v1/enqueue", object{"queue": "ai"})["job_id"])
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token, "usage": object{"cost_usd": 0.3}})

	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"ai"}, "wait": 0})
	if p := r.call(429, "POST", "/api/v1/enqueue", object{"queue": "ai"}); p["code"] != "BUDGET_EXCEEDED" {
		t.Errorf("enqueue: %v", p)
	}
	p := r.call(429, "POST", "/api/v1/enqueue/batch", object{"jobs": []object{{"queue": "free"}, {"queue": "ai"}}})
	if p["code"] != "BUDGET_EXCEEDED" || !strings.Contains(asJSON(p["fields"]), "jobs[1].queue") {
		t.Errorf("batch: %v", p)
	}
	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"free"}, "wait": 0})
	if p := r.call(429, "POST", "/api/v1/webhooks/ai", object{}); p["code"] != "BUDGET_EXCEEDED" {
		t.Errorf("webhook: %v", p)
	}
	_, err := w.Enqueue(ctx, connect.NewRequest(&corvov1.EnqueueRequest{Queue: "ai"}))
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "budget") {
		t.Errorf("rpc: %v", err)
	}
	_, err = w.EnqueueBatch(ctx, connect.NewRequest(&corvov1.EnqueueBatchRequest{Jobs: []*corvov1.EnqueueRequest{{Queue: "ai"}}}))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("rpc batch: %v", err)
	}
	out := r.frame(&corvov1.LifecycleStreamRequest{RequestId: 1, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "ai"}}})
	if !strings.Contains(out.GetError(), "enqueue: ") || !strings.Contains(out.GetError(), "budget") || len(out.GetEnqueuedJobIds()) != 0 {
		t.Errorf("frame: %v", out)
	}

	// A higher limit: waiting jobs are handed out at once.
	again := r.call(200, "POST", "/api/v1/budgets", object{"scope": "queue", "target": "ai", "daily_usd": 5})
	if again["id"] != b["id"] || again["on_exceed"] != "hold" || again["spent_usd"] != 0.3 {
		t.Errorf("changed: %v", again)
	}
	r.fetchedFrom("ai", waiting)
	r.call(200, "DELETE", "/api/v1/budgets/queue/ai", nil)
	r.call(404, "DELETE", "/api/v1/budgets/queue/ai", nil)
}

// A worker that waits for a queue whose budget is spent gets its job as soon as the
// budget lets it.
func TestBudget_AParkedFetchIsServedWhenTheBudgetOpens(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	id, token := r.lease("ai", nil)
	r.call(200, "POST", "/api/v1/budgets", object{"scope": "global", "target": "*", "daily_usd": 1})
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token, "usage": object{"cost_usd": 1}})
	waiting := fmt.Sprint(r.call(201, "POST", "/api/v1/enqueue", object{"queue": "ai"})["job_id"])
	got := make(chan map[string]any, 1)
	go func() {
		job, err := r.try(200, "POST", "/api/v1/fetch", object{"queues": []string{"ai"}, "wait": 20})
		if err != nil {
			t.Error(err)
		}
		got <- job
	}()
	time.Sleep(50 * time.Millisecond) // Mostly it is parked by then; if not, it is served all the same.
	select {
	case job := <-got:
		t.Fatalf("fetched %v although the budget is spent", job)
	default:
	}
	r.call(200, "DELETE", "/api/v1/budgets/global/*", nil)
	if job := <-got; job["job_id"] != waiting {
		t.Errorf("fetched %v", job)
	}
}

func TestBudget_StopsAJobThatCostsTooMuch(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	w, ctx := r.worker(), t.Context()
	r.call(200, "POST", "/api/v1/budgets", object{"scope": "tag", "target": "team:a", "per_job_usd": 0.5, "on_exceed": "hold"})
	id, token := r.lease("ai", object{"tags": object{"team": "a"}})
	beat := r.call(200, "POST", "/api/v1/heartbeat", object{"jobs": object{id: object{"lease_token": token, "usage": object{"cost_usd": 0.6}}}})
	if s := asJSON(beat["jobs"]); s != `{"`+id+`":{"budget_exceeded":true,"status":"cancel"}}` {
		t.Errorf("heartbeat: %s", s)
	}
	rpc, err := w.Heartbeat(ctx, connect.NewRequest(&corvov1.HeartbeatRequest{Jobs: map[string]*corvov1.HeartbeatJobUpdate{id: {LeaseToken: token}}}))
	if one := rpc.Msg.GetJobs()[id]; err != nil || one.GetStatus() != "cancel" || !one.GetBudgetExceeded() {
		t.Errorf("rpc heartbeat: %v, %v", one, err)
	}
	if out := r.call(200, "POST", "/api/v1/fail/"+id, object{"lease_token": token, "error": "stopped"}); out["status"] != "held" {
		t.Errorf("let go: %v", out)
	}
	if view := r.call(200, "GET", "/api/v1/jobs/"+id, nil); !strings.Contains(fmt.Sprint(view["hold_reason"]), "0.5 dollars") {
		t.Errorf("held: %v", view)
	}
	if list := r.call(200, "GET", "/api/v1/budgets", nil); len(list) != 0 { // A list, which call leaves out.
		t.Errorf("list: %v", list)
	}
	r.call(200, "DELETE", "/api/v1/budgets/tag/team:a", nil)
}

func TestBudget_RefusalsNameTheirFields(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	p := r.call(400, "POST", "/api/v1/budgets", object{"scope": "team", "target": "x", "daily_usd": -1, "on_exceed": "panic", "daily": 3})
	for _, name := range []string{"scope", "daily_usd", "on_exceed", "daily"} {
		if !strings.Contains(asJSON(p["fields"]), `"field":"`+name+`"`) {
			t.Errorf("%s is not named: %s", name, asJSON(p["fields"]))
		}
	}
	for _, body := range []object{
		{"scope": "queue", "target": "a/b", "daily_usd": 1}, {"scope": "tag", "target": "team", "daily_usd": 1},
		{"scope": "global", "target": "q", "daily_usd": 1}, {"scope": "queue", "target": "q"}, {"target": "q", "daily_usd": 1},
	} {
		r.call(400, "POST", "/api/v1/budgets", body)
	}
	r.call(404, "DELETE", "/api/v1/budgets/team/x", nil)
}

func TestApprovalPolicy_HoldsWhatMatchesUntilAnApproverDecides(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	p := r.call(200, "POST", "/api/v1/approval-policies", object{"name": "money", "queue": "pay", "approvers": []string{"user_anna"}, "expires_after": "1h"})
	if s := asJSON(p); !strings.Contains(s, `"mode":"any"`) || !strings.Contains(s, `"enabled":true`) || !strings.Contains(s, `"expires_after":"1h0m0s"`) {
		t.Errorf("policy: %s", s)
	}
	out := r.call(201, "POST", "/api/v1/enqueue", object{"queue": "pay"})
	id := fmt.Sprint(out["job_id"])
	if out["status"] != "held" {
		t.Errorf("enqueue: %v", out)
	}
	view := r.call(200, "GET", "/api/v1/jobs/"+id, nil)
	if hold := view["hold"].(object); view["state"] != "held" || hold["policy"] != p["id"] || hold["until"] == nil || asJSON(hold["approvers"]) != `["user_anna"]` {
		t.Errorf("held: %v", view)
	}
	r.call(403, "POST", "/api/v1/jobs/"+id+"/approve", object{})
	r.call(403, "POST", "/api/v1/jobs/"+id+"/reject", object{})
	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"pay"}, "wait": 0})

	changed := r.call(200, "POST", "/api/v1/approval-policies", object{"id": p["id"], "name": "money", "queue": "pay", "mode": "all", "tag_key": "big"})
	if changed["id"] != p["id"] || changed["created_at"] != p["created_at"] {
		t.Errorf("changed: %v", changed)
	}
	r.lease("pay", nil)
	big := fmt.Sprint(r.call(201, "POST", "/api/v1/enqueue", object{"queue": "pay", "tags": object{"big": "yes"}})["job_id"])
	r.call(200, "DELETE", "/api/v1/approval-policies/"+fmt.Sprint(p["id"]), nil)
	r.call(404, "DELETE", "/api/v1/approval-policies/"+fmt.Sprint(p["id"]), nil)
	if out := r.call(200, "POST", "/api/v1/jobs/"+big+"/approve", object{}); out["status"] != "pending" {
		t.Errorf("approve: %v", out)
	}
	r.fetchedFrom("pay", big)
	bad := r.call(400, "POST", "/api/v1/approval-policies", object{"mode": "some", "tag_value": "x", "expires_after": "1ms", "on_expire": "wait"})
	for _, name := range []string{"name", "mode", "queue", "tag_value", "expires_after", "on_expire"} {
		if !strings.Contains(asJSON(bad["fields"]), `"field":"`+name+`"`) {
			t.Errorf("%s is not named: %s", name, asJSON(bad["fields"]))
		}
	}
	r.call(404, "POST", "/api/v1/approval-policies", object{"id": "apol_x", "name": "n", "queue": "q"})
}

// A tag may contain characters that no URL can: such a budget is addressed by its id.
func TestBudget_IsDeletedByItsID(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	made := r.call(200, "POST", "/api/v1/budgets", object{"scope": "tag", "target": "team:a/b;50%", "daily_usd": 1})
	other := r.call(200, "POST", "/api/v1/budgets", object{"scope": "queue", "target": "budget_x", "daily_usd": 1})
	path := "/api/v1/budgets/" + fmt.Sprint(made["id"])
	r.call(200, "DELETE", path, nil)
	r.call(404, "DELETE", path, nil)
	r.call(404, "DELETE", "/api/v1/budgets/budget_x", nil)
	if left := r.list("/api/v1/budgets"); len(left) != 1 || left[0]["id"] != other["id"] {
		t.Errorf("left: %v", left)
	}
}
