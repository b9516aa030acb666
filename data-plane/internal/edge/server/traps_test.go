package server

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Tests named after known mistakes (docs/traps.md), over the wire of the whole engine,
// in every way a call can be made.

func startTrap(t *testing.T) *optionClient {
	t.Helper()
	return &optionClient{bench: startEngine(t).bench, ns: nsA}
}

// call posts and wants a status; the answer comes as members.
func (c *optionClient) call(status int, method, path string, body any) object {
	c.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		c.Fatal(err)
	}
	a := c.do(method, path, string(raw), optionHeader, c.ns.String(), "Content-Type", "application/json")
	if a.status != status {
		c.Fatalf("%s %s %s: %d %s, want %d", method, path, raw, a.status, a.body, status)
	}
	out := object{}
	if len(a.body) > 0 && a.body[0] == '{' {
		a.into(c, &out)
	}
	return out
}

func (c *optionClient) add(more object) string {
	in := object{"queue": "q"}
	for k, v := range more {
		in[k] = v
	}
	return fmt.Sprint(c.call(201, "POST", "/api/v1/enqueue", in)["job_id"])
}

// take fetches one job that must be there.
func (c *optionClient) take(more object) (id, token string) {
	c.Helper()
	in := object{"queues": []string{"q"}, "worker_id": "w", "wait": 10}
	for k, v := range more {
		in[k] = v
	}
	g := c.call(200, "POST", "/api/v1/fetch", in)
	return fmt.Sprint(g["job_id"]), fmt.Sprint(g["lease_token"])
}

func (c *optionClient) none() {
	c.Helper()
	c.call(204, "POST", "/api/v1/fetch", object{"queues": []string{"q"}, "wait": 0})
}

func (c *optionClient) state(id string) string {
	c.Helper()
	return fmt.Sprint(c.call(200, "GET", "/api/v1/jobs/"+id, nil)["state"])
}

// settlements are the ways to ack or to fail with a token; each returns the error of
// the item, "" if it was accepted.
func (c *optionClient) settlements(id, token string) map[string]func() string {
	word := func(path string, body object) func() string {
		return func() string {
			raw, _ := json.Marshal(body)
			a := c.post(path, string(raw), optionHeader, c.ns.String(), "Content-Type", "application/json")
			for _, w := range []string{"LEASE_LOST", "NOT_ACTIVE", "NOT_FOUND"} {
				if strings.Contains(string(a.body), w) || strings.Contains(a.header.Get(metaCode), w) {
					return w
				}
			}
			if a.status != 200 {
				return string(a.body)
			}
			return ""
		}
	}
	rpcItem := object{"jobId": id, "leaseToken": token}
	return map[string]func() string{
		"HTTP ack":   word("/api/v1/ack/"+id, object{"lease_token": token}),
		"HTTP batch": word("/api/v1/ack/batch", object{"acks": []any{object{"job_id": id, "lease_token": token}}}),
		"RPC ack":    word(service+"Ack", rpcItem),
		"RPC batch":  word(service+"AckBatch", object{"items": []any{rpcItem}}),
		"frame":      word(service+"StreamLifecycle", object{"requestId": 1, "acks": []any{rpcItem}}),
	}
}

// Trap 29: whatever a job went through, it is in the ready order once.
func TestTrap29_NothingIsLeftBehindInTheReadyOrder(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	id := c.add(object{"retry_base_delay": "1ms", "max_retries": 100})
	other := c.add(object{"scheduled_at": "2035-01-01T00:00:00Z"})
	for range 3 {
		_, token := c.take(nil)
		c.call(200, "POST", "/api/v1/fail/"+id, object{"lease_token": token, "error": "x"})
		_, token = c.take(nil)
		c.call(200, "POST", "/api/v1/fail/"+id, object{"lease_token": token, "release": true})
		c.call(200, "POST", "/api/v1/jobs/"+id+"/cancel", nil)
		c.call(200, "POST", "/api/v1/jobs/"+id+"/retry", nil)
		c.call(200, "POST", "/api/v1/jobs/"+other+"/retry", nil)
		c.call(200, "POST", "/api/v1/jobs/"+other+"/cancel", nil)
	}
	if got, _ := c.take(nil); got != id {
		t.Errorf("fetched %s, want %s", got, id)
	}
	c.none()
}

