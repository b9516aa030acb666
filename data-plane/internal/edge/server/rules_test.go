package server_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// enqueued is the id of a new job.
func (r *real) enqueued(body object) string {
	r.Helper()
	return fmt.Sprint(r.call(201, "POST", "/api/v1/enqueue", body)["job_id"])
}

// fetched is the grant of the next job of a queue.
func (r *real) fetched(queue string) object {
	r.Helper()
	return r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{queue}, "worker_id": "w", "wait": "20s"})
}

func (r *real) state(id string) string {
	r.Helper()
	return fmt.Sprint(r.call(200, "GET", "/api/v1/jobs/"+id, nil)["state"])
}

func (r *real) become(id, state string) {
	r.Helper()
	eventually.NoError(r, 20*time.Second, "job "+id+" becomes "+state, func() error {
		if is := r.state(id); is != state {
			return fmt.Errorf("it is %s", is)
		}
		return nil
	})
}

// wordOf is the code word that an RPC was refused with.
func wordOf(err error) string {
	if ce := new(connect.Error); errors.As(err, &ce) {
		return ce.Meta().Get("Corvo-Error-Code")
	}
	return ""
}

func TestReal_HoldApproveReject(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	id := r.enqueued(object{"queue": "q"})
	at := "/api/v1/jobs/" + id
	if a := r.call(200, "POST", at+"/hold", object{"reason": "look first"}); a["status"] != "held" {
		t.Errorf("hold: %v", a)
	}
	view := r.call(200, "GET", at, nil)
	hold, _ := view["hold"].(object)
	if view["state"] != "held" || view["hold_reason"] != "look first" || hold["reason"] != "look first" || hold["by"] == "" || hold["decision"] != nil {
		t.Errorf("held: %v", view)
	}
	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"q"}, "wait": 0})
	if a := r.call(200, "POST", at+"/approve", object{"comment": "fine"}); a["status"] != "pending" {
		t.Errorf("approve: %v", a)
	}
	got := r.fetched("q")
	if got["job_id"] != id {
		t.Fatalf("fetch after approve: %v", got)
	}
	if a := r.call(200, "POST", at+"/hold", object{}); a["status"] != "cancelling" {
		t.Errorf("hold of an active job: %v", a)
	}
	beat := r.call(200, "POST", "/api/v1/heartbeat", object{"jobs": object{id: object{"lease_token": got["lease_token"]}}})
	if fmt.Sprint(beat["canceled"]) != "["+id+"]" {
		t.Errorf("heartbeat: %v", beat)
	}
	if a := r.call(200, "POST", "/api/v1/fail/"+id, object{"error": "told to stop", "lease_token": got["lease_token"]}); a["status"] != "held" {
		t.Errorf("fail: %v", a)
	}
	if a := r.call(200, "POST", at+"/reject", object{"comment": "no", "reason": ""}); a["status"] != "dead" {
		t.Errorf("reject: %v", a)
	}
	view = r.call(200, "GET", at, nil)
	hold, _ = view["hold"].(object)
	if view["dead_reason"] != "rejected" || view["attempt"] != 0.0 || hold["decision"] != "rejected" || hold["comment"] != "no" || view["hold_reason"] != nil || view["finished_at"] == nil {
		t.Errorf("rejected: %v", view)
	}
}

// All members of these are optional, so that a misspelt one could be ignored.
func TestReal_AMemberThatNobodyKnowsIsRefusedWhereAllAreOptional(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	id := r.enqueued(object{"queue": "q"})
	for verb, body := range map[string]object{
		"hold": {"raeson": "x"}, "approve": {"coment": "x"}, "reject": {"comment": "x", "reason": "y"}, "replay": {"form": 1},
	} {
		r.call(400, "POST", "/api/v1/jobs/"+id+"/"+verb, body)
	}
	r.call(400, "POST", "/api/v1/batches", object{"callback_queu": "done"})
}

