package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// jobView is what the text form of a job shows; machines get the server's JSON.
type jobView struct {
	ID             string            `json:"id"`
	Queue          string            `json:"queue"`
	State          string            `json:"state"`
	Priority       int               `json:"priority"`
	Attempt        int               `json:"attempt"`
	MaxRetries     int               `json:"max_retries"`
	UniqueKey      string            `json:"unique_key"`
	WorkerID       string            `json:"worker_id"`
	Hostname       string            `json:"hostname"`
	Tags           map[string]string `json:"tags"`
	Payload        json.RawMessage   `json:"payload"`
	Progress       json.RawMessage   `json:"progress"`
	Checkpoint     json.RawMessage   `json:"checkpoint"`
	Result         json.RawMessage   `json:"result"`
	DeadReason     string            `json:"dead_reason"`
	LeaseExpiresAt time.Time         `json:"lease_expires_at"`
	ScheduledAt    time.Time         `json:"scheduled_at"`
	CreatedAt      time.Time         `json:"created_at"`
	StartedAt      time.Time         `json:"started_at"`
	CompletedAt    time.Time         `json:"completed_at"`
	FailedAt       time.Time         `json:"failed_at"`
	Errors         []struct {
		Attempt   int       `json:"attempt"`
		Error     string    `json:"error"`
		CreatedAt time.Time `json:"created_at"`
	} `json:"errors"`
}

func (s *session) inspectCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use:   use + " JOB...",
		Short: "Show everything about jobs",
		Example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB -o json | jq .state`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error { return s.inspect(c.Context(), ids) },
	}
}

func (s *session) inspect(ctx context.Context, ids []string) error {
	a, err := s.api()
	if err != nil {
		return err
	}
	if len(ids) == 1 {
		raw, view, err := a.job(ctx, ids[0])
		if err != nil {
			return err
		}
		return s.emit(raw, func(w io.Writer) { printJob(w, view, time.Now()) })
	}
	var rows []json.RawMessage
	var views []jobView
	failed := each(ids, func(id string) error {
		raw, view, err := a.job(ctx, id)
		if err == nil {
			rows, views = append(rows, raw), append(views, view)
		}
		return err
	})
	err = s.emitAll(rows, func(w io.Writer) {
		for i, view := range views {
			if i > 0 {
				fmt.Fprintln(w)
			}
			printJob(w, view, time.Now())
		}
	})
	return errors.Join(err, s.settle(failed, len(ids)))
}

func (a *api) job(ctx context.Context, id string) (json.RawMessage, jobView, error) {
	var view jobView
	r, err := a.get(ctx, pathf("/jobs/%s", id))
	if err != nil {
		return nil, view, err
	}
	return r.body, view, a.decode(r, &view)
}

func printJob(w io.Writer, j jobView, now time.Time) {
	line := func(name, value string) {
		if value != "" && value != "null" {
			fmt.Fprintf(w, "%-12s %s\n", name, value)
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			line(name, t.Format(time.RFC3339)+"  "+ago(t, now))
		}
	}
	line("job", j.ID)
	line("queue", j.Queue)
	line("state", strings.TrimSpace(j.State+" "+parens(j.DeadReason)))
	line("attempt", fmt.Sprintf("%d of %d", j.Attempt, j.MaxRetries))
	line("priority", priorityWord(j.Priority))
	line("unique key", j.UniqueKey)
	line("tags", tagsText(j.Tags))
	line("worker", strings.TrimSpace(j.WorkerID+" "+parens(j.Hostname)))
	at("created", j.CreatedAt)
	at("scheduled", j.ScheduledAt)
	at("started", j.StartedAt)
	at("lease ends", j.LeaseExpiresAt)
	at("completed", j.CompletedAt)
	at("failed", j.FailedAt)
	line("payload", string(j.Payload))
	line("progress", string(j.Progress))
	line("checkpoint", string(j.Checkpoint))
	line("result", string(j.Result))
	for _, e := range j.Errors {
		line(fmt.Sprintf("error #%d", e.Attempt), e.Error+"  "+ago(e.CreatedAt, now))
	}
}

func parens(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

func priorityWord(p int) string {
	words := []string{"critical", "high", "normal"}
	if p >= 0 && p < len(words) {
		return words[p]
	}
	return fmt.Sprint(p)
}

func tagsText(tags map[string]string) string {
	pairs := make([]string, 0, len(tags))
	for k, v := range tags {
		pairs = append(pairs, k+":"+v)
	}
	sort.Strings(pairs)
	return strings.Join(pairs, " ")
}

func (s *session) retryCommand(use string) *cobra.Command {
	return s.jobVerb(use, "Retry dead, cancelled or completed jobs; run scheduled and retrying ones now", "corvo cancel", (*api).retry)
}

func (s *session) cancelCommand(use string) *cobra.Command {
	return s.jobVerb(use, "Cancel jobs; the worker of an active job is asked to stop", "corvo retry", (*api).cancel)
}

func (a *api) retry(ctx context.Context, id string) (*reply, error) {
	return a.post(ctx, pathf("/jobs/%s/retry", id), struct{}{})
}

func (a *api) cancel(ctx context.Context, id string) (*reply, error) {
	return a.post(ctx, pathf("/jobs/%s/cancel", id), struct{}{})
}

func (a *api) delete(ctx context.Context, id string) (*reply, error) {
	return a.send(ctx, call{method: "DELETE", path: pathf("/jobs/%s", id)})
}

func (s *session) jobVerb(use, short, undo string, do func(*api, context.Context, string) (*reply, error)) *cobra.Command {
	return &cobra.Command{
		Use:   use + " JOB...",
		Short: short,
		Example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB job_01JD0Z5W6T8RXVQ4K2M3N7P9SC`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			done, err := s.forEachJob(c.Context(), ids, do)
			if undo != "" && done > 0 {
				s.hintf("undo: %s %s", undo, strings.Join(ids, " "))
			}
			return err
		},
	}
}