// Trap 30: jobs that cannot run block no other job.
func TestTrap30_JobsThatCanNotRunBlockNoFetch(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	for range 20 {
		c.call(200, "POST", "/api/v1/jobs/"+c.add(nil)+"/cancel", nil)
		c.call(200, "DELETE", "/api/v1/jobs/"+c.add(nil), nil)
	}
	want := c.add(nil)
	if got, _ := c.take(nil); got != want {
		t.Errorf("fetched %s, want %s", got, want)
	}
}

// Trap 32, D13: an expired lease counts, and the third one makes the job dead.
func TestTrap32_AJobThatKillsItsWorkersDies(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	id := c.add(object{"max_retries": 100})
	for range 3 {
		c.take(object{"lease": "1s", "wait": 30})
	}
	eventually.True(t, patience, "the job is dead", func() bool { return c.state(id) == "dead" })
	if j := c.call(200, "GET", "/api/v1/jobs/"+id, nil); j["dead_reason"] != "crash_loop" || j["crashes"] != 3.0 {
		t.Errorf("job %v", j)
	}
}

// Trap 33, D1: a worker that lost its lease settles nothing, on any path.
func TestTrap33_ALostLeaseSettlesNothingOnAnyPath(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	id := c.add(nil)
	_, old := c.take(object{"worker_id": "a"})
	c.call(200, "POST", "/api/v1/fail/"+id, object{"lease_token": old, "release": true})
	_, token := c.take(object{"worker_id": "b"})
	for way, settle := range c.settlements(id, old) {
		if got := settle(); got != "LEASE_LOST" {
			t.Errorf("%s with the old token: %q", way, got)
		}
	}
	beat := c.call(200, "POST", "/api/v1/heartbeat", object{"jobs": object{id: object{"lease_token": old, "progress": 1}}})
	c.call(409, "POST", "/api/v1/fail/"+id, object{"lease_token": old, "error": "x"})
	if fmt.Sprint(beat["unknown"]) != "["+id+"]" || c.state(id) != "active" {
		t.Errorf("heartbeat %v, then %s", beat, c.state(id))
	}
	c.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token})
}

// Trap 34: a cancelled job keeps its slot until its worker lets go.
func TestTrap34_ACancelledJobKeepsItsSlotUntilItsWorkerLetsGo(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	c.call(200, "POST", "/api/v1/queues/q/concurrency", object{"max": 1})
	first, second := c.add(nil), c.add(nil)
	_, token := c.take(nil)
	if got := c.call(200, "POST", "/api/v1/jobs/"+first+"/cancel", nil); got["status"] != "cancelling" {
		t.Errorf("cancel: %v", got)
	}
	c.none()
	beat := c.call(200, "POST", "/api/v1/heartbeat", object{"jobs": object{first: object{"lease_token": token}}})
	if fmt.Sprint(beat["canceled"]) != "["+first+"]" {
		t.Errorf("heartbeat: %v", beat)
	}
	c.call(200, "POST", "/api/v1/fail/"+first, object{"lease_token": token, "error": "stopped"})
	if got, _ := c.take(nil); got != second || c.state(first) != "cancelled" {
		t.Errorf("fetched %s, want %s; the first is %s", got, second, c.state(first))
	}
}

