package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout keeps the tab key quick when the server is far or dead.
const completionTimeout = time.Second

type queueView struct {
	Name            string    `json:"name"`
	Paused          bool      `json:"paused"`
	Draining        bool      `json:"draining"`
	MaxConcurrency  int       `json:"max_concurrency"`
	RateLimit       int       `json:"rate_limit"`
	RateWindowMS    int64     `json:"rate_window_ms"`
	Pending         int64     `json:"pending"`
	Active          int64     `json:"active"`
	Held            int64     `json:"held"`
	Completed       int64     `json:"completed"`
	Dead            int64     `json:"dead"`
	Scheduled       int64     `json:"scheduled"`
	Retrying        int64     `json:"retrying"`
	Cancelled       int64     `json:"cancelled"`
	Enqueued        int64     `json:"enqueued"`
	Failed          int64     `json:"failed"`
	OldestPendingAt time.Time `json:"oldest_pending_at"`
	queueRetry

	raw json.RawMessage
}

func (a *api) queues(ctx context.Context) ([]queueView, error) {
	r, err := a.get(ctx, "/api/v1/queues")
	if err != nil {
		return nil, err
	}
	var rows []json.RawMessage
	if err := a.decode(r, &rows); err != nil {
		return nil, err
	}
	queues := make([]queueView, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &queues[i]); err != nil {
			return nil, &Failure{Exit: ExitFail, Code: "BAD_ANSWER", What: "can't read the response", Why: err.Error()}
		}
		queues[i].raw = row
	}
	return queues, nil
}

func (s *session) queuesCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: "List queues with exact counts",
		Example: `  {cmd}
  {cmd} -o jsonl | jq -r 'select(.dead > 0) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.listQueues(c.Context()) },
	}
}

func (s *session) listQueues(ctx context.Context) error {
	a, err := s.api()
	if err != nil {
		return err
	}
	queues, err := a.queues(ctx)
	if err != nil {
		return err
	}
	rows := make([]json.RawMessage, len(queues))
	for i, q := range queues {
		rows[i] = q.raw
	}
	if err := s.emitAll(rows, func(w io.Writer) { s.printQueues(w, queues, time.Now()) }); err != nil {
		return err
	}
	if len(queues) == 0 {
		s.hintf("no queues; add a job to create one: corvo enqueue emails '{}'")
	}
	return nil
}

func (s *session) printQueues(w io.Writer, queues []queueView, now time.Time) {
	if len(queues) == 0 {
		return
	}
	rows := make([][]string, len(queues))
	for i, q := range queues {
		rows[i] = []string{q.Name, fmt.Sprint(q.Pending), fmt.Sprint(q.Active), fmt.Sprint(q.Scheduled), fmt.Sprint(q.Retrying),
			fmt.Sprint(q.Held), fmt.Sprint(q.Dead), fmt.Sprint(q.Completed), ago(q.OldestPendingAt, now), q.state(), q.limits()}
	}
	s.table(w, []string{"QUEUE", "PENDING", "ACTIVE", "SCHEDULED", "RETRYING", "HELD", "DEAD", "COMPLETED", "OLDEST", "STATE", "LIMITS"}, rows)
}

// state says what keeps jobs out of the queue or in it.
func (q *queueView) state() string {
	switch {
	case q.Paused && q.Draining:
		return "paused, draining"
	case q.Paused:
		return "paused"
	case q.Draining:
		return "draining"
	}
	return "-"
}

func (s *session) queueGetCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use:               use + " QUEUE",
		Short:             "Show one queue",
		Example:           "  {cmd} emails\n  {cmd} emails -o json | jq .pending",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeFirstQueue,
		RunE:              func(c *cobra.Command, args []string) error { return s.getQueue(c.Context(), args[0]) },
	}
}

func (s *session) getQueue(ctx context.Context, name string) error {
	a, err := s.api()
	if err != nil {
		return err
	}
	q, err := a.queue(ctx, name)
	if err != nil {
		return err
	}
	return s.emitQueue(&q)
}

func (s *session) pauseCommand(use string) *cobra.Command {
	return s.queueVerb(use, "pause", "Pause queues; they still take new jobs", "corvo resume")
}

func (s *session) resumeCommand(use string) *cobra.Command {
	return s.queueVerb(use, "resume", "Resume paused or draining queues", "corvo pause")
}

func (s *session) queueVerb(use, verb, short, undo string) *cobra.Command {
	return &cobra.Command{
		Use:               use + " QUEUE...",
		Short:             short,
		Example:           "  {cmd} emails\n  {cmd} emails reports",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeQueues,
		RunE: func(c *cobra.Command, names []string) error {
			done, err := s.forEachQueue(c.Context(), names, func(name string) call {
				return call{method: "POST", path: pathf("/queues/%s/"+verb, name), body: struct{}{}, repeatable: true}
			})
			if done > 0 {
				for _, name := range names {
					s.hintf("undo: %s %s", undo, name)
				}
			}
			return err
		},
	}
}

func (s *session) forEachQueue(ctx context.Context, names []string, ask func(name string) call) (int, error) {
	return s.forEachNamed(ctx, "queue", names, ask)
}

// forEachNamed makes a call for each name, and prints the statuses; called is what the
// name is for machines.
func (s *session) forEachNamed(ctx context.Context, called string, names []string, ask func(name string) call) (int, error) {
	a, err := s.api()
	if err != nil {
		return 0, err
	}
	var rows []json.RawMessage
	var lines [][2]string
	failed := each(names, func(name string) error {
		r, err := a.send(ctx, ask(name))
		if err != nil {
			return err
		}
		var done struct {
			Status string `json:"status"`
		}
		if err := a.decode(r, &done); err != nil {
			return err
		}
		row, err := marshal(map[string]string{called: name, "status": done.Status})
		rows, lines = append(rows, row), append(lines, [2]string{name, done.Status})
		return err
	})
	text := func(w io.Writer) {
		for _, l := range lines {
			fmt.Fprintf(w, "%s  %s\n", l[0], l[1])
		}
	}
	if len(names) == 1 && len(rows) == 1 {
		err = s.emit(rows[0], text)
	} else if len(rows) > 0 || s.machine() && len(names) > 1 {
		err = s.emitAll(rows, text)
	}
	if err != nil {
		return len(rows), err
	}
	return len(rows), s.settle(failed, len(names))
}
