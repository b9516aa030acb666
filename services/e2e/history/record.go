package history

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// Record is what the service itself says of one namespace at the end of a run: every event
// since its beginning, and everything that there is. Check compares the two.
type Record struct {
	Events []*wire.Event
	// Lost: the service says that it no longer has all events.
	Lost      bool
	Jobs      map[string]*corvo.JobInfo // As the state has them.
	Rows      map[string]wire.JobRow    // As the lists show them.
	Twice     []string                  // Jobs that the lists show more than once.
	Batches   []wire.Batch
	Schedules []wire.Schedule
	// Full is how many starts took the last place in a window of a throttle. Check counts them.
	Full int
}

const (
	pageMax  = 1000
	bulkMax  = 100
	allPages = "?limit=1000"
)

// ReadRecord reads the record of the client's namespace, in which nothing may happen meanwhile. Lists
// that are late are an error, so that the caller can ask again.
func ReadRecord(ctx context.Context, c *corvo.Client) (*Record, error) {
	r := &Record{Jobs: map[string]*corvo.JobInfo{}, Rows: map[string]wire.JobRow{}}
	for _, read := range []func(context.Context, *corvo.Client) error{r.readEvents, r.readJobs, r.readRows, r.readBatches, r.readSchedules} {
		if err := read(ctx, c); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Record) readEvents(ctx context.Context, c *corvo.Client) error {
	for after := uint64(0); ; {
		var page wire.EventPage
		if err := c.API(ctx, http.MethodGet, fmt.Sprintf("/cluster/events?after_seq=%d&limit=%d", after, pageMax), nil, &page); err != nil {
			return fmt.Errorf("events: %w", err)
		}
		r.Lost = r.Lost || page.Lost
		if len(page.Events) == 0 {
			return nil
		}
		r.Events = append(r.Events, page.Events...)
		after = page.Events[len(page.Events)-1].Seq
	}
}

// readJobs asks for every job that an event names.
func (r *Record) readJobs(ctx context.Context, c *corvo.Client) error {
	seen := map[string]bool{}
	var ids []string
	for _, e := range r.Events {
		if e.JobID != "" && !seen[e.JobID] {
			seen[e.JobID] = true
			ids = append(ids, e.JobID)
		}
	}
	for some := range slices.Chunk(ids, bulkMax) {
		var answer struct {
			Jobs []*corvo.JobInfo `json:"jobs"`
		}
		// A POST, but a read: the client does not repeat it after an unknown outcome.
		if err := c.API(ctx, http.MethodPost, "/jobs/bulk-get", map[string]any{"job_ids": some}, &answer); err != nil {
			return fmt.Errorf("jobs: %w", err)
		}
		for _, j := range answer.Jobs {
			r.Jobs[j.ID] = j
		}
	}
	return nil
}

func (r *Record) readRows(ctx context.Context, c *corvo.Client) error {
	for cursor := ""; ; {
		var page wire.JobList
		if err := c.API(ctx, http.MethodGet, "/jobs"+allPages+"&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if page.LagMS > 0 || page.Rebuilding {
			return fmt.Errorf("lists are late by %d ms", page.LagMS)
		}
		for _, row := range page.Jobs {
			if _, ok := r.Rows[row.ID]; ok {
				r.Twice = append(r.Twice, row.ID)
			}
			r.Rows[row.ID] = row
		}
		if cursor = page.Cursor; !page.HasMore {
			return nil
		}
	}
}

func (r *Record) readBatches(ctx context.Context, c *corvo.Client) error {
	for cursor := ""; ; {
		var page wire.BatchList
		if err := c.API(ctx, http.MethodGet, "/batches"+allPages+"&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
			return fmt.Errorf("batches: %w", err)
		}
		r.Batches = append(r.Batches, page.Batches...)
		if cursor = page.Cursor; !page.HasMore {
			return nil
		}
	}
}

func (r *Record) readSchedules(ctx context.Context, c *corvo.Client) error {
	var page wire.ScheduleList
	if err := c.API(ctx, http.MethodGet, "/schedules"+allPages, nil, &page); err != nil {
		return fmt.Errorf("schedules: %w", err)
	}
	r.Schedules = page.Schedules
	return nil
}

// AtRest is nil if no job of the namespace can go on by itself.
func AtRest(ctx context.Context, c *corvo.Client) error {
	queues, err := c.Queues(ctx)
	for _, q := range queues {
		if left := q.Pending + q.Active + q.Retrying + q.Scheduled + q.Held; left > 0 {
			return fmt.Errorf("queue %s has %d jobs left: %+v", q.Name, left, q)
		}
	}
	return err
}
