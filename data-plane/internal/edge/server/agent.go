package server

import (
	"net/url"
	"strconv"
	"time"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

//nolint:gochecknoglobals // Constant tables.
var (
	agentShape = shape.New("AgentConfig",
		shape.Whole("max_iterations", "Iterations before the job is held for approval; 0 means no limit.", func(in *queue.AgentLimits, n int) { in.MaxIterations = n }),
		dollarsField("max_cost_usd", "Cost before the job is held for approval; 0 means no limit.", func(in *queue.AgentLimits) *int64 { return &in.MaxCost }),
		shape.Span("iteration_timeout", "How long one attempt of an iteration can take, even if its lease is renewed; 0 means no limit.",
			func(in *queue.AgentLimits, d time.Duration) { in.IterationTimeout = d }),
	).Strictly()
	replayShape = shape.New("ReplayRequest",
		shape.Whole("from", "Number of the iteration to continue from.", func(in *int, n int) { *in = n }),
	).Strictly()
	iterationParams = []shape.Param{
		shape.WholeParam("after", "Only iterations after this one."),
		shape.WholeParam("limit", "Maximum number of iterations; default 1000, which is also how many are kept."),
	}
)

func agentFromProto(d *shape.Decoder, path string, m *corvov1.AgentConfig) *queue.AgentLimits {
	if m == nil {
		return nil
	}
	shape.RefuseUnknown(d, path, m)
	a := &queue.AgentLimits{MaxIterations: int(m.GetMaxIterations()), MaxCost: dollarsFromProto(d, shape.Join(path, "max_cost_usd"), m.GetMaxCostUsd())}
	if text := m.GetIterationTimeout(); text != "" {
		span, msg := shape.ParseDuration(text)
		if msg != "" {
			d.Problem(shape.Join(path, "iteration_timeout"), "%s", msg)
		}
		a.IterationTimeout = span
	}
	return a
}

func agentToProto(a *queue.AgentState) *corvov1.AgentState {
	if a == nil {
		return nil
	}
	return &corvov1.AgentState{
		MaxIterations: int32(a.MaxIterations), MaxCostUsd: dollarsToProto(a.MaxCost), IterationTimeout: timeoutText(a.IterationTimeout),
		Iteration: int32(a.Iteration), TotalCostUsd: dollarsToProto(a.TotalCost),
	}
}

func timeoutText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func newAgentAnswer(a *queue.AgentState) *wire.Agent {
	if a == nil {
		return nil
	}
	return &wire.Agent{
		MaxIterations: a.MaxIterations, MaxCostUSD: dollars(a.MaxCost), IterationTimeout: timeoutText(a.IterationTimeout),
		Iteration: a.Iteration, TotalCostUSD: dollars(a.TotalCost),
	}
}

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
	page, err := c.place.Local.Iterations(c.r.Context(), c.who.Caller, id, after, limit)
	if err != nil {
		return err
	}
	a := wire.IterationList{Iterations: make([]wire.Iteration, len(page.Iterations)), HasMore: page.More}
	for i, it := range page.Iterations {
		a.Iterations[i] = wire.Iteration{
			ID: it.Number, JobID: id.String(), Iteration: it.Number, Status: wire.AgentStatus(it.Status), Checkpoint: it.Checkpoint, HoldReason: it.HoldReason,
			Result: it.Result, Model: it.Model, Provider: it.Provider, Usage: newUsageAnswer(it.Usage), CreatedAt: it.At.UTC(),
		}
	}
	return c.reply(a)
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
	former, err := c.place.Local.Job(c.r.Context(), c.who.Caller, id)
	if err != nil {
		return err
	}
	res, err := c.place.Local.Replay(c.r.Context(), c.who.Caller, id, from, c.r.Header.Get(headerIdempotencyKey))
	if err != nil {
		return err
	}
	c.markReplayed(res)
	status := 201
	if res.Replayed {
		status = 200
	}
	return c.replyStatus(status, newEnqueueAnswer(former.Queue, res))
}