func TestTrap115_ActionsOnJobsTellMissingFromWrongState(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	id := r.enqueued(object{"queue": "q"})
	nobody := "job_" + strings.Repeat("0", 26)
	for _, action := range []string{"hold", "approve", "reject"} {
		r.call(404, "POST", "/api/v1/jobs/"+nobody+"/"+action, object{})
		if action != "hold" {
			r.call(409, "POST", "/api/v1/jobs/"+id+"/"+action, object{})
		}
		p := r.call(400, "POST", "/api/v1/jobs/"+id+"/"+action, object{"reason": strings.Repeat("x", 2000), "comment": strings.Repeat("x", 2000)})
		if fields, _ := p["fields"].([]any); len(fields) != 1 {
			t.Errorf("%s with a long text: %v", action, p)
		}
	}
	r.fetched("q")
	for _, action := range []string{"POST retry", "POST move", "DELETE "} {
		method, verb, _ := strings.Cut(action, " ")
		verb = strings.TrimSuffix("/"+verb, "/")
		r.call(404, method, "/api/v1/jobs/"+nobody+verb, object{"queue": "r"})
		r.call(409, method, "/api/v1/jobs/"+id+verb, object{"queue": "r"})
	}
	r.call(404, "POST", "/api/v1/jobs/"+nobody+"/cancel", object{})
}

// A job is enqueued with a short time to live in every way that there is, and each time
// it expires, with no worker or with one that holds it.
func TestTrap43_TimeToLiveOnEveryPath(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	c := r.client()
	var ids []string
	ids = append(ids, r.enqueued(object{"queue": "q", "expire_after": "50ms", "unique_key": "u"}),
		r.enqueued(object{"queue": "q", "expire_after_ms": 50, "scheduled_at": "2030-01-01T00:00:00Z"}))
	batch := r.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": []object{{"queue": "q", "expire_after": "50ms"}}})
	ids = append(ids, fmt.Sprint(batch["job_ids"].([]any)[0]))
	options := &corvov1.EnqueueOptions{ExpireAfterMs: proto.Int64(50)}
	one, err := c.Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q", Options: options}))
	if err != nil {
		t.Fatal(err)
	}
	many, err := c.EnqueueBatch(t.Context(), connect.NewRequest(&corvov1.EnqueueBatchRequest{Jobs: []*corvov1.EnqueueRequest{{Queue: "q", Options: options}}}))
	if err != nil {
		t.Fatal(err)
	}
	s := r.stream()
	if err := s.Send(&corvov1.LifecycleStreamRequest{RequestId: 1, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "q", Options: options}}}); err != nil {
		t.Fatal(err)
	}
	frame, err := s.Receive()
	if err != nil || frame.GetError() != "" {
		t.Fatal(frame, err)
	}
	ids = append(ids, one.Msg.GetJobId(), many.Msg.GetResults()[0].GetJobId(), frame.GetEnqueuedJobIds()[0])
	for i, id := range ids {
		r.become(id, "dead")
		if j := r.call(200, "GET", "/api/v1/jobs/"+id, nil); j["dead_reason"] != "expired" || j["expire_at"] == nil {
			t.Errorf("job %d: %v", i, j)
		}
	}
	r.enqueued(object{"queue": "q", "unique_key": "u"}) // The expired owner let go of it.

	id := r.enqueued(object{"queue": "held", "expire_after": "300ms"})
	got := r.fetched("held")
	if got["expire_at"] == nil {
		t.Errorf("grant: %v", got)
	}
	r.become(id, "cancelling")
	token := object{"lease_token": got["lease_token"]}
	beat := r.call(200, "POST", "/api/v1/heartbeat", object{"jobs": object{id: token}})
	if fmt.Sprint(beat["canceled"]) != "["+id+"]" {
		t.Errorf("heartbeat: %v", beat)
	}
	if a := r.call(200, "POST", "/api/v1/fail/"+id, object{"error": "stopped", "lease_token": got["lease_token"]}); a["status"] != "dead" {
		t.Errorf("fail: %v", a)
	}
	for _, body := range []object{{"queue": "q", "expire_after": "soon"}, {"queue": "q", "expire_after": "-1s"}, {"queue": "q", "expire_after_ms": 0}} {
		r.call(400, "POST", "/api/v1/enqueue", body)
	}
}

