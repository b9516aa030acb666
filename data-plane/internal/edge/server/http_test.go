package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// One walk through every shape of the contract, in the order of a job's life.
func TestHTTP_EveryAnswerHasItsGoldenShape(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.golden("enqueue", b.post("/api/v1/enqueue", `{"queue":"mail","payload":{"to":"<a&b>"},"priority":"high","tags":{"k":"v"},"unique_key":"u"}`).want(t, 201).body)
	b.golden("enqueue-duplicate", b.post("/api/v1/enqueue", `{"queue":"mail","unique_key":"u"}`).want(t, 200).body)
	b.golden("enqueue-scheduled", b.post("/api/v1/enqueue", `{"queue":"later","scheduled_at":"2030-01-01T00:00:00Z"}`).want(t, 201).body)
	batch := `{"jobs":[{"queue":"a"},{"queue":"b","payload":[1,2]}]}`
	b.golden("enqueue-batch", b.post("/api/v1/enqueue/batch", batch).want(t, 201).body)
	b.golden("enqueue-batch", rebase(b.plain(b.post("/api/v1/enqueue", batch).want(t, 201).body)))

	id1 := b.jobs.nth(1)
	fetched := b.post("/api/v1/fetch", `{"queues":["mail"],"worker_id":"w1","hostname":"h1","timeout":30}`).want(t, 200)
	b.golden("fetch", fetched.body)
	b.golden("heartbeat", b.post("/api/v1/heartbeat",
		`{"jobs":{"`+id1+`":{"progress":42,"checkpoint":{"at":1}},"job_nonsense":{}},"worker_id":"w1"}`).want(t, 200).body)
	b.golden("job-active", b.do("GET", "/api/v1/jobs/"+id1, "").want(t, 200).body)
	b.golden("fail", b.post("/api/v1/fail/"+id1, `{"error":"boom","backtrace":"at x"}`).want(t, 200).body)
	b.golden("job-retrying", b.do("GET", "/api/v1/jobs/"+id1, "").want(t, 200).body)
	b.golden("fetch-batch", b.post("/api/v1/fetch/batch", `{"queues":["a","b"],"count":3,"lease":"90s","wait":0}`).want(t, 200).body)
	b.golden("fetch-batch-empty", b.post("/api/v1/fetch/batch", `{"queues":["none"],"wait":0}`).want(t, 200).body)
	b.golden("ack", b.post("/api/v1/ack/"+b.jobs.nth(3), `{"result":{"ok":true}}`).want(t, 200).body)
	b.golden("ack-batch", b.post("/api/v1/ack/batch",
		`{"acks":[{"job_id":"`+b.jobs.nth(4)+`"},{"job_id":"`+b.jobs.nth(3)+`"},{"job_id":"nonsense"}]}`).want(t, 200).body)
	b.golden("queues", b.do("GET", "/api/v1/queues", "").want(t, 200).body)
	b.golden("pause", b.post("/api/v1/queues/mail/pause", "").want(t, 200).body)
	b.golden("resume", b.post("/api/v1/queues/mail/resume", "").want(t, 200).body)
	b.golden("cancel", b.post("/api/v1/jobs/"+b.jobs.nth(2)+"/cancel", "").want(t, 200).body)
	b.golden("retry", b.post("/api/v1/jobs/"+b.jobs.nth(2)+"/retry", "").want(t, 200).body)
	b.golden("delete", b.do("DELETE", "/api/v1/jobs/"+b.jobs.nth(2), "").want(t, 200).body)
	b.golden("info", b.do("GET", "/api/v1/info", "").want(t, 200).body)
	b.golden("healthz", b.do("GET", "/healthz", "").want(t, 200).body)
	b.golden("openapi", b.do("GET", "/openapi.json", "").want(t, 200).body)
}

var (
	shownTime  = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
	shownToken = regexp.MustCompile(`"lease_token":"[^"]*"`)
)

// plain replaces ids, times and lease tokens by values that are the same in every run.
func (b *bench) plain(body []byte) []byte {
	for i, id := range b.jobs.ids() {
		body = bytes.ReplaceAll(body, []byte(id.String()), []byte(jobNumber(byte(i+1)).String()))
	}
	body = shownTime.ReplaceAll(body, []byte(`"2026-11-30T12:00:00.123456789Z"`))
	return shownToken.ReplaceAll(body, []byte(`"lease_token":"token"`))
}

func (b *bench) golden(name string, body []byte) {
	b.Helper()
	golden(b.T, name, b.plain(body))
}

