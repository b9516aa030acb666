package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// budget reads a scope and a target, and daily=1 per-job=0.5 on=reject.
func (l *scriptLine) budget() command.Budget {
	scopes := map[string]command.BudgetScope{"global": command.BudgetGlobal, "queue": command.BudgetQueue, "tag": command.BudgetTag}
	ons := map[string]command.OnExceed{"hold": command.ExceedHold, "reject": command.ExceedReject, "alert": command.ExceedAlert}
	if len(l.names) != 2 || scopes[l.names[0]] == 0 {
		l.fail("names %v, want a scope and a target", l.names)
		return command.Budget{}
	}
	b := command.Budget{ID: job.BudgetID(idOf(l.names[0])), Scope: scopes[l.names[0]], Target: l.names[1]}
	if b.Scope == command.BudgetTag { // Scripts tag their jobs with t.
		b.Target = records.TagBudget(command.Tag{Key: "t", Value: b.Target}).Target
	}
	var err error
	if b.Daily, err = job.ParseDollars(l.text("daily", "0")); err == nil {
		b.PerJob, err = job.ParseDollars(l.text("per-job", "0"))
	}
	if err != nil {
		l.fail("budget: %w", err)
	}
	b.On = ons[l.text("on", "hold")]
	return b
}

// policy reads a letter, and queue=q tag=v (* is any) mode=all expires=1h approve=true
// by=anna off=true.
func (l *scriptLine) policy() command.Policy {
	p := command.Policy{ID: job.PolicyID(l.id()), Enabled: l.text("off", "") == "", Any: l.text("mode", "any") == "any", Queue: l.text("queue", ""), Expires: l.duration("expires", 0)}
	p.Name, p.ApproveAtLast = idText(p.ID), l.text("approve", "") == "true"
	if v := l.text("tag", ""); v != "" {
		p.TagKey, p.TagValue = "t", strings.TrimPrefix(v, "*")
	}
	if by := l.text("by", ""); by != "" {
		p.Approvers = []string{by}
	}
	return p
}

// governed is a queue with a budget, and what one job of it reported.
func governed(t tb, r *replica, on command.OnExceed, scope command.BudgetScope, target string) (ns job.Namespace) {
	t.Helper()
	ns = job.Namespace{1}
	r.do(t, r.now, &command.PutBudget{NS: ns, Budget: command.Budget{ID: job.BudgetID{1}, Scope: scope, Target: target, Daily: 100, On: on}})
	r.give(t, ns, "A", "q")
	r.do(t, r.now, &command.Fetch{NS: ns, Jobs: []job.ID{idOf("A")}, Worker: "w", Lease: time.Hour})
	return ns
}

// give enqueues a job with a tag.
func (r *replica) give(t tb, ns job.Namespace, name, queue string) Result {
	t.Helper()
	return r.do(t, r.now, &command.Enqueue{NS: ns, ID: idOf(name), Queue: queue, Retry: command.DefaultRetry(), Tags: []command.Tag{{Key: "t", Value: "x"}}})
}

func (r *replica) cost(t tb, ns job.Namespace, name string, cost int64) Result {
	t.Helper()
	return r.do(t, r.now, &command.Heartbeat{NS: ns, ID: idOf(name), Usage: &command.Usage{Cost: cost, Model: "m"}})
}

func (r *replica) fetches(t tb, ns job.Namespace, now int64, names ...string) string {
	t.Helper()
	c := &command.Fetch{NS: ns, Worker: "w", Lease: time.Hour}
	for _, name := range names {
		c.Jobs = append(c.Jobs, idOf(name))
	}
	got := ""
	for _, g := range r.do(t, now, c).Grants {
		got += idText(g.ID)
	}
	return got
}

