package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// audited is the namespace's audit log, oldest first, one line each.
func (r *rig) audited(c Caller) (lines []string) {
	r.t.Helper()
	page, err := r.Audit(r.ctx(), c, 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range slices.Backward(page.Entries) {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %d/%d %s", e.By, e.Act, e.Target, e.Affected, e.Refused, e.Detail)))
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
	_, err := r.Heartbeat(ctx, r.caller, []HeartbeatInput{{JobID: g.JobID, Token: g.Token}})
	must(t, err)
	_, err = r.Ack(ctx, r.caller, []AckInput{{JobID: g.JobID, Token: g.Token}})
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
	must(t, r.PauseSchedule(ctx, c, s.ID))
	_, err = r.RunSchedule(ctx, c, s.ID)
	must(t, err)
	must(t, r.DeleteSchedule(ctx, c, s.ID))

	equal(t, "the audit log", r.audited(c), []string{
		"key_ops queue.pause q 1/0",
		"key_ops queue.resume q 1/0",
		`key_ops queue.update q 1/0 {"max_concurrency":"3"}`,
		`key_ops job.move ` + a.String() + ` 1/0 {"to_queue":"other"}`,
		`key_ops job.hold ` + b.String() + ` 1/0 {"reason":"look at it"}`,
		`key_ops job.reject ` + b.String() + ` 1/0 {"comment":"no"}`,
		"key_ops job.retry " + b.String() + " 1/0",
		"key_ops job.cancel " + b.String() + " 1/0",
		"key_ops job.delete " + b.String() + " 1/0",
		"key_ops queue.drain other 1/0",
		"key_ops queue.clear other 1/0",
		"key_ops queue.delete other 1/0",
		`key_ops schedule.create ` + s.ID.String() + ` 1/0 {"name":"nightly"}`,
		`key_ops schedule.pause ` + s.ID.String() + ` 1/0 {"name":"nightly"}`,
		"key_ops schedule.run " + s.ID.String() + " 1/0",
		"key_ops schedule.delete " + s.ID.String() + " 1/0",
	})
	stranger := c
	stranger.Namespace = job.Namespace{6}
	equal(t, "another namespace's log", r.audited(stranger), nil)
	page, err := r.Audit(ctx, c, 0, 2)
	if err != nil || len(page.Entries) != 2 || page.Next == 0 {
		t.Fatalf("a page: %+v, %v", page, err)
	}
	if next, err := r.Audit(ctx, c, page.Next, 1); err != nil || next.Entries[0].Act != "schedule.pause" {
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
		fmt.Sprintf(`%s jobs.cancel  %d/0 {"filter":"queue=q states=pending limit=%d"}`, r.caller.Principal, bulkGroup+5, bulkGroup+5),
		fmt.Sprintf(`%s jobs.cancel  %d/0 {"filter":"queue=q states=pending"}`, r.caller.Principal, 2*bulkGroup-5),
	})
}

func TestAudit_RequeueingTheDeadIsOneEntry(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.enqueue(EnqueueInput{Queue: "q", MaxRetries: ptr(1)})
	g := r.fetch(FetchInput{Queues: []string{"q"}})[0]
	_, err := r.Fail(r.ctx(), r.caller, []FailInput{{JobID: g.JobID, Token: g.Token, Error: "boom"}})
	must(t, err)
	for range 2 { // The second time there is nothing to do.
		_, err = r.RequeueDead(r.ctx(), r.caller, "q")
		must(t, err)
	}
	equal(t, "the audit log", r.audited(r.caller), []string{r.caller.Principal + " queue.requeue q 1/0"})
}
