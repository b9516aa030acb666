package conformance

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Daily limits are those of a UTC day: a rule that fails while a day ends runs again.

// budgetView is a budget as it is shown.
type budgetView struct {
	ID        string  `json:"id"`
	Scope     string  `json:"scope"`
	Target    string  `json:"target"`
	DailyUSD  float64 `json:"daily_usd"`
	PerJobUSD float64 `json:"per_job_usd"`
	OnExceed  string  `json:"on_exceed"`
	SpentUSD  float64 `json:"spent_usd"`
}

const budgetsPath = "/api/v1/budgets"

func budgetPath(scope, target string) string {
	return budgetsPath + "/" + scope + "/" + url.PathEscape(target)
}

// Budget sets a budget.
func (t *T) Budget(scope, target string, limits object) budgetView {
	t.Made(budgetPath(scope, target)) // Also if the answer is lost.
	return Post[budgetView](t, budgetsPath, object{"scope": scope, "target": target}.with(limits))
}

// NoBudget deletes a budget.
func (t *T) NoBudget(scope, target string) {
	t.Call(http.MethodDelete, budgetPath(scope, target), nil, nil)
}

// BudgetNow shows a budget.
func (t *T) BudgetNow(scope, target string) budgetView {
	list := Get[[]budgetView](t, budgetsPath)
	at := slices.IndexFunc(list, func(b budgetView) bool { return b.Scope == scope && b.Target == target })
	t.FailIf(at < 0, "no budget of %s %s in %+v", scope, target, list)
	return list[at]
}

// Cost reports what a job cost with a heartbeat, and returns the word for it.
func (t *T) Cost(l Lease, kind string, usd float64) HeartbeatResult {
	return t.HeartbeatAs(Heartbeat{Worker: "w1", Jobs: map[string]JobUpdate{
		l.ID: {Token: l.Token, Usage: &Usage{CostUSD: usd, Model: "m", Kind: kind}},
	}})[l.ID]
}

// spend lets a job of a queue cost something and end.
func (t *T) spend(q string, tags map[string]string, usd float64) {
	l := t.Leased(Job{Queue: q, Tags: tags})
	t.AckAs(Ack{ID: l.ID, Token: l.Token, Usage: &Usage{CostUSD: usd, Model: "m"}})
}

// wholeNamespace wants the namespace to have no budget of its own, since a rule would
// take its place.
func (t *T) wholeNamespace() {
	list := Get[[]budgetView](t, budgetsPath)
	for _, b := range list {
		if b.Scope == "global" {
			t.Unable("the namespace has a budget of its own")
		}
	}
}

