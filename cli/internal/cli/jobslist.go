package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// listPage is the most one call asks for.
const listPage = 1000

type listFlags struct {
	queue  string
	states []string
	tags   []string
	after  string
	before string
	limit  int
}

func (s *session) jobsCommand(use string) *cobra.Command {
	var f listFlags
	c := &cobra.Command{
		Use:   use,
		Short: "List jobs, newest first",
		Long: `Lists jobs by state, queue, tags and creation time, newest first. The list can be a
moment behind; "corvo inspect" shows a job as it is now.

A time is RFC 3339, or how long ago, such as 90m.`,
		Example: `  {cmd} --state dead --queue emails
  {cmd} --tag customer:acme --after 24h
  {cmd} --state dead -o jsonl | jq -r .id | xargs corvo retry`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.listJobs(c.Context(), f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.queue, "queue", "", "only jobs in this `QUEUE`")
	fs.StringSliceVar(&f.states, "state", nil, "only jobs in these `STATES`: scheduled, pending, active, cancelling, retrying, held, completed, dead, cancelled")
	fs.StringArrayVar(&f.tags, "tag", nil, "only jobs with this tag, `KEY:VALUE`; can be repeated")
	fs.StringVar(&f.after, "after", "", "only jobs created after this `TIME`")
	fs.StringVar(&f.before, "before", "", "only jobs created before this `TIME`")
	fs.IntVar(&f.limit, "limit", 50, "show at most `N` jobs; 0 means all")
	completeFlag(c, "queue", s.completeQueues)
	completeWords(c, "state", "scheduled", "pending", "active", "cancelling", "retrying", "held", "completed", "dead", "cancelled")
	return c
}

// jobRow is a job as a list shows it.
type jobRow struct {
	ID         string    `json:"id"`
	Queue      string    `json:"queue"`
	State      string    `json:"state"`
	Attempt    int       `json:"attempt"`
	MaxRetries int       `json:"max_retries"`
	LastError  string    `json:"last_error"`
	CreatedAt  time.Time `json:"created_at"`
}

type jobPage struct {
	Jobs       []json.RawMessage `json:"jobs"`
	Cursor     string            `json:"cursor"`
	HasMore    bool              `json:"has_more"`
	Rebuilding bool              `json:"rebuilding"`
	Rebuild    struct {
		JobsDone  uint64 `json:"jobs_done"`
		JobsTotal uint64 `json:"jobs_total"`
	} `json:"rebuild"`
}

func (s *session) listJobs(ctx context.Context, f listFlags) error {
	query, err := f.query(time.Now())
	if err != nil {
		return err
	}
	a, err := s.api()
	if err != nil {
		return err
	}
	var raw []json.RawMessage
	var page jobPage
	for more := true; more; more = page.HasMore && (f.limit == 0 || len(raw) < f.limit) {
		size := listPage
		if f.limit > 0 {
			size = min(listPage, f.limit-len(raw))
		}
		query.Set("limit", strconv.Itoa(size))
		r, err := a.get(ctx, "/api/v1/jobs?"+query.Encode())
		if err != nil {
			return err
		}
		page = jobPage{}
		if err := a.decode(r, &page); err != nil {
			return err
		}
		raw = append(raw, page.Jobs...)
		query.Set("cursor", page.Cursor)
	}
	rows := make([]jobRow, len(raw))
	for i, r := range raw {
		if err := json.Unmarshal(r, &rows[i]); err != nil {
			return &Failure{Exit: ExitFail, Code: "BAD_ANSWER", What: "can't read the response", Why: err.Error()}
		}
	}
	if err := s.emitAll(raw, func(w io.Writer) { s.printJobs(w, rows, time.Now()) }); err != nil {
		return err
	}
	if page.Rebuilding {
		progress := ""
		if r := page.Rebuild; r.JobsTotal > 0 {
			progress = fmt.Sprintf(" (%d of %d jobs)", r.JobsDone, r.JobsTotal)
		}
		s.talkf("the list is being rebuilt%s, so some jobs may be missing", progress)
	}
	switch {
	case page.HasMore:
		s.hintf("there are more; --limit 0 shows all of them")
	case len(rows) == 0:
		s.hintf("no jobs match; `corvo queues` shows what there is")
	}
	return nil
}

func (f listFlags) query(now time.Time) (url.Values, error) {
	if f.limit < 0 {
		return nil, usagef("--limit can't be negative")
	}
	q := url.Values{}
	if f.queue != "" {
		q.Set("queue", f.queue)
	}
	for _, state := range f.states {
		q.Add("state", state)
	}
	tags, err := parseTags("", f.tags)
	if err != nil {
		return nil, err
	}
	for key, value := range tags {
		q.Add("tag", key+":"+value)
	}
	for name, text := range map[string]string{"created_after": f.after, "created_before": f.before} {
		if text == "" {
			continue
		}
		at, err := parseMoment(text, now)
		if err != nil {
			return nil, err
		}
		q.Set(name, at.UTC().Format(time.RFC3339Nano))
	}
	return q, nil
}

// parseMoment reads a time, or how long ago it was.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("%q isn't a time such as 2026-11-21T10:00:00Z or a duration such as 90m", text)
	}
	return at, nil
}

func (s *session) printJobs(w io.Writer, jobs []jobRow, now time.Time) {
	if len(jobs) == 0 {
		return
	}
	rows := make([][]string, len(jobs))
	for i, j := range jobs {
		rows[i] = []string{j.ID, j.Queue, j.State, fmt.Sprintf("%d/%d", j.Attempt, j.MaxRetries), ago(j.CreatedAt, now), first(j.LastError, "-")}
	}
	s.table(w, []string{"JOB", "QUEUE", "STATE", "ATTEMPT", "CREATED", "LAST ERROR"}, rows)
}