// The limit of a namespace counts all its queues, that of a tag counts; a replica that
// takes over, or restarts, has the counters; a budget created at noon counts the morning.
func TestTrap111_BudgetsAreCountedTogetherAndOutliveTheLeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scope  command.BudgetScope
		target string
	}{{command.BudgetGlobal, records.AllTarget}, {command.BudgetQueue, "q"}, {command.BudgetTag, "t:x"}} {
		for _, on := range []command.OnExceed{command.ExceedHold, command.ExceedReject, command.ExceedAlert} {
			r := newReplica(t)
			ns := governed(t, r, on, c.scope, c.target)
			r.cost(t, ns, "A", 60)
			r.give(t, ns, "B", "q")
			if got := r.fetches(t, ns, r.now, "B"); got != "B" {
				t.Fatalf("%v: within its limit %q starts", c, got)
			}
			r.cost(t, ns, "B", 40)
			r.machine = New(r.store, nil) // The next leader.
			if qs, _, err := stateread.ReadQueueState(r.store, ns, "q"); err != nil || (qs.Opens(stateread.Times{Lease: r.now, Calendar: r.now}) != stateread.Times{}) != (on != command.ExceedAlert && c.scope != command.BudgetTag) {
				t.Errorf("%v, %d: the leader's memory opens the queue at %d, %v", c, on, qs.Opens(stateread.Times{Lease: r.now, Calendar: r.now}), err)
			}
			res := r.give(t, ns, "C", "q")
			if (res.Refusal == BudgetSpent) != (on == command.ExceedReject) {
				t.Errorf("%v, %d: an enqueue answered %+v", c, on, res)
			}
			got, want := r.fetches(t, ns, r.now, "C"), ""
			if on == command.ExceedAlert {
				want = "C"
			}
			if got != want {
				t.Errorf("%v, %d: %q starts, want %q", c, on, got, want)
			}
			r.audit(t)
			tomorrow := records.EndOfDay(r.now)
			for _, d := range due(t, r, tomorrow) {
				r.do(t, tomorrow, &command.Fire{Due: d})
			}
			if h := r.audit(t)[idOf("C")]; on == command.ExceedHold && (h.State != job.Pending || r.fetches(t, ns, tomorrow, "C") != "C") {
				t.Errorf("%v: on the next day the job is %s", c, h.State)
			}
			r.close(t)
		}
	}
}

func due(t *testing.T, r *replica, at int64) []keys.Due {
	t.Helper()
	rows, err := bothDue(r.store, 0, at+1, 100)
	if err != nil {
		t.Fatal(err)
	}
	var holds []keys.Due
	for _, d := range rows {
		if d.Kind == dueKind(job.Held) {
			holds = append(holds, d)
		}
	}
	return holds
}

// A fetch reads a counter per budget: the usage reported before may be any amount, and
// may even be gone.
func TestTrap99_EnforcingReadsNoUsage(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := governed(t, r, command.ExceedHold, command.BudgetGlobal, records.AllTarget)
	for i := range 200 {
		u := &command.Usage{Cost: 1, Model: fmt.Sprint("m", i)}
		r.do(t, r.now, &command.Heartbeat{NS: ns, ID: idOf("A"), Usage: u})
	}
	txn := r.store.NewTxn()
	txn.DeleteRange(r.machine.space.UsageBetween(ns, 0, 1<<62))
	if _, err := txn.EndEntry(0, r.index); err != nil {
		t.Fatal(err)
	}
	if err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	r.machine = New(r.store, nil)
	r.give(t, ns, "B", "other")
	if got := r.fetches(t, ns, r.now, "B"); got != "" {
		t.Fatalf("%q starts although the day is spent", got)
	}
}

