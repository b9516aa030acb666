package conformance

import (
	"net/http"
	"slices"
	"time"
)

// policyView is an approval policy as it is shown.
type policyView struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	Mode         string    `json:"mode"`
	Enabled      bool      `json:"enabled"`
	Queue        string    `json:"queue"`
	TagKey       string    `json:"tag_key"`
	TagValue     string    `json:"tag_value"`
	Approvers    []string  `json:"approvers"`
	ExpiresAfter string    `json:"expires_after"`
	OnExpire     string    `json:"on_expire"`
	CreatedAt    time.Time `json:"created_at"`
}

const policiesPath = "/api/v1/approval-policies"

// Policy makes an approval policy, or changes the one of its id.
func (t *T) Policy(o object) policyView {
	if o["name"] == nil {
		o["name"] = "conformance"
	}
	p := Post[policyView](t, policiesPath, o)
	t.Made(policiesPath + "/" + p.ID)
	return p
}

// Held wants a job to be held by a policy.
func (t *T) Held(id string, by policyView) JobView {
	j := t.State(id, "held")
	t.FailIf(j.Hold.Policy != by.ID || j.HoldReason == "", "held as %+v, want policy %s", j.Hold, by.ID)
	return j
}

// self is what the server calls who makes this call.
func (t *T) self() string {
	id, _ := t.inState(t.Queue(), "held")
	t.Do(id, "approve", "pending")
	return t.Job(id).Hold.DecidedBy
}

// nobody is an approver who never comes.
const nobody = "user_nobody"

