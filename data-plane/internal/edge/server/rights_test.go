package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

// somebody is a caller of the matrix.
type somebody struct {
	name string
	may  permission.Here
}

func everybody() []somebody {
	queues, whole := permission.OfLevel(permission.OfQueue), permission.OfLevel(permission.OfNamespace)
	return []somebody{
		{"whole", permission.Here{All: whole}},
		{"hidden", permission.Here{All: whole.Without(permission.Of(permission.PayloadRead))}},
		{"a*", permission.Here{Some: []permission.InQueues{{Permissions: queues, Queues: []string{"a*"}}}}},
		{"nothing", permission.Here{}},
	}
}

// thing is what a call of the matrix is about: things in one queue.
type thing struct{ queue, job, batch, chain, schedule string }

const secret = "SECRET-OF-A-PAYLOAD"

// rightsBench makes things in queues.
type rightsBench struct {
	*bench
	n int
}

func (b *rightsBench) as(s somebody, method, path, body string) answerOf {
	b.Helper()
	id := signed(nsA)
	id.Grants = s.may
	signedPath, _, _ := strings.Cut(path, "?")
	return b.do(method, path, body, append([]string{"Content-Type", "application/json"}, headersFor(b, id, signedPath)...)...)
}

// make makes a job in a queue, and what the pattern of a route is about.
func (b *rightsBench) make(queue, pattern string) thing {
	b.Helper()
	b.n++
	admin := everybody()[0]
	var job struct {
		ID string `json:"job_id"`
	}
	payload := fmt.Sprintf(`{"s":%q}`, secret)
	b.as(admin, "POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q,"payload":%s,"tags":{"of":%q}}`, queue, payload, queue)).want(b, 201).into(b, &job)
	var batch struct {
		ID string `json:"batch_id"`
	}
	if strings.Contains(pattern, "/batches") {
		b.as(admin, "POST", "/api/v1/batches", fmt.Sprintf(`{"callback_queue":%q}`, queue)).want(b, 201).into(b, &batch)
	}
	var chain struct {
		ID string `json:"chain_id"`
	}
	if strings.Contains(pattern, "/chains") {
		b.as(admin, "POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q,"payload":%s,"chain":{"steps":[{"queue":%q},{"queue":%q}]}}`, queue, payload, queue, queue)).want(b, 201).into(b, &chain)
	}
	var schedule struct {
		ID string `json:"id"`
	}
	if strings.Contains(pattern, "/schedules") {
		b.as(admin, "POST", "/api/v1/schedules", fmt.Sprintf(`{"name":"%s-%d","cron":"0 0 1 1 *","queue":%q,"payload":%s}`, queue, b.n, queue, payload)).want(b, 201).into(b, &schedule)
	}
	return thing{queue, job.ID, batch.ID, chain.ID, schedule.ID}
}

// about fills in a route's path, and what it asks for.
func (o thing) about(rt *Route, n int) (path, body string) {
	id := o.job
	switch {
	case strings.Contains(rt.Pattern, "/batches/"):
		id = o.batch
	case strings.Contains(rt.Pattern, "/chains/"):
		id = o.chain
	case strings.Contains(rt.Pattern, "/schedules/"):
		id = o.schedule
	}
	path = strings.NewReplacer("{id}", id, "{name}", o.queue, "{scope}", "queue", "{target}", o.queue, "{budget}", "budget_x", "{policy}", "apol_x").Replace(rt.Pattern)
	if slices.ContainsFunc(rt.query, func(p shape.Param) bool { return p.Name == "confirm" }) {
		path += "?confirm=true"
	}
	bodies := map[string]string{
		"EnqueueRequest": `{"queue":"QUEUE"}`, "EnqueueBatchRequest": `{"jobs":[{"queue":"QUEUE"}]}`, "FetchRequest": `{"queues":["QUEUE"],"worker_id":"w","timeout":0}`,
		"AckRequest": `{}`, "AckBatchRequest": `{"acks":[{"job_id":"JOB"}]}`, "FailRequest": `{"error":"e"}`, "HeartbeatRequest": `{"jobs":{"JOB":{}}}`,
		"BatchRequest": `{"callback_queue":"QUEUE"}`, "JobSearchRequest": `{"queue":"QUEUE"}`, "BulkGetRequest": `{"job_ids":["JOB"]}`, "BulkRequest": `{"job_ids":["JOB"],"action":"cancel"}`,
		"HoldRequest": `{}`, "DecideRequest": `{}`, "MoveRequest": `{"queue":"QUEUEx"}`, "QueueRequest": `{}`, "QueueConcurrencyRequest": `{"max":1}`,
		"QueueThrottleRequest": `{"rate":1,"window_ms":1000}`, "ReplayRequest": `{"from":1}`, "BudgetRequest": `{"scope":"queue","target":"QUEUE","daily_usd":1}`,
		"ApprovalPolicyRequest": `{"name":"p","queue":"QUEUE"}`, "ScheduleRequest": `{"name":"new-NUMBER","cron":"0 0 1 1 *","queue":"QUEUE"}`, "SchedulePreviewRequest": `{"cron":"0 0 1 1 *"}`,
		webhookPayload: `{}`,
	}
	rpc := map[string]string{
		"Enqueue": `{"queue":"QUEUE"}`, "EnqueueBatch": `{"jobs":[{"queue":"QUEUE"}]}`, "Fetch": `{"queues":["QUEUE"],"workerId":"w"}`, "FetchBatch": `{"queues":["QUEUE"],"workerId":"w","count":1}`,
		"Ack": `{"jobId":"JOB"}`, "AckBatch": `{"items":[{"jobId":"JOB"}]}`, "Fail": `{"jobId":"JOB","error":"e"}`, "Heartbeat": `{"jobs":{"JOB":{}}}`,
		"StreamLifecycle": `{"requestId":"1","enqueues":[{"queue":"QUEUE"}],"queues":["QUEUE"],"fetchCount":1,"workerId":"w"}`, "Subscribe": `{"queues":["QUEUE"]}`, "GetServerInfo": `{}`,
	}
	form := bodies[rt.request]
	if rt.RPC {
		form = rpc[rt.Pattern[strings.LastIndex(rt.Pattern, "/")+1:]]
	}
	return path, strings.NewReplacer("QUEUE", o.queue, "JOB", o.job, "NUMBER", fmt.Sprint(n)).Replace(form)
}

// names reports whether an answer says anything of the object.
func (o thing) isIn(body []byte) bool {
	for _, what := range []string{o.queue, o.job, o.batch, o.chain, o.schedule} {
		if what != "" && bytes.Contains(body, []byte(what)) {
			return true
		}
	}
	return false
}

// Every route as each caller, about things in a queue that the third may do everything in and
// one of which it may know nothing. The laws hold whatever the file says.
func TestRights_EveryRouteByQueue(t *testing.T) {
	t.Parallel()
	var refused noted
	b := &rightsBench{bench: newCellBench(t, benchOptions{refused: refused.note})}
	b.srv.events = noEvents
	admin := everybody()[0]
	var table strings.Builder
	table.WriteString("# Every route as each caller, about a thing in queue a-1 and one in b-1: the status of each, * if the answer carries a payload,\n# ! if it refuses an item with FORBIDDEN or NOT_FOUND.\n# Rewrite with: go test ./internal/edge/server -run TestRights -rewrite\n")
	for _, rt := range Routes() {
		if rt.Permission == public {
			continue
		}
		fmt.Fprintf(&table, "%s %s (%s)\n", rt.Method, rt.Pattern, rt.Permission)
		for _, who := range everybody() {
			cells := []string{}
			for _, in := range []string{"a", "b"} {
				// Of its own, so that what one call does is not felt by another.
				own, foreign := b.make(fmt.Sprintf("a-%04d", b.n), rt.Pattern), b.make(fmt.Sprintf("b-%04d", b.n), rt.Pattern)
				o := map[string]thing{"a": own, "b": foreign}[in]
				path, body := o.about(&rt, b.n)
				job := func() string { return string(b.as(admin, "GET", "/api/v1/jobs/"+o.job, "").body) }
				before := job()
				refused.take()
				a := b.as(who, rt.Method, path, body)
				cell := fmt.Sprint(a.status)
				refusesItem := a.status < 300 && (bytes.Contains(a.body, []byte("FORBIDDEN")) || bytes.Contains(a.body, []byte("NOT_FOUND")))
				if refusesItem {
					cell += "!"
				}
				if bytes.Contains(a.body, []byte(secret)) {
					cell += "*"
				}
				cells = append(cells, cell)
				name := fmt.Sprintf("%s %s as %s about %s", rt.Method, path, who.name, in)
				if noted := refused.take(); (len(noted) > 0) != (a.status == 403 || bytes.Contains(a.body, []byte("FORBIDDEN"))) && (who.name != "a*" || len(noted) == 0) {
					t.Errorf("%s: %d, noted %q", name, a.status, noted)
				}
				if who.name == "nothing" && a.status != 403 {
					t.Errorf("%s: %d %s", name, a.status, a.body)
				}
				if who.name == "hidden" && strings.Contains(string(a.body), secret) && rt.Permission != permission.JobFetch && !rt.stream {
					t.Errorf("%s: shows a payload: %s", name, a.body)
				}
				if who.name != "a*" {
					continue
				}
				if in == "b" {
					if after := job(); after != before {
						t.Errorf("%s: the job was changed:\n%s\n%s", name, before, after)
					}
					if a.status < 300 && a.status != 204 && foreign.isIn(stripped(a.body, body, path)) {
						t.Errorf("%s: tells of another queue: %d %s", name, a.status, a.body)
					}
				} else if foreign.isIn(a.body) {
					t.Errorf("%s: tells of another queue: %s", name, a.body)
				}
			}
			fmt.Fprintf(&table, "  %-8s a:%-6s b:%s\n", who.name, cells[0], cells[1])
		}
	}
	if *rewrite {
		if err := os.WriteFile("testdata/rights.txt", []byte(table.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile("testdata/rights.txt")
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != table.String() {
		t.Errorf("who may do what by queue has changed; if it should have, run with -rewrite and read the difference:\n%s", table.String())
	}
}

// stripped is an answer without what its caller said itself.
func stripped(answer []byte, said ...string) []byte {
	for _, text := range said {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(`"/{}[]:,?= `, r) }) {
			if len(word) > 1 && strings.ContainsAny(word, "0123456789") {
				answer = bytes.ReplaceAll(answer, []byte(word), nil)
			}
		}
	}
	return answer
}

// A list of somebody with some queues has whole pages of them, and ends.
func TestRights_ListsOfSomeQueuesAreWhole(t *testing.T) {
	t.Parallel()
	b := &rightsBench{bench: newCellBench(t, benchOptions{})}
	for range 3 {
		b.make("b1", "/chains/schedules")
		b.make("a1", "/chains/schedules")
	}
	only := everybody()[2]
	for path, list := range map[string]string{"/api/v1/jobs?limit=2": "jobs", "/api/v1/chains?limit=2": "chains", "/api/v1/schedules?limit=2": "schedules", "/api/v1/jobs/export?limit=2": "jobs"} {
		seen, cursor := 0, ""
		for range 20 {
			at := path
			if cursor != "" {
				at += map[bool]string{true: "&after=", false: "&cursor="}[strings.Contains(path, "export")] + cursor
			}
			var page map[string]json.RawMessage
			b.as(only, "GET", at, "").want(t, 200).into(t, &page)
			var items []json.RawMessage
			if err := json.Unmarshal(page[list], &items); err != nil {
				t.Fatal(err)
			}
			for _, item := range items {
				if bytes.Contains(item, []byte(`"b1"`)) {
					t.Errorf("%s: %s", at, item)
				}
			}
			seen += len(items)
			more := string(page["has_more"]) == "true"
			if more && len(items) != 2 && !strings.Contains(path, "export") {
				t.Errorf("%s: a page of %d", at, len(items))
			}
			if !more {
				break
			}
			cursor = strings.Trim(string(page["cursor"])+string(page["last_id"]), `"`)
		}
		want := 3
		if list == "jobs" {
			want = 6 // Each chain has a job, too.
		}
		if seen != want {
			t.Errorf("%s: %d, want %d", path, seen, want)
		}
	}
}
