package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// workerAnswer is one worker as existing clients read it: queues is text that holds
// a JSON array.
type workerAnswer struct {
	ID            string     `json:"id"`
	Hostname      string     `json:"hostname"`
	Queues        string     `json:"queues"`
	LastHeartbeat *time.Time `json:"last_heartbeat"`
	StartedAt     *time.Time `json:"started_at"`
}

func (c *call) workers() error {
	list, err := c.place.Views.Workers(c.r.Context(), c.who.Caller)
	if err != nil {
		return err
	}
	out := make([]workerAnswer, len(list))
	for i, w := range list {
		queues, err := json.Marshal(append([]string{}, w.Queues...))
		if err != nil {
			return err
		}
		out[i] = workerAnswer{ID: w.ID, Hostname: w.Hostname, Queues: string(queues), LastHeartbeat: optionalTime(w.LastSeen.UTC()), StartedAt: optionalTime(w.StartedAt.UTC())}
	}
	return c.reply(out)
}

// minuteAnswer is one bucket of the throughput.
type minuteAnswer struct {
	Minute    *time.Time `json:"minute"`
	Enqueued  int64      `json:"enqueued"`
	Completed int64      `json:"completed"`
	Failed    int64      `json:"failed"`
}

// throughput tells in Last-Modified when the counts were true: on a saturated node
// they may be late.
func (c *call) throughput() error {
	list, asOf, err := c.place.Views.Throughput(c.r.Context(), c.who.Caller)
	if err != nil {
		return err
	}
	out := make([]minuteAnswer, len(list))
	for i, m := range list {
		out[i] = minuteAnswer{Minute: optionalTime(m.At), Enqueued: m.Enqueued, Completed: m.Completed, Failed: m.Failed}
	}
	if !asOf.IsZero() {
		c.w.Header().Set("Last-Modified", asOf.UTC().Format(http.TimeFormat))
	}
	return c.reply(out)
}

var recentParams = []queryParam{ //nolint:gochecknoglobals // A constant table.
	{"after_seq", "Only events after this number; 0 starts with the oldest one kept.", schema{Type: "integer"}},
	{"limit", "Maximum number of events, 1 to 1000; default 100.", schema{Type: "integer"}},
}

// recentAnswer is a page of events. Lost: some behind after_seq are no longer kept.
type recentAnswer struct {
	Events []*eventAnswer `json:"events"`
	Lost   bool           `json:"lost,omitempty"`
}

func (c *call) recentEvents() error {
	var d decoder
	q := c.query(&d)
	after, limit := uint64(0), queue.RecentDefault
	var err error
	if text := q.Get("after_seq"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			d.problem("after_seq", "must be an event number, which is a whole number")
		}
	}
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > queue.RecentMax {
			d.problem("limit", "must be between 1 and %d", queue.RecentMax)
		}
	}
	if err := d.err(); err != nil {
		return err
	}
	p, err := c.place.Views.Recent(c.r.Context(), c.who.Caller, after, limit)
	if err != nil {
		return err
	}
	a := recentAnswer{Events: make([]*eventAnswer, len(p.Events)), Lost: p.Lost}
	for i := range p.Events {
		a.Events[i] = answerEvent(&p.Events[i])
	}
	return c.reply(a)
}

// whyAnswer says why a job does not run.
type whyAnswer struct {
	JobID   string         `json:"job_id"`
	State   string         `json:"state"`
	Reasons []reasonAnswer `json:"reasons"`
	// ETA is when nothing stands in its way any more, where time alone decides.
	ETA *time.Time `json:"eta,omitempty"`
}

type reasonAnswer struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Until   *time.Time     `json:"until,omitempty"`
	Detail  map[string]any `json:"detail"`
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
	a := whyAnswer{JobID: w.JobID.String(), State: w.State.String(), Reasons: make([]reasonAnswer, len(w.Reasons)), ETA: optionalTime(w.ETA)}
	for i, r := range w.Reasons {
		detail := r.Detail
		if detail == nil {
			detail = map[string]any{}
		}
		a.Reasons[i] = reasonAnswer{Code: r.Code, Message: r.Message, Until: optionalTime(r.Until), Detail: detail}
	}
	return c.reply(a)
}