// A queue's retry defaults apply to what a producer leaves unset, part by part.
func TestReal_RetryDefaultsOfAQueue(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	q := r.call(200, "PUT", "/api/v1/queues/q", object{"max_retries": 7, "retry_backoff": "fixed", "retry_base_delay": "1s"})
	if q["max_retries"] != 7.0 || q["retry_backoff"] != "fixed" || q["retry_base_delay_ms"] != 1000.0 || q["retry_max_delay_ms"] != nil {
		t.Errorf("queue: %v", q)
	}
	policy := func(body object) string {
		body["queue"] = "q"
		j := r.call(200, "GET", "/api/v1/jobs/"+r.enqueued(body), nil)
		return fmt.Sprintf("%v %v %v %v", j["max_retries"], j["retry_backoff"], j["retry_base_delay_ms"], j["retry_max_delay_ms"])
	}
	for want, body := range map[string]object{
		"7 fixed 1000 600000":       {},
		"2 fixed 1000 600000":       {"max_retries": 2},
		"7 exponential 1000 600000": {"retry_backoff": "exponential"},
		"7 fixed 0 600000":          {"retry_base_delay": "0s"},
		"7 fixed 1000 60000":        {"retry_max_delay": "1m", "expire_after": "1h"},
		"1 linear 2000 3000":        {"max_retries": 1, "retry_backoff": "linear", "retry_base_delay": "2s", "retry_max_delay": "3s"},
	} {
		if got := policy(body); got != want {
			t.Errorf("%v: %s, want %s", body, got, want)
		}
	}
	etag, _ := q["etag"].(string)
	r.call(200, "PUT", "/api/v1/queues/q", object{}, "If-Match", etag)
	if p := r.call(409, "PUT", "/api/v1/queues/q", object{"max_retries": 2}, "If-Match", etag); p["code"] != "QUEUE_CHANGED" {
		t.Errorf("a change of what is gone: %v", p)
	}
	for _, bad := range []string{"*", "7", `"x"`, `"1"`, etag + etag, `W/` + etag} {
		r.call(400, "PUT", "/api/v1/queues/q", object{}, "If-Match", bad)
	}
	if got := policy(object{}); got != "3 exponential 5000 600000" {
		t.Errorf("without defaults: %s", got)
	}
	p := r.call(400, "PUT", "/api/v1/queues/q", object{"max_retries": 0, "retry_backoff": "cubic", "retry_max_delay": "9999h"})
	if fields, _ := p["fields"].([]any); len(fields) != 3 {
		t.Errorf("refused: %v", p)
	}
}

func TestReal_FailTerminalAndDelay(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	fail := func(body object) object {
		id := r.enqueued(object{"queue": "q"})
		body["lease_token"] = r.fetched("q")["lease_token"]
		a := r.call(200, "POST", "/api/v1/fail/"+id, body)
		if again := r.call(200, "POST", "/api/v1/fail/"+id, body); fmt.Sprint(again) != fmt.Sprint(a) {
			t.Errorf("again: %v, first %v", again, a)
		}
		a["job"] = r.call(200, "GET", "/api/v1/jobs/"+id, nil)
		return a
	}
	if a := fail(object{"error": "bad", "terminal": true}); a["status"] != "dead" || a["job"].(object)["dead_reason"] != "terminal" {
		t.Errorf("terminal: %v", a)
	}
	if a := fail(object{"error": "busy", "delay": "1h"}); a["status"] != "retrying" || a["next_attempt_at"] == nil || a["attempts_remaining"] != 2.0 {
		t.Errorf("delay: %v", a)
	}
	if a := fail(object{"release": true, "delay_ms": 3600000}); a["status"] != "retrying" || a["attempts_remaining"] != 3.0 {
		t.Errorf("release with delay: %v", a)
	}
	id := r.enqueued(object{"queue": "q"})
	for _, body := range []object{{"terminal": true, "release": true}, {"terminal": true, "delay": "1s"}, {"delay": "-1s"}, {"delay": "9999h"}} {
		r.call(400, "POST", "/api/v1/fail/"+id, body)
	}
}