// rebase gives the second batch the ids of the first, so that both forms of the
// call are held to one file.
func rebase(body []byte) []byte {
	for i := byte(0); i < 2; i++ {
		body = bytes.ReplaceAll(body, []byte(jobNumber(5+i).String()), []byte(jobNumber(3+i).String()))
	}
	return body
}

func TestHTTP_PayloadComesBackByteForByte(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	const payload = `{"html":"<b>&</b>","n":1.50,"big":123456789012345678901234567890,"u":"\u00e9\ud83d\ude00"}`
	b.post("/api/v1/enqueue", `{"queue":"q","payload":`+payload+`}`).want(t, 201)
	var got struct{ Payload json.RawMessage }
	b.post("/api/v1/fetch", `{"queues":["q"],"wait":0}`).want(t, 200).into(t, &got)
	if string(got.Payload) != payload {
		t.Fatalf("payload came back as %s", got.Payload)
	}
}

func TestValidation_NamesEveryFieldAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	p := b.post("/api/v1/enqueue/batch", `{"jobs":[
		{"queue":"ok"},
		{"payload":1,"max_retries":"three","priority":"urgent","retry_backoff":"sometimes","retry_base_delay":"soon","scheduled_at":"tomorrow","tags":{"a":1},"unique_period":-1},
		{"queue":7,"depends_on":["x"],"chain":{"steps":[]},"retry_base_delay_ms":1.5},
		[]
	]}`).want(t, 400).problem(t)
	if p.Code != "VALIDATION_ERROR" || p.Status != 400 || p.Title == "" || p.RequestID == "" {
		t.Errorf("problem = %+v", p)
	}
	got := make(map[string]bool)
	for _, f := range p.Fields {
		if got[f.Field] {
			t.Errorf("%s is named twice", f.Field)
		}
		got[f.Field] = true
		if !strings.Contains(p.Error, f.Field) {
			t.Errorf("error text does not name %s: %s", f.Field, p.Error)
		}
	}
	for _, want := range []string{
		"jobs[1].queue", "jobs[1].max_retries", "jobs[1].priority", "jobs[1].retry_backoff", "jobs[1].retry_base_delay", "jobs[1].scheduled_at", "jobs[1].tags.a", "jobs[1].unique_period",
		"jobs[2].queue", "jobs[2].depends_on[0]", "jobs[2].chain.steps", "jobs[2].retry_base_delay_ms", "jobs[3]",
	} {
		if !got[want] {
			t.Errorf("problem does not name %s; it names %v", want, p.Fields)
		}
	}
	if calls := b.jobs.commands(); calls != 0 {
		t.Errorf("a refused request did %d things", calls)
	}
}

func TestValidation_UseCaseFieldsKeepTheirPaths(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	p := b.post("/api/v1/enqueue", `{"queue":"a/b","priority":"urgent","max_retries":-1}`).want(t, 400).problem(t)
	if len(p.Fields) != 3 || p.Fields[0].Field != "queue" || p.Fields[1].Field != "priority" || p.Fields[2].Field != "max_retries" {
		t.Fatalf("fields = %+v", p.Fields)
	}
}

func TestParse_AmbiguousJSONIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for name, body := range map[string]string{
		"not JSON":            `{"queue":`,
		"trailing text":       `{"queue":"q"} x`,
		"duplicate member":    `{"queue":"q","queue":"r"}`,
		"escaped duplicate":   `{"queue":"q","qu\u0065ue":"r"}`,
		"duplicate in nested": `{"queue":"q","payload":{"a":{"b":1,"b":2}}}`,
		"invalid UTF-8":       "{\"queue\":\"q\",\"payload\":\"\xff\"}",
		"too deep":            `{"queue":"q","payload":` + deep + `}`,
		"control character":   "{\"queue\":\"q\nr\"}",
	} {
		p := b.post("/api/v1/enqueue", body).want(t, 400).problem(t)
		if p.Code != "PARSE_ERROR" {
			t.Errorf("%s: code %s", name, p.Code)
		}
	}
	if calls := b.jobs.commands(); calls != 0 {
		t.Errorf("refused requests did %d things", calls)
	}
}

func TestParse_BlankMembersOfOldClientsAreIgnored(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.post("/api/v1/enqueue", `{"queue":"q","agent":null,"parent_id":"","depends_on":[],"retry_base_delay":""}`).want(t, 201)
}

