package conformance

import (
	"net/http"
	"time"
)

// Clear removes the jobs of a queue that no worker holds, and wants their number.
func (t *T) Clear(q string, want int) {
	var out struct {
		Status  string `json:"status"`
		Removed int    `json:"removed"`
	}
	t.Call(http.MethodPost, queuePath(q, "/clear"), nil, &out)
	Equal(t, "answer", out.Status, "cleared")
	Equal(t, "jobs removed", out.Removed, want)
}

var clearRules = []Rule{
	{Name: "no job of a cleared queue is handed out or found again", Needs: "clear", Run: func(t *T, q string) {
		var gone []string
		for _, state := range []string{"dead", "completed", "cancelled", "scheduled", "held", "pending"} {
			id, _ := t.inState(q, state)
			gone = append(gone, id)
		}
		for _, p := range []string{"critical", "high", "normal"} {
			gone = append(gone, t.Enqueue(Job{Queue: q, Priority: p}).ID)
		}
		t.Clear(q, 9)
		t.Nothing(q)
		for _, id := range gone {
			t.Gone(id)
		}
		t.Clear(q, 0)
		e := t.Enqueue(Job{Queue: q})
		Equal(t, "job", t.Fetch(q).ID, e.ID)
	}},
	{Name: "what would have come back by itself does not, after its queue was cleared", Timed: true, Needs: "clear", Run: func(t *T, q string) {
		const wait = 1200 * time.Millisecond
		t.Failed(t.Leased(Job{Queue: q, MaxRetries: new(2), Backoff: "fixed", BaseDelay: new(wait)}), "retrying")
		t.Enqueue(Job{Queue: q, ScheduledAt: time.Now().Add(wait)})
		first := t.Enqueue(Job{Queue: t.Queue()})
		t.Enqueue(Job{Queue: q, DependsOn: []string{first.ID}})
		t.Clear(q, 3)
		t.Ack(t.Fetch(t.Job(first.ID).Queue))
		late := t.Enqueue(Job{Queue: q, ScheduledAt: time.Now().Add(wait + 300*time.Millisecond)})
		Equal(t, "job", t.Fetch(q).ID, late.ID) // Its time is later than that of the others.
		t.Nothing(q)
	}},
	{Name: "a job that a worker holds outlives a clear", Needs: "clear", Run: func(t *T, q string) {
		t.SetQueue(q, object{"max_concurrency": 3})
		done, l := t.inState(q, "active")
		again, m := t.inState(q, "active")
		stopped, n := t.inState(q, "cancelling")
		t.Clear(q, 0)
		t.Enqueue(Job{Queue: q})
		t.Clear(q, 1)
		Equal(t, "word of a heartbeat", t.Heartbeat(l), "ok")
		t.Ack(l)
		t.State(done, "completed")
		Equal(t, "word of a heartbeat", t.Heartbeat(n), "cancel")
		Equal(t, "status", t.Fail(Fail{ID: stopped, Token: n.Token, Error: "stopped"}).Status, "cancelled")
		Equal(t, "status", t.Fail(Fail{ID: again, Token: m.Token, Error: "later", Delay: new(time.Duration(0))}).Status, "retrying")
		m = t.Fetch(q)
		Equal(t, "job", m.ID, again)
		t.Ack(m)
	}},
	{Name: "the counts of a cleared queue are exact at once", Needs: "clear", Run: func(t *T, q string) {
		for _, state := range []string{"retrying", "completed", "dead", "cancelled", "cancelling", "active", "scheduled", "pending"} {
			t.inState(q, state)
		}
		t.Clear(q, 6)
		v := t.QueueNow(q)
		got := [...]int{v.Pending, v.Scheduled, v.Active, v.Cancelling, v.Retrying, v.Completed, v.Dead, v.Cancelled, v.Held}
		Equal(t, "counts", got, [...]int{0, 0, 1, 1, 0, 0, 0, 0, 0})
		Equal(t, "enqueued", v.Enqueued, 8) // What happened did happen.
	}},
	{Name: "a cleared queue keeps its settings, frees unique keys and knows what was enqueued", Needs: "clear", Run: func(t *T, q string) {
		t.SetQueue(q, object{"max_concurrency": 1})
		active := t.Leased(Job{Queue: q, UniqueKey: "held"})
		first := t.Enqueue(Job{Queue: q, UniqueKey: "u", IdempotencyKey: "i"})
		t.Clear(q, 1)
		Equal(t, "answer to a repetition", t.Enqueue(Job{Queue: q, UniqueKey: "u", IdempotencyKey: "i"}).ID, first.ID)
		e := t.Enqueue(Job{Queue: q, UniqueKey: "u"})
		t.FailIf(e.Existing || e.ID == first.ID, "the key of a job that is gone answered %+v", e)
		Equal(t, "holder of a key that a worker has", t.Enqueue(Job{Queue: q, UniqueKey: "held"}).ID, active.ID)
		Equal(t, "concurrency", t.QueueNow(q).MaxConcurrency, 1)
		t.Nothing(q)
	}},
	{Name: "who waits for a job of a cleared queue hears that it is gone", Needs: "clear", Run: func(t *T, q string) {
		back := t.Queue()
		batch := t.openBatch(back)
		first := t.Enqueue(Job{Queue: q, BatchID: batch})
		t.Enqueue(Job{Queue: q, BatchID: batch})
		second := t.Enqueue(Job{Queue: t.Queue(), DependsOn: []string{first.ID}})
		t.seal(batch)
		t.Clear(q, 2)
		t.InTheEnd("the end of the batch", func() bool {
			var b struct {
				Batch struct {
					Status string `json:"status"`
				} `json:"batch"`
			}
			t.Call(http.MethodGet, "/api/v1/batches/"+batch, nil, &b)
			return b.Batch.Status == "finished"
		})
		t.callback(back, batch, batchView{Total: 2, Deleted: 2})
		Equal(t, "reason", t.Becomes(second.ID, "dead").DeadReason, "dependency_failed")
	}},
	{Name: "a queue that is not there cannot be cleared", Needs: "clear", Once: true, Run: func(t *T, _ string) {
		t.Refused(t.Try(http.MethodPost, queuePath(t.Queue(), "/clear"), nil, nil), notFound)
		t.Refused(t.Try(http.MethodPost, queuePath("a b", "/clear"), nil, nil), invalid, "queue")
	}},
}
