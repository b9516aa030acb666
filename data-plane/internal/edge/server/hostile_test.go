package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// hostileTexts are what has broken parsers, queries, keys and logs before. All are
// valid text: they are read back as they were sent.
var hostileTexts = []string{
	"\x00", "a\x00b", "::", "default::x", "|", "a|b", "/", "../../etc/passwd", "%2e%2e%2f", "%", "_", "*", "?", "#", ":", ",", "",
	"'; DROP TABLE jobs; --", `" OR 1=1 --`, "1) OR (1=1", "`", "\\", "\\u0000", "$.a", "{{7*7}}", "${jndi:ldap://x}", "<script>alert(1)</script>",
	"\r\nX-Injected: 1", "\n\n", "\t", "\x1b[31m", "\x7f", "\u0085", "\u2028", "\u202egnp.exe", "\u200b", "\ufeff", "\ufffd", "\ufffe",
	"mаil", "ｍａｉｌ", "ﬀ", "İ", "e\u0301", "é", "🧨", "𐏿", strings.Repeat("é", 100),
}

// Every text is data, on its way in and in a search for it.
func TestTrap55_TextsAreReadBackAsTheyWereSentAndFindOnlyTheirJob(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	c := r.client()
	want, texts := make(map[string]string), make(map[string]string) // Job and text of each key.
	for i, s := range hostileTexts {
		key := fmt.Sprintf("%d%s", i, s)
		texts[key] = s
		tags := map[string]string{"t": key, key: s}
		if i%2 == 0 {
			want[key] = r.enqueue("h", object{"tags": tags, "unique_key": key, "idempotency_key": key, "max_retries": 5})
		} else {
			m, err := c.Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: "h", Options: &corvov1.EnqueueOptions{
				Tags: tags, UniqueKey: key, IdempotencyKey: key, MaxRetries: proto.Int32(5),
			}}))
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			want[key] = m.Msg.GetJobId()
		}
		// Both keys find their job again, and no other.
		again := r.call(200, "POST", "/api/v1/enqueue", object{"queue": "h", "unique_key": key})
		replayed := r.call(200, "POST", "/api/v1/enqueue", object{"queue": "h", "idempotency_key": key})
		if again["job_id"] != want[key] || replayed["job_id"] != want[key] {
			t.Errorf("%q: unique key finds %v, idempotency key %v, want %s", s, again["job_id"], replayed["job_id"], want[key])
		}
		g := r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{"h"}, "worker_id": key, "hostname": key, "wait": 5})
		if g["job_id"] != want[key] || g["tags"].(object)[key] != s {
			t.Errorf("%q: fetched %v", s, g)
		}
		r.call(200, "POST", "/api/v1/fail/"+want[key], object{"error": key, "backtrace": key, "lease_token": g["lease_token"]})
		j := r.call(200, "GET", "/api/v1/jobs/"+want[key], nil)
		failure, _ := j["errors"].([]any)[0].(object)
		if j["unique_key"] != key || j["worker_id"] != key || j["hostname"] != key || failure["error"] != key || failure["backtrace"] != key ||
			j["tags"].(object)["t"] != key || j["tags"].(object)[key] != s {
			t.Errorf("%q came back as %v", s, j)
		}
	}
	for key, id := range want {
		for what, filter := range map[string]object{
			"tag value": {"tags": object{"t": key}}, "tag key": {"tags": object{key: texts[key]}}, "worker": {"worker_id": key},
		} {
			jobs := r.call(200, "POST", "/api/v1/jobs/search", filter)["jobs"].([]any)
			if len(jobs) != 1 || jobs[0].(object)["id"] != id {
				t.Errorf("search by %s %q finds %v, want %s", what, key, jobs, id)
			}
		}
		if ids, _ := r.listed("?tag=" + url.QueryEscape("t:"+key)); len(ids) != 1 || ids[0] != id {
			t.Errorf("list of tag %q: %v", key, ids)
		}
	}
}