// A draining queue refuses jobs by whatever route they come, all or none, and says when
// it is empty.
func TestTrap124_DrainRefusesEnqueuesWaitsAndReports(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	c := r.client()
	id := r.enqueued(object{"queue": "q"})
	if a := r.call(200, "POST", "/api/v1/queues/q/drain", object{}); a["status"] != "draining" || a["remaining"] != 1.0 {
		t.Errorf("drain: %v", a)
	}
	if q := r.call(200, "GET", "/api/v1/queues/q", nil); q["draining"] != true || q["paused"] != false {
		t.Errorf("queue: %v", q)
	}
	refused := func(what, code, fields string) {
		t.Helper()
		if code != "QUEUE_DRAINING" || !strings.Contains(fields, "queue") {
			t.Errorf("%s: refused with %q for %q", what, code, fields)
		}
	}
	for path, body := range map[string]object{
		"/api/v1/enqueue":       {"queue": "q"},
		"/api/v1/enqueue/batch": {"jobs": []object{{"queue": "free", "idempotency_key": "k"}, {"queue": "q"}}},
		"/api/v1/webhooks/q":    {"any": "thing"},
	} {
		p := r.call(400, "POST", path, body)
		refused(path, fmt.Sprint(p["code"]), fmt.Sprint(p["fields"]))
	}
	one := &corvov1.EnqueueRequest{Queue: "q"}
	_, err := c.Enqueue(t.Context(), connect.NewRequest(one))
	refused("Enqueue", wordOf(err), err.Error())
	_, err = c.EnqueueBatch(t.Context(), connect.NewRequest(&corvov1.EnqueueBatchRequest{Jobs: []*corvov1.EnqueueRequest{{Queue: "free"}, one}}))
	refused("EnqueueBatch", wordOf(err), err.Error())
	s := r.stream()
	if err := s.Send(&corvov1.LifecycleStreamRequest{RequestId: 1, Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "free"}, {Queue: "q"}}}); err != nil {
		t.Fatal(err)
	}
	frame, err := s.Receive()
	if err != nil || len(frame.GetEnqueuedJobIds()) != 0 || len(frame.GetViolations()) != 1 || frame.GetViolations()[0].GetField() != "enqueues[1].queue" {
		t.Errorf("stream: %v %v", frame, err)
	}
	r.call(404, "GET", "/api/v1/queues/free", nil) // Nothing came in.

	done := make(chan object)
	go func() {
		a, err := r.try(200, "POST", "/api/v1/queues/q/drain?wait=20s", object{})
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	got := r.fetched("q")
	if a := r.call(200, "POST", "/api/v1/queues/q/drain?wait=20ms", object{}); a["remaining"] != 1.0 {
		t.Errorf("with an active job: %v", a)
	}
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": got["lease_token"]})
	if a := <-done; a["remaining"] != 0.0 {
		t.Errorf("after the wait: %v", a)
	}
	r.call(200, "POST", "/api/v1/queues/q/resume", object{})
	r.enqueued(object{"queue": "q"})
	r.call(404, "POST", "/api/v1/queues/nobody/drain", object{})
	r.call(400, "POST", "/api/v1/queues/q/drain?wait=2h", object{})
	r.call(400, "POST", "/api/v1/queues/q/drain?wait=soon", object{})
}

