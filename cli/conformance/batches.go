package conformance

import (
	"encoding/json"
	"net/http"
)

// batchView is a batch as it is shown.
type batchView struct {
	ID        string `json:"id"`
	Total     int    `json:"total"`
	Pending   int    `json:"pending"`
	Completed int    `json:"completed"`
	Dead      int    `json:"dead"`
	Cancelled int    `json:"cancelled"`
	Deleted   int    `json:"deleted"`
}

// openBatch makes a batch that jobs may join.
func (t *T) openBatch(callback string) string {
	b := Post[EnqueuedBatch](t, "/api/v1/batches", object{}.put("callback_queue", callback))
	t.FailIf(b.BatchID == "", "a batch without an id")
	return b.BatchID
}

func (t *T) seal(batch string) { t.Call(http.MethodPost, "/api/v1/batches/"+batch+"/seal", nil, nil) }

// callback takes the job that a batch calls back with, and wants its numbers.
func (t *T) callback(q, batch string, want batchView) Lease {
	l := t.Fetch(q)
	var got struct {
		ID string `json:"batch_id"`
		batchView
	}
	err := json.Unmarshal([]byte(l.Payload), &got)
	t.FailIf(err != nil, "callback payload %s: %v", l.Payload, err)
	Equal(t, "batch of the callback", got.ID, batch)
	got.batchView.ID = ""
	Equal(t, "numbers of the callback", got.batchView, want)
	t.Nothing(q)
	return l
}

var batchRules = []Rule{
	{Name: "a batch calls back once, when its last job has ended, with the numbers", Needs: "batches", Run: func(t *T, q string) {
		back := t.Queue()
		out := t.EnqueueBatch(&Batch{CallbackQueue: back, CallbackPayload: `{"own":1}`},
			Job{Queue: q}, Job{Queue: q, MaxRetries: new(1)}, Job{Queue: q}, Job{Queue: q})
		t.FailIf(out.BatchID == "", "no batch id in %+v", out)
		l := t.Fetch(q)
		Equal(t, "batch of the job", l.BatchID, out.BatchID)
		t.Ack(l)
		t.Failed(t.Fetch(q), "dead")
		t.Do(out.Jobs[2].ID, "cancel", "cancelled")
		t.Nothing(back)
		t.Delete(out.Jobs[3].ID)
		t.callback(back, out.BatchID, batchView{Total: 4, Completed: 1, Dead: 1, Cancelled: 1, Deleted: 1})
	}},
	{Name: "a batch calls back when its jobs end in one call", Needs: "batches", Run: func(t *T, q string) {
		back := t.Queue()
		batch := t.openBatch(back)
		t.EnqueueBatch(nil, Job{Queue: q, BatchID: batch}, Job{Queue: q, BatchID: batch}, Job{Queue: q, BatchID: batch})
		t.seal(batch)
		a, b, c := t.Fetch(q), t.Fetch(q), t.Fetch(q)
		t.AckBatch(Ack{ID: a.ID, Token: a.Token}, Ack{ID: a.ID, Token: a.Token}, Ack{ID: b.ID, Token: b.Token}, Ack{ID: c.ID, Token: c.Token})
		t.callback(back, batch, batchView{Total: 3, Completed: 3})
	}},
	{Name: "an open batch takes jobs in until it is sealed", Needs: "batches", Run: func(t *T, q string) {
		back := t.Queue()
		batch := t.openBatch(back)
		e := t.Enqueue(Job{Queue: q, BatchID: batch})
		Equal(t, "batch of the enqueue", e.BatchID, batch)
		Equal(t, "batch of the job", t.Job(e.ID).BatchID, batch)
		t.Ack(t.Fetch(q))
		t.Nothing(back)
		t.Enqueue(Job{Queue: q, BatchID: batch})
		t.seal(batch)
		t.seal(batch)
		t.EnqueueRefused(Job{Queue: q, BatchID: batch}, "BATCH_CLOSED", "batch_id")
		t.Ack(t.Fetch(q))
		t.callback(back, batch, batchView{Total: 2, Completed: 2})
	}},
	{Name: "an empty batch calls back when it is sealed", Needs: "batches", Run: func(t *T, _ string) {
		back := t.Queue()
		batch := t.openBatch(back)
		t.seal(batch)
		t.callback(back, batch, batchView{})
	}},
	{Name: "a retry before the end opens a job of the batch again, after it changes nothing", Needs: "batches", Run: func(t *T, q string) {
		back := t.Queue()
		batch := t.openBatch(back)
		l := t.Leased(Job{Queue: q, BatchID: batch, MaxRetries: new(1)})
		t.Failed(l, "dead")
		t.Do(l.ID, "retry", "retried")
		t.seal(batch)
		t.Nothing(back)
		t.Ack(t.Fetch(q))
		t.callback(back, batch, batchView{Total: 1, Completed: 1})
		t.Do(l.ID, "retry", "retried")
		t.Failed(t.Fetch(q), "dead")
		t.Nothing(back)
	}},
	{Name: "the next step of a chain belongs to the batch before the one before is counted", Needs: "batches", Run: func(t *T, _ string) {
		back := t.Queue()
		c := &Chain{Steps: t.steps(2, "")}
		batch := t.openBatch(back)
		t.Enqueue(Job{Queue: c.Steps[0].Queue, Chain: c, BatchID: batch})
		t.seal(batch)
		t.Ack(t.Fetch(c.Steps[0].Queue))
		t.Nothing(back)
		t.Ack(t.Fetch(c.Steps[1].Queue))
		t.callback(back, batch, batchView{Total: 2, Completed: 2})
	}},
	{Name: "a batch of which one job is refused is not made", Needs: "batches", Run: func(t *T, q string) {
		back := t.Queue()
		gone := t.Enqueue(Job{Queue: q}).ID
		t.Delete(gone)
		_, err := t.Client.EnqueueBatch(t.Context, []Job{{Queue: q}, {Queue: q, DependsOn: []string{gone}}}, nil)
		r := AsRefusal(err)
		t.FailIf(r == nil || len(r.Fields) != 1 || r.Fields[0] != "depends_on[0]", "%v", err)
		t.Nothing(q, back)
	}},
	{Name: "a batch that nobody made is refused by name", Needs: "batches", Run: func(t *T, q string) {
		for _, id := range []string{"nonsense", "batch_01M806T77QD43SC8ARSPV7SS4M"} {
			_, err := t.Client.Enqueue(t.Context, Job{Queue: q, BatchID: id})
			r := AsRefusal(err)
			t.FailIf(r == nil || len(r.Fields) != 1 || r.Fields[0] != "batch_id", "batch %s: %v", id, err)
		}
		t.Nothing(q)
	}},
	{Name: "batches are listed page by page, newest first", Needs: "batches", Once: true, Run: func(t *T, _ string) {
		one, two := t.openBatch(""), t.openBatch("")
		seen, at := pages[batchView](t, "/api/v1/batches?limit=1", "batches", 1000), map[string]int{}
		for i, b := range seen {
			at[b.ID] = i + 1
		}
		t.FailIf(at[one] == 0 || at[two] == 0 || at[two] > at[one], "made %s, then %s; listed %v", one, two, seen)
		t.seal(one)
		t.seal(two)
	}},
}