// An invalid name is refused by its field, wherever it is used.
func TestTrap58_QueueNamesAreRefusedByFieldOnEveryPath(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	c := r.client()
	stream := r.stream()
	id := uint64(0)
	for _, name := range append(hostileTexts, strings.Repeat("q", 129), ".hidden", "-dash", "q ", " q") {
		if name == "_" {
			name = "_q"
		}
		text, _ := json.Marshal(name)
		for path, body := range map[string]string{
			"queue=/api/v1/enqueue":               fmt.Sprintf(`{"queue":%s}`, text),
			"jobs[1].queue=/api/v1/enqueue":       fmt.Sprintf(`{"jobs":[{"queue":"q"},{"queue":%s}]}`, text),
			"jobs[1].queue=/api/v1/enqueue/batch": fmt.Sprintf(`{"jobs":[{"queue":"q"},{"queue":%s}]}`, text),
			"queues[1]=/api/v1/fetch":             fmt.Sprintf(`{"queues":["q",%s],"wait":0}`, text),
			"queues[1]=/api/v1/fetch/batch":       fmt.Sprintf(`{"queues":["q",%s],"wait":0}`, text),
		} {
			field, path, _ := strings.Cut(path, "=")
			if status, answer := r.post(path, []byte(body)); status != 400 || !strings.Contains(answer, `"field":"`+field+`"`) {
				t.Errorf("%s %s: %d %s", path, body, status, answer)
			}
		}
		if segment := url.PathEscape(name); name != "" {
			for _, path := range []string{"webhooks/" + segment, "queues/" + segment + "/pause", "queues/" + segment + "/concurrency"} {
				if status, answer := r.post("/api/v1/"+path, []byte(`{}`)); status != 400 && status != 404 {
					t.Errorf("%s: %d %s", path, status, answer)
				}
			}
		}
		for _, err := range []error{
			second(c.Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: name}))),
			second(c.EnqueueBatch(t.Context(), connect.NewRequest(&corvov1.EnqueueBatchRequest{Jobs: []*corvov1.EnqueueRequest{{Queue: "q"}, {Queue: name}}}))),
			second(c.Fetch(t.Context(), connect.NewRequest(&corvov1.FetchRequest{Queues: []string{name}, WaitMs: proto.Int64(0)}))),
		} {
			if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "queue") {
				t.Errorf("RPC with queue %q: %v", name, err)
			}
		}
		id++
		if err := stream.Send(&corvov1.LifecycleStreamRequest{RequestId: id, Pipelined: true, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "q"}, {Queue: name}}}); err != nil {
			t.Fatal(err)
		}
		m, err := stream.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if v := m.GetViolations(); len(v) != 1 || v[0].GetField() != "enqueues[1].queue" {
			t.Errorf("stream with queue %q: %v", name, m)
		}
	}
	if qs, answer := r.get("/api/v1/queues"); qs != 200 || answer != "[]\n" {
		t.Errorf("refused names made queues: %s", answer)
	}
}

func second[T any](_ T, err error) error { return err }

func (r *real) get(path string) (int, string) {
	r.Helper()
	return r.send("GET", path, nil)
}

