package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

func (r *real) workers() corvov1connect.WorkerServiceClient {
	return corvov1connect.NewWorkerServiceClient(r.h2, r.url, connect.WithGRPC())
}

func twoSteps() object {
	return object{"steps": []any{object{"queue": "a"}, object{"queue": "b"}}, "on_exit": object{"queue": "done"}}
}

// Traps 24 and D10 on the wire: whatever path an ack comes by, the chain goes on, or
// ends where the worker says so.
func TestTrap24_D10_EveryAckMovesTheChain(t *testing.T) {
	t.Parallel()
	ack := map[string]func(r *real, id, token, status string) error{
		"single": func(r *real, id, token, status string) error {
			_, err := r.try(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token, "step_status": status})
			return err
		},
		"batch": func(r *real, id, token, status string) error {
			_, err := r.try(200, "POST", "/api/v1/ack/batch", object{"acks": []any{object{"job_id": id, "lease_token": token, "step_status": status}}})
			return err
		},
		"rpc batch": func(r *real, id, token, status string) error {
			_, err := r.workers().AckBatch(r.Context(), connect.NewRequest(&corvov1.AckBatchRequest{
				Items: []*corvov1.AckBatchItem{{JobId: id, LeaseToken: token, StepStatus: status}},
			}))
			return err
		},
		"rpc": func(r *real, id, token, status string) error {
			_, err := r.workers().Ack(r.Context(), connect.NewRequest(&corvov1.AckRequest{JobId: id, LeaseToken: token, StepStatus: status}))
			return err
		},
		"stream": func(r *real, id, token, status string) error {
			ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
			defer cancel()
			st := r.workers().StreamLifecycle(ctx)
			defer func() { _ = st.CloseRequest(); _ = st.CloseResponse() }()
			err := st.Send(&corvov1.LifecycleStreamRequest{RequestId: 1, Acks: []*corvov1.AckBatchItem{{JobId: id, LeaseToken: token, StepStatus: status}}})
			if err == nil {
				_, err = st.Receive()
			}
			return err
		},
	}
	r := startReal(t)
	for name, say := range ack {
		for status, next := range map[string]string{"": "b", "continue": "b", "exit": "done"} {
			r.call(201, "POST", "/api/v1/enqueue", object{"queue": "a", "chain": twoSteps()})
			got := r.take("a")
			if err := say(r, fmt.Sprint(got["job_id"]), fmt.Sprint(got["lease_token"]), status); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			followed := r.take(next)
			if followed["chain_id"] != got["chain_id"] {
				t.Errorf("%s, step_status %q: %v follows on %v", name, status, followed, got)
			}
			if next == "b" {
				r.finish(followed, nil)
				r.finish(r.take("done"), nil)
			} else {
				r.finish(followed, nil)
			}
		}
	}
	got := r.call(201, "POST", "/api/v1/enqueue", object{"queue": "a", "chain": twoSteps()})
	r.take("a")
	bad := r.call(400, "POST", "/api/v1/ack/"+fmt.Sprint(got["job_id"]), object{"step_status": "stop"})
	if !strings.Contains(fmt.Sprint(bad["error"]), "step_status") {
		t.Errorf("a wrong word: %v", bad)
	}
}

