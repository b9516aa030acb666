package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

type scheduleView struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Cron      string          `json:"cron"`
	Timezone  string          `json:"timezone"`
	Queue     string          `json:"queue"`
	Payload   json.RawMessage `json:"payload"`
	Paused    bool            `json:"paused"`
	Overlap   string          `json:"overlap"`
	CatchUp   string          `json:"catch_up"`
	Jitter    string          `json:"jitter"`
	NextRunAt time.Time       `json:"next_run_at"`
	NextRuns  []time.Time     `json:"next_runs"`
	LastRunAt time.Time       `json:"last_run_at"`
	LastJobID string          `json:"last_job_id"`
	Missed    int64           `json:"missed"`
}

func (s *session) scheduleNoun() *cobra.Command {
	return noun("schedule", "Manage cron schedules", s.schedulesCommand("list"), s.scheduleGetCommand("get"), s.scheduleCreateCommand("create"),
		s.scheduleUpdateCommand("update"), s.scheduleVerb("pause", "Pause schedules"), s.scheduleVerb("resume", "Resume paused schedules"),
		s.scheduleVerb("run", "Run a schedule now"), s.scheduleDeleteCommand("delete"), s.schedulePreviewCommand("preview"))
}

func (s *session) schedulesCommand(use string) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: use, Short: "List cron schedules", Example: "  {cmd}", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, collection[scheduleView]{
				path: "/schedules", member: "schedules", header: []string{"SCHEDULE", "NAME", "CRON", "TIME ZONE", "QUEUE", "NEXT", "LAST"},
				row: func(v *scheduleView, now time.Time) []string {
					next := ago(v.NextRunAt, now)
					if v.Paused {
						next = "paused"
					}
					return []string{v.ID, v.Name, v.Cron, v.Timezone, v.Queue, next, ago(v.LastRunAt, now)}
				},
				empty: `no schedules; create one with: corvo schedule create nightly "0 2 * * *" reports`,
			}, limit)
		},
	}
	limitFlag(c, &limit)
	return c
}

// scheduleExample is that of every command that takes a schedule.
const scheduleExample = "  {cmd} nightly\n  {cmd} sched_01JD0Z5W6T8RXVQ4K2M3N7P9SB"

// scheduleID finds a schedule by its name, which is unique in the namespace. What looks
// like an id is one.
func (s *session) scheduleID(ctx context.Context, word string) (string, error) {
	if strings.HasPrefix(word, "sched_") {
		return word, nil
	}
	a, err := s.api()
	if err != nil {
		return "", err
	}
	raw, _, err := collection[scheduleView]{path: "/schedules", member: "schedules"}.read(ctx, a, 0)
	if err != nil {
		return "", err
	}
	for _, r := range raw {
		var v scheduleView
		if err := json.Unmarshal(r, &v); err == nil && v.Name == word {
			return v.ID, nil
		}
	}
	return "", &Failure{Exit: ExitNotFound, Code: "NOT_FOUND", What: fmt.Sprintf("no schedule %q in this namespace", word), Fix: "`corvo schedule list` lists them"}
}

func (s *session) scheduleGetCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use + " SCHEDULE", Short: "Show a schedule with its next runs", Example: scheduleExample, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := s.scheduleID(c.Context(), args[0])
			if err != nil {
				return err
			}
			return show(c.Context(), s, call{method: "GET", path: pathf("/schedules/%s", id), repeatable: true}, printSchedule)
		},
	}
}

func printSchedule(w io.Writer, v *scheduleView, now time.Time) {
	f := facts{w, now}
	f.line("schedule", v.ID)
	f.line("name", v.Name)
	f.line("cron", v.Cron+"  "+v.Timezone)
	f.line("queue", v.Queue)
	f.line("payload", string(v.Payload))
	f.line("overlap", v.Overlap)
	f.line("catch up", v.CatchUp)
	f.line("jitter", v.Jitter)
	if v.Paused {
		f.line("paused", "yes")
	}
	f.at("last run", v.LastRunAt)
	f.line("last job", v.LastJobID)
	if v.Missed > 0 {
		f.line("missed", fmt.Sprint(v.Missed))
	}
	if v.Paused {
		return
	}
	for _, at := range inZone(v.NextRuns, v.Timezone) {
		f.at("next run", at)
	}
}

