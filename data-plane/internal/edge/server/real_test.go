package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// real is a single node: the wire over the real engine.
type real struct {
	*testing.T
	n   *node.Node
	url string
	h2  *http.Client
}

func startReal(t *testing.T) *real {
	t.Helper()
	tr := forward.NewTransport(forward.TransportOptions{})
	n := nodetest.Alone(t)
	t.Cleanup(tr.CloseIdleConnections)
	return &real{T: t, n: n, url: n.URL(), h2: &http.Client{Transport: tr}}
}

// call makes one HTTP/JSON call and fails unless it answers status.
func (r *real) call(status int, method, path string, body any, header ...string) map[string]any {
	r.Helper()
	out, err := r.try(status, method, path, body, header...)
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// try is call for goroutines, which may not end the test.
func (r *real) try(status int, method, path string, body any, header ...string) (map[string]any, error) {
	in, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.h2.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != status {
		return nil, fmt.Errorf("%s %s: %d %s, want %d", method, path, resp.StatusCode, text, status)
	}
	out := make(map[string]any)
	if len(text) > 0 && text[0] == '{' {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

type object = map[string]any

func TestReal_LifeOfAJobOverHTTP(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	job := r.call(201, "POST", "/api/v1/enqueue", object{"queue": "mail", "payload": object{"to": "a"}, "max_retries": 2, "retry_base_delay": "1ms", "tags": object{"k": "v"}})
	id := fmt.Sprint(job["job_id"])
	got := r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{"mail"}, "worker_id": "w1", "timeout": 30})
	if got["job_id"] != id || got["attempt"] != 1.0 || got["lease_duration"] != 30.0 || got["lease_token"] == "" {
		t.Fatalf("fetch: %v", got)
	}
	beat := r.call(200, "POST", "/api/v1/heartbeat", object{"worker_id": "w1", "jobs": object{id: object{"progress": 7, "lease_token": got["lease_token"]}}})
	if fmt.Sprint(beat["acked"]) != "["+id+"]" {
		t.Errorf("heartbeat: %v", beat)
	}
	fail := r.call(200, "POST", "/api/v1/fail/"+id, object{"error": "boom", "lease_token": got["lease_token"]})
	if fail["status"] != "retrying" || fail["attempts_remaining"] != 1.0 || fail["next_attempt_at"] == nil {
		t.Errorf("fail: %v", fail)
	}
	r.call(409, "POST", "/api/v1/ack/"+id, object{"lease_token": got["lease_token"]})
	again := r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{"mail"}, "wait": 5})
	if again["job_id"] != id || again["attempt"] != 2.0 {
		t.Fatalf("second fetch: %v", again)
	}
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": again["lease_token"], "result": object{"sent": true}})
	// A repeated ack with the same token is the same success.
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": again["lease_token"], "result": object{"sent": true}})
	view := r.call(200, "GET", "/api/v1/jobs/"+id, nil)
	if view["state"] != "completed" || view["priority"] != 2.0 || fmt.Sprint(view["result"]) != "map[sent:true]" || len(view["errors"].([]any)) != 1 {
		t.Errorf("job: %v", view)
	}
	r.call(200, "POST", "/api/v1/jobs/"+id+"/retry", nil)
	if s := r.call(200, "POST", "/api/v1/jobs/"+id+"/cancel", nil); s["status"] != "cancelled" {
		t.Errorf("cancel: %v", s)
	}
	r.call(200, "DELETE", "/api/v1/jobs/"+id, nil)
	r.call(404, "GET", "/api/v1/jobs/"+id, nil)
	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"mail"}, "wait": 0})
}

func TestReal_UniqueAndIdempotentEnqueues(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	one := r.call(201, "POST", "/api/v1/enqueue", object{"queue": "q", "unique_key": "u"})
	two := r.call(200, "POST", "/api/v1/enqueue", object{"queue": "q", "unique_key": "u"})
	if two["status"] != "duplicate" || two["unique_existing"] != true || two["unique_job_id"] != one["job_id"] {
		t.Errorf("duplicate: %v", two)
	}
	three := r.call(201, "POST", "/api/v1/enqueue", object{"queue": "q"}, "Idempotency-Key", "k")
	four := r.call(200, "POST", "/api/v1/enqueue", object{"queue": "q"}, "Idempotency-Key", "k")
	if three["job_id"] != four["job_id"] || four["unique_existing"] != false {
		t.Errorf("replay: %v then %v", three, four)
	}
	batch := r.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": []object{{"queue": "q"}, {"queue": "r"}}}, "Idempotency-Key", "b")
	again := r.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": []object{{"queue": "q"}, {"queue": "r"}}}, "Idempotency-Key", "b")
	if fmt.Sprint(batch["job_ids"]) != fmt.Sprint(again["job_ids"]) {
		t.Errorf("batch replay: %v then %v", batch, again)
	}
}

func TestReal_RefusalsNameTheirFieldsAndDoNothing(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	p := r.call(400, "POST", "/api/v1/enqueue/batch", object{"jobs": []object{
		{"queue": "ok"}, {"queue": "no/slash", "priority": "urgent", "max_retries": -1, "unique_period": 5},
	}})
	var fields []string
	for _, f := range p["fields"].([]any) {
		fields = append(fields, fmt.Sprint(f.(object)["field"]))
	}
	if got := fmt.Sprint(fields); got != "[jobs[1].queue jobs[1].priority jobs[1].max_retries jobs[1].unique_period]" {
		t.Errorf("fields %s", got)
	}
	if p := r.call(413, "POST", "/api/v1/enqueue", object{"queue": "q", "payload": string(make([]byte, 300<<10))}); p["code"] != "PAYLOAD_TOO_LARGE" {
		t.Errorf("payload: %v", p["code"])
	}
	r.call(400, "POST", "/api/v1/fetch", object{"queues": []string{}})
	r.call(400, "POST", "/api/v1/fetch/batch", object{"queues": []string{"q"}, "count": 1000})
	r.call(400, "POST", "/api/v1/queues/no%2Fslash/pause", nil)
	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"ok"}, "wait": 0})
}

