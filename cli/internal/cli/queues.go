package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// completionTimeout keeps the tab key quick when the server is far or dead.
const completionTimeout = time.Second

// queueTable is queues as lists show them.
func queueTable() collection[wire.Queue] {
	return collection[wire.Queue]{
		path: "/queues", header: []string{"QUEUE", "PENDING", "ACTIVE", "SCHEDULED", "RETRYING", "HELD", "DEAD", "COMPLETED", "OLDEST", "STATE", "LIMITS"},
		row: func(q *wire.Queue) []any {
			return []any{q.Name, q.Pending, q.Active, q.Scheduled, q.Retrying, q.Held, q.Dead, q.Completed, q.OldestPendingAt, queueState(q), queueLimits(q)}
		},
		empty: "no queues; add a job to create one: corvo enqueue emails '{}'",
	}
}

func (s *session) queuesCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: "List queues with exact counts",
		Example: `  {cmd}
  {cmd} -o jsonl | jq -r 'select(.dead > 0) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return list(c.Context(), s, queueTable(), 0) },
	}
}

// queueState says what keeps jobs out of the queue or in it.
func queueState(q *wire.Queue) string {
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
	q, raw, err := a.queue(ctx, name)
	if err != nil {
		return err
	}
	return s.emit(raw, func(w io.Writer) { s.printQueue(w, &q, time.Now()) })
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
