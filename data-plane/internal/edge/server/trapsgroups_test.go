package server

import (
	"fmt"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// Known mistakes about jobs that depend on other jobs.

// gone fetches from a queue without waiting and fails if there is a job.
func (c *optionClient) gone(queue string) {
	c.Helper()
	c.call(204, "POST", "/api/v1/fetch", object{"queues": []string{queue}, "wait": 0})
}

// grant fetches the one job of a queue.
func (c *optionClient) grant(queue string) object {
	c.Helper()
	return c.call(200, "POST", "/api/v1/fetch", object{"queues": []string{queue}, "wait": 10})
}

func (c *optionClient) finish(g object) {
	c.Helper()
	c.call(200, "POST", "/api/v1/ack/"+fmt.Sprint(g["job_id"]), object{"lease_token": g["lease_token"]})
}

// Trap 24, D10, D11: a chain continues on every path of the ack, and its next
// step is where workers look.
func TestTrap24_AChainGoesOnByEveryWayToAck(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	for way := range c.settlements("", "") {
		c.call(201, "POST", "/api/v1/enqueue", object{"queue": "a", "chain": object{"steps": []any{object{"queue": "a"}, object{"queue": "b"}}}})
		a := c.grant("a")
		settle := c.settlements(fmt.Sprint(a["job_id"]), fmt.Sprint(a["lease_token"]))[way]
		for range 2 { // A repeated ack makes no second step.
			if got := settle(); got != "" {
				t.Fatalf("%s: %s", way, got)
			}
		}
		c.finish(c.grant("b"))
		c.gone("b")
	}
}

// Trap 25, D8, D9: acks that share a commit each count, once.
func TestTrap25_AcksThatShareACommitAreCountedEach(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	var jobs, acks []any
	for range 20 {
		jobs = append(jobs, object{"queue": "q"})
	}
	made := c.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": jobs, "batch": object{"callback_queue": "done"}})
	for _, g := range c.call(200, "POST", "/api/v1/fetch/batch", object{"queues": []string{"q"}, "count": 20, "wait": 0})["jobs"].([]any) {
		item := object{"job_id": g.(object)["job_id"], "lease_token": g.(object)["lease_token"]}
		acks = append(acks, item, item)
	}
	c.call(200, "POST", "/api/v1/ack/batch", object{"acks": acks})
	done := c.grant("done")["payload"].(object)
	if done["batch_id"] != made["batch_id"] || done["total"] != 20.0 || done["completed"] != 20.0 {
		t.Errorf("callback %v of %v", done, made["batch_id"])
	}
	c.gone("done")
}

// Trap 26: every end counts, even without a worker.
func TestTrap26_EveryEndCountsForTheBatch(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	var jobs []any
	for _, more := range []object{{}, {}, {}, {}, {"expire_after": "1ms"}} {
		more["queue"], more["max_retries"] = "q", 1
		jobs = append(jobs, more)
	}
	made := c.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": jobs, "batch": object{"callback_queue": "done"}})
	ids := made["job_ids"].([]any)
	eventually.True(t, patience, "the last one is dead", func() bool { return c.state(ids[4].(string)) == "dead" })
	c.call(200, "POST", "/api/v1/jobs/"+ids[0].(string)+"/cancel", nil)
	c.call(200, "DELETE", "/api/v1/jobs/"+ids[1].(string), nil)
	g := c.grant("q")
	c.call(200, "POST", "/api/v1/fail/"+fmt.Sprint(g["job_id"]), object{"lease_token": g["lease_token"], "error": "x"})
	c.gone("done")
	c.finish(c.grant("q"))
	done := c.grant("done")["payload"].(object)
	want := object{"batch_id": made["batch_id"], "total": 5.0, "completed": 1.0, "dead": 2.0, "cancelled": 1.0, "deleted": 1.0}
	if fmt.Sprint(done) != fmt.Sprint(want) {
		t.Errorf("callback %v, want %v", done, want)
	}
}

// Trap 27: the callback is a job like any other.
func TestTrap27_ACallbackIsAJobLikeAnyOther(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	c.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": []any{object{"queue": "q"}}, "batch": object{"callback_queue": "done"}})
	c.finish(c.grant("q"))
	if q := c.call(200, "GET", "/api/v1/queues/done", nil); q["pending"] != 1.0 {
		t.Errorf("queue %v", q)
	}
	done := c.grant("done")
	if done["max_retries"] != 3.0 {
		t.Errorf("callback %v", done)
	}
	if got := c.call(200, "POST", "/api/v1/fail/"+fmt.Sprint(done["job_id"]), object{"lease_token": done["lease_token"], "error": "x"}); got["status"] != "retrying" {
		t.Errorf("its failure: %v", got)
	}
}

// Trap 40: a job that waits for one that does not complete is not left waiting.
func TestTrap40_ADependencyThatIsGoneBlocksNobody(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	for policy, want := range map[string]string{"fail": "dead", "run": "pending", "cancel": "cancelled"} {
		for end, finish := range map[string]func(id string){
			"cancelled": func(id string) { c.call(200, "POST", "/api/v1/jobs/"+id+"/cancel", nil) },
			"deleted":   func(id string) { c.call(200, "DELETE", "/api/v1/jobs/"+id, nil) },
		} {
			first := c.add(nil)
			waits := c.add(object{"queue": "w", "depends_on": []string{first}, "on_dependency_failed": policy})
			c.gone("w")
			finish(first)
			eventually.True(t, patience, "it is "+want, func() bool { return c.state(waits) == want })
			if policy == "run" {
				if g := c.grant("w"); g["job_id"] != waits {
					t.Errorf("%s after %s: fetched %v", policy, end, g)
				} else {
					c.finish(g)
				}
			}
		}
	}
}

// Trap 41: follow-up jobs inherit what they should, and results of every type.
func TestTrap41_FollowUpsInheritAndCarryEveryType(t *testing.T) {
	t.Parallel()
	c := startTrap(t)
	for _, result := range []any{7.0, "text", []any{1.0}, object{"a": 1.0}, true} {
		c.call(201, "POST", "/api/v1/enqueue", object{
			"queue": "a", "priority": "critical", "tags": object{"k": "v"}, "max_retries": 9,
			"chain": object{"steps": []any{object{"queue": "a"}, object{"queue": "b", "payload": []int{2}}}},
		})
		a := c.grant("a")
		c.call(200, "POST", "/api/v1/ack/"+fmt.Sprint(a["job_id"]), object{"lease_token": a["lease_token"], "result": result})
		b := c.grant("b")
		want := object{"previous_job_id": a["job_id"], "previous_result": result, "payload": []any{2.0}}
		if fmt.Sprint(b["payload"]) != fmt.Sprint(want) || b["max_retries"] != 9.0 || fmt.Sprint(b["tags"]) != "map[k:v]" {
			t.Errorf("after %v: %v", result, b)
		}
		if j := c.call(200, "GET", "/api/v1/jobs/"+fmt.Sprint(b["job_id"]), nil); j["priority"] != 0.0 {
			t.Errorf("priority %v", j["priority"])
		}
		c.finish(b)
	}
}
