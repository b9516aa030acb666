package conformance

import (
	"net/http"
	"time"
)

// Move puts a job into another queue.
func (t *T) Move(id, to string) { t.Status(jobPath(id, "/move"), object{"queue": to}, "moved") }

func (t *T) tryMove(id, to string) error {
	return t.Try(http.MethodPost, jobPath(id, "/move"), object{"queue": to}, nil)
}

var moveRules = []Rule{
	{Name: "a moved job is handed out by its new queue alone, behind what is there", Needs: "move", Run: func(t *T, _ string) {
		from, to := t.Queue(), t.Queue()
		a, b := t.Enqueue(Job{Queue: from, Payload: "1"}), t.Enqueue(Job{Queue: from})
		there := t.Enqueue(Job{Queue: to})
		t.Move(a.ID, to)
		Equal(t, "job of the old queue", t.Fetch(from).ID, b.ID)
		t.Nothing(from)
		Equal(t, "first job of the new queue", t.Fetch(to).ID, there.ID)
		l := t.Fetch(to)
		Equal(t, "job, its queue and payload", [3]string{l.ID, l.Queue, string(l.Payload)}, [3]string{a.ID, to, "1"})
		t.Ack(l)
		t.Nothing(from, to)
	}},
	{Name: "a moved job wakes who waits for its new queue", Needs: "move", Run: func(t *T, _ string) {
		from, to := t.Queue(), t.Queue()
		e := t.Enqueue(Job{Queue: from})
		t.Woken(to, e.ID, func() { t.Move(e.ID, to) })
	}},
	{Name: "a moved job keeps its state, and its time comes in the new queue", Timed: true, Needs: "move", Run: func(t *T, _ string) {
		from, to := t.Queue(), t.Queue()
		const wait = 2500 * time.Millisecond
		retrying := t.Enqueue(Job{Queue: from, Priority: "high", MaxRetries: new(2), Backoff: "fixed", BaseDelay: new(wait)}).ID
		t.Failed(t.Fetch(from), "retrying")
		scheduled := t.Enqueue(Job{Queue: from, Priority: "high", ScheduledAt: time.Now().Add(wait)}).ID
		held := t.Enqueue(Job{Queue: from, Priority: "high"}).ID
		t.Do(held, "hold", "held")
		for id, state := range map[string]string{retrying: "retrying", scheduled: "scheduled", held: "held"} {
			t.Move(id, to)
			j := t.State(id, state)
			Equal(t, "queue and priority", [2]any{j.Queue, j.Priority}, [2]any{to, 1})
		}
		got := map[string]int{}
		for range 2 {
			l := t.Fetch(to)
			got[l.ID] = l.Attempt
		}
		Equal(t, "attempts", [2]int{got[retrying], got[scheduled]}, [2]int{2, 1})
		t.Do(held, "approve", "pending")
		Equal(t, "job", t.Fetch(to).ID, held)
		t.Nothing(from)
	}},
	{Name: "the counts of both queues follow a move", Needs: "move", Run: func(t *T, _ string) {
		from, to := t.Queue(), t.Queue()
		for _, state := range []string{"retrying", "completed", "dead", "cancelled", "scheduled", "pending"} {
			id, _ := t.inState(from, state)
			t.Move(id, to)
			t.State(id, state)
		}
		v := t.QueueNow(from)
		Equal(t, "jobs left", v.Pending+v.Scheduled+v.Retrying+v.Completed+v.Dead+v.Cancelled, 0)
		v = t.QueueNow(to)
		got := [...]int{v.Pending, v.Scheduled, v.Retrying, v.Completed, v.Dead, v.Cancelled}
		Equal(t, "counts", got, [...]int{1, 1, 1, 1, 1, 1})
	}},
	{Name: "a job that a worker holds cannot be moved", Needs: "move", Run: func(t *T, _ string) {
		from, to := t.Queue(), t.Queue()
		for _, state := range []string{"active", "cancelling"} {
			id, l := t.inState(from, state)
			t.Refused(t.tryMove(id, to), conflict)
			Equal(t, "queue", t.State(id, state).Queue, from)
			t.Ack(l)
		}
		t.Nothing(to)
	}},
	{Name: "a unique key goes along, and a move to where it is held is refused", Needs: "move", Run: func(t *T, _ string) {
		from, to := t.Queue(), t.Queue()
		e := t.Enqueue(Job{Queue: from, UniqueKey: "u"})
		t.Move(e.ID, to)
		Equal(t, "holder in the new queue", t.Enqueue(Job{Queue: to, UniqueKey: "u"}).ID, e.ID)
		other := t.Enqueue(Job{Queue: from, UniqueKey: "u"})
		t.FailIf(other.Existing, "the old queue still holds the key: %+v", other)
		t.Refused(t.tryMove(other.ID, to), conflict)
		Equal(t, "queue", t.State(other.ID, "pending").Queue, from)
		t.Ack(t.Fetch(to))
		t.Move(other.ID, to) // The key is free.
		Equal(t, "job", t.Fetch(to).ID, other.ID)
	}},
	{Name: "a moved job obeys the settings of its new queue", Needs: "move", Run: func(t *T, _ string) {
		from, to := t.Queue(), t.Queue()
		t.SetQueue(to, object{"max_concurrency": 1})
		a, b := t.Enqueue(Job{Queue: from}), t.Enqueue(Job{Queue: from})
		t.DoQueue(to, "pause", "paused")
		t.Move(a.ID, to)
		t.Move(b.ID, to)
		t.Nothing(from, to)
		t.DoQueue(to, "resume", "resumed")
		l := t.Fetch(to)
		Equal(t, "job", l.ID, a.ID)
		t.Nothing(from, to)
		t.Ack(l)
		Equal(t, "job", t.Fetch(to).ID, b.ID)
	}},
	{Name: "a job of a chain or a batch may be moved, and what follows on it follows", Needs: "move", Run: func(t *T, _ string) {
		back, elsewhere := t.Queue(), t.Queue()
		c := &Chain{Steps: t.steps(2, "")}
		batch := t.openBatch(back)
		e := t.Enqueue(Job{Queue: c.Steps[0].Queue, Chain: c, BatchID: batch})
		t.seal(batch)
		t.Move(e.ID, elsewhere)
		t.Ack(t.Fetch(elsewhere))
		t.Ack(t.Fetch(c.Steps[1].Queue))
		t.callback(back, batch, batchView{Total: 2, Completed: 2})
	}},
	{Name: "a move that is wrong is refused by name", Needs: "move", Once: true, Run: func(t *T, q string) {
		id := t.Enqueue(Job{Queue: q}).ID
		t.Refused(t.tryMove(id, "a/b"), invalid, "queue")
		t.Refused(t.Try(http.MethodPost, jobPath(id, "/move"), object{}, nil), invalid, "queue")
		Equal(t, "queue", t.State(id, "pending").Queue, q)
		t.Delete(id)
		t.Refused(t.tryMove(id, q), notFound)
	}},
}
