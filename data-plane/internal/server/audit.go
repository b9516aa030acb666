package server

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

var auditParams = []queryParam{ //nolint:gochecknoglobals // A constant table.
	{"limit", "Entries per page, 1 to 1000; default 100.", schema{Type: "integer"}},
	{"cursor", "The cursor of the previous page.", schema{Type: "string"}},
}

type auditAnswer struct {
	Entries []auditEntryAnswer `json:"entries"`
	Cursor  string             `json:"cursor"`
	HasMore bool               `json:"has_more"`
}

// auditEntryAnswer is one administrative act. Affected and refused count jobs, queues or
// whatever it was about; of audit.cut, the entries that are no longer kept.
type auditEntryAnswer struct {
	At          *time.Time      `json:"at"`
	Principal   string          `json:"principal"`
	Peer        string          `json:"peer,omitempty"`
	Action      string          `json:"action"`
	TargetType  string          `json:"target_type"`
	Target      string          `json:"target,omitempty"`
	Detail      json.RawMessage `json:"detail,omitempty"`
	Affected    uint64          `json:"affected"`
	Refused     uint64          `json:"refused"`
	Interrupted bool            `json:"interrupted,omitempty"`
}

func (c *call) audit() error {
	var d decoder
	q := c.query(&d)
	var before uint64
	limit := queue.AuditPageDefault
	var err error
	if text := q.Get("cursor"); text != "" {
		if before, err = strconv.ParseUint(text, 10, 64); err != nil || before == 0 {
			d.problem("cursor", "is not a cursor of this list; send the previous page's cursor unchanged, or leave it out to start over")
		}
	}
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > queue.AuditPageMax {
			d.problem("limit", "must be between 1 and %d", queue.AuditPageMax)
		}
	}
	if err := d.err(); err != nil {
		return err
	}
	page, err := c.place.Local.Audit(c.r.Context(), c.who.Caller, before, limit)
	if err != nil {
		return err
	}
	a := auditAnswer{Entries: make([]auditEntryAnswer, len(page.Entries))}
	for i, e := range page.Entries {
		a.Entries[i] = auditEntryAnswer{
			At: optionalTime(e.At), Principal: e.By, Peer: e.Peer, Action: e.Act, TargetType: e.Type, Target: e.Target,
			Detail: e.Detail, Affected: e.Affected, Refused: e.Refused, Interrupted: e.Interrupted,
		}
	}
	if page.Next > 0 {
		a.HasMore, a.Cursor = true, strconv.FormatUint(page.Next, 10)
	}
	return c.reply(a)
}