func TestReal_BatchCallsBackOnce(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	batch := object{"jobs": []any{object{"queue": "q"}, object{"queue": "q"}}, "batch": object{"callback_queue": "cb", "callback_payload": object{"mine": 1}, "open": true}}
	made := r.call(201, "POST", "/api/v1/enqueue/batch", batch, "Idempotency-Key", "once")
	again := r.call(201, "POST", "/api/v1/enqueue/batch", batch, "Idempotency-Key", "once")
	id := fmt.Sprint(made["batch_id"])
	if again["batch_id"] != id || fmt.Sprint(again["job_ids"]) != fmt.Sprint(made["job_ids"]) {
		t.Fatalf("%v, then %v", made, again)
	}
	joined := r.call(201, "POST", "/api/v1/enqueue", object{"queue": "q", "batch_id": id})
	if joined["batch_id"] != id {
		t.Errorf("joined: %v", joined)
	}
	resp, err := r.workers().Enqueue(r.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q", Options: &corvov1.EnqueueOptions{BatchId: id}}))
	if err != nil || resp.Msg.GetStatus() != "pending" {
		t.Fatalf("%v %v", resp, err)
	}
	if sealed := r.call(200, "POST", "/api/v1/batches/"+id+"/seal", nil); sealed["status"] != "sealed" || sealed["total"] != 4.0 {
		t.Errorf("sealed: %v", sealed)
	}
	refused := r.call(400, "POST", "/api/v1/enqueue", object{"queue": "q", "batch_id": id})
	if refused["code"] != "BATCH_CLOSED" || !strings.Contains(fmt.Sprint(refused["fields"]), "batch_id") {
		t.Errorf("join of a sealed batch: %v", refused)
	}
	for range 3 {
		got := r.take("q")
		if got["batch_id"] != id {
			t.Errorf("grant: %v", got)
		}
		r.finish(got, nil)
	}
	r.call(200, "POST", "/api/v1/jobs/"+resp.Msg.GetJobId()+"/cancel", nil)
	cb := r.take("cb")
	payload, _ := cb["payload"].(object)
	if payload["batch_id"] != id || payload["total"] != 4.0 || payload["completed"] != 3.0 || payload["cancelled"] != 1.0 || payload["mine"] != 1.0 {
		t.Errorf("callback: %v", payload)
	}
	view := r.call(200, "GET", "/api/v1/batches/"+id+"?limit=3", nil)
	if view["has_more"] != true || len(view["members"].([]any)) != 3 || view["batch"].(object)["callback_job_id"] != cb["job_id"] || view["batch"].(object)["status"] != "finished" {
		t.Errorf("batch: %v", view)
	}
	rest := r.call(200, "GET", "/api/v1/batches/"+id+"?limit=3&cursor="+fmt.Sprint(view["cursor"]), nil)
	if rest["has_more"] != false || len(rest["members"].([]any)) != 1 {
		t.Errorf("the rest: %v", rest)
	}
	r.call(400, "GET", "/api/v1/batches/"+id+"?cursor=x", nil)
	r.call(404, "GET", "/api/v1/batches/batch_0000000000000000000000000Z", nil)
	r.call(404, "POST", "/api/v1/batches/nonsense/seal", nil)
}

func TestReal_BatchesAndChainsAreListedYoungestFirst(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	var batches, chains []string
	for range 3 {
		batches = append(batches, fmt.Sprint(r.call(201, "POST", "/api/v1/batches", object{"callback_queue": "cb"})["batch_id"]))
		chains = append(chains, fmt.Sprint(r.call(201, "POST", "/api/v1/enqueue", object{"queue": "a", "chain": twoSteps()})["chain_id"]))
		time.Sleep(2 * time.Millisecond) // Ids order by the millisecond.
	}
	for list, want := range map[string][]string{"batches": batches, "chains": chains} {
		var got []string
		for cursor := ""; ; {
			page := r.call(200, "GET", "/api/v1/"+list+"?limit=2&cursor="+cursor, nil)
			for _, item := range page[list].([]any) {
				got = append(got, fmt.Sprint(item.(object)["id"]))
			}
			if cursor = fmt.Sprint(page["cursor"]); cursor == "" {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint([]string{want[2], want[1], want[0]}) {
			t.Errorf("%s: %v, made %v", list, got, want)
		}
	}
	first := r.take("a")
	r.finish(first, nil)
	ch := r.call(200, "GET", "/api/v1/chains/"+fmt.Sprint(first["chain_id"]), nil)
	steps := ch["steps"].([]any)
	if ch["status"] != "running" || ch["current_step"] != 1.0 || steps[0].(object)["state"] != "completed" || steps[1].(object)["state"] != "pending" ||
		ch["on_exit"].(object)["job_id"] != nil || ch["on_failure"] != nil {
		t.Errorf("chain: %v", ch)
	}
}

// Trap 40 on the wire: jobs wait for others by every way of enqueueing.
func TestTrap40_JobsWaitForOthers(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	dep := fmt.Sprint(r.call(201, "POST", "/api/v1/enqueue", object{"queue": "dep"})["job_id"])
	waits := []any{object{"queue": "q", "depends_on": []string{dep}}, object{"queue": "q", "depends_on": []string{dep}, "on_dependency_failed": "cancel"}}
	made := r.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": waits})
	ids := made["job_ids"].([]any)
	view := r.call(200, "GET", "/api/v1/jobs/"+fmt.Sprint(ids[0]), nil)
	if view["state"] != "pending" || view["waiting_on"] != 1.0 || fmt.Sprint(view["depends_on"]) != "["+dep+"]" || view["on_dependency_failed"] != "fail" {
		t.Errorf("waits: %v", view)
	}
	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"q"}, "wait": 0})
	r.finish(r.take("dep"), nil)
	for range 2 {
		r.finish(r.take("q"), nil)
	}
	unknown := "job_01JD0000000000000000000000"
	refused := r.call(404, "POST", "/api/v1/enqueue/batch", object{"jobs": []any{object{"queue": "q"}, object{"queue": "q", "depends_on": []string{dep, unknown}}}})
	if !strings.Contains(fmt.Sprint(refused["fields"]), "jobs[1].depends_on[1]") {
		t.Errorf("unknown: %v", refused)
	}
	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"q"}, "wait": 0})
	_, err := r.workers().Enqueue(r.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q", Options: &corvov1.EnqueueOptions{DependsOn: []string{unknown}}}))
	if connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "options.depends_on[0]") {
		t.Errorf("over RPC: %v", err)
	}
	bad := r.call(400, "POST", "/api/v1/enqueue", object{"queue": "q", "depends_on": []string{dep, dep}, "batch_id": "x", "chain": object{"steps": []any{object{"queue": "other"}}}})
	for _, field := range []string{"depends_on[1]", "batch_id", "chain.steps", "chain.steps[0].queue"} {
		if !strings.Contains(fmt.Sprint(bad["fields"]), field+" ") {
			t.Errorf("%s is not named: %v", field, bad["fields"])
		}
	}
}
