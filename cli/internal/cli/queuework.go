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

func (s *session) drainCommand(use string) *cobra.Command {
	var patience time.Duration
	var noWait bool
	c := &cobra.Command{
		Use:   use + " QUEUE",
		Short: "Take no new jobs and wait until the queue is empty",
		Long: `The queue takes no new jobs while workers finish the ones it has. It doesn't wait for held
jobs. "corvo resume" lets the queue take jobs again.`,
		Example:           "  {cmd} emails\n  {cmd} emails --wait 10m\n  {cmd} emails --no-wait",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeFirstQueue,
		RunE: func(c *cobra.Command, args []string) error {
			if noWait {
				patience = 0
			}
			return s.drain(c.Context(), args[0], patience)
		},
	}
	c.Flags().DurationVar(&patience, "wait", time.Hour, "how long to wait")
	c.Flags().BoolVar(&noWait, "no-wait", false, "don't wait")
	return c
}

func (s *session) drain(ctx context.Context, queue string, patience time.Duration) error {
	a, err := s.api()
	if err != nil {
		return err
	}
	end := time.Now().Add(patience)
	for {
		look := max(min(drainLook, time.Until(end).Round(time.Millisecond)), 0)
		r, err := a.send(ctx, call{method: "POST", path: pathf("/queues/%s/drain", queue) + "?wait=" + look.String(), wait: look, repeatable: true})
		if err != nil {
			return err
		}
		var d wire.Drained
		if err := a.decode(r, &d); err != nil {
			return err
		}
		if d.Remaining > 0 && time.Now().Before(end) {
			s.talkf("%s: %s left", queue, count(int(d.Remaining), "job"))
			continue
		}
		if d.Remaining > 0 && patience > 0 {
			s.exit = ExitTimeout
		}
		return s.emit(r.body, func(w io.Writer) {
			fmt.Fprintf(w, "%s  %s, %s left\n", queue, d.Status, count(int(d.Remaining), "job"))
		})
	}
}

func (s *session) clearCommand(use string) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:               use + " QUEUE...",
		Short:             "Delete every job of queues except active ones",
		Long:              "Deletes every job of the queue, finished or not, except active ones. The queue keeps its settings\nand limits. This can't be undone.",
		Example:           "  {cmd} emails --yes",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeQueues,
		RunE: func(c *cobra.Command, names []string) error {
			question := fmt.Sprintf("Permanently delete all jobs of %s?", strings.Join(names, ", "))
			if err := s.mustConfirm(yes, question, "deleted jobs can't be restored"); err != nil {
				return err
			}
			_, err := s.forEachQueue(c.Context(), names, func(name string) call {
				return call{method: "POST", path: pathf("/queues/%s/clear", name), body: struct{}{}}
			})
			return err
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask for confirmation")
	return c
}

func (s *session) requeueCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use:               use + " QUEUE",
		Short:             "Retry every dead job of a queue",
		Example:           "  {cmd} emails",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeFirstQueue,
		RunE: func(c *cobra.Command, args []string) error {
			ask := call{method: "POST", path: pathf("/queues/%s/requeue", args[0]), body: struct{}{}}
			return show(c.Context(), s, ask, func(w io.Writer, d *wire.Requeued, _ time.Time) {
				fmt.Fprintf(w, "%s  %s retried\n", args[0], count(int(d.Requeued), "job"))
			})
		},
	}
}

func (s *session) workersCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: "List workers that fetched recently", Example: "  {cmd}", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, collection[wire.Worker]{
				path: "/workers", header: []string{"WORKER", "HOST", "SEEN", "SINCE", "QUEUES"},
				row: func(v *wire.Worker) []any {
					var queues []string
					_ = json.Unmarshal([]byte(v.Queues), &queues) // Shown as none.
					return []any{v.ID, v.Hostname, v.LastHeartbeat, v.StartedAt, strings.Join(queues, ",")}
				},
				empty: "no workers; start one with: corvo work QUEUE -- COMMAND",
			}, 0)
		},
	}
}
