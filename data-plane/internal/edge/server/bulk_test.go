package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func (r *real) bulk(status int, body object) object {
	r.Helper()
	return r.call(status, "POST", "/api/v1/jobs/bulk", body)
}

func (r *real) bulkFields(body object) string {
	r.Helper()
	var names []string
	fields, _ := r.bulk(400, body)["fields"].([]any)
	for _, f := range fields {
		names = append(names, fmt.Sprint(f.(object)["field"]))
	}
	return strings.Join(names, " ")
}

func TestBulk_WhatIsWrongIsRefusedByName(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	ids := []string{r.enqueue("q", nil)}
	for want, body := range map[string]object{
		"action":                {"job_ids": ids},
		"action job_ids":        {"action": "explode"},
		"job_ids":               {"action": "retry", "job_ids": []string{}},
		"filter":                {"action": "retry", "job_ids": ids, "filter": object{"queue": "q"}},
		"move_to_queue":         {"action": "move", "job_ids": ids},
		"priority":              {"action": "change_priority", "job_ids": ids},
		"priority filter":       {"action": "delete", "priority": "high", "filter": object{}},
		"filter.states":         {"action": "delete", "filter": object{"states": []string{"dead"}}},
		"filter.state":          {"action": "delete", "filter": object{"state": []string{"undead"}}},
		"filter.payload_jq":     {"action": "delete", "filter": object{"queue": "q", "payload_jq": ".a == 1"}},
		"filter.cursor":         {"action": "delete", "filter": object{"queue": "q", "cursor": "x"}},
		"filter.limit":          {"action": "delete", "filter": object{"queue": "q", "limit": 0}},
		"filter.queue":          {"action": "delete", "filter": object{"queue": "a/b"}},
		"queue":                 {"action": "move", "job_ids": ids, "queue": "other"},
		"move_to_queue job_ids": {"action": "retry", "move_to_queue": "x", "job_ids": make([]string, 10_001)},
	} {
		if got := r.bulkFields(body); got != want {
			t.Errorf("%v: %q, want %q", want, got, want)
		}
	}
	if fmt.Sprint(r.bulkFields(object{"action": "delete", "filter": object{"limit": 5, "order": "asc"}})) != "filter" {
		t.Error("a filter without a condition")
	}
	if _, a := r.listed("?queue=q"); len(a["jobs"].([]any)) != 1 {
		t.Error("something was done")
	}
	for _, path := range []string{"/api/v1/bulk/bulk_1_1", "/api/v1/bulk/bulk_1_1/progress", "/api/v1/bulk/%00"} {
		r.call(404, "GET", path, nil)
	}
}

func TestBulk_AnOperationIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	r.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": make60("q")})
	op := r.bulk(202, object{"action": "cancel", "filter": object{"queue": "q"}, "async": true})
	id := fmt.Sprint(op["bulk_operation_id"])
	if !strings.HasPrefix(id, "bulk_") || op["estimated_total"] != 60.0 || op["status"] != "queued" || op["progress_url"] != "/api/v1/bulk/"+id+"/progress" {
		t.Fatalf("begun: %v", op)
	}
	events := r.progress(fmt.Sprint(op["progress_url"]))
	if len(events) < 2 || events[0] != "bulk.async.started" || events[len(events)-1] != "bulk.async.completed" {
		t.Errorf("events %v", events)
	}
	got := r.call(200, "GET", "/api/v1/bulk/"+id, nil)
	for name, want := range map[string]any{"id": id, "status": "completed", "action": "cancel", "total": 60.0, "processed": 60.0, "affected": 60.0, "errors": 0.0, "error": nil} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if got["finished_at"] == nil || got["created_at"] == nil || got["updated_at"] == nil {
		t.Errorf("times: %v", got)
	}
	again, err := r.try(204, "GET", fmt.Sprint(op["progress_url"]), nil, "Last-Event-ID", "3")
	if err != nil || len(again) > 0 {
		t.Errorf("come again: %v %v", again, err)
	}
}