func (s *session) deleteCommand(use string) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   use + " JOB...",
		Short: "Permanently delete jobs",
		Long:  "Deletes jobs and their history. This can't be undone. To only stop a job, use `corvo cancel`.",
		Example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} --yes job_01JD0Z5W6T8RXVQ4K2M3N7P9SB`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			if !yes && !s.confirm(fmt.Sprintf("Permanently delete %s?", count(len(ids), "job"))) {
				return &Failure{Exit: ExitFail, Code: "NOT_CONFIRMED", What: "nothing was deleted", Fix: "answer y, or add --yes"}
			}
			_, err := s.forEachJob(c.Context(), ids, (*api).delete)
			return err
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask for confirmation")
	return c
}

// confirm asks on a terminal. Without one there is nobody to ask, and the ids
// on the command line are the consent.
func (s *session) confirm(question string) bool {
	if !isTerminal(s.proc.Stdin) || !isTerminal(s.proc.Stderr) {
		return true
	}
	fmt.Fprintf(s.proc.Stderr, "%s [y/N] ", question)
	var answer string
	_, _ = fmt.Fscanln(s.proc.Stdin, &answer) // No answer is a no.
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

// forEachJob runs one verb over many jobs: prints one row per success, reports
// one error per failure. It returns how many succeeded.
func (s *session) forEachJob(ctx context.Context, ids []string, do func(*api, context.Context, string) (*reply, error)) (int, error) {
	a, err := s.api()
	if err != nil {
		return 0, err
	}
	var rows []json.RawMessage
	var lines [][]string
	failed := each(ids, func(id string) error {
		r, err := do(a, ctx, id)
		if err != nil {
			return err
		}
		row, status, err := a.statusRow(r, id)
		if err != nil {
			return err
		}
		rows, lines = append(rows, row), append(lines, []string{id, status})
		return nil
	})
	if len(ids) == 1 && len(rows) == 1 {
		err = s.emit(rows[0], func(w io.Writer) { fmt.Fprintf(w, "%s  %s\n", lines[0][0], lines[0][1]) })
	} else if len(rows) > 0 || s.machine() && len(ids) > 1 {
		err = s.emitAll(rows, func(w io.Writer) {
			for _, l := range lines {
				fmt.Fprintf(w, "%s  %s\n", l[0], l[1])
			}
		})
	}
	return len(rows), errors.Join(err, s.settle(failed, len(ids)))
}

// statusRow is the answer of a job verb with the job's id added to it.
func (a *api) statusRow(r *reply, id string) (json.RawMessage, string, error) {
	fields := map[string]json.RawMessage{}
	if err := a.decode(r, &fields); err != nil {
		return nil, "", err
	}
	var status string
	_ = json.Unmarshal(fields["status"], &status) // Absent: shown as nothing.
	fields["job_id"], _ = marshal(id)             // Text always encodes.
	row, err := marshal(fields)
	return row, status, err
}

// itemFailure is one failed item of several.
type itemFailure struct {
	item string
	err  error
}

func each(items []string, do func(string) error) []itemFailure {
	var failed []itemFailure
	for _, item := range items {
		if err := do(item); err != nil {
			failed = append(failed, itemFailure{item, err})
		}
	}
	return failed
}

// settle turns failures of some of total items into the command's error: the
// failure itself when it was the only item, else one report each and a sum.
func (s *session) settle(failed []itemFailure, total int) error {
	switch {
	case len(failed) == 0:
		return nil
	case total == 1:
		return failed[0].err
	}
	exit := toFailure(failed[0].err).Exit
	for _, one := range failed {
		f := *toFailure(one.err)
		if f.Exit != exit {
			exit = ExitFail
		}
		f.What = one.item + ": " + f.What
		s.report(&f, s.machine())
	}
	if len(failed) < total {
		exit = ExitPartial
	}
	s.exit = exit
	return nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
