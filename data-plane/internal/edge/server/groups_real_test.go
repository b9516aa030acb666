package server_test

import (
	"fmt"
	"testing"
)

// take fetches one job of a queue.
func (r *real) take(queue string) object {
	r.Helper()
	got := r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{queue}, "wait": 5})
	if got["queue"] != queue {
		r.Fatalf("fetch of %s: %v", queue, got)
	}
	return got
}

// finish acks what take took.
func (r *real) finish(got object, ack object) {
	r.Helper()
	if ack == nil {
		ack = object{}
	}
	ack["lease_token"] = got["lease_token"]
	r.call(200, "POST", "/api/v1/ack/"+fmt.Sprint(got["job_id"]), ack)
}

func TestReal_ChainRunsStepByStep(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	made := r.call(201, "POST", "/api/v1/enqueue", object{
		"queue": "a", "tags": object{"k": "v"}, "priority": "high", "max_retries": 7,
		"chain": object{
			"steps":   []any{object{"queue": "a", "payload": object{"n": 1}}, object{"queue": "b", "payload": object{"n": 2}}, object{"queue": "c", "payload": 3}},
			"on_exit": object{"queue": "done"}, "on_failure": "stop",
		},
	})
	a := r.take("a")
	if a["chain_id"] != made["chain_id"] || a["chain_step"] != 0.0 || fmt.Sprint(a["payload"]) != "map[n:1]" {
		t.Fatalf("first step %v of %v", a, made)
	}
	r.finish(a, object{"result": []int{1, 2}})
	b := r.take("b")
	if b["chain_step"] != 1.0 || fmt.Sprint(b["payload"]) != fmt.Sprintf("map[n:2 previous_job_id:%v previous_result:[1 2]]", a["job_id"]) ||
		b["max_retries"] != 7.0 || fmt.Sprint(b["tags"]) != "map[k:v]" {
		t.Fatalf("second step %v", b)
	}
	r.finish(b, nil)
	c := r.take("c")
	if fmt.Sprint(c["payload"]) != fmt.Sprintf("map[payload:3 previous_job_id:%v]", b["job_id"]) {
		t.Fatalf("third step %v", c)
	}
	r.finish(c, nil)
	done := r.take("done")
	if done["chain_step"] != -1.0 || done["chain_id"] != made["chain_id"] {
		t.Fatalf("on_exit %v", done)
	}
}
