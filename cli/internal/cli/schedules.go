package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// scheduleExample is that of every command that takes a schedule.
const scheduleExample = "  {cmd} nightly\n  {cmd} sched_01JD0Z5W6T8RXVQ4K2M3N7P9SB"

func scheduleTable() collection[wire.Schedule] {
	return collection[wire.Schedule]{
		path: "/schedules", member: "schedules", header: []string{"SCHEDULE", "NAME", "CRON", "TIME ZONE", "QUEUE", "NEXT", "LAST"},
		row: func(v *wire.Schedule) []any {
			var next any = v.NextRunAt
			if v.Paused {
				next = "paused"
			}
			return []any{v.ID, v.Name, v.Cron, v.Timezone, v.Queue, next, v.LastRunAt}
		},
		empty: `no schedules; create one with: corvo schedule create nightly "0 2 * * *" reports`,
	}
}

func (s *session) scheduleVerbs() []verb {
	changes := func(name string) func(string) call {
		return func(id string) call { return post(pathf("/schedules/%s/"+name, id), nothing{}) }
	}
	return []verb{
		lists(s, verb{noun: "schedule list", short: "List cron schedules"}, scheduleTable()),
		scheduleVerb(s, "get", "Show a schedule with its next runs", func(id string) call { return get(pathf("/schedules/%s", id)) }, printSchedule),
		scheduleVerb(s, "pause", "Pause schedules", changes("pause"), printSchedule),
		scheduleVerb(s, "resume", "Resume paused schedules", changes("resume"), printSchedule),
		scheduleVerb(s, "run", "Run a schedule now", changes("run"), func(w io.Writer, j *wire.ScheduleRun, _ time.Time) { fmt.Fprintln(w, j.JobID) }),
		s.scheduleCreateVerb(), s.scheduleUpdateVerb(), s.schedulePreviewVerb(),
		s.deletes(verb{noun: "schedule delete", args: "SCHEDULE...", short: "Delete schedules; the jobs they created stay", example: scheduleExample},
			func(ctx context.Context, word string) (string, error) {
				id, err := s.scheduleID(ctx, word)
				return pathf("/schedules/%s", id), err
			}),
	}
}

// scheduleVerb makes a call about one schedule, which is given by its name or id.
func scheduleVerb[T any](s *session, name, short string, ask func(id string) call, text func(w io.Writer, thing *T, now time.Time)) verb {
	return verb{
		noun: "schedule " + name, args: "SCHEDULE", short: short, example: scheduleExample,
		run: func(c *cobra.Command, args []string) error {
			id, err := s.scheduleID(c.Context(), args[0])
			if err != nil {
				return err
			}
			return show(c.Context(), s, ask(id), text)
		},
	}
}

// scheduleID finds a schedule by its name, which is unique in the namespace. What looks
// like an id is one.
func (s *session) scheduleID(ctx context.Context, word string) (string, error) {
	if strings.HasPrefix(word, "sched_") {
		return word, nil
	}
	_, schedules, _, err := scheduleTable().read(ctx, s, 0)
	if err != nil {
		return "", err
	}
	for i := range schedules {
		if schedules[i].Name == word {
			return schedules[i].ID, nil
		}
	}
	return "", &Failure{Exit: ExitNotFound, Code: wire.CodeNotFound, What: fmt.Sprintf("no schedule %q in this namespace", word), Fix: "`corvo schedule list` lists them"}
}

func printSchedule(w io.Writer, v *wire.Schedule, now time.Time) {
	f := facts{w, now, 14}
	f.line("schedule", v.ID)
	f.line("name", v.Name)
	f.line("cron", v.Cron+"  "+v.Timezone)
	f.line("queue", v.Queue)
	if v.Redacted {
		f.line("payload", hidden)
	} else {
		f.line("payload", string(v.Payload))
	}
	f.line("overlap", string(v.Overlap))
	f.line("catch up", string(v.CatchUp))
	f.line("jitter", v.Jitter)
	if v.Paused {
		f.line("paused", "yes")
	}
	if v.LastRunAt != nil {
		f.at("last run", *v.LastRunAt)
	}
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

// scheduleFlags are the settings that flags give to a schedule.
type scheduleFlags struct {
	wire.ScheduleRequest
	payload    string
	tags       []string
	maxRetries int
}

func (f *scheduleFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.Timezone, "timezone", "", "IANA time zone `NAME`, such as Europe/Berlin (default UTC)")
	fs.StringVar(&f.payload, "payload", "", "payload `JSON` of its jobs")
	wordFlag(c, &f.Priority, "priority", "%s", wire.Priorities())
	fs.IntVar(&f.maxRetries, "max-retries", 0, "total `ATTEMPTS` of each job")
	fs.StringVar(&f.ExpireAfter, "expire-after", "", "a job becomes dead if it isn't finished within this `DURATION`")
	fs.StringArrayVar(&f.tags, "tag", nil, "tag `KEY:VALUE` of its jobs; can be repeated")
	wordFlag(c, &f.Overlap, "overlap", "if the previous job is unfinished: allow (default), skip, or cancel it", wire.Overlaps())
	wordFlag(c, &f.CatchUp, "catch-up", "missed runs: once (default), skip or all", wire.CatchUps())
	fs.StringVar(&f.Jitter, "jitter", "", "delay each run by up to this `DURATION`")
}