func TestBody_TooLargeIs413(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	huge := `{"queue":"q","payload":"` + strings.Repeat("x", RequestBytesMax) + `"}`
	if p := b.post("/api/v1/enqueue", huge).want(t, 413).problem(t); p.Code != "PAYLOAD_TOO_LARGE" {
		t.Errorf("code %s", p.Code)
	}
	// Without a Content-Length the limit is met while reading.
	req, _ := http.NewRequestWithContext(t.Context(), "POST", b.url+"/api/v1/enqueue", io.MultiReader(strings.NewReader(huge)))
	resp, err := b.h2.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("chunked: status %d", resp.StatusCode)
	}
}

func TestUnknownAddressesAndMethods(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, path := range []string{"/", "/api/v1/nothing", "/api/v2/enqueue", "/api/v1//enqueue", "/api/v1/./enqueue", "/api/v1/x/../enqueue", "/api/v1/enqueue/"} {
		a := b.post(path, `{"queue":"q"}`)
		if a.status != 404 || a.problem(t).Code != "NOT_FOUND" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	a := b.do("GET", "/api/v1/enqueue", "").want(t, 405)
	if a.header.Get("Allow") != "POST" || a.problem(t).Code != "METHOD_NOT_ALLOWED" {
		t.Errorf("405: Allow %q, %s", a.header.Get("Allow"), a.body)
	}
	if got := b.do("PUT", "/api/v1/jobs/x", "").want(t, 405).header.Get("Allow"); got != "GET, DELETE" {
		t.Errorf("Allow = %q", got)
	}
}

// failing is the response of a route whose use case fails with err.
func (b *bench) failing(err error) answerOf {
	w := httptest.NewRecorder()
	route := &Route{Method: "GET", Pattern: "/", Permission: permission.JobList, handle: func(*call) error { return err }}
	b.srv.handler(route).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return answerOf{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
}

func TestErrorTable_RowByRow(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, row := range []struct {
		err    error
		status int
		code   string
	}{
		{fault.New(fault.Invalid, "", "x"), 400, "VALIDATION_ERROR"},
		{fault.New(fault.NotFound, "", "x"), 404, "NOT_FOUND"},
		{fault.New(fault.Conflict, "NOT_ACTIVE", "x"), 409, "NOT_ACTIVE"},
		{fault.New(fault.Conflict, "", "x"), 409, "CONFLICT"},
		{fault.New(fault.Unauthorized, "", "x"), 401, "UNAUTHORIZED"},
		{fault.New(fault.Forbidden, "", "x"), 403, "FORBIDDEN"},
		{fault.New(fault.TooLarge, "", "x"), 413, "PAYLOAD_TOO_LARGE"},
		{&fault.Error{Code: fault.Exhausted, RetryAfter: 3 * time.Millisecond}, 429, "OVERLOADED"},
		{fault.New(fault.Exhausted, "RATE_LIMITED", "x"), 429, "RATE_LIMITED"},
		{fault.New(fault.NotLeader, "", "x"), 503, "LEADER_UNAVAILABLE"},
		{fault.New(fault.Unavailable, "", "x"), 503, "LEADER_UNAVAILABLE"},
		{fault.New(fault.UnknownOutcome, "", "x"), 503, "UNKNOWN_OUTCOME"},
		{fmt.Errorf("propose: %w", context.DeadlineExceeded), 503, "UNKNOWN_OUTCOME"},
		{errors.New("secret path /data/x"), 500, "INTERNAL_ERROR"},
		{fmt.Errorf("wrapped: %w", fault.New(fault.NotFound, "", "x")), 404, "NOT_FOUND"},
	} {
		a := b.failing(row.err)
		p := a.problem(t)
		if a.status != row.status || string(p.Code) != row.code || p.Status != row.status {
			t.Errorf("%v: got %d %s, want %d %s", row.err, a.status, p.Code, row.status, row.code)
		}
		if a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("X-Request-Id") != p.RequestID {
			t.Errorf("%v: headers %v", row.err, a.header)
		}
		if retryable := row.status == 429 || row.status == 503; retryable != (a.header.Get("Retry-After") != "") {
			t.Errorf("%v: Retry-After %q", row.err, a.header.Get("Retry-After"))
		}
		if bytes.Contains(a.body, []byte("secret")) {
			t.Errorf("the text of an internal error was shown: %s", a.body)
		}
	}
	a := b.failing(&fault.Error{Code: fault.Exhausted, RetryAfter: 3 * time.Millisecond})
	if a.header.Get("Retry-After") != "0.003" || a.problem(t).RetryAfterMS != 3 {
		t.Errorf("Retry-After %q, body %s", a.header.Get("Retry-After"), a.body)
	}
}

func TestJobErrors_AreNotAll400(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
	id := b.jobs.nth(1)
	for _, row := range []struct {
		path, body string
		status     int
		code       string
	}{
		{"/api/v1/ack/" + id, "", 409, "NOT_ACTIVE"},
		{"/api/v1/fail/" + id, `{"error":"x"}`, 409, "NOT_ACTIVE"},
		{"/api/v1/ack/" + jobNumber(9).String(), "", 404, "NOT_FOUND"},
		{"/api/v1/ack/not-an-id", "", 404, "NOT_FOUND"},
		{"/api/v1/fail/not-an-id", "", 404, "NOT_FOUND"},
		{"/api/v1/jobs/not-an-id/cancel", "", 404, "NOT_FOUND"},
		{"/api/v1/jobs/" + id + "/retry", "", 409, "CONFLICT"},
		{"/api/v1/ack/" + id, `{"usage":{"input_tokens":"1"}}`, 400, "VALIDATION_ERROR"},
		{"/api/v1/ack/" + id, `{"agent_status":1}`, 400, "VALIDATION_ERROR"},
	} {
		a := b.post(row.path, row.body)
		if a.status != row.status || string(a.problem(t).Code) != row.code {
			t.Errorf("%s: %d %s", row.path, a.status, a.body)
		}
	}
	var stale wire.FetchedJob
	b.post("/api/v1/fetch", `{"queues":["q"],"wait":0}`).want(t, 200).into(t, &stale)
	b.post("/api/v1/fail/"+id, `{"error":"worker_shutdown"}`).want(t, 200)
	b.post("/api/v1/fetch", `{"queues":["q"],"wait":0}`).want(t, 200)
	if p := b.post("/api/v1/ack/"+id, `{"lease_token":"`+stale.LeaseToken+`"}`).want(t, 409).problem(t); p.Code != "LEASE_LOST" {
		t.Errorf("stale token: %+v", p)
	}
}

func TestFetch_LoneTimeoutIsLeaseAndWait(t *testing.T) {
	t.Parallel()
	s := func(n float64) *time.Duration { d := time.Duration(n * float64(time.Second)); return &d }
	for _, row := range []struct {
		name                 string
		timeout, lease, wait *time.Duration
		wantLease, wantWait  time.Duration
	}{
		{name: "nothing", wantWait: 28 * time.Second},
		{name: "python's 30", timeout: s(30), wantLease: 30 * time.Second, wantWait: 28 * time.Second},
		{name: "go's 60", timeout: s(60), wantLease: 60 * time.Second, wantWait: 58 * time.Second},
		{name: "long", timeout: s(600), wantLease: 600 * time.Second, wantWait: 58 * time.Second},
		{name: "zero, as a typed client leaves it", timeout: s(0), wantWait: 28 * time.Second},
		{name: "short", timeout: s(1), wantLease: time.Second, wantWait: time.Second},
		{name: "both", lease: s(90), wait: s(5), wantLease: 90 * time.Second, wantWait: 5 * time.Second},
		{name: "wait alone is exact", wait: s(30), wantWait: 30 * time.Second},
		{name: "lease alone", lease: s(90), wantLease: 90 * time.Second, wantWait: 28 * time.Second},
		{name: "lease beside timeout", timeout: s(30), lease: s(90), wantLease: 90 * time.Second, wantWait: 28 * time.Second},
	} {
		req := fetchRequest{timeout: row.timeout, lease: row.lease, wait: row.wait}
		in := req.input()
		if in.Lease != row.wantLease || in.Wait != row.wantWait {
			t.Errorf("%s: lease %v wait %v, want %v %v", row.name, in.Lease, in.Wait, row.wantLease, row.wantWait)
		}
	}
}

func TestFetch_NothingIs204AndForTheRustClientAnEmptyJob(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	if a := b.post("/api/v1/fetch", `{"queues":["q"],"wait":0}`).want(t, 204); len(a.body) != 0 {
		t.Errorf("204 with body %s", a.body)
	}
	for _, agent := range []string{"reqwest/0.12", ""} { // By itself reqwest sends none.
		a := b.post("/api/v1/fetch", `{"queues":["q"],"wait":"0s"}`, "User-Agent", agent).want(t, 200)
		golden(t, "fetch-nothing-rust", a.body)
	}
}

func TestFetch_LongPollIsWokenByAnEnqueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	got := make(chan answerOf, 1)
	go func() { got <- b.post("/api/v1/fetch", `{"queues":["q"],"wait":20}`) }()
	eventually.True(t, patience, "the fetch waits", func() bool { return b.jobs.parked() == 1 })
	b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
	eventually.Returns(t, 5*time.Second, "the long poll", func() { (<-got).want(t, 200) })
}

func TestFetch_LongPollEndsOnDrain(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	got := make(chan answerOf, 2)
	go func() { got <- b.post("/api/v1/fetch", `{"queues":["q"],"timeout":30}`) }()
	go func() { got <- b.post("/api/v1/fetch/batch", `{"queues":["q"],"timeout":30}`) }()
	eventually.True(t, patience, "both fetches wait", func() bool { return b.jobs.parked() == 2 })
	if err := b.srv.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually.Returns(t, 5*time.Second, "the long polls", func() {
		one, two := <-got, <-got
		if one.status+two.status != 204+200 {
			t.Errorf("status %d and %d, want 204 and 200", one.status, two.status)
		}
	})
	b.do("GET", "/readyz", "").want(t, 503)
	b.do("GET", "/healthz", "").want(t, 200)
}

// leaving is the context of a client that turns out to have left once its job is granted.
type leaving struct {
	context.Context
	jobs *local
}

func (l leaving) Err() error {
	if l.jobs.stateOf(l.jobs.ids()[0]) == job.Active {
		return context.Canceled
	}
	return nil
}

func TestFetch_JobsOfAClientThatLeftAreGivenBack(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/v1/fetch", "/api/v1/fetch/batch", corvov1connect.WorkerServiceFetchProcedure} {
		b := newBench(t, benchOptions{})
		b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
		before := b.jobs.commands()
		r := httptest.NewRequestWithContext(leaving{t.Context(), b.jobs}, "POST", path, strings.NewReader(`{"queues":["q"]}`))
		r.Header.Set("Content-Type", "application/json")
		b.srv.ServeHTTP(httptest.NewRecorder(), r)
		j, err := b.jobs.Job(t.Context(), callerIn(nsA), b.jobs.ids()[0])
		if err != nil || j.State != wire.Pending || j.Attempt != 0 || b.jobs.commands() < before+2 {
			t.Errorf("%s: the job is %s after %d attempts and %d commands, %v", path, j.State, j.Attempt, b.jobs.commands()-before, err)
		}
	}
}

