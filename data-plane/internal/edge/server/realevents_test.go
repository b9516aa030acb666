package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
)

// fact is what both protocols send about an event.
type fact struct {
	Seq   uint64          `json:"seq"`
	Type  string          `json:"type"`
	AtNS  uint64          `json:"at_ns"`
	JobID string          `json:"job_id"`
	Queue string          `json:"queue"`
	Data  json.RawMessage `json:"data"`
}

func (f fact) String() string {
	return fmt.Sprintf("%d %s at %d %s %s %s", f.Seq, f.Type, f.AtNS, f.JobID, f.Queue, f.Data)
}

// subscribed reads n events after the given one over RPC.
func (r *real) subscribed(after uint64, n int) (all []fact) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	sub, err := corvov1connect.NewWorkerServiceClient(r.h2, r.url).Subscribe(ctx, connect.NewRequest(&corvov1.SubscribeRequest{LastEventId: after}))
	if err != nil {
		r.Fatal(err)
	}
	defer func() { cancel(); _ = sub.Close() }()
	for len(all) < n && sub.Receive() {
		m := sub.Msg()
		all = append(all, fact{m.GetSeq(), m.GetType(), m.GetAtNs(), m.GetJobId(), m.GetQueue(), json.RawMessage(m.GetDataJson())})
	}
	if len(all) < n {
		r.Fatalf("%d of %d events: %v", len(all), n, sub.Err())
	}
	return all
}

// streamed reads n events after the given one as server-sent events.
func (r *real) streamed(after uint64, n int) (all []fact) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/api/v1/events?last_event_id=%d", r.url, after), nil)
	if err != nil {
		r.Fatal(err)
	}
	resp, err := r.h2.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close() // Cut off.
	lines := bufio.NewScanner(resp.Body)
	for len(all) < n && lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var f fact
			if err := json.Unmarshal([]byte(data), &f); err != nil {
				r.Fatal(err)
			}
			all = append(all, f)
		}
	}
	if len(all) < n {
		r.Fatalf("%d of %d events: %v", len(all), n, lines.Err())
	}
	return all
}

// live makes things happen and returns the number of their events.
func (r *real) live() int {
	r.Helper()
	for range 3 {
		r.call(201, "POST", "/api/v1/enqueue", object{"queue": "mail"})
	}
	job := r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{"mail"}, "worker_id": "w1"})
	r.call(200, "POST", "/api/v1/ack/"+fmt.Sprint(job["job_id"]), object{"lease_token": job["lease_token"]})
	r.call(200, "POST", "/api/v1/queues/mail/pause", nil)
	return 6
}

func seqs(all []fact) (out []uint64) {
	for _, f := range all {
		out = append(out, f.Seq)
	}
	return out
}

// A server without any flag sends events, the same in both protocols.
func TestTrap108_EventsAreOnByDefault(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	r.call(201, "POST", "/api/v1/enqueue", object{"queue": "first"})
	n := r.live()
	over, plain := r.subscribed(1, n), r.streamed(1, n)
	for i := range over {
		if over[i].String() != plain[i].String() {
			t.Errorf("over RPC %v\nas SSE   %v", over[i], plain[i])
		}
		if over[i].AtNS == 0 || over[i].Queue != "mail" {
			t.Errorf("%v", over[i])
		}
	}
}

// A client that resumes sees what it has not seen, once, with numbers.
func TestTrap109_ResumeRepeatsNothing(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	r.call(201, "POST", "/api/v1/enqueue", object{"queue": "first"})
	n := r.live()
	for _, read := range []func(uint64, int) []fact{r.subscribed, r.streamed} {
		var all []uint64
		for last := uint64(1); len(all) < n; last = all[len(all)-1] {
			all = append(all, seqs(read(last, min(2, n-len(all))))...)
		}
		for i, seq := range all {
			if seq != uint64(i)+2 {
				t.Fatalf("events %v, want 2 to %d once each", all, n+1)
			}
		}
	}
}

// Every type that is sent is one that a client may ask for, under the same name.
func TestTrap110_NamesOfEventsAreThoseOfTheFilter(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	r.call(201, "POST", "/api/v1/enqueue", object{"queue": "first"})
	for _, f := range r.streamed(1, r.live()) {
		if !slices.Contains(queue.EventTypes(), f.Type) {
			t.Errorf("%s is in no list of types", f.Type)
		}
	}
	for _, word := range []string{ // Existing clients listen for these.
		"enqueued", "started", "completed", "continued", "held", "failed", "progress", "approved", "rejected",
	} {
		if !slices.Contains(queue.EventTypes(), word) {
			t.Errorf("%s is not sent", word)
		}
	}
}

func TestINV13_EventsAreGapFreeAndInOrder(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	r.call(201, "POST", "/api/v1/enqueue", object{"queue": "first"})
	n := 0
	for range 5 {
		n += r.live()
		r.call(200, "POST", "/api/v1/queues/mail/resume", nil)
		n++
	}
	var at uint64
	for i, f := range r.subscribed(1, n) {
		if f.Seq != uint64(i)+2 || f.AtNS < at {
			t.Fatalf("event %d is %v, behind one at %d", i, f, at)
		}
		at = f.AtNS
	}
}

func (r *real) list(path string) (all []object) {
	r.Helper()
	resp, err := r.h2.Get(r.url + path)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil || resp.StatusCode != 200 {
		r.Fatalf("%s: %d, %v", path, resp.StatusCode, err)
	}
	return all
}

func TestReal_WorkersThroughputEventsAndWhy(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	r.live()
	workers := r.list("/api/v1/workers")
	if len(workers) != 1 || workers[0]["id"] != "w1" || workers[0]["queues"] != `["mail"]` || workers[0]["last_heartbeat"] == nil {
		t.Errorf("workers %v", workers)
	}
	minutes := r.list("/api/v1/metrics/throughput")
	enqueued, completed := 0.0, 0.0
	for _, m := range minutes {
		enqueued += m["enqueued"].(float64)
		completed += m["completed"].(float64)
	}
	if len(minutes) != 60 || enqueued != 3 || completed != 1 {
		t.Errorf("%d minutes, %v enqueued, %v completed", len(minutes), enqueued, completed)
	}
	page := r.call(200, "GET", "/api/v1/cluster/events?after_seq=2&limit=2", nil)
	events := page["events"].([]any)
	if len(events) != 2 || events[0].(object)["seq"] != 3.0 {
		t.Errorf("events %v", page)
	}
	for _, bad := range []string{"after_seq=x", "limit=0", "limit=1001", "after=1"} {
		r.call(400, "GET", "/api/v1/cluster/events?"+bad, nil)
	}
	id := r.call(201, "POST", "/api/v1/enqueue", object{"queue": "mail"})["job_id"]
	why := r.call(200, "GET", fmt.Sprintf("/api/v1/jobs/%s/why", id), nil)
	var codes []string
	for _, reason := range why["reasons"].([]any) {
		codes = append(codes, reason.(object)["code"].(string))
	}
	if why["job_id"] != id || why["state"] != "pending" || strings.Join(codes, " ") != "queue_paused behind_other_jobs" || why["eta"] != nil {
		t.Errorf("why %v", why)
	}
	r.call(404, "GET", "/api/v1/jobs/job_00000000000000000000000000/why", nil)
}
