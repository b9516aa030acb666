package server

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

var deadGroupsParams = []shape.Param{
	shape.TextParam("queue", "Only jobs of this queue."),
	shape.IntParam("limit", "How many groups, at most 1000; 100 if it is not given."),
}

func (c *call) deadGroups() error {
	var d shape.Decoder
	q := c.query(&d)
	limit := limitParam(&d, q, queue.ErrorGroupsDefault, queue.ErrorGroupsMax)
	if err := d.Err(); err != nil {
		return err
	}
	a, err := c.place.Views.ErrorGroups(c.r.Context(), c.who.Caller, q.Get("queue"), limit)
	a.DurationMS = c.tookMS()
	return c.answer(a, err)
}

// deadParams are those of the list that mean something of dead jobs.
var deadParams = listParamsBut("state")

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
	return c.listed(in)
}