// One by one and batched in one transaction are the same, even where budgets are made
// in the transaction that they are spent in.
func TestBudgets_GatheredEntriesAreTheSame(t *testing.T) {
	t.Parallel()
	one, all := newReplica(t), newReplica(t)
	defer one.close(t)
	defer all.close(t)
	ns, a, b := job.Namespace{1}, idOf("A"), idOf("B")
	say := func(cost int64) *command.Usage { return &command.Usage{Cost: cost, Model: "m"} }
	put := func(on command.OnExceed, daily, perJob int64) command.Command {
		return &command.PutBudget{NS: ns, Budget: command.Budget{ID: job.BudgetID{1}, Scope: command.BudgetQueue, Target: "q", Daily: daily, PerJob: perJob, On: on}}
	}
	cmds := []command.Command{
		&command.Enqueue{NS: ns, ID: a, Queue: "q", Retry: command.DefaultRetry()},
		&command.Fetch{NS: ns, Jobs: []job.ID{a}, Worker: "w", Lease: time.Hour},
		put(command.ExceedReject, 10, 20),
		&command.Heartbeat{NS: ns, ID: a, Usage: say(15)},
		&command.Enqueue{NS: ns, ID: b, Queue: "q", Retry: command.DefaultRetry()},
		&command.PutPolicy{NS: ns, Policy: command.Policy{ID: job.PolicyID{1}, Enabled: true, Any: true, Queue: "q"}},
		put(command.ExceedHold, 10, 20),
		&command.Enqueue{NS: ns, ID: b, Queue: "q", Retry: command.DefaultRetry()},
		&command.Decide{NS: ns, ID: b, Approve: true},
		&command.Fetch{NS: ns, Jobs: []job.ID{b}, Worker: "w", Lease: time.Hour},
		&command.Heartbeat{NS: ns, ID: a, Usage: say(25)},
		&command.DeleteBudget{NS: ns, Scope: command.BudgetQueue, Target: "q"},
		&command.Fetch{NS: ns, Jobs: []job.ID{b}, Worker: "w", Lease: time.Hour},
		&command.Fail{NS: ns, ID: a, Error: "no"},
	}
	var log []logEntry
	for i, c := range cmds {
		e := logEntry{now: epoch + int64(i), cmds: []command.Command{c}}
		log = append(log, e)
		one.apply(t, e)
	}
	all.apply(t, log...)
	if one.digest != all.digest {
		t.Fatal("one by one and gathered differ")
	}
	if h := one.audit(t)[a]; h.State != job.Held {
		t.Fatalf("the job that cost too much is %s", h.State)
	}
	if _, err := one.store.Get(one.machine.space.Budget(ns, byte(command.BudgetQueue), "q")); err != statedb.ErrNotFound {
		t.Fatalf("the deleted budget: %v", err)
	}
}

// The report that exceeds a limit per job stops the job, even if it was over a laxer
// one before.
func TestBudget_AStricterLimitPerJobStopsTheJobToo(t *testing.T) {
	t.Parallel()
	for on, want := range map[command.OnExceed]job.State{command.ExceedHold: job.Held, command.ExceedReject: job.Dead} {
		r := newReplica(t)
		ns := job.Namespace{1}
		for _, b := range []command.Budget{
			{ID: job.BudgetID{1}, Scope: command.BudgetGlobal, Target: records.AllTarget, PerJob: 10, On: command.ExceedAlert},
			{ID: job.BudgetID{2}, Scope: command.BudgetTag, Target: "t:x", PerJob: 20, On: on},
		} {
			r.do(t, r.now, &command.PutBudget{NS: ns, Budget: b})
		}
		r.give(t, ns, "A", "q")
		r.fetches(t, ns, r.now, "A")
		if res := r.cost(t, ns, "A", 15); res.Cancel {
			t.Errorf("%d: stopped by a limit that only alerts", on)
		}
		if res := r.cost(t, ns, "A", 10); !res.Cancel || !res.Over {
			t.Errorf("%d: the report over the second limit answered %+v", on, res)
		}
		r.do(t, r.now, &command.Fail{NS: ns, ID: idOf("A"), Release: true})
		if h := r.audit(t)[idOf("A")]; h.State != want {
			t.Errorf("%d: the job is %s, want %s", on, h.State, want)
		}
		r.close(t)
	}
}

// A job over its limit that a person let run again is held before it runs once more,
// even when its worker was lost.
func TestBudget_AJobOverItsLimitIsHeldWhenItsLeaseRunsOut(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, id := job.Namespace{1}, idOf("A")
	r.do(t, r.now, &command.PutBudget{NS: ns, Budget: command.Budget{ID: job.BudgetID{1}, Scope: command.BudgetGlobal, Target: records.AllTarget, PerJob: 10}})
	r.give(t, ns, "A", "q")
	r.fetches(t, ns, r.now, "A")
	r.cost(t, ns, "A", 15)
	r.do(t, r.now, &command.Fail{NS: ns, ID: id, Release: true})
	r.do(t, r.now, &command.Decide{NS: ns, ID: id, Approve: true})
	r.fetches(t, ns, r.now, "A")
	h := r.audit(t)[id]
	r.do(t, h.Due, &command.Fire{Due: keys.Due{At: h.Due, Kind: dueKind(job.Active), NS: ns, ID: id}})
	if h := r.audit(t)[id]; h.State != job.Held || h.Crashes != 1 {
		t.Errorf("after its lease ran out the job is %s, %d crashes", h.State, h.Crashes)
	}
}
