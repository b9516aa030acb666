package server

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

var drainParams = []queryParam{ //nolint:gochecknoglobals // A constant table.
	{name: "wait", doc: `How long to wait for the queue to be empty, at most 60s; for example "30s".`, schema: schema{Type: "string"}},
}

func (c *call) drainQueue() error {
	var d decoder
	var wait time.Duration
	if text := c.query(&d).Get("wait"); text != "" {
		var msg string
		if wait, msg = duration(text); msg != "" {
			d.problem("wait", "%s", msg)
		}
	}
	if err := d.err(); err != nil {
		return err
	}
	ctx, cancel := c.s.untilDrain(c.r.Context())
	defer cancel()
	remaining, err := c.place.Local.DrainQueue(ctx, c.who.Caller, c.r.PathValue("name"), wait)
	if err != nil {
		return err
	}
	return c.reply(wire.Drained{Status: "draining", Remaining: remaining})
}
