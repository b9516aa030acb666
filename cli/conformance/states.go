package conformance

import (
	"net/http"
	"time"
)

// inState makes a job of each state that a call can bring about.
func (t *T) inState(q, state string) (id string, l Lease) {
	switch state {
	case "pending":
		return t.Enqueue(Job{Queue: q}).ID, l
	case "scheduled":
		return t.Enqueue(Job{Queue: q, ScheduledAt: later()}).ID, l
	case "cancelled", "held":
		id = t.Enqueue(Job{Queue: q}).ID
		t.Do(id, map[string]string{"cancelled": "cancel", "held": "hold"}[state], state)
		return id, l
	}
	// The back-off is longer than any rule takes.
	id = t.Enqueue(Job{Queue: q, MaxRetries: new(map[string]int{"dead": 1, "retrying": 3, "active": 3, "cancelling": 3, "completed": 3}[state]), BaseDelay: new(time.Minute)}).ID
	l = t.Fetch(q)
	switch state {
	case "retrying", "dead":
		t.Failed(l, state)
	case "completed":
		t.Ack(l)
	case "cancelling":
		t.Do(id, "cancel", "cancelling")
	}
	return id, l
}

var stateRules = []Rule{
	{Name: "a job that no worker holds is cancelled at once", Run: func(t *T, q string) {
		for _, state := range []string{"pending", "scheduled", "retrying"} {
			id, _ := t.inState(q, state)
			t.Do(id, "cancel", "cancelled")
			t.Do(id, "cancel", "cancelled") // Said twice, done once.
			t.State(id, "cancelled")
		}
		t.Nothing(q)
		Equal(t, "cancelled", t.QueueNow(q).Cancelled, 3)
	}},
	{Name: "the worker of an active job is asked to let go, and its slot stays taken", Run: func(t *T, q string) {
		t.SetQueue(q, object{"max_concurrency": 1})
		id, l := t.inState(q, "cancelling")
		next := t.Enqueue(Job{Queue: q})
		t.Nothing(q)
		Equal(t, "word of a heartbeat", t.Heartbeat(l), "cancel")
		Equal(t, "status", t.Fail(Fail{ID: id, Token: l.Token, Error: "stopped"}).Status, "cancelled")
		t.State(id, "cancelled")
		Equal(t, "next job", t.Fetch(q).ID, next.ID)
	}},
	{Name: "a job that is done before its worker hears of the cancel is completed", Run: func(t *T, _ string) {
		id, l := t.inState(t.Queue(), "cancelling")
		t.Ack(l)
		t.State(id, "completed")
	}},
	{Name: "what has ended cannot be cancelled", Run: func(t *T, q string) {
		for _, state := range []string{"completed", "dead"} {
			id, _ := t.inState(q, state)
			t.Refused(t.Try(http.MethodPost, jobPath(id, "/cancel"), nil, nil), conflict)
			t.State(id, state)
		}
	}},
	{Name: "a retry makes an ended job pending again with fresh counters", Run: func(t *T, _ string) {
		for _, state := range []string{"dead", "cancelled", "completed"} {
			q := t.Queue()
			id, _ := t.inState(q, state)
			t.Do(id, "retry", "retried")
			t.State(id, "pending")
			l := t.Fetch(q)
			t.FailIf(l.ID != id || l.Attempt != 1, "after a retry from %s: %+v", state, l)
		}
	}},
	{Name: "a retry of a job that waits for its time runs it now, and its attempts go on counting", Run: func(t *T, _ string) {
		for state, attempt := range map[string]int{"scheduled": 1, "retrying": 2} {
			q := t.Queue()
			id, _ := t.inState(q, state)
			t.Do(id, "retry", "retried")
			Equal(t, "attempts so far", t.State(id, "pending").Attempt, attempt-1)
			l := t.Fetch(q)
			t.FailIf(l.ID != id || l.Attempt != attempt, "after a retry from %s: %+v", state, l)
		}
	}},
	{Name: "what is waiting or running cannot be retried", Run: func(t *T, q string) {
		for _, state := range []string{"active", "cancelling", "pending"} {
			id, _ := t.inState(q, state)
			t.Refused(t.Try(http.MethodPost, jobPath(id, "/retry"), nil, nil), conflict)
			t.State(id, state)
		}
	}},
	{Name: "a deleted job leaves nothing behind", Run: func(t *T, q string) {
		for _, state := range []string{"scheduled", "retrying", "completed", "dead", "cancelled", "pending"} {
			id, _ := t.inState(q, state)
			t.Delete(id)
			t.Gone(id)
			t.Refused(t.Try(http.MethodDelete, jobPath(id, ""), nil, nil), notFound)
		}
		v := t.QueueNow(q)
		Equal(t, "jobs left", v.Pending+v.Scheduled+v.Retrying+v.Completed+v.Dead+v.Cancelled+v.Active, 0)
		t.Nothing(q)
	}},
	{Name: "a job that a worker holds cannot be deleted", Run: func(t *T, q string) {
		for _, state := range []string{"active", "cancelling"} {
			id, l := t.inState(q, state)
			t.Refused(t.Try(http.MethodDelete, jobPath(id, ""), nil, nil), conflict)
			t.Ack(l)
		}
	}},
	{Name: "an id of nothing is not found by any call", Once: true, Run: func(t *T, _ string) {
		id := t.Enqueue(Job{Queue: t.Queue()}).ID
		t.Delete(id)
		for _, id := range []string{id, "nonsense"} {
			t.Gone(id)
			for _, action := range []string{"cancel", "retry"} {
				t.Refused(t.Try(http.MethodPost, jobPath(id, "/"+action), nil, nil), notFound)
			}
		}
	}},
	{Name: "a job tells its life in order", Run: func(t *T, q string) {
		t.Failed(t.Leased(Job{Queue: q, Backoff: "none"}), "retrying")
		l := t.Fetch(q)
		t.Ack(l)
		var seen []string
		for _, e := range t.Job(l.ID).Timeline {
			seen = append(seen, e.Event)
		}
		at := 0
		for _, want := range []string{"enqueued", "started", "failed", "started", "completed"} {
			for at < len(seen) && seen[at] != want {
				at++
			}
			if at++; at > len(seen) {
				t.Fatalf("timeline %v has no %s in its place", seen, want)
			}
		}
	}},
	{Name: "a held job waits for a person: approved it runs", Needs: "hold", Run: func(t *T, _ string) {
		for _, state := range []string{"pending", "scheduled", "retrying"} {
			q := t.Queue()
			id, _ := t.inState(q, state)
			t.Do(id, "hold", "held")
			t.Do(id, "hold", "held")
			t.State(id, "held")
			t.Nothing(q)
			Equal(t, "held", t.QueueNow(q).Held, 1)
			t.Do(id, "approve", "pending")
			Equal(t, "job", t.Fetch(q).ID, id)
		}
	}},
	{Name: "a held job waits for a person: rejected it is dead", Needs: "hold", Run: func(t *T, q string) {
		id, _ := t.inState(q, "pending")
		t.Call(http.MethodPost, jobPath(id, "/hold"), object{"reason": "look first"}, nil)
		Equal(t, "hold reason", t.Job(id).HoldReason, "look first")
		t.Do(id, "reject", "dead")
		Equal(t, "reason", t.State(id, "dead").DeadReason, "rejected")
		t.Nothing(q)
	}},
	{Name: "a list of held jobs says why each is held, for as long as it is", Needs: "hold", Run: func(t *T, q string) {
		id, _ := t.inState(q, "pending")
		t.Call(http.MethodPost, jobPath(id, "/hold"), object{"reason": "look first"}, nil)
		listed := func(reason string) func() bool {
			return func() bool {
				page := Get[rowsView](t, "/api/v1/jobs?queue="+q)
				return len(page.Jobs) == 1 && page.Jobs[0].HoldReason == reason
			}
		}
		t.Eventually("a reason in the list", listed("look first"))
		t.Do(id, "approve", "pending")
		t.Eventually("a list without a reason", listed(""))
	}},
	{Name: "an active job is held when its worker lets go, and the attempt does not count", Needs: "hold", Run: func(t *T, _ string) {
		for _, release := range []bool{true, false} {
			q := t.Queue()
			l := t.Leased(Job{Queue: q, MaxRetries: new(1)})
			t.Do(l.ID, "hold", "cancelling")
			Equal(t, "word of a heartbeat", t.Heartbeat(l), "cancel")
			t.State(l.ID, "cancelling")
			Equal(t, "status", t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "told to", Release: release}).Status, "held")
			Equal(t, "attempt", t.State(l.ID, "held").Attempt, 0)
			t.Do(l.ID, "approve", "pending")
			Equal(t, "attempt", t.Fetch(q).Attempt, 1)
		}
	}},
	{Name: "a job that is done before its worker hears of the hold is completed", Needs: "hold", Run: func(t *T, _ string) {
		id, l := t.inState(t.Queue(), "active")
		t.Do(id, "hold", "cancelling")
		t.Ack(l)
		t.State(id, "completed")
	}},
	{Name: "only a held job is approved or rejected, and what has ended is not held", Needs: "hold", Run: func(t *T, _ string) {
		for _, state := range []string{"pending", "completed", "dead", "cancelled"} {
			id, _ := t.inState(t.Queue(), state)
			for _, action := range []string{"approve", "reject", "hold"} {
				if action != "hold" || state != "pending" {
					t.Refused(t.Try(http.MethodPost, jobPath(id, "/"+action), nil, nil), conflict)
				}
			}
			t.State(id, state)
		}
	}},
	{Name: "a job that is not finished in its time to live is dead", Timed: true, Needs: "ttl", Run: func(t *T, _ string) {
		for _, state := range []string{"pending", "scheduled", "retrying", "held"} {
			q := t.Queue()
			job := Job{Queue: q, ExpireAfter: new(1500 * time.Millisecond)}
			if state == "scheduled" {
				job.ScheduledAt = later()
			}
			id := t.Enqueue(job).ID
			if state == "retrying" {
				t.Failed(t.Fetch(q), "retrying")
			}
			if state == "held" {
				t.Do(id, "hold", "held")
			}
			j := t.State(id, state)
			t.FailIf(!about(j.ExpireAt.Sub(j.CreatedAt), 1500*time.Millisecond), "created at %s, expires at %s", j.CreatedAt, j.ExpireAt)
			Equal(t, "reason", t.Becomes(id, "dead").DeadReason, "expired")
			t.Nothing(q)
			t.Do(id, "retry", "retried") // Without the time that is over.
			Equal(t, "job", t.Fetch(q).ID, id)
		}
	}},
	{Name: "the time to live reaches an active job: its worker is asked to let go", Timed: true, Needs: "ttl", Run: func(t *T, q string) {
		for _, acks := range []bool{false, true} {
			l := t.Leased(Job{Queue: q, ExpireAfter: new(time.Second)})
			t.FailIf(l.ExpireAt.IsZero(), "the worker is not told when the job expires")
			t.Becomes(l.ID, "cancelling")
			Equal(t, "word of a heartbeat", t.Heartbeat(l), "cancel")
			if acks {
				t.Ack(l)
				t.State(l.ID, "completed")
				continue
			}
			Equal(t, "status", t.Fail(Fail{ID: l.ID, Token: l.Token, Error: "late"}).Status, "dead")
			Equal(t, "reason", t.State(l.ID, "dead").DeadReason, "expired")
		}
	}},
}
