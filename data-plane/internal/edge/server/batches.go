package server

import (
	"encoding/json"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

func (c *call) makeBatch() error {
	if err := c.noKey("create the batch with its first jobs in one call to /enqueue/batch, which accepts it"); err != nil {
		return err
	}
	var in wire.BatchOptions
	if err := decode(c, newBatchShape, &in); err != nil {
		return err
	}
	b, err := c.place.Local.MakeBatch(c.r.Context(), c.who.Caller, in)
	return c.answerAs(201, wire.BatchMade{BatchID: b.ID, Batch: b}, err)
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
	return c.answer(c.place.Local.Batch(c.r.Context(), c.who.Caller, id, page))
}

func callbackFields() []shape.Field[wire.BatchOptions] {
	return []shape.Field[wire.BatchOptions]{
		shape.Text("callback_queue", "Queue of the callback job, which is enqueued when all jobs of the batch have ended; leave out for no callback.",
			func(in *wire.BatchOptions) *string { return &in.CallbackQueue }),
		shape.RawJSON("callback_payload", "An object, to which the batch's counts are added. Any other value is moved to payload.",
			func(in *wire.BatchOptions) *json.RawMessage { return &in.CallbackPayload }),
	}
}

var (
	newBatchShape = shape.New("BatchRequest", callbackFields()...).Strictly()
	batchShape    = shape.New("BatchOptions", append(callbackFields(),
		shape.Bool("open", "More jobs can join until you seal the batch.", func(in *wire.BatchOptions) *bool { return &in.Open }),
	)...).Strictly()
)