// inZone shows times by the clock that a schedule goes by; UTC where this machine does
// not know it.
func inZone(times []time.Time, zone string) []time.Time {
	at, err := time.LoadLocation(zone)
	if err != nil {
		return times
	}
	out := make([]time.Time, len(times))
	for i, t := range times {
		out[i] = t.In(at)
	}
	return out
}

// scheduleFlags fill the body of POST and PUT.
type scheduleFlags struct {
	cron, zone, queue, payload, overlap, catchUp, jitter, priority, expireAfter string
	tags                                                                        []string
	maxRetries                                                                  int
}

func (f *scheduleFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.zone, "timezone", "", "IANA time zone `NAME`, such as Europe/Berlin (default UTC)")
	fs.StringVar(&f.payload, "payload", "", "payload `JSON` of its jobs")
	fs.StringVar(&f.priority, "priority", "", "critical, high or normal")
	fs.IntVar(&f.maxRetries, "max-retries", 0, "total `ATTEMPTS` of each job")
	fs.StringVar(&f.expireAfter, "expire-after", "", "a job becomes dead if it isn't finished within this `DURATION`")
	fs.StringArrayVar(&f.tags, "tag", nil, "tag `KEY:VALUE` of its jobs; can be repeated")
	fs.StringVar(&f.overlap, "overlap", "", "if the previous job is unfinished: allow (default), skip, or cancel it")
	fs.StringVar(&f.catchUp, "catch-up", "", "missed runs: once (default), skip or all")
	fs.StringVar(&f.jitter, "jitter", "", "delay each run by up to this `DURATION`")
	completeWords(c, "priority", "critical", "high", "normal")
	completeWords(c, "overlap", "allow", "skip", "cancel")
	completeWords(c, "catch-up", "once", "skip", "all")
}

// into sets what was given.
func (f *scheduleFlags) into(body map[string]any) error {
	for member, text := range map[string]string{
		"cron": f.cron, "timezone": f.zone, "queue": f.queue, "priority": f.priority, "expire_after": f.expireAfter,
		"overlap": f.overlap, "catch_up": f.catchUp, "jitter": f.jitter,
	} {
		if text != "" {
			body[member] = text
		}
	}
	if f.maxRetries != 0 {
		body["max_retries"] = f.maxRetries
	}
	tags, err := parseTags("", f.tags)
	if err != nil {
		return err
	}
	if tags != nil {
		body["tags"] = tags
	}
	return putJSON(body, "payload", f.payload)
}

func (s *session) scheduleCreateCommand(use string) *cobra.Command {
	var f scheduleFlags
	var paused bool
	c := &cobra.Command{
		Use:   use + " NAME CRON QUEUE",
		Short: "Create a schedule from a cron expression",
		Long: `CRON has five fields (minute, hour, day of month, month, day of week), or six with
seconds first, or is a word such as @daily. It is read in --timezone: a run in an hour
that is skipped in spring happens at the end of that hour, and a run in an hour that
happens twice in autumn runs once.`,
		Example: `  {cmd} nightly "0 2 * * *" reports --timezone Europe/Berlin
  {cmd} poll "*/5 * * * *" sync --payload '{"account":7}' --overlap skip`,
		Args: cobra.ExactArgs(3),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{"name": args[0], "paused": paused}
			f.cron, f.queue = args[1], args[2]
			if err := f.into(body); err != nil {
				return err
			}
			return show(c.Context(), s, call{method: "POST", path: "/api/v1/schedules", body: body}, printSchedule)
		},
	}
	f.register(c)
	c.Flags().BoolVar(&paused, "paused", false, "create it paused")
	return c
}

