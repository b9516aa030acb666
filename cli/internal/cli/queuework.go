package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// drainLook is how long one call waits for a queue to be empty.
const drainLook = 10 * time.Second

func (s *session) drainVerb() verb {
	var patience time.Duration
	var noWait bool
	return verb{
		root: "drain", noun: "queue drain", args: "QUEUE", short: "Take no new jobs and wait until the queue is empty",
		long: `The queue takes no new jobs while workers finish the ones it has. It doesn't wait for held
jobs. "corvo resume" lets the queue take jobs again.`,
		example: "  {cmd} emails\n  {cmd} emails --wait 10m\n  {cmd} emails --no-wait",
		flags: func(c *cobra.Command) {
			c.Flags().DurationVar(&patience, "wait", time.Hour, "how long to wait")
			c.Flags().BoolVar(&noWait, "no-wait", false, "don't wait")
		},
		run: func(c *cobra.Command, args []string) error {
			if noWait {
				patience = 0
			}
			return s.drain(c.Context(), args[0], patience)
		},
	}
}

func (s *session) drain(ctx context.Context, queue string, patience time.Duration) error {
	end := time.Now().Add(patience)
	for {
		look := max(min(drainLook, time.Until(end).Round(time.Millisecond)), 0)
		d, raw, err := answerOf[wire.Drained](ctx, s,
			call{method: "POST", path: pathf("/queues/%s/drain", queue) + "?wait=" + look.String(), wait: look, repeatable: true})
		if err != nil {
			return err
		}
		if d.Remaining > 0 && time.Now().Before(end) {
			s.talkf("%s: %s left", queue, count(int(d.Remaining), "job"))
			continue
		}
		if d.Remaining > 0 && patience > 0 {
			s.exit = ExitTimeout
		}
		return s.emit(raw, func(w io.Writer) {
			fmt.Fprintf(w, "%s  %s, %s left\n", queue, d.Status, count(int(d.Remaining), "job"))
		})
	}
}

func (s *session) clearVerb() verb {
	var yes bool
	return verb{
		root: "clear", noun: "queue clear", args: "QUEUE...", short: "Delete every job of queues except active ones",
		long:    "Deletes every job of the queue, finished or not, except active ones. The queue keeps its settings\nand limits. This can't be undone.",
		example: "  {cmd} emails --yes",
		flags:   func(c *cobra.Command) { yesFlag(c, &yes) },
		run: func(c *cobra.Command, names []string) error {
			question := fmt.Sprintf("Permanently delete all jobs of %s?", strings.Join(names, ", "))
			if err := s.mustConfirm(yes, question, "deleted jobs can't be restored"); err != nil {
				return err
			}
			_, err := s.forEachNamed(c.Context(), "queue", names, func(name string) call { return post(pathf("/queues/%s/clear", name), nothing{}) })
			return err
		},
	}
}

func (s *session) requeueVerb() verb {
	return verb{
		root: "requeue", noun: "queue requeue", args: "QUEUE", short: "Retry every dead job of a queue", example: "  {cmd} emails",
		run: func(c *cobra.Command, args []string) error {
			return show(c.Context(), s, post(pathf("/queues/%s/requeue", args[0]), nothing{}), func(w io.Writer, d *wire.Requeued, _ time.Time) {
				fmt.Fprintf(w, "%s  %s retried\n", args[0], count(int(d.Requeued), "job"))
			})
		},
	}
}

func (s *session) workersVerb() verb {
	return lists(s, verb{root: "workers", noun: "worker list", short: "List workers that fetched recently"}, collection[wire.Worker]{
		path: "/workers", header: []string{"WORKER", "HOST", "SEEN", "SINCE", "QUEUES"},
		row: func(v *wire.Worker) []any {
			var queues []string
			_ = json.Unmarshal([]byte(v.Queues), &queues) // Shown as none.
			return []any{v.ID, v.Hostname, v.LastHeartbeat, v.StartedAt, strings.Join(queues, ",")}
		},
		empty: "no workers; start one with: corvo work QUEUE -- COMMAND",
	})
}