// Trap 35: every end of its owner frees a unique key, and no other job's end does.
func TestTrap35_AUniqueKeyIsFreedByEveryEndOfItsOwner(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	for end, finish := range map[string]func(id string){
		"completed": func(id string) { _, token := c.take(nil); c.done("/api/v1/ack/"+id, object{"lease_token": token}) },
		"dead":      func(id string) { _, token := c.take(nil); c.done("/api/v1/fail/"+id, object{"lease_token": token}) },
		"cancelled": func(id string) { c.done("/api/v1/jobs/"+id+"/cancel", nil) },
		"deleted":   func(id string) { c.call(200, "DELETE", "/api/v1/jobs/"+id, nil) },
	} {
		first := c.add(object{"unique_key": "u", "max_retries": 1})
		if held := c.call(200, "POST", "/api/v1/enqueue", object{"queue": "q", "unique_key": "u"}); held["job_id"] != first {
			t.Errorf("%s: held by %v, want %s", end, held["job_id"], first)
		}
		finish(first)
		second := c.add(object{"unique_key": "u"})
		if end != "deleted" { // The end of the first must not free the lock of the second.
			c.call(200, "DELETE", "/api/v1/jobs/"+first, nil)
		}
		if held := c.call(200, "POST", "/api/v1/enqueue", object{"queue": "q", "unique_key": "u"}); held["job_id"] != second {
			t.Errorf("%s: then held by %v, want %s", end, held["job_id"], second)
		}
		c.call(200, "DELETE", "/api/v1/jobs/"+second, nil)
	}
}

// Trap 37: a late attempt waits for the maximum delay, not for zero.
func TestTrap37_BackoffSaturates(t *testing.T) {
	t.Parallel()
	for _, attempt := range []uint32{1, 2, 62, 63, 64, 65, 1 << 20, math.MaxUint32} {
		for _, b := range []job.Backoff{job.BackoffFixed, job.BackoffLinear, job.BackoffExponential} {
			d := b.Delay(attempt, time.Second, time.Hour)
			if d < time.Second || d > time.Hour || attempt > 10_000 && b != job.BackoffFixed && d != time.Hour {
				t.Errorf("%v after attempt %d: %v", b, attempt, d)
			}
		}
	}
}

// Trap 48: every queue of a fetch is asked, however many before it are empty.
func TestTrap48_AFetchOfSeveralQueuesAsksThemAll(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	want := c.add(nil)
	if got, _ := c.take(object{"queues": []string{"empty", "never-used", "q"}, "wait": 0}); got != want {
		t.Errorf("fetched %s, want %s", got, want)
	}
}

// Trap 49, D12: results are in the order of the request, and a batch is made whole or
// not at all.
func TestTrap49_ResultsKeepTheOrderAndABatchIsWhole(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	var jobs []any
	for i := range 40 {
		jobs = append(jobs, object{"queue": fmt.Sprintf("q%d", (i*7)%40), "tags": object{"i": fmt.Sprint(i)}})
	}
	ids := c.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": jobs})["job_ids"].([]any)
	for i, id := range ids {
		if j := c.call(200, "GET", "/api/v1/jobs/"+id.(string), nil); j["tags"].(object)["i"] != fmt.Sprint(i) {
			t.Errorf("the answer's job %d is %v", i, j["tags"])
		}
	}
	c.call(400, "POST", "/api/v1/enqueue/batch", object{"jobs": []any{object{"queue": "q"}, object{"queue": "q", "priority": "urgent"}}})
	c.none()
}

// Trap 60: the text of a path has no influence on roles.
func TestTrap60_AQueueNamedAfterAnActionGrantsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{auth: roles{"worker"}})
	for _, name := range []string{"fetch-orders", "ack", "heartbeat", "enqueue"} {
		for _, action := range []string{"/pause", "/concurrency", "/throttle"} {
			b.post("/api/v1/queues/"+name+action, `{"max":1,"rate":1,"window_ms":1}`).want(t, 403)
		}
		b.do("DELETE", "/api/v1/queues/"+name+"?confirm=true", "").want(t, 403)
	}
	b.post("/api/v1/fetch", `{"queues":["fetch-orders"],"wait":0}`).want(t, 204)
}

