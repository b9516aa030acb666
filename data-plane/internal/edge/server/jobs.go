package server

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

func (c *call) cancelJob() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	state, err := c.place.Local.Cancel(c.r.Context(), c.who.Caller, id)
	return c.done(state.String(), err)
}

var moveShape = shape.New("MoveRequest",
	shape.Text("queue", "Target queue.", func(in *string) *string { return in }).Must(),
)

func (c *call) moveJob() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	var to string
	if err := decode(c, moveShape, &to); err != nil {
		return err
	}
	return c.done("moved", c.place.Local.MoveJob(c.r.Context(), c.who.Caller, id, to))
}
