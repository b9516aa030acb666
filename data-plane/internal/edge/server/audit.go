package server

import (
	"strconv"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

var auditParams = []shape.Param{ //nolint:gochecknoglobals // A constant table.
	shape.WholeParam("limit", "Entries per page, 1 to 1000; default 100."),
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
	page, err := c.place.Local.Audit(c.r.Context(), c.who.Caller, before, limit)
	if err != nil {
		return err
	}
	a := wire.AuditPage{Entries: make([]wire.AuditEntry, len(page.Entries))}
	for i, e := range page.Entries {
		a.Entries[i] = wire.AuditEntry{
			At: e.At.UTC(), Principal: e.By, Peer: e.Peer, Action: e.Act, TargetType: e.Type, Target: e.Target,
			Detail: e.Detail, Affected: e.Affected, Refused: e.Refused, Interrupted: e.Interrupted,
		}
	}
	if page.Next > 0 {
		a.HasMore, a.Cursor = true, strconv.FormatUint(page.Next, 10)
	}
	return c.reply(a)
}
