package server

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// What existing clients do, row by row of the contract's table; docs/traps.md says
// which tests elsewhere hold the other rows.

// All: on SIGTERM a final heartbeat, then each job left is failed with worker_shutdown.
func TestGen1_WorkerShutdownBurnsNoRetry(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	for i, fail := range []func(c *optionClient, id string){
		func(c *optionClient, id string) { c.done("/api/v1/fail/"+id, object{"error": "worker_shutdown"}) },
		func(c *optionClient, id string) {
			c.done(service+"Fail", object{"jobId": id, "error": "worker_shutdown"})
		},
		func(c *optionClient, id string) {
			c.settleFrame(object{"fails": []any{object{"jobId": id, "error": "worker_shutdown"}}})
		},
	} {
		c := &optionClient{bench: e.bench.as(t), ns: job.Namespace{15: byte(i)}}
		id := c.postFor("job_id", "/api/v1/enqueue", object{"queue": "q", "max_retries": 1})
		for range 3 { // However many deploys there are.
			c.postFor("job_id", "/api/v1/fetch", object{"queues": []string{"q"}, "timeout": 30})
			c.done("/api/v1/heartbeat", object{"jobs": object{id: object{}}})
			fail(c, id)
		}
		if j := e.read(t, c.ns, id); j.State != job.Pending || j.Attempt != 0 || len(j.Errors) != 0 {
			t.Errorf("way %d: %s after %d attempts, errors %v", i, j.State, j.Attempt, j.Errors)
		}
	}
}

// Go and Rust: progress is an integer, where the earlier server wanted an object.
func TestGen1_HeartbeatProgressIsAnInteger(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	c := &optionClient{bench: e.bench.as(t), ns: nsA}
	id := c.postFor("job_id", "/api/v1/enqueue", object{"queue": "q"})
	c.done("/api/v1/fetch", object{"queues": []string{"q"}, "timeout": 30})
	for _, beat := range []func(){
		func() { c.done("/api/v1/heartbeat", object{"jobs": object{id: object{"progress": 42}}}) },
		func() { c.done(service+"Heartbeat", object{"jobs": object{id: object{"progressJson": "42"}}}) },
	} {
		beat()
		if j := e.read(t, nsA, id); string(j.Progress) != "42" {
			t.Errorf("progress %s", j.Progress)
		}
	}
}

// Go, TypeScript and Rust read acked, unknown and canceled, which Rust can not do
// without, while the workers read jobs.
func TestGen1_HeartbeatAnswersBothShapes(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
	b.post("/api/v1/fetch", `{"queues":["q"],"wait":0}`).want(t, 200)
	id := b.jobs.nth(1)
	got := string(b.post("/api/v1/heartbeat", `{"jobs":{"`+id+`":{}}}`).want(t, 200).body)
	want := `{"jobs":{"` + id + `":{"status":"ok"}},"acked":["` + id + `"],"unknown":[],"canceled":[]}`
	if strings.TrimSpace(got) != want {
		t.Errorf("heartbeat answers %s, want %s", got, want)
	}
	b.post("/api/v1/heartbeat", `{}`).want(t, 200)
}