// Malformed ids, tokens, cursors, numbers and times are refused by name or match nothing;
// none of them is an internal error, and none changes anything.
func TestTrap113_MalformedValuesAreRefused(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	job := r.enqueue("q", nil)
	tag := r.enqueue("q", object{"tags": object{"k": "v"}})
	for _, s := range append(hostileTexts, job+"\x00", strings.ToLower(job), job[:29], job+"0", "job_"+strings.Repeat("Z", 26), tag[4:]) {
		text, _ := json.Marshal(s)
		esc := url.PathEscape(s)
		for path, body := range map[string]string{
			"ack/" + esc: `{}`, "fail/" + esc: `{}`, "jobs/" + esc + "/cancel": ``, "jobs/" + esc + "/retry": ``,
			"ack/" + job: fmt.Sprintf(`{"lease_token":%s}`, text), "fail/" + job: fmt.Sprintf(`{"lease_token":%s,"error":"x"}`, text),
			"jobs/search":              fmt.Sprintf(`{"cursor":%s,"queue":"q","worker_id":"x"}`, text),
			"jobs/search?":             fmt.Sprintf(`{"state":[%s],"queue":%s,"priority":%s,"sort":%s,"order":%s,"created_after":%s}`, text, text, text, text, text, text),
			"enqueue":                  fmt.Sprintf(`{"queue":"q","priority":%s,"retry_backoff":%s,"scheduled_at":%s,"parent_id":%s,"traceparent":%s,"max_retries":%s}`, text, text, text, text, text, text),
			"enqueue?":                 fmt.Sprintf(`{"queue":"q","payload":{"a":1},"retry_base_delay":%s,"max_retries":[%s]}`, text, text),
			"fetch?":                   fmt.Sprintf(`{"queues":["q"],"timeout":[%s]}`, text),
			"webhooks/q?" + esc + "=1": `{}`, "webhooks/q?scheduled_at=" + url.QueryEscape(s) + "x": `{}`,
		} {
			status, answer := r.post("/api/v1/"+path, []byte(body))
			if s == "" && status < 300 && path == "jobs/search" || status == 307 {
				continue // No cursor is the first page.
			}
			if status < 400 || status >= 500 {
				t.Errorf("%q %s %s: %d %s", s, path, body, status, answer)
			}
		}
		for _, path := range []string{"jobs?cursor=", "jobs?state=", "jobs?order=", "jobs?limit=", "jobs?created_after=", "events?last_event_id=", "events?job_ids=", "events?types=", "jobs?x"} {
			if strings.Trim(s, ", \n\t\r\u0085\u2028") == "" {
				continue // Says nothing.
			}
			if status, answer := r.get("/api/v1/" + path + url.QueryEscape(s)); status != 400 {
				t.Errorf("GET %s%q: %d %.300s", path, s, status, answer)
			}
		}
		if esc != "" {
			if status, answer := r.get("/api/v1/jobs/" + esc); status != 404 && status != 307 && status != 400 {
				t.Errorf("GET job %q: %d %s", s, status, answer)
			}
		}
	}
	for _, n := range []string{"-1", "0", "1.5", "1e400", "99999999999999999999999", "-0", "1e3", "9223372036854775808", `"7"`, "true", "{}", "[1]"} {
		for _, field := range []string{"max_retries", "unique_period", "retry_base_delay_ms", "retry_max_delay_ms"} {
			zeroOK := n == "0" || n == "-0"
			status, answer := r.post("/api/v1/enqueue", fmt.Appendf(nil, `{"queue":"numbers","unique_key":"u","%s":%s}`, field, n))
			if !zeroOK && (status != 400 || !strings.Contains(answer, `"field":"`+strings.TrimSuffix(field, "_ms"))) {
				t.Errorf("%s %s: %d %s", field, n, status, answer)
			}
		}
		for _, field := range []string{"count", "wait", "lease"} {
			status, answer := r.post("/api/v1/fetch/batch", fmt.Appendf(nil, `{"queues":["none"],"wait":0,"%s":%s}`, field+"_", n))
			if status != 400 || !strings.Contains(answer, `"field":"`+field+`_"`) {
				t.Errorf("a member that nobody knows: %d %s", status, answer)
			}
			atOnce := `"wait":0,`
			if field == "wait" {
				atOnce = ""
			}
			status, answer = r.post("/api/v1/fetch/batch", fmt.Appendf(nil, `{"queues":["none"],%s"%s":%s}`, atOnce, field, n))
			fine := strings.Trim(n, "-0") == "" || n == "1.5" && field != "count" || n == "1e3" && field == "lease"
			if !fine && (status != 400 || !strings.Contains(answer, `"field":"`+field+`"`)) {
				t.Errorf("%s %s: %d %s", field, n, status, answer)
			}
		}
	}
	if _, answer := r.listed("?queue=q&state=pending"); len(answer["jobs"].([]any)) != 2 {
		t.Errorf("refused calls did something: %v", answer)
	}
}