func TestEnqueue_IdempotencyKeyComesFromHeaderOrBody(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	p := b.post("/api/v1/enqueue", `{"queue":"q","idempotency_key":"one"}`, "Idempotency-Key", "two").want(t, 400).problem(t)
	if len(p.Fields) != 1 || p.Fields[0].Field != "idempotency_key" {
		t.Errorf("fields %+v", p.Fields)
	}
	b.post("/api/v1/enqueue", `{"queue":"q","idempotency_key":"one"}`, "Idempotency-Key", "one").want(t, 201)
}

func TestHeaders_TimingIndexAndRequestID(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	a := b.post("/api/v1/enqueue", `{"queue":"q"}`).want(t, 201)
	if got := a.header.Get("Server-Timing"); !strings.HasPrefix(got, "proc;dur=") {
		t.Errorf("Server-Timing = %q", got)
	}
	if a.header.Get("X-Corvo-Index") != "7" || a.header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", a.header)
	}
}

func TestHealth_SaysWhyNot(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{Options: Options{Health: func(context.Context) Health {
		return Health{Working: true, RaftState: "follower", Reason: "no leader"}
	}}})
	b.do("GET", "/healthz", "").want(t, 200)
	p := b.do("GET", "/readyz", "").want(t, 503).problem(t)
	if p.Code != "UNHEALTHY" || p.Error != "no leader" {
		t.Errorf("problem %+v", p)
	}
}

func TestRuntime_ReportsTheProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	var got wire.Runtime
	b.do("GET", "/api/v1/debug/runtime", "").want(t, 200).into(t, &got)
	if got.Goroutines == 0 || got.GoMaxProcs == 0 || got.HeapInuseBytes == 0 || got.CPUUserNS == 0 || got.MaxRSSBytes == 0 {
		t.Errorf("runtime = %+v", got)
	}
	b.do("GET", "/api/v1/cluster/status", "").want(t, 501)
}

// Stored data and text from a path are never taken for a page, not even in a refusal.
func TestHTTP_EveryAnswerSaysNosniff(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/nowhere", ""}, {"DELETE", "/api/v1/enqueue", ""}, {"POST", "/api/v1/enqueue", "{"}, {"GET", "/api/v1/queues", ""},
		{"GET", "/api/v1//queues", ""}, {"POST", "/corvo.v1.WorkerService/Enqueue", "{}"}, {"GET", "/healthz", ""},
	} {
		if a := b.do(c.method, c.path, c.body); a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %d %v", c.method, c.path, a.status, a.header)
		}
	}
}