// A cleared queue hands out none of its jobs, its counters show it at once, and
// jobs that workers hold go on.
func TestTrap28_AClearedQueueHandsOutNothing(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	for _, priority := range []string{"normal", "high", "critical"} {
		for range 10 {
			r.enqueued(object{"queue": "q", "priority": priority})
		}
	}
	held := r.fetched("q")
	r.enqueued(object{"queue": "q", "unique_key": "u", "scheduled_at": "2030-01-01T00:00:00Z"})
	if a := r.call(200, "POST", "/api/v1/queues/q/clear", object{}); a["status"] != "cleared" || a["removed"] != 30.0 {
		t.Errorf("clear: %v", a)
	}
	r.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"q"}, "wait": 0})
	q := r.call(200, "GET", "/api/v1/queues/q", nil)
	if q["pending"] != 0.0 || q["scheduled"] != 0.0 || q["active"] != 1.0 || q["enqueued"] != 31.0 {
		t.Errorf("queue: %v", q)
	}
	r.enqueued(object{"queue": "q", "unique_key": "u"})
	if got := r.fetched("q"); got["job_id"] == held["job_id"] {
		t.Errorf("fetch after the clear: %v", got)
	}
	id := fmt.Sprint(held["job_id"])
	r.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": held["lease_token"]})
	r.become(id, "completed")
	list := r.call(200, "GET", "/api/v1/jobs?queue=q", nil)
	if jobs, _ := list["jobs"].([]any); len(jobs) != 2 {
		t.Errorf("the list shows %v", list)
	}
	r.call(404, "POST", "/api/v1/queues/nobody/clear", object{})
}

// Moved jobs are handed out by the queue they were moved to.
func TestTrap42_MovedJobsAreNotStranded(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	soon := time.Now().Add(300 * time.Millisecond).UTC().Format(time.RFC3339Nano)
	waiting := []string{r.enqueued(object{"queue": "a"}), r.enqueued(object{"queue": "a", "scheduled_at": soon, "unique_key": "u"})}
	for _, id := range waiting {
		if a := r.call(200, "POST", "/api/v1/jobs/"+id+"/move", object{"queue": "b"}); a["status"] != "moved" {
			t.Errorf("move: %v", a)
		}
	}
	taken := r.enqueued(object{"queue": "a", "unique_key": "u"})
	r.call(409, "POST", "/api/v1/jobs/"+taken+"/move", object{"queue": "b"})
	for _, id := range waiting {
		if got := r.fetched("b"); got["job_id"] != id || got["queue"] != "b" {
			t.Errorf("fetched %v, want %s", got, id)
		}
		r.call(409, "POST", "/api/v1/jobs/"+id+"/move", object{"queue": "c"})
	}
	r.call(400, "POST", "/api/v1/jobs/"+taken+"/move", object{})
	r.call(400, "POST", "/api/v1/jobs/"+taken+"/move", object{"queue": "no/slash"})
	r.call(404, "POST", "/api/v1/jobs/job_"+strings.Repeat("0", 26)+"/move", object{"queue": "b"})
	if q := r.call(200, "GET", "/api/v1/queues/a", nil); q["pending"] != 1.0 || q["scheduled"] != 0.0 {
		t.Errorf("the queue they came from: %v", q)
	}
}

// Requeue means all of them, even if there are more than any page or batch holds.
func TestTrap87_RequeueReachesEveryDeadJob(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	const dead = 1200
	for made := 0; made < dead; {
		var jobs []object
		for ; len(jobs) < 600; made++ {
			jobs = append(jobs, object{"queue": "q", "expire_after_ms": 1})
		}
		r.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": jobs})
	}
	other := r.enqueued(object{"queue": "other", "expire_after_ms": 1})
	r.become(other, "dead")
	eventually.True(t, 20*time.Second, "they expire", func() bool { return r.call(200, "GET", "/api/v1/queues/q", nil)["dead"] == float64(dead) })
	page := r.call(200, "GET", "/api/v1/dead?queue=q&limit=3", nil)
	if jobs, _ := page["jobs"].([]any); len(jobs) != 3 || jobs[0].(object)["dead_reason"] != "expired" || page["has_more"] != true {
		t.Errorf("dead letters: %v", page)
	}
	r.call(400, "GET", "/api/v1/dead?state=pending", nil)
	if a := r.call(200, "POST", "/api/v1/queues/q/requeue", object{}); a["status"] != "requeued" || a["requeued"] != float64(dead) {
		t.Errorf("requeue: %v", a)
	}
	if q := r.call(200, "GET", "/api/v1/queues/q", nil); q["dead"] != 0.0 || q["pending"] != float64(dead) {
		t.Errorf("queue: %v", q)
	}
	if r.state(other) != "dead" {
		t.Error("a job of another queue was requeued")
	}
	r.call(404, "POST", "/api/v1/queues/nobody/requeue", object{})
}
