package server

import (
	"encoding/json"
	"testing"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
)

func TestPlanHold_ARefusedEnqueueNamesTheLimitAndWhenItOpens(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	opens := time.Now().Add(90 * time.Minute).Truncate(time.Second)
	b.jobs.plan.Store(&queue.PlanLimits{Hold: queue.PlanHold{Enqueue: true, Limit: "jobs_per_month", Value: 500, Until: opens}})
	for path, body := range map[string]string{
		"/api/v1/enqueue": `{"queue":"q"}`, "/api/v1/enqueue/batch": `{"jobs":[{"queue":"q"},{"queue":"q"}]}`,
	} {
		a := b.post(path, body)
		p := a.problem(t)
		if l := p.Limit; a.status != 429 || p.Code != wire.CodePlanLimit || l == nil || l.Name != "jobs_per_month" || l.Value != 500 || !l.OpensAt.Equal(opens) || a.header.Get("Retry-After") == "" || p.RetryAfterMS < time.Hour.Milliseconds() {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if a.header.Get("RateLimit") != "" {
			t.Errorf("%s: a rate that isn't limited: %v", path, a.header)
		}
	}
	_, err := b.client(true).Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q"}))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("an RPC: %v", err)
	}
	if n := b.jobs.commands(); n != 0 {
		t.Errorf("%d commands were proposed", n)
	}
}

func TestPlanHold_AnEmptyFetchSaysWhyInAFormThatOlderClientsTake(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.jobs.plan.Store(&queue.PlanLimits{Hold: queue.PlanHold{Dispatch: true, Limit: "spend", Value: 20}})
	a := b.post("/api/v1/fetch", `{"queues":["q"],"wait":"0s"}`)
	if (a.status != 204 && a.status != 200) || a.header.Get(wire.DispatchHeldHeader) != "spend" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	a = b.post("/api/v1/fetch/batch", `{"queues":["q"],"wait":"0s"}`)
	var jobs wire.FetchedJobs
	if err := json.Unmarshal([]byte(a.body), &jobs); err != nil || a.status != 200 || jobs.Jobs == nil || jobs.Held == nil || jobs.Held.Limit != "spend" || jobs.Held.Value != 20 || jobs.Held.Message == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	b.jobs.plan.Store(&queue.PlanLimits{})
	a = b.post("/api/v1/fetch/batch", `{"queues":["q"],"wait":"0s"}`)
	a.want(t, 200)
	if a.header.Get(wire.DispatchHeldHeader) != "" || string(a.body) != "{\"jobs\":[]}\n" {
		t.Errorf("held no longer: %v %s", a.header, a.body)
	}
}

func TestRateLimit_EveryEnqueueSaysHowManyAreLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	b.jobs.plan.Store(&queue.PlanLimits{PerSecond: 1, Burst: 60})
	a := b.post("/api/v1/enqueue/batch", `{"jobs":[{"queue":"q"},{"queue":"q"}]}`)
	a.want(t, 201)
	if p, r := a.header.Get("RateLimit-Policy"), a.header.Get("RateLimit"); p != `"enqueue_per_second";q=60;w=60` || r != `"enqueue_per_second";r=58;t=2` {
		t.Errorf("policy %s, limit %s", p, r)
	}
	b.jobs.plan.Store(&queue.PlanLimits{PerSecond: 1, Burst: 1})
	a = b.post("/api/v1/enqueue", `{"queue":"q"}`)
	for a.status == 201 {
		a = b.post("/api/v1/enqueue", `{"queue":"q"}`)
	}
	p := a.problem(t)
	if a.status != 429 || a.header.Get("RateLimit") != `"enqueue_per_second";r=0;t=1` || p.Limit == nil || p.Limit.Name != "enqueue_per_second" || p.Limit.Value != 1 {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}
