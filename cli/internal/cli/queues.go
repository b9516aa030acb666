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

func (s *session) queueVerbs() []verb {
	return []verb{
		lists(s, verb{root: "queues", noun: "queue list", short: "List queues with exact counts", example: "  {cmd}\n  {cmd} -o jsonl | jq -r 'select(.dead > 0) | .name'"}, queueTable()),
		{noun: "queue get", args: "QUEUE", short: "Show one queue", example: "  {cmd} emails\n  {cmd} emails -o json | jq .pending",
			run: func(c *cobra.Command, args []string) error { return s.getQueue(c.Context(), args[0]) }},
		s.queueSetVerb(), s.queueLimitVerb(), s.queueThrottleVerb(),
		s.queueVerb("pause", "Pause queues; they still take new jobs", "corvo resume"),
		s.queueVerb("resume", "Resume paused or draining queues", "corvo pause"),
		s.drainVerb(), s.clearVerb(), s.requeueVerb(), s.queueDeleteVerb(),
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

func (s *session) getQueue(ctx context.Context, name string) error {
	q, raw, err := s.queue(ctx, name)
	if err != nil {
		return err
	}
	return s.emit(raw, func(w io.Writer) { queueTable().print(w, s, []wire.Queue{q}) })
}

// queueVerb does the same to each of some queues; undo is the command that takes it back.
func (s *session) queueVerb(name, short, undo string) verb {
	return verb{
		root: name, noun: "queue " + name, args: "QUEUE...", short: short, example: "  {cmd} emails\n  {cmd} emails reports",
		run: func(c *cobra.Command, names []string) error {
			done, err := s.forEachNamed(c.Context(), "queue", names, func(queue string) call { return post(pathf("/queues/%s/"+name, queue), nothing{}).again() })
			if done > 0 {
				for _, queue := range names {
					s.hintf("undo: %s %s", undo, queue)
				}
			}
			return err
		},
	}
}
