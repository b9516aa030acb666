package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

func (s *session) holdCommand(use string) *cobra.Command {
	return s.decision(use, "hold", "reason", "looks large", "Hold jobs until they are approved or rejected",
		"An active job is cancelling until its worker gives it back, and is held then.")
}

func (s *session) approveCommand(use string) *cobra.Command {
	return s.decision(use, "approve", "comment", "asked the customer", "Approve held jobs so that they can run", "")
}

func (s *session) rejectCommand(use string) *cobra.Command {
	return s.decision(use, "reject", "comment", "not what was ordered", "Reject held jobs; they become dead", "")
}

func (s *session) decision(use, verb, member, such, short, long string) *cobra.Command {
	var why string
	c := &cobra.Command{
		Use: use + " JOB...", Short: short, Long: long,
		Example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --` + member + ` "` + such + `"`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			body := map[string]string{}
			if why != "" {
				body[member] = why
			}
			_, err := s.forEachJob(c.Context(), ids, func(id string) call {
				return call{method: "POST", path: pathf("/jobs/%s/"+verb, id), body: body}
			})
			return err
		},
	}
	c.Flags().StringVar(&why, member, "", "stored with the job")
	return c
}

func (s *session) heldCommand(use string) *cobra.Command {
	return s.stateList(use, wire.Held, "List held jobs and why they are held", collection[wire.JobRow]{
		path: "/jobs", member: "jobs", header: []string{"JOB", "QUEUE", "CREATED", "REASON"},
		row:   func(j *wire.JobRow) []any { return []any{j.ID, j.Queue, j.CreatedAt, j.HoldReason} },
		empty: "no held jobs",
	})
}

func (s *session) deadCommand(use string) *cobra.Command {
	c := s.stateList(use, wire.Dead, "List dead jobs, newest first", collection[wire.JobRow]{
		path: "/jobs", member: "jobs", header: []string{"JOB", "QUEUE", "ATTEMPT", "CREATED", "LAST ERROR"},
		row: func(j *wire.JobRow) []any {
			return []any{j.ID, j.Queue, attempts(j.Attempt, j.MaxRetries), j.CreatedAt, j.LastError}
		},
		empty: "no dead jobs",
	})
	var groups bool
	var group string
	c.Flags().BoolVar(&groups, "groups", false, "count dead jobs by queue and error, the largest group first")
	c.Flags().StringVar(&group, "error-group", "", "only jobs of this group; --groups shows their `ID`s")
	c.MarkFlagsMutuallyExclusive("groups", "error-group")
	c.Example += "\n  {cmd} --groups\n  corvo bulk retry --error-group 5f0e6c9a1b2d3c4e"
	jobs := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if !groups {
			return jobs(c, args)
		}
		queue, err := c.Flags().GetString("queue")
		if err != nil {
			return err
		}
		limit, err := c.Flags().GetInt("limit")
		if err != nil {
			return err
		}
		return s.deadGroups(c.Context(), queue, limit)
	}
	return c
}

// deadGroups counts on the server. The largest groups are one answer.
func (s *session) deadGroups(ctx context.Context, queue string, limit int) error {
	query := url.Values{}
	if queue != "" {
		query.Set("queue", queue)
	}
	return list(ctx, s, collection[wire.ErrorGroup]{
		path: "/dead/groups", member: "groups", query: query, header: []string{"GROUP", "JOBS", "QUEUE", "FIRST", "LAST", "ERROR"},
		row: func(g *wire.ErrorGroup) []any {
			return []any{g.ID, g.Count, g.Queue, g.FirstAt, g.LastAt, first(g.Error, string(g.DeadReason))}
		},
		empty: "no dead jobs",
	}, limit)
}

func (s *session) stateList(use string, state wire.State, short string, in collection[wire.JobRow]) *cobra.Command {
	var queue string
	var limit int
	c := &cobra.Command{
		Use: use, Short: short, Example: "  {cmd}\n  {cmd} --queue emails -o jsonl | jq -r .id", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			in.query = url.Values{"state": {string(state)}}
			if queue != "" {
				in.query.Set("queue", queue)
			}
			if of := c.Flags().Lookup("error-group"); of != nil && of.Changed {
				in.query.Set("error_group", of.Value.String())
			}
			return list(c.Context(), s, in, limit)
		},
	}
	c.Flags().StringVar(&queue, "queue", "", "only jobs in this `QUEUE`")
	limitFlag(c, &limit)
	completeFlag(c, "queue", s.completeQueues)
	return c
}

func (s *session) moveCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use:     use + " JOB QUEUE",
		Short:   "Move a job to another queue",
		Long:    "The job keeps its state and goes to the end of the other queue. An active job can't be moved.",
		Example: "  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB emails-slow",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			_, err := s.forEachJob(c.Context(), args[:1], func(id string) call {
				return call{method: "POST", path: pathf("/jobs/%s/move", id), body: map[string]string{"queue": args[1]}}
			})
			return err
		},
	}
}

func (s *session) iterationsCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use + " JOB", Short: "List the iterations of an agent job", Example: "  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return list(c.Context(), s, collection[wire.Iteration]{
				path: pathf("/jobs/%s/iterations", args[0])[len("/api/v1"):], member: "iterations",
				header: []string{"ITERATION", "STATUS", "COST", "MODEL", "ENDED", "REASON"},
				row: func(i *wire.Iteration) []any {
					return []any{i.Iteration, i.Status, i.CostUSD, i.Model, i.CreatedAt, i.HoldReason}
				},
			}, 0)
		},
	}
}

func (s *session) replayCommand(use string) *cobra.Command {
	var from int
	c := &cobra.Command{
		Use:     use + " JOB --from ITERATION",
		Short:   "Start a new job from an iteration of an agent job",
		Long:    "The new job has the payload and limits of the original and starts from the checkpoint of that\niteration. The original doesn't change.",
		Example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --from 3`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ask := call{method: "POST", path: pathf("/jobs/%s/replay", args[0]), body: map[string]int{"from": from}}
			return show(c.Context(), s, ask, func(w io.Writer, j *wire.Enqueued, _ time.Time) { fmt.Fprintln(w, j.JobID) })
		},
	}
	c.Flags().IntVar(&from, "from", 0, "`NUMBER` of the iteration; see corvo iterations (required)")
	if err := c.MarkFlagRequired("from"); err != nil {
		panic(err)
	}
	return c
}
