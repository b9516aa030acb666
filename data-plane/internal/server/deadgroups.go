package server

import (
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

var deadGroupsParams = []queryParam{ //nolint:gochecknoglobals // A constant table.
	{"queue", "Only jobs of this queue.", schema{Type: "string"}},
	{"limit", "How many groups, at most 1000; 100 if it is not given.", schema{Type: "integer"}},
}

// errorGroupAnswer is the dead jobs of one queue that died of one cause.
type errorGroupAnswer struct {
	ID    string `json:"id"` // For error_group of lists, searches and bulk actions.
	Queue string `json:"queue"`
	// Error has … for what varies; without one dead_reason tells.
	Error      string      `json:"error,omitempty"`
	DeadReason string      `json:"dead_reason"`
	Count      int64       `json:"count"`
	FirstAt    *time.Time  `json:"first_at"` // When the first of them died.
	LastAt     *time.Time  `json:"last_at"`
	Sample     errorSample `json:"sample"`
}

// errorSample is the job of a group that died last.
type errorSample struct {
	JobID string `json:"job_id"`
	Error string `json:"error,omitempty"`
}

type errorGroupsAnswer struct {
	Groups      []errorGroupAnswer `json:"groups"`
	TotalGroups int                `json:"total_groups"`
	TotalJobs   int64              `json:"total_jobs"` // Dead jobs of all groups.
	// TotalExact: the counts are those of now, neither late nor being rebuilt.
	TotalExact bool           `json:"total_exact"`
	HasMore    bool           `json:"has_more"` // Smaller groups were left out.
	LagMS      int64          `json:"lag_ms"`
	Rebuilding bool           `json:"rebuilding"`
	Rebuild    *rebuildAnswer `json:"rebuild,omitempty"`
	AsOf       *time.Time     `json:"as_of"`
	DurationMS int64          `json:"duration_ms"`
}

func (c *call) deadGroups() error {
	var d decoder
	q := c.query(&d)
	limit := queue.ErrorGroupsDefault
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > queue.ErrorGroupsMax {
			d.problem("limit", "must be between 1 and %d", queue.ErrorGroupsMax)
		}
		limit = n
	}
	if err := d.err(); err != nil {
		return err
	}
	g, err := c.place.Views.ErrorGroups(c.r.Context(), c.who.Caller, q.Get("queue"), limit)
	if err != nil {
		return err
	}
	p := c.pageOf(&g.JobPage)
	a := errorGroupsAnswer{
		Groups: make([]errorGroupAnswer, len(g.Groups)), TotalGroups: g.All, TotalJobs: g.TotalJobs, TotalExact: g.Exact,
		HasMore: g.All > len(g.Groups), LagMS: p.LagMS, Rebuilding: p.Rebuilding, Rebuild: p.Rebuild, AsOf: p.AsOf, DurationMS: p.DurationMS,
	}
	for i := range g.Groups {
		one := &g.Groups[i]
		a.Groups[i] = errorGroupAnswer{
			ID: one.ID, Queue: one.Queue, Error: one.Pattern, DeadReason: one.DeadReason, Count: one.Jobs,
			FirstAt: optionalTime(one.FirstAt), LastAt: optionalTime(one.LastAt), Sample: errorSample{one.SampleID.String(), one.SampleError},
		}
	}
	return c.reply(a)
}
