package conformance

import (
	"slices"
	"time"
)

// usageView is what a job's reports come to.
type usageView struct {
	Key          string      `json:"key"` // Of a group.
	InputTokens  int64       `json:"input_tokens"`
	OutputTokens int64       `json:"output_tokens"`
	CostUSD      float64     `json:"cost_usd"`
	Model        string      `json:"model"`
	Models       []usageView `json:"models"`
}

// Usage shows what a job reported.
func (t *T) Usage(id string) usageView {
	return Get[struct {
		Usage usageView `json:"usage"`
	}](t, jobPath(id, "")).Usage
}

var agentRules = []Rule{
	{Name: "a report of a total takes the place of the one before, a delta is added", Needs: "usage", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, Backoff: "none"})
		say := func(u Usage) {
			t.HeartbeatAs(Heartbeat{Worker: "w1", Jobs: map[string]JobUpdate{l.ID: {Token: l.Token, Usage: &u}}})
		}
		say(Usage{Input: 10, Output: 1, CostUSD: 0.5, Model: "m"})
		say(Usage{Input: 30, Output: 2, CostUSD: 1.25, Model: "m", Kind: "total"})
		say(Usage{Input: 5, CostUSD: 0.000000001, Model: "m", Kind: "delta"})
		say(Usage{Input: 7, Model: "n"})
		u := t.Usage(l.ID)
		Equal(t, "tokens and cost", [3]float64{float64(u.InputTokens), float64(u.OutputTokens), u.CostUSD}, [3]float64{42, 2, 1.250000001})
		Equal(t, "models", len(u.Models), 2)
		t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "boom", Usage: &Usage{Input: 100, Model: "n"}})
		Equal(t, "tokens after a fail", t.Usage(l.ID).InputTokens, 135)
		l = t.Fetch(q) // Another attempt counts anew.
		t.AckAs(Ack{ID: l.ID, Token: l.Token, Usage: &Usage{Input: 1, Model: "m"}})
		Equal(t, "tokens of both attempts", t.Usage(l.ID).InputTokens, 136)
	}},
	{Name: "acks in a batch bring their reports", Needs: "usage", Run: func(t *T, _ string) {
		l := t.Leased(Job{})
		t.AckBatch(Ack{ID: l.ID, Token: l.Token, Usage: &Usage{Input: 9, CostUSD: 0.25, Model: "m"}})
		u := t.Usage(l.ID)
		Equal(t, "tokens and cost", [2]float64{float64(u.InputTokens), u.CostUSD}, [2]float64{9, 0.25})
	}},
	{Name: "the summary counts every report of a queue once", Needs: "usage", Run: func(t *T, q string) {
		for range 2 {
			l := t.Leased(Job{Queue: q})
			t.HeartbeatAs(Heartbeat{Worker: "w1", Jobs: map[string]JobUpdate{l.ID: {Token: l.Token, Usage: &Usage{Input: 4, Model: "m"}}}})
			t.AckAs(Ack{ID: l.ID, Token: l.Token, Usage: &Usage{Input: 10, Model: "m"}})
		}
		groups := Get[struct {
			Groups []usageView `json:"groups"`
		}](t, "/api/v1/usage/summary?period=24h&group_by=queue").Groups
		at := slices.IndexFunc(groups, func(g usageView) bool { return g.Key == q })
		t.FailIf(at < 0 || groups[at].InputTokens != 20, "groups %+v, want 20 tokens of %s", groups, q)
	}},
	{Name: "a report that is wrong is refused by field", Needs: "usage", Run: func(t *T, _ string) {
		l := t.Leased(Job{})
		err := t.Client.Ack(t.Context, Ack{ID: l.ID, Token: l.Token, Usage: &Usage{Input: -1, CostUSD: -0.5, Model: "m", Kind: "some"}})
		t.RefusedAs("a wrong report", err, invalid)
		t.State(l.ID, "active")
	}},
	{Name: "an agent goes round until it is done, with its checkpoint and fresh attempts", Needs: "agents", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, MaxRetries: new(2), Backoff: "none", Agent: &Agent{MaxIterations: 5, MaxCostUSD: 2.5}})
		t.FailIf(l.Agent == nil || l.Agent.Iteration != 1 || l.Agent.MaxIterations != 5 || l.Agent.MaxCostUSD != 2.5, "the worker is told %+v", l.Agent)
		t.Failed(l, "retrying")
		l = t.Fetch(q)
		Equal(t, "attempt", l.Attempt, 2)
		t.AckAs(Ack{ID: l.ID, Token: l.Token, AgentStatus: "continue", Checkpoint: `{"at":1}`, Usage: &Usage{Input: 3, CostUSD: 0.5, Model: "m"}})
		t.State(l.ID, "pending")
		l = t.Fetch(q)
		Equal(t, "attempt of the second iteration", l.Attempt, 1)
		Equal(t, "checkpoint", l.Checkpoint, `{"at":1}`)
		Equal(t, "iteration and cost", [2]float64{float64(l.Agent.Iteration), l.Agent.CostUSD}, [2]float64{2, 0.5})
		t.AckAs(Ack{ID: l.ID, Token: l.Token, AgentStatus: "done", Result: "7"})
		Equal(t, "result", string(t.State(l.ID, "completed").Result), "7")
		t.Nothing(q)
		list := Get[iterationsView](t, jobPath(l.ID, "/iterations"))
		t.FailIf(len(list.Iterations) != 2 || list.Iterations[0].Status != "continue" || list.Iterations[0].InputTokens != 3 || list.Iterations[1].Iteration != 2, "iterations %+v", list.Iterations)
	}},
	{Name: "a repeated continue with the same token is the same success", Needs: "agents", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, Agent: &Agent{MaxIterations: 5}})
		for range 2 {
			t.AckAs(Ack{ID: l.ID, Token: l.Token, AgentStatus: "continue"})
		}
		Equal(t, "iteration", t.Fetch(q).Agent.Iteration, 2)
	}},
	{Name: "acks in a batch end iterations", Needs: "agents", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, Agent: &Agent{MaxIterations: 5}})
		t.AckBatch(Ack{ID: l.ID, Token: l.Token, AgentStatus: "continue", Checkpoint: "1"})
		l = t.Fetch(q)
		Equal(t, "iteration", l.Agent.Iteration, 2)
		Equal(t, "checkpoint", l.Checkpoint, "1")
	}},
	{Name: "at its limit of iterations or cost an agent is held, and approved runs once more", Needs: "agents", Run: func(t *T, _ string) {
		for _, limits := range []Agent{{MaxIterations: 1}, {MaxCostUSD: 1}} {
			q := t.Queue()
			e := t.Enqueue(Job{Queue: q, Agent: &limits})
			for range 2 {
				l := t.Fetch(q)
				t.AckAs(Ack{ID: l.ID, Token: l.Token, AgentStatus: "continue", Usage: &Usage{CostUSD: 1, Model: "m"}})
				j := t.State(e.ID, "held")
				t.FailIf(j.HoldReason == "", "no reason for the hold of %+v", limits)
				t.Nothing(q)
				t.Do(e.ID, "approve", "pending")
			}
			t.Ack(t.Fetch(q))
			t.State(e.ID, "completed")
		}
	}},
	{Name: "an agent may ask to be held", Needs: "agents", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, Agent: &Agent{MaxIterations: 5}})
		t.AckAs(Ack{ID: l.ID, Token: l.Token, AgentStatus: "hold", HoldReason: "not sure"})
		Equal(t, "reason", t.State(l.ID, "held").HoldReason, "not sure")
		t.Do(l.ID, "approve", "pending")
		Equal(t, "iteration", t.Fetch(q).Agent.Iteration, 2)
	}},
	{Name: "an iteration that takes too long fails its attempt, however often its lease is renewed", Timed: true, Needs: "agents", Run: func(t *T, q string) {
		l := t.Leased(Job{Queue: q, Backoff: "none", Agent: &Agent{IterationTimeout: "1s"}})
		t.HeartbeatAs(Heartbeat{Worker: "w1", Lease: hour, Jobs: map[string]JobUpdate{l.ID: {Token: l.Token}}})
		again := t.Fetch(q)
		t.FailIf(again.ID != l.ID || again.Attempt != 2 || again.Agent.Iteration != 1, "after the time-out: %+v", again)
		j := t.Job(l.ID)
		t.FailIf(j.Crashes != 0 || len(j.Errors) != 1 || j.Errors[0].Error != "iteration timed out", "after the time-out: %d crashes, errors %+v", j.Crashes, j.Errors)
	}},
	{Name: "a job may be replayed from an iteration", Needs: "agents", Run: func(t *T, q string) {
		e := t.Enqueue(Job{Queue: q, Payload: "5", Agent: &Agent{MaxIterations: 5}})
		for _, checkpoint := range []JSON{"1", "2"} {
			l := t.Fetch(q)
			t.AckAs(Ack{ID: l.ID, Token: l.Token, AgentStatus: "continue", Checkpoint: checkpoint})
		}
		t.Ack(t.Fetch(q))
		out := Post[Enqueued](t, jobPath(e.ID, "/replay"), object{"from": 1})
		l := t.Fetch(q)
		t.FailIf(l.ID != out.ID || l.ID == e.ID || l.Checkpoint != "1" || l.Payload != "5", "the replay is %+v", l)
		Equal(t, "parent", t.Job(l.ID).ParentID, e.ID)
	}},
	{Name: "a job that is no agent has no agent status", Needs: "agents", Run: func(t *T, _ string) {
		l := t.Leased(Job{})
		err := t.Client.Ack(t.Context, Ack{ID: l.ID, Token: l.Token, AgentStatus: "continue"})
		t.FailIf(AsRefusal(err) == nil, "%v", err)
		t.State(l.ID, "active")
	}},
}

// hour is a lease that does not run out during a rule.
const hour = time.Hour

// iterationsView are the finished iterations of a job.
type iterationsView struct {
	Iterations []struct {
		Iteration   int    `json:"iteration"`
		Status      string `json:"status"`
		InputTokens int64  `json:"input_tokens"`
	} `json:"iterations"`
}
