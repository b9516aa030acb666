package server

import (
	"net/url"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

var (
	agentShape = shape.New("AgentConfig",
		shape.Int("max_iterations", "Iterations before the job is held for approval; 0 means no limit.", func(in *queue.AgentLimits, n int) { in.MaxIterations = n }),
		dollarsField("max_cost_usd", "Cost before the job is held for approval; 0 means no limit.", func(in *queue.AgentLimits) *int64 { return &in.MaxCost }),
		shape.Span("iteration_timeout", "How long one attempt of an iteration can take, even if its lease is renewed; 0 means no limit.",
			func(in *queue.AgentLimits, d time.Duration) { in.IterationTimeout = d }),
	).Strictly()
	replayShape = shape.New("ReplayRequest",
		shape.Int("from", "Number of the iteration to continue from.", func(in *int, n int) { *in = n }),
	).Strictly()
	iterationParams = []shape.Param{
		shape.IntParam("after", "Only iterations after this one."),
		shape.IntParam("limit", "Maximum number of iterations; default 1000, which is also how many are kept."),
	}
)

func (c *call) iterations() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	var d shape.Decoder
	q := c.query(&d)
	after, limit := wholeParam(&d, q, "after"), wholeParam(&d, q, "limit")
	if err := d.Err(); err != nil {
		return err
	}
	return c.answer(c.place.Local.Iterations(c.r.Context(), c.who.Caller, id, after, limit))
}

// wholeParam reads an optional whole number; 0 if it is not given.
func wholeParam(d *shape.Decoder, q url.Values, name string) int {
	text := q.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		d.Also("", []fault.Field{{Path: name, Message: "must be a whole number"}}, shape.AsIs)
	}
	return n
}

func (c *call) replay() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	var from int
	if err := decode(c, replayShape, &from); err != nil {
		return err
	}
	res, err := c.place.Local.Replay(c.r.Context(), c.who.Caller, id, from, c.r.Header.Get(headerIdempotencyKey))
	if err != nil {
		return err
	}
	return c.replyEnqueued(&res)
}