// progress lists the events of an operation until their stream ends.
func (r *real) progress(path string) (events []string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), "GET", r.url+path, nil)
	if err != nil {
		r.Fatal(err)
	}
	resp, err := r.h2.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	late := time.AfterFunc(20*time.Second, func() { _ = resp.Body.Close() })
	defer late.Stop()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			events = append(events, event)
		}
	}
	return events
}

// Every job of the namespace comes once, whole, oldest first, however the pages are cut; and
// a filter passes over others without an end of its own.
func TestExport_EveryJobComesOnceAndWhole(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	var all, dead []string
	for n := range 25 {
		id := r.enqueue([]string{"q", "other"}[n%2], object{"payload": object{"n": n}})
		all = append(all, id)
		if n%5 == 0 {
			dead = append(dead, id)
		}
	}
	for _, id := range dead {
		r.call(200, "POST", "/api/v1/jobs/"+id+"/cancel", nil)
	}
	walk := func(query string) (ids []string) {
		after := ""
		for {
			page := r.call(200, "GET", "/api/v1/jobs/export?"+query+after, nil)
			for _, j := range page["jobs"].([]any) {
				ids = append(ids, j.(object)["id"].(string))
				if j.(object)["payload"] == nil {
					t.Errorf("%v has no payload", j)
				}
			}
			if page["has_more"] == false {
				return ids
			}
			after = "&after=" + page["last_id"].(string)
		}
	}
	for query, want := range map[string][]string{"limit=4": all, "limit=1000": all, "limit=25": all, "limit=2&state=cancelled": dead, "limit=1&queue=none": nil} {
		if got := walk(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, bad := range []string{"limit=0", "limit=1001", "after=x", "state=finished", "queue=a+b", "cursor=x"} {
		r.call(400, "GET", "/api/v1/jobs/export?"+bad, nil)
	}
}

// A page ends when it carries enough, and begins with a job however large it is.
func TestExport_APageIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	for range 40 {
		r.enqueue("q", object{"payload": strings.Repeat("x", 250<<10)})
	}
	page := r.call(200, "GET", "/api/v1/jobs/export?limit=1000", nil)
	if n := len(page["jobs"].([]any)); n != 16 || page["has_more"] != true {
		t.Errorf("%d jobs of 250 KB in a page, more %v", n, page["has_more"])
	}
}

func TestBulkGet_LeavesOutWhatIsNotThere(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	a, b := r.enqueue("q", object{"payload": object{"n": 1}}), r.enqueue("q", nil)
	got := r.call(200, "POST", "/api/v1/jobs/bulk-get", object{"job_ids": []string{b, "job_" + strings.Repeat("0", 26), "nonsense", a, b}})["jobs"].([]any)
	if len(got) != 2 || got[0].(object)["id"] != b || got[1].(object)["id"] != a || fmt.Sprint(got[1].(object)["payload"]) != "map[n:1]" {
		t.Errorf("jobs: %v", got)
	}
	if none := r.call(200, "POST", "/api/v1/jobs/bulk-get", object{"job_ids": []string{}})["jobs"].([]any); len(none) != 0 {
		t.Errorf("jobs: %v", none)
	}
	for _, body := range []object{{}, {"ids": []string{a}}, {"job_ids": a}, {"job_ids": make([]string, 1001)}} {
		r.call(400, "POST", "/api/v1/jobs/bulk-get", body)
	}
}

// A thousand large jobs are more than a process should hold at once for one caller.
func TestBulkGet_TooMuchAtOnceIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	var ids []string
	for range 140 {
		ids = append(ids, r.enqueue("q", object{"payload": strings.Repeat("x", 250<<10)}))
	}
	p := r.call(413, "POST", "/api/v1/jobs/bulk-get", object{"job_ids": ids})
	if p["code"] != "PAYLOAD_TOO_LARGE" || !strings.Contains(fmt.Sprint(p["error"]), "ask for at most 131 of them") {
		t.Errorf("refused with %v", p)
	}
	if got := r.call(200, "POST", "/api/v1/jobs/bulk-get", object{"job_ids": ids[:131]})["jobs"].([]any); len(got) != 131 {
		t.Errorf("%d jobs", len(got))
	}
}