func (r *real) client(opts ...connect.ClientOption) corvov1connect.WorkerServiceClient {
	return corvov1connect.NewWorkerServiceClient(r.h2, r.url, opts...)
}

func (r *real) stream(opts ...connect.ClientOption) *connect.BidiStreamForClient[corvov1.LifecycleStreamRequest, corvov1.LifecycleStreamResponse] {
	s := r.client(opts...).StreamLifecycle(r.Context())
	r.Cleanup(func() { _ = s.CloseRequest(); _ = s.CloseResponse() })
	return s
}

// What the stream workers of generation 1 do, in both of their dialects.
func TestReal_LockstepWorker(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	for name, opts := range map[string][]connect.ClientOption{"connect": nil, "grpc": {connect.WithGRPC()}} {
		s := r.stream(opts...)
		const jobs = 100
		var enq []*corvov1.LifecycleEnqueueItem
		for i := range jobs {
			enq = append(enq, &corvov1.LifecycleEnqueueItem{Queue: name, PayloadJson: fmt.Sprint(i)})
		}
		frame := &corvov1.LifecycleStreamRequest{RequestId: 1, Enqueues: enq}
		done := 0
		for done < jobs {
			if err := s.Send(frame); err != nil {
				t.Fatal(err)
			}
			out, err := s.Receive()
			if err != nil || out.GetError() != "" || out.GetRequestId() != frame.GetRequestId() {
				t.Fatalf("%s: %v %v", name, out, err)
			}
			if int(out.GetAcked()) != len(frame.GetAcks()) {
				t.Fatalf("%s: %d of %d acks counted: %v", name, out.GetAcked(), len(frame.GetAcks()), out.GetAckOutcomes())
			}
			done += int(out.GetAcked())
			frame = &corvov1.LifecycleStreamRequest{RequestId: frame.GetRequestId() + 1, Queues: []string{name}, WorkerId: "w", LeaseDuration: 30, FetchCount: 7}
			for _, j := range out.GetJobs() {
				frame.Acks = append(frame.Acks, &corvov1.AckBatchItem{JobId: j.GetJobId()}) // Old clients have no token.
			}
		}
	}
}

func TestReal_ParkedFetchIsWokenByAnEnqueueOfTheSameStream(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	s := r.stream()
	send := func(f *corvov1.LifecycleStreamRequest) {
		t.Helper()
		if err := s.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	send(&corvov1.LifecycleStreamRequest{RequestId: 1, Pipelined: true, Queues: []string{"q"}, WorkerId: "w", FetchCount: 1, WaitMs: proto.Int64(20_000)})
	send(&corvov1.LifecycleStreamRequest{RequestId: 2, Queues: []string{"other"}, WorkerId: "w", FetchCount: 1, WaitMs: proto.Int64(20_000)})
	send(&corvov1.LifecycleStreamRequest{RequestId: 3, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "q"}}})
	var job *corvov1.FetchBatchJob
	for range 2 {
		out, err := s.Receive()
		if err != nil || out.GetError() != "" {
			t.Fatalf("%v %v", out, err)
		}
		if out.GetRequestId() == 1 {
			job = out.GetJobs()[0]
		}
	}
	send(&corvov1.LifecycleStreamRequest{RequestId: 4, WorkerId: "w", Acks: []*corvov1.AckBatchItem{{JobId: job.GetJobId(), LeaseToken: job.GetLeaseToken()}}})
	if out, err := s.Receive(); err != nil || out.GetAcked() != 1 {
		t.Fatalf("%v %v", out, err)
	}
	send(&corvov1.LifecycleStreamRequest{RequestId: 5, Cancels: []uint64{2}})
	for range 2 {
		out, err := s.Receive()
		if err != nil || out.GetError() != "" || len(out.GetJobs()) != 0 {
			t.Fatalf("%v %v", out, err)
		}
	}
	_ = s.CloseRequest()
	if _, err := s.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("end: %v", err)
	}
}

// Ten producers and ten workers on both interfaces at once: every job is
// completed once.
func TestReal_MixedClientsCompleteEveryJobOnce(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	const producers, each = 10, 20
	var wg sync.WaitGroup
	var mu sync.Mutex
	completed := make(map[string]int)
	total := func() int { mu.Lock(); defer mu.Unlock(); return len(completed) }
	work := func() error {
		got, err := r.try(200, "POST", "/api/v1/fetch/batch", object{"queues": []string{"q"}, "count": 3, "wait": "50ms"})
		if err != nil {
			return err
		}
		for _, j := range got["jobs"].([]any) {
			id := fmt.Sprint(j.(object)["job_id"])
			if _, err := r.try(200, "POST", "/api/v1/ack/"+id, object{"lease_token": j.(object)["lease_token"]}); err != nil {
				return err
			}
			mu.Lock()
			completed[id]++
			mu.Unlock()
		}
		return nil
	}
	for range producers {
		wg.Go(func() {
			for i := range each {
				if _, err := r.try(201, "POST", "/api/v1/enqueue", object{"queue": "q", "payload": i}); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for total() < producers*each && !t.Failed() {
				if err := work(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for id, n := range completed {
		if n != 1 {
			t.Errorf("job %s was completed %d times", id, n)
		}
	}
}
