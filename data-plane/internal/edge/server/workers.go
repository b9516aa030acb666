package server

import (
	"encoding/json"
	"net/http"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

func (c *call) workers() error {
	list, err := c.place.Views.Workers(c.r.Context(), c.who.Caller)
	if err != nil {
		return err
	}
	out := make([]wire.Worker, len(list))
	for i, w := range list {
		queues, err := json.Marshal(append([]string{}, w.Queues...))
		if err != nil {
			return err
		}
		out[i] = wire.Worker{ID: w.ID, Hostname: w.Hostname, Queues: string(queues), LastHeartbeat: w.LastSeen.UTC(), StartedAt: w.StartedAt.UTC()}
	}
	return c.reply(out)
}

// throughput tells in Last-Modified when the counts were true: on a saturated node
// they may be late.
func (c *call) throughput() error {
	list, asOf, err := c.place.Views.Throughput(c.r.Context(), c.who.Caller)
	if err != nil {
		return err
	}
	out := make([]wire.Minute, len(list))
	for i, m := range list {
		out[i] = wire.Minute{Minute: m.At.UTC(), Enqueued: m.Enqueued, Completed: m.Completed, Failed: m.Failed}
	}
	if !asOf.IsZero() {
		c.w.Header().Set("Last-Modified", asOf.UTC().Format(http.TimeFormat))
	}
	return c.reply(out)
}
