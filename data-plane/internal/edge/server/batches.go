package server

import (
	"encoding/json"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

func newBatchAnswer(b *queue.Batch) wire.Batch {
	return wire.Batch{
		ID: b.ID.String(), Status: wire.BatchStatus(b.Status), Total: b.Total, Open: b.Open, Completed: b.Completed, Dead: b.Dead,
		Cancelled: b.Cancelled, Deleted: b.Deleted, CallbackQueue: b.CallbackQueue, CallbackJobID: idOrNone(b.CallbackJob),
		CreatedAt: b.CreatedAt.UTC(), FinishedAt: b.FinishedAt.UTC(),
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
	return c.replyStatus(201, wire.BatchMade{BatchID: b.ID.String(), Batch: newBatchAnswer(&b)})
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
	a := wire.BatchPage{Batch: newBatchAnswer(&v.Batch), Members: make([]wire.BatchMember, len(v.Members)), Cursor: v.Cursor, HasMore: v.Cursor != ""}
	for i, m := range v.Members {
		a.Members[i] = wire.BatchMember{JobID: m.JobID.String(), Queue: m.Queue, State: stateOf(m.State), Outcome: wire.BatchOutcome(m.Outcome)}
	}
	return c.reply(a)
}

// stateOf is "" for a job that is gone.
func stateOf(s job.State) wire.State {
	if s == 0 {
		return ""
	}
	return wire.State(s.String())
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
	return c.reply(wire.BatchList{Batches: each(p.Batches, newBatchAnswer), Cursor: p.Cursor, HasMore: p.Cursor != ""})
}

func (c *call) batchID() (job.BatchID, error) {
	return pathID(c, "id", job.ParseBatchID, "the batch does not exist")
}

// pageParams are the parameters of a list without filters.
var pageParams = []shape.Param{ //nolint:gochecknoglobals // A constant table.
	shape.WholeParam("limit", "Items per page, at most 1000; default 50."),
	shape.TextParam("cursor", "The cursor of the previous page."),
}

func (c *call) pageFromQuery() (queue.PageInput, error) {
	var d shape.Decoder
	q := c.query(&d)
	in := queue.PageInput{Cursor: q.Get("cursor"), Limit: limitParam(&d, q, 0, queue.ListMax)}
	return in, d.Err()
}

func callbackFields() []shape.Field[queue.BatchOptions] {
	return []shape.Field[queue.BatchOptions]{
		shape.Text("callback_queue", "Queue of the callback job, which is enqueued when all jobs of the batch have ended; leave out for no callback.",
			func(in *queue.BatchOptions) *string { return &in.CallbackQueue }),
		shape.Any("callback_payload", "An object, to which the batch's counts are added. Any other value is moved to payload.",
			func(in *queue.BatchOptions) *json.RawMessage { return &in.CallbackPayload }),
	}
}

//nolint:gochecknoglobals // Constant tables.
var (
	newBatchShape = shape.New("BatchRequest", callbackFields()...).Strictly()
	batchShape    = shape.New("BatchOptions", append(callbackFields(),
		shape.Bool("open", "More jobs can join until you seal the batch.", func(in *queue.BatchOptions) *bool { return &in.Open }),
	)...).Strictly()
)
