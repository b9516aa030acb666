package server

import (
	"context"
	"net/http"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Handlers that only carry a use case's answer to the client, made from the use case
// itself. A use case is one of a Service or of Views.

func (c *call) jobs() *queue.Service { return c.place.Local }
func (c *call) views() *queue.Views  { return c.place.Views }

// list answers with a use case that asks for nothing.
func list[S, A any](of func(*call) S, do func(S, context.Context, queue.Caller) (A, error)) func(*call) error {
	return func(c *call) error { return c.answer(do(of(c), c.r.Context(), c.who.Caller)) }
}

// page answers with a use case that asks for a page alone.
func page[A any](do func(*queue.Service, context.Context, queue.Caller, queue.PageInput) (A, error)) func(*call) error {
	return func(c *call) error {
		in, err := c.pageFromQuery()
		if err != nil {
			return err
		}
		return c.answer(do(c.place.Local, c.r.Context(), c.who.Caller, in))
	}
}

// one answers with a use case about what the path names.
func one[S, N, A any](of func(*call) S, name func(*call) (N, error), do func(S, context.Context, queue.Caller, N) (A, error)) func(*call) error {
	return func(c *call) error {
		n, err := name(c)
		if err != nil {
			return err
		}
		return c.answer(do(of(c), c.r.Context(), c.who.Caller, n))
	}
}

// act does something to what the path names, and answers with a word.
func act[N any](word string, name func(*call) (N, error), do func(*queue.Service, context.Context, queue.Caller, N) error) func(*call) error {
	return one((*call).jobs, name, func(s *queue.Service, ctx context.Context, who queue.Caller, n N) (wire.Status, error) {
		return wire.Status{Status: word}, do(s, ctx, who, n)
	})
}

// What a path names.

func (c *call) queueName() (string, error) { return c.r.PathValue("name"), nil }
func (c *call) jobID() (job.ID, error)     { return pathID(c, "id", job.ParseID, "the job does not exist") }

func (c *call) batchID() (job.BatchID, error) {
	return pathID(c, "id", job.ParseBatchID, "the batch does not exist")
}

func (c *call) chainID() (job.ChainID, error) {
	return pathID(c, "id", job.ParseChainID, "the chain does not exist")
}

func (c *call) scheduleID() (job.ScheduleID, error) {
	return pathID(c, "id", job.ParseScheduleID, "the schedule does not exist")
}

// policyID names no id in its refusal: that of another tenant is answered like one that
// never was.
func (c *call) policyID() (job.PolicyID, error) {
	return pathID(c, "policy", job.ParsePolicyID, noPolicy)
}

// pathID reads an id of the path. What is not an id names nothing.
func pathID[T any](c *call, name string, parse func(string) (T, error), missing string) (T, error) {
	id, err := parse(c.r.PathValue(name))
	if err != nil {
		return id, fault.New(fault.NotFound, "NOT_FOUND", "%s", missing)
	}
	return id, nil
}

// pageParams are the parameters of a list without filters.
var pageParams = []shape.Param{
	shape.IntParam("limit", "Items per page, at most 1000; default 50."),
	shape.TextParam("cursor", "The cursor of the previous page."),
}

func (c *call) pageFromQuery() (queue.PageInput, error) {
	var d shape.Decoder
	q := c.query(&d)
	in := queue.PageInput{Cursor: q.Get("cursor"), Limit: limitParam(&d, q, 0, queue.ListMax)}
	return in, d.Err()
}

// Answers.

// done answers what became of it, unless err.
func (c *call) done(word string, err error) error { return c.answer(wire.Status{Status: word}, err) }

// answer sends what a use case answers, unless err.
func (c *call) answer(v any, err error) error { return c.answerAs(http.StatusOK, v, err) }

func (c *call) answerAs(status int, v any, err error) error {
	if err != nil {
		return err
	}
	return c.replyStatus(status, v)
}

// reply sends a 200 answer.
func (c *call) reply(v any) error { return c.replyStatus(http.StatusOK, v) }

func (c *call) replyStatus(status int, v any) error {
	buf := getBuffer()
	defer putBuffer(buf)
	if err := encodeAnswer(buf, v); err != nil {
		return err // Else it would be 200 without a body.
	}
	if err := c.takeAnswer(buf.Len()); err != nil {
		return err
	}
	if err := writeAnswer(c.w, c.r, status, "application/json", buf); err != nil {
		c.s.log.Debug("answer not delivered", "request_id", c.id, "err", err)
	}
	return nil
}
