package server

import (
	"strconv"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

var auditParams = []shape.Param{
	shape.IntParam("limit", "Entries per page, 1 to 1000; default 100."),
	shape.TextParam("cursor", "The cursor of the previous page."),
}

func (c *call) audit() error {
	var d shape.Decoder
	q := c.query(&d)
	var before uint64
	if text := q.Get("cursor"); text != "" {
		var err error
		if before, err = strconv.ParseUint(text, 10, 64); err != nil || before == 0 {
			d.Problem("cursor", "is not a cursor of this list; send the previous page's cursor unchanged, or leave it out to start over")
		}
	}
	limit := limitParam(&d, q, queue.AuditPageDefault, queue.AuditPageMax)
	if err := d.Err(); err != nil {
		return err
	}
	return c.answer(c.place.Local.Audit(c.r.Context(), c.who.Caller, before, limit))
}