// Rust sends its first frame only when it has the response's headers.
func TestGen1_StreamHeadersComeBeforeTheFirstFrame(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, contentType := range []string{"application/grpc", "application/connect+proto"} {
		body, frames := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), "POST", b.url+corvov1connect.WorkerServiceStreamLifecycleProcedure, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Te", "trailers")
		eventually.Returns(t, 5*time.Second, "headers of "+contentType, func() {
			resp, err := b.h2.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != contentType {
				t.Errorf("%s: %d %v", contentType, resp.StatusCode, resp.Header)
			}
			_ = frames.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	}
}

// All: versions are compared, so they are semver.
func TestGen1_InfoIsSemver(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	var info wire.Info
	b.do("GET", "/api/v1/info", "").want(t, 200).into(t, &info)
	semver := regexp.MustCompile(`^\d+\.\d+\.\d+`)
	if !semver.MatchString(info.ServerVersion) || !semver.MatchString(info.APIVersion) {
		t.Errorf("info = %+v", info)
	}
}

// The RPC surface of 0.3.0: only the first fields of each message, no token.
func TestGen1_UnaryLifeWithoutTokenOrOptions(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	c := &optionClient{bench: e.bench.as(t), ns: nsA}
	for name, opts := range map[string][]connect.ClientOption{"Go": nil, "Python and Rust": {connect.WithGRPC()}} {
		rpc := c.rpc(opts...)
		add := must(rpc.Enqueue(t.Context(), withNamespace(c, &corvov1.EnqueueRequest{Queue: "q"})))(t)
		got := must(rpc.Fetch(t.Context(), withNamespace(c, &corvov1.FetchRequest{Queues: []string{"q"}, WorkerId: "w", Hostname: "h", LeaseDuration: 30})))(t)
		if got.GetJobId() != add.GetJobId() || got.GetPayloadJson() != "{}" || got.GetLeaseDuration() != 30 {
			t.Fatalf("%s: fetched %v", name, got)
		}
		beat := must(rpc.Heartbeat(t.Context(), withNamespace(c, &corvov1.HeartbeatRequest{Jobs: map[string]*corvov1.HeartbeatJobUpdate{
			got.GetJobId(): {StreamDelta: "ignored"},
		}})))(t)
		if beat.GetJobs()[got.GetJobId()].GetStatus() != "ok" {
			t.Errorf("%s: heartbeat %v", name, beat)
		}
		must(rpc.Ack(t.Context(), withNamespace(c, &corvov1.AckRequest{JobId: got.GetJobId(), TraceJson: "ignored"})))(t)
		if j := e.read(t, nsA, got.GetJobId()); j.State != job.Completed || j.HasCheckpoint() || j.Result != nil {
			t.Errorf("%s: job %+v", name, j)
		}
	}
}

// Unary: overload is ResourceExhausted, and its text says when to retry.
func TestGen1_OverloadSaysRetryAfterInItsText(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	busy := &fault.Error{Code: fault.Exhausted, Message: "busy", RetryAfter: 3 * time.Millisecond}
	if err := rpcError(t.Context(), quiet(), busy); connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "retry_after_ms=3") {
		t.Errorf("RPC: %v", err)
	}
	a := b.failing(busy).want(t, 429)
	if a.header.Get("Retry-After") != "0.003" || a.problem(t).RetryAfterMS != 3 {
		t.Errorf("HTTP: %v %s", a.header, a.body)
	}
}

// Generation 2 sends many jobs to the same address, and reads ids in its own way.
func TestGen2_MultiFormAnswersTheSuperset(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	var got struct {
		JobIDs []string `json:"job_ids"`
		Jobs   []struct{ ID, Queue, State string }
	}
	b.post("/api/v1/enqueue", `{"jobs":[{"queue":"q","retry_base_delay_ms":10,"retry_max_delay_ms":20,"group":"g"},{"queue":"r"}]}`).want(t, 201).into(t, &got)
	if len(got.JobIDs) != 2 || len(got.Jobs) != 2 || got.Jobs[1].ID != got.JobIDs[1] || got.Jobs[1].Queue != "r" || got.Jobs[1].State != "pending" {
		t.Errorf("answer %+v", got)
	}
}

// Generation 2 reads unique_job_id; a held key is 200 and not 409.
func TestGen2_UniqueConflictIs200WithTheHolder(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	var first, second wire.Enqueued
	b.post("/api/v1/enqueue", `{"queue":"q","unique_key":"u"}`).want(t, 201).into(t, &first)
	b.post("/api/v1/enqueue", `{"queue":"q","unique_key":"u"}`).want(t, 200).into(t, &second)
	if first.UniqueJobID != "" || first.Job.ID != first.JobID || first.Job.State != "pending" {
		t.Errorf("first %+v", first)
	}
	if second.Status != "duplicate" || !second.UniqueExisting || second.UniqueJobID != first.JobID || second.JobID != first.JobID || second.Job.ID != first.JobID {
		t.Errorf("second %+v", second)
	}
}

// Typed clients send the zero value of what their user did not set.
func TestGenerations_AZeroValueIsNotSet(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	c := &optionClient{bench: e.bench.as(t), ns: nsA}
	zeros := object{
		"queue": "q", "scheduled_at": "", "expire_after": "", "retry_base_delay": "", "unique_key": "", "unique_period": 0, "tags": object{},
		"parent_id": "", "chain_id": "", "chain_step": 0, "chain_config": object{}, "depends_on": []any{}, "batch_id": "",
		"agent": object{"iteration_timeout": "", "max_iterations": 3},
	}
	id := c.postFor("job_id", "/api/v1/enqueue", zeros)
	if j := e.read(t, nsA, id); j.State != job.Pending {
		t.Errorf("the job is %s", j.State)
	}
	keyed := c.postFor("job_id", "/api/v1/enqueue", object{"queue": "q", "unique_key": "k", "unique_period": 0})
	if again := c.postFor("job_id", "/api/v1/enqueue", object{"queue": "q", "unique_key": "k"}); again != keyed {
		t.Errorf("a period of 0 locks nothing: %s, then %s", keyed, again)
	}
}
