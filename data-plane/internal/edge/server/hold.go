package server

import (
	"context"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

var (
	holdShape = shape.New("HoldRequest",
		shape.Text("reason", "Reason, shown to the person who decides.", func(in *string) *string { return in }),
	).Strictly()
	decideShape = shape.New("DecideRequest",
		commentField("comment", "Comment on the decision, stored with the job."),
		commentField("reason", "Alias of comment."),
	).Strictly()
)

func commentField(name, doc string) shape.Field[string] {
	f := shape.Text(name, doc, func(in *string) *string { return in })
	read := f.Read
	f.Read = func(d *shape.Decoder, path string, v []byte, into *string) string {
		said := *into
		msg := read(d, path, v, into)
		switch {
		case msg == "" && *into == "":
			*into = said // Typed clients send what is empty, too.
		case msg == "" && said != "" && said != *into:
			return "differs from comment, but both mean the same; send one of them"
		}
		return msg
	}
	return f
}

func (c *call) holdJob() error { return c.aboutHold(holdShape, c.place.Local.Hold) }

func (c *call) approveJob() error { return c.aboutHold(decideShape, c.place.Local.Approve) }

func (c *call) rejectJob() error { return c.aboutHold(decideShape, c.place.Local.Reject) }

// aboutHold runs a use case that takes one text and answers the job's state.
func (c *call) aboutHold(sh *shape.Shape[string], do func(context.Context, queue.Caller, job.ID, string) (job.State, error)) error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	var text string
	if err := decode(c, sh, &text); err != nil {
		return err
	}
	state, err := do(c.r.Context(), c.who.Caller, id, text)
	return c.done(state.String(), err)
}
