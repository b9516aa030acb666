package queue

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// audited is the namespace's audit log, oldest first, one line each.
func (r *rig) audited(c Caller) (lines []string) {
	r.t.Helper()
	page, err := r.Audit(r.ctx(), c, 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range slices.Backward(page.Entries) {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %d/%d %s", e.Principal, e.Action, e.Target, e.Affected, e.Refused, e.Detail)))
	}
	return lines
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAudit_EveryAdministrativeActAndNoWork(t *testing.T) {
	t.Parallel()
	r := start(t)
	c, ctx := r.caller, r.ctx()
	c.Principal, c.Peer = "key_ops", "192.0.2.7"
	later := time.Now().Add(time.Hour)
	a := r.enqueue(EnqueueInput{Queue: "q", ScheduledAt: later})
	b := r.enqueue(EnqueueInput{Queue: "q", ScheduledAt: later})
	// Work: none of it is an act.
	r.enqueue(EnqueueInput{Queue: "work"})
	g := r.fetch(FetchInput{Queues: []string{"work"}})[0]
	_, err := r.Heartbeat(ctx, r.caller, []HeartbeatInput{{JobID: idOf(g.JobID), Token: g.LeaseToken}})
	must(t, err)
	_, err = r.Ack(ctx, r.caller, []AckInput{{JobID: idOf(g.JobID), Token: g.LeaseToken}})
	must(t, err)

	must(t, r.PauseQueue(ctx, c, "q"))
	must(t, r.ResumeQueue(ctx, c, "q"))
	_, err = r.SetQueue(ctx, c, "q", QueueSettings{MaxConcurrency: ptr(3)})
	must(t, err)
	must(t, r.MoveJob(ctx, c, a, "other"))
	_, err = r.Hold(ctx, c, b, "look at it")
	must(t, err)
	_, err = r.Reject(ctx, c, b, "no")
	must(t, err)
	must(t, r.Retry(ctx, c, b))
	_, err = r.Cancel(ctx, c, b)
	must(t, err)
	must(t, r.Delete(ctx, c, b))
	if err := r.Delete(ctx, c, b); err == nil { // It is gone: no act.
		t.Error("deleted twice")
	}
	_, err = r.DrainQueue(ctx, c, "other", 0)
	must(t, err)
	_, err = r.ClearQueue(ctx, c, "other")
	must(t, err)
	must(t, r.DeleteQueue(ctx, c, "other"))
	s, err := r.CreateSchedule(ctx, c, ScheduleInput{Name: "nightly", Cron: "0 3 * * *", Job: EnqueueInput{Queue: "q"}})
	must(t, err)
	must(t, r.PauseSchedule(ctx, c, scheduleOf(s.ID)))
	_, err = r.RunSchedule(ctx, c, scheduleOf(s.ID))
	must(t, err)
	must(t, r.DeleteSchedule(ctx, c, scheduleOf(s.ID)))

	equal(t, "the audit log", r.audited(c), []string{
		"key_ops queue.pause q 1/0",
		"key_ops queue.resume q 1/0",
		`key_ops queue.update q 1/0 {"max_concurrency":"3","was_max_concurrency":"none"}`,
		`key_ops job.move ` + a.String() + ` 1/0 {"to_queue":"other"}`,
		`key_ops job.hold ` + b.String() + ` 1/0 {"reason":"look at it"}`,
		`key_ops job.reject ` + b.String() + ` 1/0 {"comment":"no"}`,
		"key_ops job.retry " + b.String() + " 1/0",
		"key_ops job.cancel " + b.String() + " 1/0",
		"key_ops job.delete " + b.String() + " 1/0",
		"key_ops queue.drain other 1/0",
		"key_ops queue.clear other 1/0",
		"key_ops queue.delete other 1/0",
		`key_ops schedule.create ` + s.ID + ` 1/0 {"name":"nightly"}`,
		`key_ops schedule.pause ` + s.ID + ` 1/0 {"name":"nightly"}`,
		"key_ops schedule.run " + s.ID + " 1/0",
		"key_ops schedule.delete " + s.ID + " 1/0",
	})
	stranger := c
	stranger.Namespace = job.Namespace{6}
	equal(t, "another namespace's log", r.audited(stranger), nil)
	page, err := r.Audit(ctx, c, 0, 2)
	if err != nil || len(page.Entries) != 2 || page.Cursor == "" {
		t.Fatalf("a page: %+v, %v", page, err)
	}
	before, err := strconv.ParseUint(page.Cursor, 10, 64)
	must(t, err)
	if next, err := r.Audit(ctx, c, before, 1); err != nil || next.Entries[0].Action != "schedule.pause" {
		t.Errorf("the next page: %+v, %v", next, err)
	}
}

// A bulk call is one entry, with its filter and its count, however many entries of the log
// it takes.
func TestAudit_ABulkCallIsOneEntry(t *testing.T) {
	t.Parallel()
	r := start(t)
	b, run := r.bulk()
	run()
	r.fill("q", 3*bulkGroup)
	r.do(b, BulkInput{Action: "cancel", Filter: &JobFilter{Queue: "q", States: []string{"pending"}, Limit: bulkGroup + 5}})
	op := r.do(b, BulkInput{Action: "cancel", Filter: &JobFilter{Queue: "q", States: []string{"pending"}}, Async: true}).Operation
	r.ended(b, op.ID)
	r.do(b, BulkInput{Action: "cancel", Filter: &JobFilter{Queue: "nothing"}}) // Nobody did anything.
	equal(t, "the audit log", r.audited(r.caller), []string{
		fmt.Sprintf(`%s jobs.cancel  %d/0 {"filter":"queue=q state=pending limit=%d"}`, r.caller.Principal, bulkGroup+5, bulkGroup+5),
		fmt.Sprintf(`%s jobs.cancel  %d/0 {"filter":"queue=q state=pending"}`, r.caller.Principal, 2*bulkGroup-5),
	})
}

func TestAudit_RequeueingTheDeadIsOneEntry(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.enqueue(EnqueueInput{Queue: "q", MaxRetries: ptr(1)})
	g := r.fetch(FetchInput{Queues: []string{"q"}})[0]
	_, err := r.Fail(r.ctx(), r.caller, []FailInput{{JobID: idOf(g.JobID), Token: g.LeaseToken, Error: "boom"}})
	must(t, err)
	for range 2 { // The second time there is nothing to do.
		_, err = r.RequeueDead(r.ctx(), r.caller, "q")
		must(t, err)
	}
	equal(t, "the audit log", r.audited(r.caller), []string{r.caller.Principal + " queue.requeue q 1/0"})
}

// dead makes n jobs of a queue dead.
func (r *rig) dead(queue string, n int) {
	r.t.Helper()
	for range n {
		r.enqueue(EnqueueInput{Queue: queue, MaxRetries: ptr(1)})
		g := r.fetch(FetchInput{Queues: []string{queue}})[0]
		_, err := r.Fail(r.ctx(), r.caller, []FailInput{{JobID: idOf(g.JobID), Token: g.LeaseToken, Error: "boom"}})
		must(r.t, err)
	}
}

// Every bulk action is an act; those that leave a job as it is count it apart.
func TestAudit_BulkApprovalsRejectionsAndRequeuesAreEntries(t *testing.T) {
	t.Parallel()
	r := start(t)
	b, _ := r.bulk()
	c := r.caller
	held := make([]string, 4)
	for i := range held {
		id := r.enqueue(EnqueueInput{Queue: "q"})
		_, err := r.Hold(r.ctx(), Caller{Namespace: c.Namespace, Principal: "key_before", Rights: c.Rights}, id, "")
		must(t, err)
		held[i] = id.String()
	}
	before := len(r.audited(c))
	r.do(b, BulkInput{Action: "approve", JobIDs: held[:2]})
	r.do(b, BulkInput{Action: "reject", JobIDs: held[1:]}) // The second one is no longer held.
	r.dead("late", 3)
	r.do(b, BulkInput{Action: "requeue", Filter: &JobFilter{Queue: "late", States: []string{"dead"}}})
	r.do(b, BulkInput{Action: "move", MoveTo: "slow", JobIDs: held[:1]})
	r.do(b, BulkInput{Action: "change_priority", Priority: "high", JobIDs: held[:1]})
	r.do(b, BulkInput{Action: "approve", JobIDs: held[:1]}) // None is held: nobody did anything.
	equal(t, "the audit log", r.audited(c)[before:], []string{
		c.Principal + ` jobs.approve  2/0 {"job_ids":"2"}`,
		c.Principal + ` jobs.reject  2/1 {"job_ids":"3"}`,
		c.Principal + ` jobs.requeue  3/0 {"filter":"queue=late state=dead"}`,
		c.Principal + ` jobs.move  1/0 {"job_ids":"1","to_queue":"slow"}`,
		c.Principal + ` jobs.change_priority  1/0 {"job_ids":"1","priority":"high"}`,
	})
}

func TestAudit_BudgetsAndPoliciesSayWhatWasSet(t *testing.T) {
	t.Parallel()
	r := start(t)
	c, ctx := r.caller, r.ctx()
	_, err := r.SetBudget(ctx, c, Budget{Scope: "queue", Target: "ai", Daily: 20 * job.NanosPerDollar, OnExceed: "reject"})
	must(t, err)
	_, err = r.SetBudget(ctx, c, Budget{Scope: "global", PerJob: job.NanosPerDollar / 2})
	must(t, err)
	must(t, r.DeleteBudget(ctx, c, "queue", "ai"))
	if err := r.DeleteBudget(ctx, c, "queue", "ai"); err == nil { // It is gone: no act.
		t.Error("deleted twice")
	}
	p, err := r.SetPolicy(ctx, c, Policy{Name: "refunds", Enabled: true, Queue: "refunds", TagKey: "size", TagValue: "l", Approvers: []string{"usr_1"}})
	must(t, err)
	must(t, r.DeletePolicy(ctx, c, parsed(p.ID, job.ParsePolicyID)))
	equal(t, "the audit log", r.audited(c), []string{
		c.Principal + ` budget.set queue/ai 1/0 {"daily_usd":"20","on_exceed":"reject"}`,
		c.Principal + ` budget.set global/* 1/0 {"on_exceed":"hold","per_job_usd":"0.5"}`,
		c.Principal + " budget.delete queue/ai 1/0",
		c.Principal + " approval_policy.set " + p.ID + ` 1/0 {"approvers":"usr_1","enabled":"true","name":"refunds","queue":"refunds","tag":"size:l"}`,
		c.Principal + " approval_policy.delete " + p.ID + " 1/0",
	})
}

// A replay is an act of the job it begins from, once: its idempotency key makes no second.
func TestAudit_AReplayIsOneEntry(t *testing.T) {
	t.Parallel()
	r := start(t)
	c, ctx := r.caller, r.ctx()
	id := r.enqueue(EnqueueInput{Queue: "ai", Agent: &AgentLimits{MaxIterations: 3}})
	g := r.fetch(FetchInput{Queues: []string{"ai"}})[0]
	_, err := r.Ack(ctx, c, []AckInput{{JobID: idOf(g.JobID), Token: g.LeaseToken, AgentStatus: "continue"}})
	must(t, err)
	made, err := r.Replay(ctx, c, id, 1, "once")
	must(t, err)
	if again, err := r.Replay(ctx, c, id, 1, "once"); err != nil || again.JobID != made.JobID || !again.Replayed {
		t.Fatalf("the same key made %+v, %v", again, err)
	}
	if _, err := r.Replay(ctx, c, id, 2, ""); err == nil { // There is no such iteration.
		t.Error("replayed from an iteration that never was")
	}
	equal(t, "the audit log", r.audited(c), []string{
		fmt.Sprintf(`%s job.replay %s 1/0 {"from":"1","new_job":"%s"}`, c.Principal, id, made.JobID),
	})
}

// A call that names all settings is an entry about those that it changed.
func TestAudit_SettingsThatStayedAreNotInTheEntry(t *testing.T) {
	t.Parallel()
	r := start(t)
	c, ctx := r.caller, r.ctx()
	all := func(most int, t Throttle, retries *int) QueueSettings {
		return QueueSettings{MaxConcurrency: &most, Throttle: &t, Retry: &RetrySettings{MaxRetries: retries}}
	}
	minute := Throttle{Limit: 100, Window: time.Minute}
	for _, in := range []QueueSettings{all(2, Throttle{}, nil), all(2, minute, nil), all(2, minute, ptr(7)), all(0, minute, ptr(7)), all(0, minute, ptr(7))} {
		_, err := r.SetQueue(ctx, c, "q", in)
		must(t, err)
	}
	equal(t, "the audit log", r.audited(c), []string{
		c.Principal + ` queue.update q 1/0 {"max_concurrency":"2","was_max_concurrency":"none"}`,
		c.Principal + ` queue.update q 1/0 {"throttle":"100/1m","was_throttle":"none"}`,
		c.Principal + ` queue.update q 1/0 {"max_retries":"7","was_max_retries":"default"}`,
		c.Principal + ` queue.update q 1/0 {"max_concurrency":"none","was_max_concurrency":"2"}`,
		c.Principal + " queue.update q 1/0",
	})
}

// What a bulk call was meant for is told by its filter alone: afterwards other jobs fit it.
func TestAudit_TellsEveryConditionOfAFilter(t *testing.T) {
	t.Parallel()
	// How the list is shown, not which jobs are in it.
	const not = " Sort Order Cursor "
	one, yes := 1, true
	values := map[reflect.Type]any{
		reflect.TypeFor[string](): "x", reflect.TypeFor[wire.Priority](): wire.High, reflect.TypeFor[[]string](): []string{"x"}, reflect.TypeFor[[]JobTag](): []JobTag{{"k", "v"}},
		reflect.TypeFor[time.Time](): time.Unix(1, 0), reflect.TypeFor[*int](): &one, reflect.TypeFor[*bool](): &yes, reflect.TypeFor[int](): 1,
	}
	told := map[string]string{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[JobFilter]()) {
		if !field.IsExported() || strings.Contains(not, " "+field.Name+" ") {
			continue
		}
		var f JobFilter
		reflect.ValueOf(&f).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(values[field.Type]))
		text := f.describe()
		if text == "" || told[text] != "" {
			t.Errorf("%s: %q, as %q", field.Name, text, told[text])
		}
		told[text] = field.Name
	}
	oldest := JobFilter{Queue: "q", Limit: 5, Order: "asc"}
	if got := oldest.describe(); got != "queue=q limit=5 order=asc" {
		t.Errorf("the five oldest: %q", got)
	}
}
