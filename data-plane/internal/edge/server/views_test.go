package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// follower reads an event stream.
type follower struct {
	*testing.T
	frames chan frame
	cancel context.CancelFunc
}

type frame struct {
	id, event string
	data      struct {
		Seq   uint64 `json:"seq"`
		Type  string `json:"type"`
		AtNS  int64  `json:"at_ns"`
		JobID string `json:"job_id"`
		Queue string `json:"queue"`
		Data  struct {
			State, From, Reason string
			Attempt             int
		} `json:"data"`
	}
}

func (r *real) follow(query string, header ...string) *follower {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+"/api/v1/events"+query, nil)
	if err != nil {
		r.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.h2.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		r.Fatalf("status %d, %v", resp.StatusCode, resp.Header)
	}
	f := &follower{T: r.T, frames: make(chan frame, 1000), cancel: cancel}
	go func() {
		defer close(f.frames)
		defer resp.Body.Close()
		var one frame
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			line := lines.Text()
			switch {
			case line == "":
				if one.event != "" {
					f.frames <- one
				}
				one = frame{}
			case strings.HasPrefix(line, "id: "):
				one.id = line[4:]
			case strings.HasPrefix(line, "event: "):
				one.event = line[7:]
			case strings.HasPrefix(line, "data: "):
				_ = json.Unmarshal([]byte(line[6:]), &one.data)
			}
		}
	}()
	r.Cleanup(cancel)
	return f
}

func (f *follower) next() frame {
	f.Helper()
	select {
	case e, ok := <-f.frames:
		if !ok {
			f.Fatal("the stream has ended")
		}
		return e
	case <-time.After(10 * time.Second):
		f.Fatal("no event in 10 s")
	}
	return frame{}
}

func (r *real) enqueue(queue string, more object) string {
	r.Helper()
	body := object{"queue": queue, "payload": object{"secret": "canary"}}
	for k, v := range more {
		body[k] = v
	}
	return fmt.Sprint(r.call(201, "POST", "/api/v1/enqueue", body)["job_id"])
}

func (r *real) listed(query string) (ids []string, answer object) {
	r.Helper()
	answer = r.call(200, "GET", "/api/v1/jobs"+query, nil)
	for _, j := range answer["jobs"].([]any) {
		ids = append(ids, fmt.Sprint(j.(object)["id"]))
	}
	return ids, answer
}

func TestList_ShowsWhatWasJustEnqueuedAndFilters(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	a := r.enqueue("mail", object{"tags": object{"team": "red", "tier": "1"}})
	b := r.enqueue("mail", object{"tags": object{"team": "blue"}})
	c := r.enqueue("print", nil)
	ids, answer := r.listed("")
	if fmt.Sprint(ids) != fmt.Sprint([]string{c, b, a}) || answer["rebuilding"] != false || answer["lag_ms"] != 0.0 || answer["has_more"] != false {
		t.Fatalf("list %v %v", ids, answer)
	}
	if strings.Contains(fmt.Sprint(answer), "canary") {
		t.Fatalf("a payload in a list: %v", answer)
	}
	for query, want := range map[string][]string{
		"?queue=mail":                                  {b, a},
		"?queue=print&state=pending":                   {c},
		"?state=active,completed":                      nil,
		"?state=pending&state=active":                  {c, b, a},
		"?tag=team:red":                                {a},
		"?tag=team:red&tag=tier:1":                     {a},
		"?tag=team:red&tag=tier:2":                     nil,
		"?order=asc&limit=2":                           {a, b},
		"?created_after=2030-01-01T00:00:00Z":          nil,
		"?created_before=2030-01-01T00:00:00Z&limit=1": {c},
	} {
		if ids, _ := r.listed(query); fmt.Sprint(ids) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", query, ids, want)
		}
	}
	found := r.call(200, "POST", "/api/v1/jobs/search", object{"queue": "mail", "state": []string{"pending"}, "tags": object{"team": "blue"}, "has_errors": false})
	if jobs := found["jobs"].([]any); len(jobs) != 1 || jobs[0].(object)["id"] != b {
		t.Fatalf("search: %v", found)
	}
}

func TestEvents_ArriveAsTheyHappenAndResume(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	f := r.follow("")
	id := r.enqueue("mail", nil)
	r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{"mail"}, "worker_id": "w1"})
	r.call(200, "POST", "/api/v1/ack/"+id, object{})
	want := []string{"enqueued", "started", "completed"}
	for i, w := range want {
		e := f.next()
		if e.event != w || e.data.Type != w || e.id != fmt.Sprint(i+1) || e.data.Seq != uint64(i+1) || e.data.JobID != id || e.data.Queue != "mail" || e.data.AtNS == 0 {
			t.Fatalf("event %d: %+v", i, e)
		}
	}
	again := r.follow("", "Last-Event-ID", "1")
	if e := again.next(); e.event != "started" || e.data.Data.From != "pending" || e.data.Data.State != "active" || e.data.Data.Attempt != 1 {
		t.Fatalf("resumed with %+v", e)
	}
	only := r.follow("?last_event_id=0&types=completed&queues=mail&job_ids=" + id)
	if e := only.next(); e.event != "completed" || e.id != "3" {
		t.Fatalf("filtered: %+v", e)
	}
}