// The limits hold whichever way a value comes.
func TestTrap113_SizesAreRefusedOnEveryProtocol(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	c := r.client()
	stream := r.stream()
	big := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	manyTags := make(map[string]string)
	for i := range 65 {
		manyTags[fmt.Sprint(i)] = ""
	}
	long := strings.Repeat("x", 257)
	for i, row := range []struct {
		field string // Of JSON; in proto under options unless it is the payload.
		proto string
		json  object
		item  *corvov1.LifecycleEnqueueItem
	}{
		{"payload", "payload_json", object{"payload": json.RawMessage(big(256 << 10))}, &corvov1.LifecycleEnqueueItem{PayloadJson: big(256 << 10)}},
		{"checkpoint", "options.checkpoint_json", object{"checkpoint": json.RawMessage(big(256 << 10))}, &corvov1.LifecycleEnqueueItem{Options: &corvov1.EnqueueOptions{CheckpointJson: big(256 << 10)}}},
		{"unique_key", "options.unique_key", object{"unique_key": long}, &corvov1.LifecycleEnqueueItem{Options: &corvov1.EnqueueOptions{UniqueKey: long}}},
		{"idempotency_key", "options.idempotency_key", object{"idempotency_key": long}, &corvov1.LifecycleEnqueueItem{Options: &corvov1.EnqueueOptions{IdempotencyKey: long}}},
		{"traceparent", "options.traceparent", object{"traceparent": traceA + long}, &corvov1.LifecycleEnqueueItem{Options: &corvov1.EnqueueOptions{Traceparent: traceA + long}}},
		{"tags", "options.tags", object{"tags": manyTags}, &corvov1.LifecycleEnqueueItem{Options: &corvov1.EnqueueOptions{Tags: manyTags}}},
		{"tags.k", "options.tags.k", object{"tags": object{"k": long}}, &corvov1.LifecycleEnqueueItem{Options: &corvov1.EnqueueOptions{Tags: map[string]string{"k": long}}}},
		{"max_retries", "options.max_retries", object{"max_retries": 1001}, &corvov1.LifecycleEnqueueItem{Options: &corvov1.EnqueueOptions{MaxRetries: proto.Int32(1001)}}},
		{"retry_max_delay", "options.retry_max_delay_ms", object{"retry_max_delay": "721h"}, &corvov1.LifecycleEnqueueItem{Options: &corvov1.EnqueueOptions{RetryMaxDelayMs: proto.Int64(1 << 62)}}},
	} {
		row.json["queue"], row.item.Queue = "q", "q"
		for path, prefix := range map[string]string{"enqueue": "", "enqueue/batch": "jobs[0]."} {
			var body any = row.json
			if prefix != "" {
				body = object{"jobs": []any{row.json}}
			}
			raw, _ := json.Marshal(body)
			if status, answer := r.post("/api/v1/"+path, raw); status != 400 && status != 413 || !strings.Contains(answer, `"field":"`+prefix+row.field+`"`) {
				t.Errorf("%s of %s: %d %.200s", row.field, path, status, answer)
			}
		}
		req := &corvov1.EnqueueRequest{Queue: "q", PayloadJson: row.item.GetPayloadJson(), Options: row.item.GetOptions()}
		for path, err := range map[string]error{
			"":         second(c.Enqueue(t.Context(), connect.NewRequest(req))),
			"jobs[0].": second(c.EnqueueBatch(t.Context(), connect.NewRequest(&corvov1.EnqueueBatchRequest{Jobs: []*corvov1.EnqueueRequest{req}}))),
		} {
			if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), path+row.proto) {
				t.Errorf("%s over RPC: %v", row.field, err)
			}
		}
		if err := stream.Send(&corvov1.LifecycleStreamRequest{RequestId: uint64(i), Pipelined: true, Enqueues: []*corvov1.LifecycleEnqueueItem{row.item}}); err != nil {
			t.Fatal(err)
		}
		m, err := stream.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if v := m.GetViolations(); len(v) != 1 || v[0].GetField() != "enqueues[0]."+row.proto {
			t.Errorf("%s on a stream: %v %.200s", row.field, v, m.GetError())
		}
	}
	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"q"}, "wait": 0})
}

