package server

import (
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// batchAnswer is a batch; its numbers are exact.
type batchAnswer struct {
	ID            string     `json:"id"`
	Status        string     `json:"status"` // open, sealed or finished.
	Total         int64      `json:"total"`
	Open          int64      `json:"open"` // Of its jobs, those that have not ended.
	Completed     int64      `json:"completed"`
	Dead          int64      `json:"dead"`
	Cancelled     int64      `json:"cancelled"`
	Deleted       int64      `json:"deleted"`
	CallbackQueue string     `json:"callback_queue,omitempty"`
	CallbackJobID string     `json:"callback_job_id,omitempty"`
	CreatedAt     *time.Time `json:"created_at"`
	FinishedAt    *time.Time `json:"finished_at,omitempty"`
}

type batchMadeAnswer struct {
	BatchID string      `json:"batch_id"`
	Batch   batchAnswer `json:"batch"`
}

// batchViewAnswer is a batch with a page of its jobs.
type batchViewAnswer struct {
	Batch   batchAnswer   `json:"batch"`
	Members []batchMember `json:"members"`
	Cursor  string        `json:"cursor"`
	HasMore bool          `json:"has_more"`
}

type batchMember struct {
	JobID   string `json:"job_id"`
	Queue   string `json:"queue,omitempty"`   // Left out of a job that is gone.
	State   string `json:"state,omitempty"`   // Left out of a job that is gone.
	Outcome string `json:"outcome,omitempty"` // As the batch counts it: completed, dead, cancelled or deleted.
}

type batchesAnswer struct {
	Batches []batchAnswer `json:"batches"`
	Cursor  string        `json:"cursor"`
	HasMore bool          `json:"has_more"`
}

func newBatchAnswer(b *queue.Batch) batchAnswer {
	return batchAnswer{
		ID: b.ID.String(), Status: b.Status, Total: b.Total, Open: b.Open, Completed: b.Completed, Dead: b.Dead,
		Cancelled: b.Cancelled, Deleted: b.Deleted, CallbackQueue: b.CallbackQueue, CallbackJobID: idOrNone(b.CallbackJob),
		CreatedAt: optionalTime(b.CreatedAt), FinishedAt: optionalTime(b.FinishedAt),
	}
}

func (c *call) makeBatch() error {
	if err := c.noKey("create the batch with its first jobs in one call to /enqueue/batch, which accepts it"); err != nil {
		return err
	}
	var in queue.BatchOptions
	if err := decode(c, newBatchShape, &in); err != nil {
		return err
	}
	b, err := c.place.Local.MakeBatch(c.r.Context(), c.who.Caller, in)
	if err != nil {
		return err
	}
	return c.replyStatus(201, batchMadeAnswer{BatchID: b.ID.String(), Batch: newBatchAnswer(&b)})
}

func (c *call) sealBatch() error {
	id, err := c.batchID()
	if err != nil {
		return err
	}
	b, err := c.place.Local.SealBatch(c.r.Context(), c.who.Caller, id)
	if err != nil {
		return err
	}
	return c.reply(newBatchAnswer(&b))
}

func (c *call) batch() error {
	id, err := c.batchID()
	if err != nil {
		return err
	}
	page, err := c.pageFromQuery()
	if err != nil {
		return err
	}
	v, err := c.place.Local.Batch(c.r.Context(), c.who.Caller, id, page)
	if err != nil {
		return err
	}
	a := batchViewAnswer{Batch: newBatchAnswer(&v.Batch), Members: make([]batchMember, len(v.Members)), Cursor: v.Cursor, HasMore: v.Cursor != ""}
	for i, m := range v.Members {
		a.Members[i] = batchMember{JobID: m.JobID.String(), Queue: m.Queue, State: stateOrNone(m.State), Outcome: m.Outcome}
	}
	return c.reply(a)
}

func stateOrNone(s job.State) string {
	if s == 0 {
		return ""
	}
	return s.String()
}

func (c *call) batches() error {
	page, err := c.pageFromQuery()
	if err != nil {
		return err
	}
	p, err := c.place.Local.Batches(c.r.Context(), c.who.Caller, page)
	if err != nil {
		return err
	}
	a := batchesAnswer{Batches: make([]batchAnswer, len(p.Batches)), Cursor: p.Cursor, HasMore: p.Cursor != ""}
	for i := range p.Batches {
		a.Batches[i] = newBatchAnswer(&p.Batches[i])
	}
	return c.reply(a)
}

func (c *call) batchID() (job.BatchID, error) {
	id, err := job.ParseBatchID(c.r.PathValue("id"))
	if err != nil {
		return id, fault.New(fault.NotFound, "NOT_FOUND", "the batch does not exist")
	}
	return id, nil
}

// pageParams are the parameters of a list without filters.
var pageParams = []queryParam{ //nolint:gochecknoglobals // A constant table.
	{"limit", "Items per page, at most 1000; default 50.", schema{Type: "integer"}},
	{"cursor", "The cursor of the previous page.", schema{Type: "string"}},
}

func (c *call) pageFromQuery() (queue.PageInput, error) {
	var d decoder
	q := c.query(&d)
	in := queue.PageInput{Cursor: q.Get("cursor")}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > queue.ListMax {
			d.problem("limit", "must be between 1 and %d", queue.ListMax)
		}
		in.Limit = n
	}
	return in, d.err()
}
