package server

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/shape"
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

var recentParams = []shape.Param{ //nolint:gochecknoglobals // A constant table.
	shape.WholeParam("after_seq", "Only events after this number; 0 starts with the oldest one kept."),
	shape.WholeParam("limit", "Maximum number of events, 1 to 1000; default 100."),
}

func (c *call) recentEvents() error {
	var d shape.Decoder
	q := c.query(&d)
	after := uint64(0)
	if text := q.Get("after_seq"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			d.Problem("after_seq", "must be an event number, which is a whole number")
		}
	}
	limit := limitParam(&d, q, queue.RecentDefault, queue.RecentMax)
	if err := d.Err(); err != nil {
		return err
	}
	p, err := c.place.Views.Recent(c.r.Context(), c.who.Caller, after, limit)
	if err != nil {
		return err
	}
	a := wire.EventPage{Events: make([]*wire.Event, len(p.Events)), Lost: p.Lost}
	for i := range p.Events {
		a.Events[i] = answerEvent(&p.Events[i])
	}
	return c.reply(a)
}

func (c *call) why() error {
	id, err := c.jobID()
	if err != nil {
		return err
	}
	w, err := c.place.Views.Why(c.r.Context(), c.who.Caller, id)
	if err != nil {
		return err
	}
	a := wire.Why{JobID: w.JobID.String(), State: stateOf(w.State), Reasons: make([]wire.WhyReason, len(w.Reasons)), ETA: w.ETA.UTC()}
	for i, r := range w.Reasons {
		detail := r.Detail
		if detail == nil {
			detail = map[string]any{}
		}
		a.Reasons[i] = wire.WhyReason{Code: wire.WhyCode(r.Code), Message: r.Message, Until: r.Until.UTC(), Detail: detail}
	}
	return c.reply(a)
}