func (s *session) scheduleUpdateCommand(use string) *cobra.Command {
	var f scheduleFlags
	var name string
	c := &cobra.Command{
		Use: use + " SCHEDULE", Short: "Change a schedule; settings you don't give stay the same",
		Example: `  {cmd} nightly --cron "30 2 * * *"`, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return s.updateSchedule(c.Context(), args[0], name, &f) },
	}
	c.Flags().StringVar(&name, "name", "", "new `NAME`")
	c.Flags().StringVar(&f.cron, "cron", "", "new cron `EXPRESSION`")
	c.Flags().StringVar(&f.queue, "queue", "", "new `QUEUE`")
	f.register(c)
	return c
}

// scheduleSettings are the members of a schedule that PUT takes.
var scheduleSettings = []string{ //nolint:gochecknoglobals // A constant table.
	"name", "cron", "timezone", "queue", "payload", "priority", "tags", "max_retries", "retry_backoff", "retry_base_delay", "retry_max_delay",
	"expire_after", "jitter", "overlap", "catch_up", "paused",
}

// updateSchedule reads what the schedule is and puts it back changed.
func (s *session) updateSchedule(ctx context.Context, schedule, name string, f *scheduleFlags) error {
	id, err := s.scheduleID(ctx, schedule)
	if err != nil {
		return err
	}
	a, err := s.api()
	if err != nil {
		return err
	}
	r, err := a.get(ctx, pathf("/schedules/%s", id))
	if err != nil {
		return err
	}
	var is map[string]json.RawMessage
	if err := a.decode(r, &is); err != nil {
		return err
	}
	body := map[string]any{}
	for _, member := range scheduleSettings {
		if v, ok := is[member]; ok {
			body[member] = v
		}
	}
	if name != "" {
		body["name"] = name
	}
	if err := f.into(body); err != nil {
		return err
	}
	return show(ctx, s, call{method: "PUT", path: pathf("/schedules/%s", id), body: body, repeatable: true}, printSchedule)
}

func (s *session) scheduleVerb(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " SCHEDULE", Short: short, Example: scheduleExample, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := s.scheduleID(c.Context(), args[0])
			if err != nil {
				return err
			}
			ask := call{method: "POST", path: pathf("/schedules/%s/"+verb, id), body: struct{}{}}
			if verb == "run" {
				return show(c.Context(), s, ask, func(w io.Writer, j *struct {
					JobID string `json:"job_id"`
				}, _ time.Time,
				) {
					fmt.Fprintln(w, j.JobID)
				})
			}
			return show(c.Context(), s, ask, printSchedule)
		},
	}
}

func (s *session) scheduleDeleteCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use + " SCHEDULE...", Short: "Delete schedules; the jobs they created stay", Example: scheduleExample, Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, words []string) error {
			ids := map[string]string{}
			for _, word := range words {
				id, err := s.scheduleID(c.Context(), word)
				if err != nil {
					return err
				}
				ids[word] = id
			}
			return s.eachThing(c.Context(), words, func(word string) call { return call{method: "DELETE", path: pathf("/schedules/%s", ids[word])} })
		},
	}
}

func (s *session) schedulePreviewCommand(use string) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: use + " CRON", Short: "Show the next runs of a cron expression", Example: `  {cmd} "0 2 * * 1-5" --timezone Europe/Berlin`, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]string{"cron": args[0]}
			if zone != "" {
				body["timezone"] = zone
			}
			ask := call{method: "POST", path: "/api/v1/schedules/preview", body: body, repeatable: true}
			return show(c.Context(), s, ask, func(w io.Writer, v *scheduleView, now time.Time) {
				for _, at := range inZone(v.NextRuns, zone) {
					fmt.Fprintf(w, "%s  %s\n", at.Format(time.RFC3339), ago(at, now))
				}
			})
		},
	}
	c.Flags().StringVar(&zone, "timezone", "", "IANA time zone `NAME` (default UTC)")
	return c
}
