package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Cron schedules over HTTP, from the first form to the last job.
func TestReal_SchedulesOverHTTP(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	const at = "/api/v1/schedules"
	preview := r.call(200, "POST", at+"/preview", object{"cron": "30 2 29 3 *", "timezone": "Europe/Berlin"})
	if runs, _ := preview["next_runs"].([]any); len(runs) != 5 {
		t.Fatalf("preview: %v", preview)
	}
	refused := r.call(400, "POST", at, object{"name": "x", "cron": "nonsense", "timezone": "Mars/Olympus", "queue": "a b", "jitter": 3, "cronn": "@daily"})
	for _, field := range []string{"cron", "timezone", "queue", "jitter", "cronn"} {
		if !strings.Contains(fmt.Sprint(refused["fields"]), "field:"+field+" ") {
			t.Errorf("%s is not named in %v", field, refused["fields"])
		}
	}

	made := r.call(201, "POST", at, object{
		"name": "often", "cron": "*/1 * * * * *", "timezone": "America/New_York", "queue": "reports", "payload": object{"type": "daily"},
		"priority": "high", "tags": object{"team": "a"}, "max_retries": 4, "retry_base_delay": "1s", "expire_after": "1h", "jitter": "0s", "overlap": "allow", "catch_up": "all",
	})
	id := fmt.Sprint(made["id"])
	if !strings.HasPrefix(id, "sched_") || made["next_run_at"] == nil || made["paused"] != false || made["max_retries"] != 4.0 || made["retry_backoff"] != nil {
		t.Fatalf("made: %v", made)
	}
	r.call(409, "POST", at, object{"name": "often", "cron": "@daily", "queue": "q"})

	got := r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{"reports"}, "worker_id": "w1", "wait": "10s"})
	j := r.call(200, "GET", "/api/v1/jobs/"+fmt.Sprint(got["job_id"]), nil)
	if j["schedule_id"] != id || j["max_retries"] != 4.0 || j["expire_at"] == nil {
		t.Errorf("its job: %v", j)
	}
	r.call(200, "POST", at+"/"+id+"/pause", nil)
	paused := r.call(200, "GET", at+"/"+id, nil)
	if paused["paused"] != true || paused["next_run_at"] != nil || paused["last_run_at"] == nil || paused["last_job_id"] == nil {
		t.Errorf("paused: %v", paused)
	}
	run := r.call(201, "POST", at+"/"+id+"/run", nil)
	if run["status"] != "pending" || run["job_id"] == paused["last_job_id"] {
		t.Errorf("run: %v", run)
	}

	// What was read can be changed and sent back.
	paused["cron"], paused["name"] = "@every 2h", "seldom"
	r.call(409, "PUT", at+"/"+id, paused, "If-Match", `"1"`)
	r.call(400, "PUT", at+"/"+id, paused, "If-Match", `"x"`)
	put := r.call(200, "PUT", at+"/"+id, paused, "If-Match", `"2"`)
	if put["cron"] != "@every 2h" || put["paused"] != true || put["expire_after"] != "1h0m0s" || put["max_retries"] != 4.0 || put["catch_up"] != "all" {
		t.Errorf("changed: %v", put)
	}
	r.call(200, "POST", at+"/"+id+"/resume", nil)
	resumed := r.call(200, "GET", at+"/"+id, nil)
	next, err := time.Parse(time.RFC3339, fmt.Sprint(resumed["next_run_at"]))
	if err != nil || time.Until(next) < 119*time.Minute || time.Until(next) > 2*time.Hour {
		t.Errorf("resumed: %v, %v", resumed, err)
	}
	list := r.call(200, "GET", at+"?limit=10", nil)
	if all, _ := list["schedules"].([]any); len(all) != 1 || list["has_more"] != false {
		t.Errorf("list: %v", list)
	}
	for path, body := range map[string]object{at + "/" + id + "/run": nil, "/api/v1/batches": {}} { // They can not keep its promise.
		if p := r.call(400, "POST", path, body, "Idempotency-Key", "k"); !strings.Contains(fmt.Sprint(p["fields"]), "Idempotency-Key") {
			t.Errorf("%s with an idempotency key: %v", path, p)
		}
	}
	r.call(400, "GET", at+"?limit=0", nil)
	r.call(400, "GET", at+"?queue=q", nil)
	r.call(200, "DELETE", at+"/"+id, nil)
	for _, method := range []string{"GET", "DELETE"} {
		r.call(404, method, at+"/"+id, nil)
	}
	r.call(404, "PUT", at+"/"+id, paused)
	r.call(404, "POST", at+"/job_00000000000000000000000000/run", nil)
}
