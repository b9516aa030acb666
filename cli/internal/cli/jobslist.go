package cli

import (
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

type listFlags struct {
	queue  string
	states []string
	tags   []string
	after  string
	before string
	limit  int
}

func (s *session) jobsVerb() verb {
	var f listFlags
	return verb{
		root: "jobs", noun: "job list", short: "List jobs, newest first",
		long: `Lists jobs by state, queue, tags and creation time, newest first. The list can be a
moment behind; "corvo inspect" shows a job as it is now.

A time is RFC 3339, or how long ago, such as 90m.`,
		example: `  {cmd} --state dead --queue emails
  {cmd} --tag customer:acme --after 24h
  {cmd} --state dead -o jsonl | jq -r .id | xargs corvo retry`,
		flags: func(c *cobra.Command) {
			fs := c.Flags()
			fs.StringVar(&f.queue, "queue", "", "only jobs in this `QUEUE`")
			fs.StringSliceVar(&f.states, "state", nil, "only jobs in these `STATES`: "+strings.Join(texts(wire.States()), ", "))
			fs.StringArrayVar(&f.tags, "tag", nil, "only jobs with this tag, `KEY:VALUE`; can be repeated")
			fs.StringVar(&f.after, "after", "", "only jobs created after this `TIME`")
			fs.StringVar(&f.before, "before", "", "only jobs created before this `TIME`")
			fs.IntVar(&f.limit, "limit", 50, "show at most `N` jobs; 0 means all")
			completeFlag(c, "queue", s.completeQueues)
			completeWords(c, "state", wire.States()...)
		},
		run: func(c *cobra.Command, _ []string) error {
			query, err := f.query(time.Now())
			if err != nil {
				return err
			}
			return list(c.Context(), s, collection[wire.JobRow]{
				path: "/jobs", member: "jobs", query: query, header: []string{"JOB", "QUEUE", "STATE", "ATTEMPT", "CREATED", "LAST ERROR"},
				row: func(j *wire.JobRow) []any {
					return []any{j.ID, j.Queue, j.State, attempts(j.Attempt, j.MaxRetries), j.CreatedAt, lastError(j)}
				},
				empty: "no jobs match; `corvo queues` shows what there is",
			}, f.limit)
		},
	}
}

func (f listFlags) query(now time.Time) (url.Values, error) {
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
	after, before, err := f.created(now)
	for name, at := range map[string]time.Time{"created_after": after, "created_before": before} {
		if !at.IsZero() {
			q.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	return q, err
}

// created is between which times jobs were created; zero is no limit.
func (f listFlags) created(now time.Time) (after, before time.Time, err error) {
	if after, err = parseMoment(f.after, now); err != nil {
		return after, before, err
	}
	before, err = parseMoment(f.before, now)
	return after, before, err
}

// parseMoment reads a time, or how long ago it was; no text is no time.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("%q isn't a time such as 2026-11-21T10:00:00Z or a duration such as 90m", text)
	}
	return at.UTC(), nil
}