// Trap 114: a short wait is not a short lease; timeout alone still means both.
func TestTrap114_LeaseAndWaitAreApart(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	for body, want := range map[string]float64{`{"wait":1}`: 60, `{"wait":1,"lease":"5m"}`: 300, `{"timeout":7}`: 7, `{"lease":9}`: 9} {
		c.add(nil)
		var in object
		_ = json.Unmarshal([]byte(body), &in)
		in["queues"] = []string{"q"}
		if g := c.call(200, "POST", "/api/v1/fetch", in); g["lease_duration"] != want {
			t.Errorf("%s: lease of %v s, want %v", body, g["lease_duration"], want)
		}
	}
}

// Trap 116: a settlement whose response was lost can be sent again, on any path.
func TestTrap116_ARepeatedSettlementSucceeds(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	id := c.add(nil)
	_, token := c.take(nil)
	c.call(200, "POST", "/api/v1/ack/"+id, object{"lease_token": token})
	for way, settle := range c.settlements(id, token) {
		if got := settle(); got != "" {
			t.Errorf("%s again: %s", way, got)
		}
	}
	id = c.add(nil)
	_, token = c.take(nil)
	first := c.call(200, "POST", "/api/v1/fail/"+id, object{"lease_token": token, "error": "x"})
	again := c.call(200, "POST", "/api/v1/fail/"+id, object{"lease_token": token, "error": "x"})
	if fmt.Sprint(first) != fmt.Sprint(again) || len(c.call(200, "GET", "/api/v1/jobs/"+id, nil)["errors"].([]any)) != 1 {
		t.Errorf("fail answers %v, then %v", first, again)
	}
}

// Trap 117: a repeated enqueue gets the same answer, on any path and after the job's end.
func TestTrap117_ARepeatedEnqueueAddsNothing(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	c := &optionClient{bench: e.bench, ns: nsA}
	o := enqueueOption{json: object{"idempotency_key": "k"}, proto: inOptions("idempotency_key", "k"), query: "idempotency_key=k"}
	first := enqueuePaths[0].enqueue(c, &o)
	for _, step := range []func(){
		func() {},
		func() { _, token := c.take(nil); c.done("/api/v1/ack/"+first, object{"lease_token": token}) },
		func() { c.call(200, "DELETE", "/api/v1/jobs/"+first, nil) },
	} {
		step()
		for _, path := range enqueuePaths {
			if got := path.enqueue(c, &o); got != first {
				t.Errorf("%s answers %s, want %s", path.name, got, first)
			}
		}
	}
	c.none()
}

// D9: the same id twice in one batch of acks is one completion.
func TestD9_TheSameIDTwiceInOneAckBatchCountsOnce(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	id := c.add(nil)
	_, token := c.take(nil)
	item := object{"job_id": id, "lease_token": token}
	c.call(200, "POST", "/api/v1/ack/batch", object{"acks": []any{item, item, item}})
	if q := c.call(200, "GET", "/api/v1/queues/q", nil); q["completed"] != 1.0 || q["active"] != 0.0 {
		t.Errorf("queue %v", q)
	}
}

// D17, trap 58: a name with a separator matches nothing, in any tenant.
func TestD17_ANameReachesNoOtherTenantsQueue(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	a, b := &optionClient{bench: e.bench, ns: nsA}, &optionClient{bench: e.bench, ns: nsB}
	theirs := b.add(nil)
	for _, name := range []string{nsB.String() + "::q", "default::q", "::q", "q\x00", nsB.String() + "/q"} {
		a.call(400, "POST", "/api/v1/enqueue", object{"queue": name})
		a.call(400, "POST", "/api/v1/fetch", object{"queues": []string{name}, "wait": 0})
	}
	a.none()
	a.call(404, "GET", "/api/v1/jobs/"+theirs, nil)
	if got, _ := b.take(nil); got != theirs {
		t.Errorf("fetched %s, want %s", got, theirs)
	}
}

// roles maps callers to their roles.
type roles []string

func (names roles) Authenticate(r *http.Request) (*Principal, error) {
	who, err := NewOpen(nsA).Authenticate(r)
	if err == nil {
		who.Identity.Grants = permission.Here{All: celladmin.RoleSet(names)}
		who.Caller.Rights = who.Identity.Grants
	}
	return who, err
}
