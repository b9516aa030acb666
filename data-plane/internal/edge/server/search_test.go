package server_test

import (
	"fmt"
	"strings"
	"testing"
)

// What the strictly typed clients of generation 1 read.
func TestSearch_AnswersTheMembersOfTheContract(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	parent := r.enqueue("other", nil)
	batch := fmt.Sprint(r.call(201, "POST", "/api/v1/batches", object{})["batch_id"])
	id := r.enqueue("mail", object{
		"payload": object{"n": 7}, "unique_key": "u", "parent_id": parent, "batch_id": batch, "tags": object{"k": "v"},
		"chain": object{"steps": []object{{"queue": "mail"}, {"queue": "next"}}},
	})
	r.enqueue("mail", nil)
	a := r.call(200, "POST", "/api/v1/jobs/search", object{"queue": "mail", "order": "asc", "limit": 1})
	if a["total"] != 2.0 || a["total_exact"] != true || a["has_more"] != true || a["cursor"] == "" || a["duration_ms"] != float64(int64(a["duration_ms"].(float64))) {
		t.Errorf("page: %v", a)
	}
	j := a["jobs"].([]any)[0].(object)
	if chain := fmt.Sprint(j["chain_id"]); !strings.HasPrefix(chain, "chn_") {
		t.Errorf("chain_id %s", chain)
	}
	for name, want := range map[string]any{
		"id": id, "queue": "mail", "state": "pending", "payload": object{"n": 7.0}, "priority": 2.0, "attempt": 0.0, "max_retries": 3.0,
		"unique_key": "u", "batch_id": batch, "tags": object{"k": "v"}, "parent_id": parent, "chain_step": 0.0, "payload_omitted": nil,
	} {
		if fmt.Sprint(j[name]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", name, j[name], want)
		}
	}
}

func TestSearch_APageHoldsSoManyBytesOfPayloadsAndSaysWhichRowsHaveNone(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	const jobs, fit = 20, 4 << 20 / (250<<10 + 2)
	for range jobs {
		r.enqueue("q", object{"payload": strings.Repeat("x", 250<<10)})
	}
	omitted := 0
	for i, j := range r.call(200, "POST", "/api/v1/jobs/search", object{})["jobs"].([]any) {
		if without := j.(object)["payload"] == nil; without != (i >= fit) || without != (j.(object)["payload_omitted"] == true) {
			t.Errorf("row %d: payload left out %v, said %v", i, without, j.(object)["payload_omitted"])
		} else if without {
			omitted++
		}
	}
	if omitted != jobs-fit {
		t.Errorf("%d rows without a payload, want %d", omitted, jobs-fit)
	}
}

func TestSearch_TooLargeALimitIsTheDefault(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	r.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": make60("q")})
	for limit, want := range map[int]int{1: 1, 60: 60, 1000: 60, 1001: 50, 1 << 40: 50} {
		if got := len(r.call(200, "POST", "/api/v1/jobs/search", object{"limit": limit})["jobs"].([]any)); got != want {
			t.Errorf("limit %d: %d rows, want %d", limit, got, want)
		}
	}
	r.call(400, "POST", "/api/v1/jobs/search", object{"limit": 0})
	r.call(400, "POST", "/api/v1/jobs/search", object{"limit": -1})
}

func make60(queue string) (jobs []object) {
	for range 60 {
		jobs = append(jobs, object{"queue": queue})
	}
	return jobs
}

// {"states": ["dead"]} would find everything.
func TestSearch_AFilterWithATypingErrorIsRefused(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	p := r.call(400, "POST", "/api/v1/jobs/search", object{"states": []string{"dead"}, "queue": "q"})
	if fields := fmt.Sprint(p["fields"]); !strings.Contains(fields, "field:states") {
		t.Errorf("fields: %s", fields)
	}
}