// fill reads what flags give as text.
func (f *scheduleFlags) fill() (err error) {
	if f.maxRetries != 0 {
		f.MaxRetries = &f.maxRetries
	}
	if f.Tags, err = parseTags("", f.tags); err != nil || f.payload == "" {
		return err
	}
	f.Payload, err = checkJSON("--payload", []byte(f.payload))
	return err
}

func (s *session) scheduleCreateVerb() verb {
	var f scheduleFlags
	var paused bool
	return verb{
		noun: "schedule create", args: "NAME CRON QUEUE", short: "Create a schedule from a cron expression",
		long: `CRON has five fields (minute, hour, day of month, month, day of week), or six with
seconds first, or is a word such as @daily. It is read in --timezone: a run in an hour
that is skipped in spring happens at the end of that hour, and a run in an hour that
happens twice in autumn runs once.`,
		example: `  {cmd} nightly "0 2 * * *" reports --timezone Europe/Berlin
  {cmd} poll "*/5 * * * *" sync --payload '{"account":7}' --overlap skip`,
		flags: func(c *cobra.Command) {
			f.register(c)
			c.Flags().BoolVar(&paused, "paused", false, "create it paused")
		},
		run: func(c *cobra.Command, args []string) error {
			f.Name, f.Cron, f.Queue, f.Paused = args[0], args[1], args[2], &paused
			if err := f.fill(); err != nil {
				return err
			}
			return show(c.Context(), s, post("/api/v1/schedules", f.ScheduleRequest), printSchedule)
		},
	}
}

func (s *session) scheduleUpdateVerb() verb {
	var f scheduleFlags
	return verb{
		noun: "schedule update", args: "SCHEDULE", short: "Change a schedule; settings you don't give stay the same",
		example: `  {cmd} nightly --cron "30 2 * * *"`,
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&f.Name, "name", "", "new `NAME`")
			c.Flags().StringVar(&f.Cron, "cron", "", "new cron `EXPRESSION`")
			c.Flags().StringVar(&f.Queue, "queue", "", "new `QUEUE`")
			f.register(c)
		},
		run: func(c *cobra.Command, args []string) error { return s.updateSchedule(c.Context(), args[0], &f) },
	}
}

// scheduleSettings is what the schedule has now, as PUT takes it. Paused is left out: it
// stays as it is.
func scheduleSettings(is *wire.Schedule) wire.ScheduleRequest {
	ms := func(n *int64) string {
		if n == nil {
			return ""
		}
		return (time.Duration(*n) * time.Millisecond).String()
	}
	return wire.ScheduleRequest{
		Name: is.Name, Cron: is.Cron, Timezone: is.Timezone, Queue: is.Queue, Payload: is.Payload, Priority: is.Priority, Tags: is.Tags,
		MaxRetries: is.MaxRetries, RetryBackoff: is.RetryBackoff, RetryBaseDelay: ms(is.RetryBaseDelayMS), RetryMaxDelay: ms(is.RetryMaxDelayMS),
		UniqueKey: is.UniqueKey, UniquePeriod: is.UniquePeriod, ExpireAfter: is.ExpireAfter, Jitter: is.Jitter, Overlap: is.Overlap, CatchUp: is.CatchUp,
	}
}

// updateSchedule reads what the schedule is and puts it back changed.
func (s *session) updateSchedule(ctx context.Context, schedule string, f *scheduleFlags) error {
	if err := f.fill(); err != nil {
		return err
	}
	id, err := s.scheduleID(ctx, schedule)
	if err != nil {
		return err
	}
	is, _, err := answerOf[wire.Schedule](ctx, s, get(pathf("/schedules/%s", id)))
	if err != nil {
		return err
	}
	if is.Redacted && f.Payload == nil {
		return usagef("the payload of schedule %s is hidden from this credential, and an update would replace it with nothing: give it with --payload", id)
	}
	body := scheduleSettings(&is)
	f.Name, f.Cron, f.Queue = cmp.Or(f.Name, is.Name), cmp.Or(f.Cron, is.Cron), cmp.Or(f.Queue, is.Queue)
	if f.Tags != nil {
		body.Tags = nil
	}
	given, err := marshal(f.ScheduleRequest)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(given, &body); err != nil { // What was not given is not in it.
		return fmt.Errorf("change the settings: %w", err)
	}
	return show(ctx, s, call{method: "PUT", path: pathf("/schedules/%s", id), body: body, repeatable: true}, printSchedule)
}

func (s *session) schedulePreviewVerb() verb {
	var zone string
	return verb{
		noun: "schedule preview", args: "CRON", short: "Show the next runs of a cron expression", example: `  {cmd} "0 2 * * 1-5" --timezone Europe/Berlin`,
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&zone, "timezone", "", "IANA time zone `NAME` (default UTC)")
		},
		run: func(c *cobra.Command, args []string) error {
			body := map[string]string{"cron": args[0]}
			if zone != "" {
				body["timezone"] = zone
			}
			return show(c.Context(), s, post("/api/v1/schedules/preview", body).again(), func(w io.Writer, v *wire.SchedulePreview, now time.Time) {
				for _, at := range inZone(v.NextRuns, zone) {
					fmt.Fprintf(w, "%s  %s\n", at.Format(time.RFC3339), ago(at, now))
				}
			})
		},
	}
}
