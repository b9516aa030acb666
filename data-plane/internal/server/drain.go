package server

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/shape"
)

var drainParams = []shape.Param{ //nolint:gochecknoglobals // A constant table.
	shape.TextParam("wait", `How long to wait for the queue to be empty, at most 60s; for example "30s".`),
}

func (c *call) drainQueue() error {
	var d shape.Decoder
	var wait time.Duration
	if text := c.query(&d).Get("wait"); text != "" {
		var msg string
		if wait, msg = shape.ParseDuration(text); msg != "" {
			d.Problem("wait", "%s", msg)
		}
	}
	if err := d.Err(); err != nil {
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