// What a worker reports has its limits too, on every path, and the job stays its.
func TestHostile_ReportsThatAreTooLargeAreRefusedAndTheLeaseIsKept(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	c := r.client()
	r.enqueue("q", nil)
	g := r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{"q"}, "wait": 5})
	id, token := fmt.Sprint(g["job_id"]), fmt.Sprint(g["lease_token"])
	tooMuch := strings.Repeat("x", 256<<10)
	for _, field := range []string{"result", "checkpoint"} {
		item := object{"lease_token": token, field: tooMuch}
		if status, answer := r.postJSON("/api/v1/ack/"+id, item); status != 400 || !strings.Contains(answer, `"field":"`+field+`"`) {
			t.Errorf("%s of an ack: %d %.200s", field, status, answer)
		}
		item["job_id"] = id
		if status, answer := r.postJSON("/api/v1/ack/batch", object{"acks": []any{item}}); status != 200 || !strings.Contains(answer, `"acked":0`) || !strings.Contains(answer, field) {
			t.Errorf("%s of a batch: %d %.200s", field, status, answer)
		}
		raw, _ := json.Marshal(tooMuch)
		a, b := &corvov1.AckRequest{JobId: id, LeaseToken: token}, &corvov1.AckBatchItem{JobId: id, LeaseToken: token}
		if field == "result" {
			a.ResultJson, b.ResultJson = string(raw), string(raw)
		} else {
			a.CheckpointJson, b.CheckpointJson = string(raw), string(raw)
		}
		if _, err := c.Ack(t.Context(), connect.NewRequest(a)); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), field+"_json") {
			t.Errorf("%s over RPC: %.200v", field, err)
		}
		m, err := c.AckBatch(t.Context(), connect.NewRequest(&corvov1.AckBatchRequest{Items: []*corvov1.AckBatchItem{b}}))
		if err != nil || m.Msg.GetAcked() != 0 || m.Msg.GetOutcomes()[0].GetCode() != "VALIDATION_ERROR" || !strings.Contains(m.Msg.GetOutcomes()[0].GetError(), field+"_json") {
			t.Errorf("%s of an RPC batch: %v %.200v", field, err, m)
		}
	}
	for field, n := range map[string]int{"progress": 64 << 10, "checkpoint": 256 << 10} {
		if status, answer := r.postJSON("/api/v1/heartbeat", object{"jobs": object{id: object{field: tooMuch[:n]}}}); status != 400 || !strings.Contains(answer, field) {
			t.Errorf("%s of a heartbeat: %d %.200s", field, status, answer)
		}
	}
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token})
}

// A field that the use case refuses is named as in the message that was sent.
func TestHostile_RefusedHeartbeatFieldsAreNamedAsTheyWereSent(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	id, token := r.lease("q", nil)
	big := `"` + strings.Repeat("x", 64<<10) + `"`
	m := r.frame(&corvov1.LifecycleStreamRequest{
		LeaseDuration: -1, Heartbeats: map[string]*corvov1.HeartbeatJobUpdate{id: {LeaseToken: token, ProgressJson: big}},
	})
	var fields []string
	for _, v := range m.GetViolations() {
		fields = append(fields, v.GetField())
	}
	if want := fmt.Sprintf("[heartbeats[%q].progress_json lease_duration]", id); fmt.Sprint(fields) != want || m.GetHeartbeats()[id].GetStatus() != "ok" {
		t.Errorf("fields %v, want %s; %v", fields, want, m.GetHeartbeats())
	}
}

// A million elements are refused and do not cost the node its memory.
func TestTrap70_AMillionElements(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	empties := func(e string) string { return "[" + strings.Repeat(e+",", 1<<20) + e + "]" }
	for path, row := range map[string][2]string{
		"enqueue":       {`{"jobs":` + empties("{}") + `}`, "jobs"},
		"enqueue/batch": {`{"jobs":` + empties("{}") + `}`, "jobs"},
		"ack/batch":     {`{"acks":` + empties("{}") + `}`, "acks"},
		"fetch":         {`{"queues":` + empties(`""`) + `}`, "queues"},
		"fetch/batch":   {`{"queues":` + empties(`""`) + `}`, "queues"},
		"jobs/search":   {`{"state":` + empties(`""`) + `}`, "state"},
		"enqueue#deep":  {`{"queue":"q","payload":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}`, "nested"},
		"webhooks/q":    {strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20), "payload"},
	} {
		start := time.Now()
		status, answer := r.post("/api/v1/"+path, []byte(row[0]))
		if status != 400 && status != 413 || !strings.Contains(answer, row[1]) || len(answer) > 64<<10 {
			t.Errorf("%s: %d %.300s", path, status, answer)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %s", path, took)
		}
	}
	status, answer := r.post("/corvo.v1.WorkerService/EnqueueBatch", []byte(`{"jobs":`+empties("{}")+`}`), "Content-Type", "application/json")
	if status != http.StatusBadRequest || !strings.Contains(answer, "messages in one request") {
		t.Errorf("RPC: %d %.300s", status, answer)
	}
}
