package server

import (
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/shape"
)

var moveShape = shape.New("MoveRequest", //nolint:gochecknoglobals // A constant table.
	shape.Text("queue", "Target queue.", func(in *string) *string { return in }).Must(),
)

func (c *call) clearQueue() error {
	removed, err := c.place.Local.ClearQueue(c.r.Context(), c.who.Caller, c.r.PathValue("name"))
	if err != nil {
		return err
	}
	return c.reply(wire.Cleared{Status: "cleared", Removed: removed})
}

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

func (c *call) requeueDead() error {
	requeued, err := c.place.Local.RequeueDead(c.r.Context(), c.who.Caller, c.r.PathValue("name"))
	if err != nil {
		return err
	}
	return c.reply(wire.Requeued{Status: "requeued", Requeued: requeued})
}

// deadParams are those of the list that mean something of dead jobs.
var deadParams = listParamsBut("state") //nolint:gochecknoglobals // A constant table.

func listParamsBut(name string) (out []shape.Param) {
	for _, p := range listParams {
		if p.Name != name {
			out = append(out, p)
		}
	}
	return out
}

// deadJobs lists dead letters: newest first, of one queue or of all.
func (c *call) deadJobs() error {
	in, err := c.filterFromQuery()
	if err != nil {
		return err
	}
	in.States = []string{job.Dead.String()}
	return c.list(in)
}