var budgetRules = []Rule{
	{Name: "reports as total and as delta add up to what a day cost", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		t.Budget("queue", q, object{"daily_usd": 100, "on_exceed": "hold"})
		l := t.Leased(Job{Queue: q, Backoff: "none"})
		for _, r := range []struct {
			kind       string
			usd, spent float64
		}{
			{"total", 0.25, 0.25}, {"total", 0.25, 0.25}, {"total", 0.5, 0.5}, {"delta", 0.25, 0.75}, {"delta", 0.25, 1}, {"", 2, 2}, {"total", 1.5, 1.5},
		} {
			Equal(t, "word of a heartbeat", t.Cost(l, r.kind, r.usd), HeartbeatResult{Status: "ok"})
			Equal(t, "spent after "+r.kind, t.BudgetNow("queue", q).SpentUSD, r.spent)
		}
		t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "boom", Usage: &Usage{CostUSD: 0.5, Model: "m", Kind: "delta"}})
		Equal(t, "spent after a fail", t.BudgetNow("queue", q).SpentUSD, 2)
		l = t.Fetch(q) // Another attempt counts anew.
		t.AckAs(Ack{ID: l.ID, Token: l.Token, Usage: &Usage{CostUSD: 1, Model: "m", Kind: "total"}})
		t.AckAs(Ack{ID: l.ID, Token: l.Token, Usage: &Usage{CostUSD: 1, Model: "m", Kind: "total"}})
		Equal(t, "spent after an ack and its repetition", t.BudgetNow("queue", q).SpentUSD, 3)
	}},
	{Name: "hold: a queue whose budget is spent starts nothing, takes jobs in, and finishes what runs", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		other := t.Queue()
		t.Budget("queue", q, object{"daily_usd": 1})
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q}, Job{Queue: q, Priority: "critical"})
		a, b := t.Fetch(q), t.Fetch(q)
		t.Cost(a, "total", 0.75)
		t.Cost(b, "delta", 0.25) // Together they spend it.
		t.Nothing(q)
		Equal(t, "jobs in a batch", len(t.FetchMany(Fetch{Queues: []string{q}, Worker: "w1", Count: 5, Lease: time.Minute})), 0)
		Equal(t, "status of a new job", t.Enqueue(Job{Queue: q}).Status, "pending")
		Equal(t, "word of a heartbeat", t.Cost(a, "total", 1.5), HeartbeatResult{Status: "ok"})
		t.Ack(a)
		t.Nothing(q)
		e := t.Enqueue(Job{Queue: other})
		Equal(t, "job of another queue", t.Fetch(q, other).ID, e.ID)
		t.Ack(b)
		Equal(t, "pending", t.QueueNow(q).Pending, 2)
	}},
	{Name: "a waiting fetch is served as soon as its budget is raised or gone", Timed: true, Needs: "budgets", Run: func(t *T, _ string) {
		for _, open := range []func(q string){
			func(q string) { t.Budget("queue", q, object{"daily_usd": 5}) },
			func(q string) { t.NoBudget("queue", q) },
			func(q string) { t.Budget("queue", q, object{"daily_usd": 1, "on_exceed": "alert_only"}) },
		} {
			q := t.Queue()
			t.Budget("queue", q, object{"daily_usd": 1})
			t.spend(q, nil, 1)
			e := t.Enqueue(Job{Queue: q})
			t.Nothing(q)
			t.Woken(q, e.ID, func() { open(q) })
		}
	}},
	{Name: "a budget that is made late knows what the day cost, and a lower one shuts at once", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		t.spend(q, nil, 0.5)
		t.Enqueue(Job{Queue: q})
		made := t.Budget("queue", q, object{"daily_usd": 0.75})
		Equal(t, "spent", made.SpentUSD, 0.5)
		t.Ack(t.Fetch(q))
		t.Enqueue(Job{Queue: q})
		changed := t.Budget("queue", q, object{"daily_usd": 0.5, "on_exceed": "reject"})
		Equal(t, "id of the changed budget", changed.ID, made.ID)
		t.Nothing(q)
	}},
	{Name: "acks in a batch spend a budget together", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		t.Budget("queue", q, object{"daily_usd": 1})
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: q}, Job{Queue: q})
		a, b := t.Fetch(q), t.Fetch(q)
		t.AckBatch(Ack{ID: a.ID, Token: a.Token, Usage: &Usage{CostUSD: 0.5, Model: "m"}}, Ack{ID: b.ID, Token: b.Token, Usage: &Usage{CostUSD: 0.5, Model: "m"}})
		t.Nothing(q)
		Equal(t, "spent", t.BudgetNow("queue", q).SpentUSD, 1)
	}},
	{Name: "reject: a spent budget refuses new jobs on every path, and starts nothing", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		free := t.Queue()
		t.Budget("queue", q, object{"daily_usd": 1, "on_exceed": "reject"})
		kept := t.Enqueue(Job{Queue: q, UniqueKey: "u", IdempotencyKey: "i"})
		chain := &Chain{Steps: []Step{{Queue: free}, {Queue: q}}}
		first := t.Leased(Job{Queue: free, Chain: chain})
		l := t.Fetch(q)
		t.Fail(Fail{ID: l.ID, Token: l.Token, Release: true, Usage: &Usage{CostUSD: 1, Model: "m"}})
		t.Nothing(q)
		t.EnqueueRefused(Job{Queue: q}, spent, "queue")
		_, err := t.Client.EnqueueBatch(t.Context, []Job{{Queue: free}, {Queue: q}}, nil)
		t.Refused(err, spent, "queue")
		t.Nothing(free) // All or none.
		t.Refused(t.Try(http.MethodPost, "/api/v1/webhooks/"+q, verbatim("{}"), nil), spent, "queue")
		Equal(t, "answer to a repetition", t.Enqueue(Job{Queue: q, IdempotencyKey: "i"}).ID, kept.ID)
		Equal(t, "holder of a key", t.Enqueue(Job{Queue: q, UniqueKey: "u"}).ID, kept.ID)
		t.Ack(first) // What follows from jobs that are there comes in.
		Equal(t, "enqueued", t.QueueNow(q).Enqueued, 2)
		t.NoBudget("queue", q)
		t.Enqueue(Job{Queue: q})
		Equal(t, "jobs that go out", len(t.FetchMany(Fetch{Queues: []string{q}, Worker: "w1", Count: 5, Lease: time.Minute})), 3)
	}},
	{Name: "alert: a spent budget is told once and changes nothing", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		t.Budget("queue", q, object{"daily_usd": 1, "per_job_usd": 3, "on_exceed": "alert_only"})
		from := t.Subscribe(Subscription{Queues: []string{q}, Types: []string{"budget_exceeded", "queue.paused"}})
		t.spend(q, nil, 0.5)
		t.spend(q, nil, 0.5)
		t.spend(q, nil, 0.5)
		l := t.Leased(Job{Queue: q})
		b := t.Cost(l, "total", 4)
		t.FailIf(b.Status != "ok", "word of a heartbeat is %+v", b)
		t.Ack(l)
		t.DoQueue(q, "pause", "paused")
		told := t.Told(from, "budget_exceeded", "budget_exceeded", "queue.paused") // Of the day, and of the job.
		Equal(t, "job that was too dear", told[1].Job, l.ID)
	}},
	{Name: "a tag's budget holds its jobs in every queue when they would start, and no other", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		other := t.Queue()
		tags, target := map[string]string{"team": q}, "team:"+q
		t.Budget("tag", target, object{"daily_usd": 1})
		t.spend(q, tags, 0.5)
		t.spend(other, tags, 0.5)
		Equal(t, "spent", t.BudgetNow("tag", target).SpentUSD, 1)
		held := t.Enqueue(Job{Queue: other, Tags: tags})
		Equal(t, "status", held.Status, "pending")
		free := t.Enqueue(Job{Queue: other, Tags: map[string]string{"team": "another"}})
		Equal(t, "job", t.Fetch(other).ID, free.ID)
		t.Nothing(other)
		j := t.State(held.ID, "held")
		t.FailIf(j.HoldReason == "" || !j.Hold.Until.After(j.CreatedAt), "held as %+v", j)
		t.Budget("tag", target, object{"daily_usd": 5})
		t.Do(held.ID, "approve", "pending")
		Equal(t, "job", t.Fetch(other).ID, held.ID)
	}},
	{Name: "reject counts for a tag too", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		tags := map[string]string{"team": q, "size": "s"}
		t.Budget("tag", "team:"+q, object{"daily_usd": 1, "on_exceed": "reject"})
		t.spend(q, tags, 1)
		t.EnqueueRefused(Job{Queue: q, Tags: tags}, spent, "queue")
		e := t.Enqueue(Job{Queue: q, Tags: map[string]string{"size": "s"}})
		Equal(t, "job", t.Fetch(q).ID, e.ID)
	}},
	{Name: "a job counts for every budget that covers it", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		tags := map[string]string{"a": q, "b": q}
		t.Budget("queue", q, object{"daily_usd": 100})
		t.Budget("tag", "a:"+q, object{"daily_usd": 100})
		t.Budget("tag", "b:"+q, object{"daily_usd": 1})
		t.spend(q, tags, 1)
		for scope, target := range map[string]string{"queue": q, "tag": "a:" + q} {
			Equal(t, "spent of a "+scope, t.BudgetNow(scope, target).SpentUSD, 1)
		}
		e := t.Enqueue(Job{Queue: q, Tags: tags})
		t.Nothing(q)
		t.State(e.ID, "held") // The one that is spent decides.
	}},
	{Name: "hold per job: the worker of a job that costs too much is asked to let go, and it is held", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		t.Budget("queue", q, object{"per_job_usd": 0.5, "on_exceed": "hold"})
		l := t.Leased(Job{Queue: q, MaxRetries: new(1)})
		Equal(t, "word at the limit", t.Cost(l, "total", 0.5), HeartbeatResult{Status: "ok"})
		Equal(t, "word above it", t.Cost(l, "delta", 0.000000001), HeartbeatResult{Status: "cancel", BudgetExceeded: true})
		Equal(t, "status", t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "stopped"}).Status, "held")
		j := t.State(l.ID, "held")
		t.FailIf(j.HoldReason == "" || j.Attempt != 0, "held as %+v", j)
		cheap := t.Enqueue(Job{Queue: q})
		Equal(t, "job", t.Fetch(q).ID, cheap.ID) // It is about one job alone.
		t.Do(l.ID, "approve", "pending")
		l = t.Fetch(q) // A person let it finish.
		Equal(t, "word once more", t.Cost(l, "delta", 5).Status, "ok")
		t.Ack(l)
		t.State(l.ID, "completed")
	}},
	{Name: "reject per job: a job that costs too much is dead when its worker lets go, and completed if it is done", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		t.Budget("tag", "team:"+q, object{"per_job_usd": 0.5, "on_exceed": "reject"})
		for _, acks := range []bool{false, true} {
			l := t.Leased(Job{Queue: q, Tags: map[string]string{"team": q}})
			Equal(t, "word of a heartbeat", t.Cost(l, "total", 0.75), HeartbeatResult{Status: "cancel", BudgetExceeded: true})
			t.State(l.ID, "cancelling")
			if acks {
				t.Ack(l)
				t.State(l.ID, "completed")
				continue
			}
			Equal(t, "status", t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "stopped"}).Status, "dead")
			Equal(t, "reason", t.State(l.ID, "dead").DeadReason, "budget_exceeded")
		}
	}},
	{Name: "a job that is too dear with its last report does not run again", Timed: true, Needs: "budgets", Run: func(t *T, _ string) {
		for on, want := range map[string]string{"hold": "held", "reject": "dead", "alert_only": "retrying"} {
			q := t.Queue()
			t.Budget("queue", q, object{"per_job_usd": 0.5, "on_exceed": on})
			l := t.Leased(Job{Queue: q})
			out := t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "boom", Usage: &Usage{CostUSD: 1, Model: "m"}})
			Equal(t, "status with "+on, out.Status, want)
		}
	}},
	{Name: "an agent's iterations count for its limit per job", Timed: true, Needs: "budgets", Run: func(t *T, q string) {
		t.Budget("queue", q, object{"per_job_usd": 1})
		e := t.Enqueue(Job{Queue: q, Agent: &Agent{MaxIterations: 9}})
		for _, want := range []string{"pending", "held"} {
			l := t.Fetch(q)
			t.AckAs(Ack{ID: l.ID, Token: l.Token, AgentStatus: "continue", Usage: &Usage{CostUSD: 0.75, Model: "m"}})
			t.State(e.ID, want)
		}
	}},
	{Name: "a budget of the namespace counts all its queues and shuts them all", Timed: true, Needs: "budgets", Whole: true, Run: func(t *T, q string) {
		t.wholeNamespace()
		other := t.Queue()
		before := t.Budget("global", "*", object{"daily_usd": 1_000_000}).SpentUSD
		t.EnqueueBatch(nil, Job{Queue: q}, Job{Queue: other}, Job{Queue: other})
		a, b := t.Fetch(q), t.Fetch(other)
		t.Budget("global", "*", object{"daily_usd": before + 1, "on_exceed": "reject"})
		t.Cost(a, "total", 0.5)
		t.Cost(b, "total", 0.5)
		t.Nothing(q, other)
		for _, queue := range []string{q, other, t.Queue()} {
			t.EnqueueRefused(Job{Queue: queue}, spent, "queue")
		}
		t.Budget("global", "", object{"daily_usd": before + 1, "on_exceed": "hold"})
		t.Enqueue(Job{Queue: q})
		t.Nothing(q, other)
		t.Budget("global", "*", object{"daily_usd": before + 1, "on_exceed": "alert_only"})
		t.Fetch(q)
		t.Budget("global", "*", object{"per_job_usd": 0.75})
		Equal(t, "word of a heartbeat", t.Cost(a, "total", 1), HeartbeatResult{Status: "cancel", BudgetExceeded: true})
		t.NoBudget("global", "*")
		t.Fetch(other)
	}},
	{Name: "a budget that is wrong is refused with every wrong field named", Timed: true, Needs: "budgets", Once: true, Run: func(t *T, q string) {
		t.RefusesEach(budgetsPath, []refused{
			{object{}, []string{"scope", "daily_usd"}},
			{object{"scope": "team", "target": q, "daily_usd": 1}, []string{"scope"}},
			{object{"scope": "queue", "target": "a b", "daily_usd": 1}, []string{"target"}},
			{object{"scope": "queue", "daily_usd": 1}, []string{"target"}},
			{object{"scope": "tag", "target": "team", "daily_usd": 1}, []string{"target"}},
			{object{"scope": "tag", "target": ":x", "daily_usd": 1}, []string{"target"}},
			{object{"scope": "global", "target": q, "daily_usd": 1}, []string{"target"}},
			{object{"scope": "queue", "target": q}, []string{"daily_usd"}},
			{object{"scope": "queue", "target": q, "daily_usd": -1, "per_job_usd": "much"}, []string{"daily_usd", "per_job_usd"}},
			{object{"scope": "queue", "target": q, "daily_usd": 1, "on_exceed": "panic", "daily": 3}, []string{"daily", "on_exceed"}},
		})
		for _, path := range []string{budgetPath("queue", q), budgetPath("team", q), budgetPath("tag", "k="+q)} {
			t.Refused(t.Try(http.MethodDelete, path, nil, nil), notFound)
		}
	}},
}