var policyRules = []Rule{
	{Name: "a job that a policy asks for is held from its enqueue, and runs when it is approved", Needs: "approvals", Run: func(t *T, q string) {
		p := t.Policy(object{"queue": q})
		e := t.Enqueue(Job{Queue: q, Payload: "7"})
		Equal(t, "status", e.Status, "held")
		t.Held(e.ID, p)
		t.Nothing(q)
		out := t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q})
		for _, e := range out.Jobs {
			Equal(t, "status in a batch", e.Status, "held")
			t.Held(e.ID, p)
		}
		Equal(t, "held", t.QueueNow(q).Held, 3)
		t.Nothing(q)
		t.Status(jobPath(e.ID, "/approve"), object{"comment": "looked"}, "pending")
		l := t.Fetch(q)
		Equal(t, "job and payload", [2]string{l.ID, string(l.Payload)}, [2]string{e.ID, "7"})
		h := t.Job(e.ID).Hold
		t.FailIf(h.Decision != "approved" || h.Comment != "looked" || h.Policy != p.ID, "decided as %+v", h)
		t.Ack(l)
		t.Do(out.Jobs[0].ID, "reject", "dead")
		Equal(t, "reason", t.State(out.Jobs[0].ID, "dead").DeadReason, "rejected")
		t.Nothing(q)
	}},
	{Name: "a policy holds jobs by whatever way they come", Needs: "approvals", Run: func(t *T, q string) {
		free := t.Queue()
		p := t.Policy(object{"queue": q})
		wait := func(n int) { // All that came so far is held.
			t.Eventually("a held job", func() bool { return t.QueueNow(q).Held == n })
			t.Nothing(q)
		}
		t.Call(http.MethodPost, "/api/v1/webhooks/"+q, verbatim("{}"), nil)
		wait(1)
		t.Enqueue(Job{Queue: free, Chain: &Chain{Steps: []Step{{Queue: free}, {Queue: q}}}})
		t.Ack(t.Fetch(free))
		wait(2)
		batch := t.openBatch(q)
		t.seal(batch) // It is empty, and calls back.
		wait(3)
		s := t.Schedule(q, object{"cron": "@yearly"})
		run := Post[Enqueued](t, schedulePath(s.ID, "/run"), nil)
		Equal(t, "status of a run", run.Status, "held")
		t.Held(run.ID, p)
		wait(4)
		agent := t.Enqueue(Job{Queue: q, Agent: &Agent{MaxIterations: 5}}).ID
		t.Do(agent, "approve", "pending")
		l := t.Fetch(q)
		t.AckAs(Ack{ID: l.ID, Token: l.Token, AgentStatus: "continue", Checkpoint: "1"})
		t.Ack(t.Fetch(q)) // One who was approved is not asked for again.
		replay := Post[Enqueued](t, jobPath(agent, "/replay"), object{"from": 1})
		t.Held(replay.ID, p)
		wait(5)
	}},
	{Name: "an approved job that waits for others still waits", Needs: "approvals", Run: func(t *T, q string) {
		free := t.Queue()
		p := t.Policy(object{"queue": q})
		first := t.Enqueue(Job{Queue: free})
		e := t.Enqueue(Job{Queue: q, DependsOn: []string{first.ID}})
		t.Held(e.ID, p)
		t.Do(e.ID, "approve", "pending")
		t.Nothing(q)
		t.Ack(t.Fetch(free))
		Equal(t, "job", t.Fetch(q).ID, e.ID)
	}},
	{Name: "a scheduled job that needs approval is held, and runs when it is approved", Timed: true, Needs: "approvals", Run: func(t *T, q string) {
		p := t.Policy(object{"queue": q})
		e := t.Enqueue(Job{Queue: q, ScheduledAt: later()})
		Equal(t, "status", e.Status, "held")
		t.Held(e.ID, p)
		t.Do(e.ID, "approve", "pending")
		Equal(t, "job", t.Fetch(q).ID, e.ID)
	}},
	{Name: "a retry of a job that was approved asks nobody", Needs: "approvals", Run: func(t *T, q string) {
		t.Policy(object{"queue": q})
		e := t.Enqueue(Job{Queue: q, Backoff: "none"})
		t.Do(e.ID, "approve", "pending")
		t.Failed(t.Fetch(q), "retrying")
		l := t.Fetch(q)
		Equal(t, "attempt", l.Attempt, 2)
		t.Fail(Fail{ID: l.ID, Token: l.Token, Release: true})
		Equal(t, "job", t.Fetch(q).ID, e.ID)
	}},
	{Name: "a repetition finds the held job and makes none", Needs: "approvals", Run: func(t *T, q string) {
		t.Policy(object{"queue": q})
		e := t.Enqueue(Job{Queue: q, UniqueKey: "u", IdempotencyKey: "i"})
		Equal(t, "job of the idempotency key", t.Enqueue(Job{Queue: q, UniqueKey: "u", IdempotencyKey: "i"}).ID, e.ID)
		again := t.Enqueue(Job{Queue: q, UniqueKey: "u"})
		t.FailIf(!again.Existing || again.ID != e.ID, "the key of a held job answered %+v", again)
		Equal(t, "enqueued", t.QueueNow(q).Enqueued, 1)
	}},
	{Name: "a policy holds what meets its conditions: any or all of queue, tag and value", Needs: "approvals", Run: func(t *T, q string) {
		other := t.Queue()
		key := "k-" + q // Of this rule alone.
		tag := func(v string) map[string]string { return map[string]string{key: v, "x": "y"} }
		for _, c := range []struct {
			policy object
			held   []bool // Of the jobs below.
		}{
			{object{"queue": q}, []bool{true, true, true, false, false, false}},
			{object{"tag_key": key}, []bool{false, true, true, false, true, true}},
			{object{"tag_key": key, "tag_value": "large"}, []bool{false, false, true, false, false, true}},
			{object{"queue": q, "tag_key": key, "tag_value": "large"}, []bool{true, true, true, false, false, true}},
			{object{"queue": q, "tag_key": key, "tag_value": "large", "mode": "all"}, []bool{false, false, true, false, false, false}},
			{object{"queue": q, "tag_key": key, "mode": "all"}, []bool{false, true, true, false, false, false}},
			{object{"queue": q, "mode": "all"}, []bool{true, true, true, false, false, false}},
			{object{"queue": q, "enabled": false}, make([]bool, 6)},
		} {
			p := t.Policy(c.policy)
			for i, j := range []Job{
				{Queue: q}, {Queue: q, Tags: tag("small")}, {Queue: q, Tags: tag("large")},
				{Queue: other}, {Queue: other, Tags: tag("small")}, {Queue: other, Tags: tag("large")},
			} {
				e := t.Enqueue(j)
				t.FailIf((e.Status == "held") != c.held[i], "policy %v: job %d with tags %v is %s", c.policy, i, j.Tags, e.Status)
			}
			t.Call(http.MethodDelete, policiesPath+"/"+p.ID, nil, nil)
		}
	}},
	{Name: "only an approver decides", Needs: "approvals", Run: func(t *T, q string) {
		p := t.Policy(object{"queue": q, "approvers": []string{nobody}})
		e := t.Enqueue(Job{Queue: q})
		j := t.Held(e.ID, p)
		t.FailIf(!slices.Equal(j.Hold.Approvers, []string{nobody}), "held as %+v", j.Hold)
		for _, action := range []string{"approve", "reject"} {
			t.Refused(t.Try(http.MethodPost, jobPath(e.ID, "/"+action), nil, nil), forbidden)
		}
		t.State(e.ID, "held")
		t.Nothing(q)
		if self := t.self(); self != "" { // On a server without keys nobody has a name.
			t.Policy(object{"id": p.ID, "queue": q, "approvers": []string{nobody, self}})
			mine := t.Enqueue(Job{Queue: q})
			t.Held(mine.ID, p)
			t.Do(mine.ID, "approve", "pending")
			Equal(t, "job", t.Fetch(q).ID, mine.ID)
		}
		t.Refused(t.Try(http.MethodPost, jobPath(e.ID, "/approve"), nil, nil), forbidden) // Its hold is what it was.
	}},
	{Name: "if nobody decides in time, the policy does", Timed: true, Needs: "approvals", Run: func(t *T, _ string) {
		for on, word := range map[string]string{"": "rejected", "reject": "rejected", "approve": "approved"} {
			q := t.Queue()
			p := t.Policy(object{"queue": q, "expires_after": "1s", "approvers": []string{nobody}}.put("on_expire", on))
			e := t.Enqueue(Job{Queue: q})
			j := t.Held(e.ID, p)
			t.FailIf(!about(j.Hold.Until.Sub(j.CreatedAt), time.Second), "held at %s until %s", j.CreatedAt, j.Hold.Until)
			if word == "approved" {
				l := t.Fetch(q)
				Equal(t, "job", l.ID, e.ID)
				t.Ack(l)
			} else {
				Equal(t, "reason", t.Becomes(e.ID, "dead").DeadReason, "rejected")
				t.Nothing(q)
			}
			j = t.Job(e.ID)
			t.FailIf(j.Hold.Decision != word || j.Hold.DecidedBy != "", "decided as %+v, want %s by nobody", j.Hold, word)
		}
	}},
	{Name: "a change of a policy, or its end, is about new jobs", Needs: "approvals", Run: func(t *T, q string) {
		p := t.Policy(object{"queue": q, "expires_after": "1h"})
		before := t.Enqueue(Job{Queue: q})
		changed := t.Policy(object{"id": p.ID, "queue": q, "name": "other", "enabled": false})
		t.FailIf(changed.ID != p.ID || !changed.CreatedAt.Equal(p.CreatedAt) || changed.Name != "other" || changed.ExpiresAfter != "", "changed as %+v", changed)
		after := t.Enqueue(Job{Queue: q})
		Equal(t, "job", t.Fetch(q).ID, after.ID)
		j := t.Held(before.ID, p)
		t.FailIf(j.Hold.Until.IsZero(), "held as %+v", j.Hold)
		t.Policy(object{"id": p.ID, "queue": q})
		Equal(t, "status", t.Enqueue(Job{Queue: q}).Status, "held")
		t.Call(http.MethodDelete, policiesPath+"/"+p.ID, nil, nil)
		Equal(t, "status", t.Enqueue(Job{Queue: q}).Status, "pending")
		t.State(before.ID, "held")
		t.Do(before.ID, "approve", "pending")
	}},
	{Name: "a policy is shown as it was given", Needs: "approvals", Once: true, Run: func(t *T, q string) {
		given := policyView{Name: "refunds", Mode: "all", Enabled: true, Queue: q, TagKey: "k", TagValue: "v", ExpiresAfter: "24h0m0s", OnExpire: "approve"}
		p := t.Policy(object{
			"name": given.Name, "mode": given.Mode, "queue": q, "tag_key": "k", "tag_value": "v", "expires_after": "24h", "on_expire": "approve",
			"approvers": []string{"a", "b"},
		})
		list := Get[[]policyView](t, policiesPath)
		at := slices.IndexFunc(list, func(o policyView) bool { return o.ID == p.ID })
		t.FailIf(at < 0 || !slices.Equal(list[at].Approvers, []string{"a", "b"}), "made %+v, listed %+v", p, list)
		same := func(v policyView) bool {
			return v.Name == given.Name && v.Mode == given.Mode && v.Enabled && v.Queue == q && v.TagKey == "k" && v.TagValue == "v" &&
				v.ExpiresAfter == given.ExpiresAfter && v.OnExpire == given.OnExpire && !v.CreatedAt.IsZero()
		}
		t.FailIf(!same(p) || !same(list[at]), "made %+v, listed %+v, want %+v", p, list[at], given)
		little := t.Policy(object{"queue": q})
		Equal(t, "defaults", [3]any{little.Mode, little.Enabled, little.OnExpire}, [3]any{"any", true, "reject"})
	}},
	{Name: "a policy that is wrong is refused with every wrong field named", Needs: "approvals", Once: true, Run: func(t *T, q string) {
		t.RefusesEach(policiesPath, []refused{
			{object{}, []string{"name", "queue"}},
			{object{"name": "n"}, []string{"queue"}}, // It would hold everything.
			{object{"name": "n", "queue": "a b"}, []string{"queue"}},
			{object{"name": "n", "queue": q, "mode": "some", "on_expire": "wait"}, []string{"mode", "on_expire"}},
			{object{"name": "n", "queue": q, "tag_value": "v"}, []string{"tag_value"}},
			{object{"name": "n", "queue": q, "expires_after": "1ms"}, []string{"expires_after"}},
			{object{"name": "n", "queue": q, "expires_after": "soon", "approver": "x"}, []string{"approver", "expires_after"}},
			{object{"name": "n", "queue": q, "approvers": []string{""}}, []string{"approvers[0]"}},
			{object{"name": "n", "queue": q, "approvers": slices.Repeat([]string{"a"}, 51)}, []string{"approvers"}},
		})
		Equal(t, "status", t.Enqueue(Job{Queue: q}).Status, "pending")
		gone := t.Policy(object{"queue": t.Queue()}).ID
		t.Call(http.MethodDelete, policiesPath+"/"+gone, nil, nil)
		for _, id := range []string{gone, "nonsense"} {
			t.Refused(t.Try(http.MethodDelete, policiesPath+"/"+id, nil, nil), notFound)
			t.Refused(t.Try(http.MethodPost, policiesPath, object{"id": id, "name": "n", "queue": q}, nil), notFound)
		}
	}},
}
