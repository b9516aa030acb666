package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// decision is a verb by which a person decides about jobs; member is what the API calls the
// reason, such is one.
func (s *session) decision(name, member, such, short, long string) verb {
	var why string
	return verb{
		root: name, noun: "job " + name, args: "JOB...", short: short, long: long,
		example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --` + member + ` "` + such + `"`,
		flags: func(c *cobra.Command) { c.Flags().StringVar(&why, member, "", "stored with the job") },
		run: func(c *cobra.Command, ids []string) error {
			body := map[string]string{}
			if why != "" {
				body[member] = why
			}
			_, err := s.forEachJob(c.Context(), ids, func(id string) call { return post(pathf("/jobs/%s/"+name, id), body) })
			return err
		},
	}
}

// stateVerbs list the jobs that wait for a person.
func (s *session) stateVerbs() []verb {
	var queue, group string
	var limit int
	var groups bool
	flags := func(c *cobra.Command) {
		c.Flags().StringVar(&queue, "queue", "", "only jobs in this `QUEUE`")
		limitFlag(c, &limit)
		completeFlag(c, "queue", s.completeQueues)
	}
	query := func(more url.Values) url.Values {
		if queue != "" {
			more.Set("queue", queue)
		}
		return more
	}
	const example = "  {cmd}\n  {cmd} --queue emails -o jsonl | jq -r .id"
	held := verb{root: "held", noun: "job held", short: "List held jobs and why they are held", example: example, flags: flags}
	held.run = func(c *cobra.Command, _ []string) error {
		return list(c.Context(), s, collection[wire.JobRow]{
			path: "/jobs", member: "jobs", query: query(url.Values{"state": {string(wire.Held)}}), header: []string{"JOB", "QUEUE", "CREATED", "REASON"},
			row:   func(j *wire.JobRow) []any { return []any{j.ID, j.Queue, j.CreatedAt, j.HoldReason} },
			empty: "no held jobs",
		}, limit)
	}
	dead := verb{root: "dead", noun: "job dead", short: "List dead jobs, newest first"}
	dead.example = example + "\n  {cmd} --groups\n  corvo bulk retry --error-group 5f0e6c9a1b2d3c4e"
	dead.flags = func(c *cobra.Command) {
		flags(c)
		c.Flags().BoolVar(&groups, "groups", false, "count dead jobs by queue and error, the largest group first")
		c.Flags().StringVar(&group, "error-group", "", "only jobs of this group; --groups shows their `ID`s")
		c.MarkFlagsMutuallyExclusive("groups", "error-group")
	}
	dead.run = func(c *cobra.Command, _ []string) error {
		if groups {
			return s.deadGroups(c.Context(), query(url.Values{}), limit)
		}
		of := url.Values{"state": {string(wire.Dead)}}
		if c.Flags().Changed("error-group") {
			of.Set("error_group", group)
		}
		return list(c.Context(), s, collection[wire.JobRow]{
			path: "/jobs", member: "jobs", query: query(of), header: []string{"JOB", "QUEUE", "ATTEMPT", "CREATED", "LAST ERROR"},
			row: func(j *wire.JobRow) []any {
				return []any{j.ID, j.Queue, attempts(j.Attempt, j.MaxRetries), j.CreatedAt, lastError(j)}
			},
			empty: "no dead jobs",
		}, limit)
	}
	return []verb{held, dead}
}

// deadGroups counts on the server. The largest groups are one answer.
func (s *session) deadGroups(ctx context.Context, query url.Values, limit int) error {
	return list(ctx, s, collection[wire.ErrorGroup]{
		path: "/dead/groups", member: "groups", query: query, header: []string{"GROUP", "JOBS", "QUEUE", "FIRST", "LAST", "ERROR"},
		row: func(g *wire.ErrorGroup) []any {
			return []any{g.ID, g.Count, g.Queue, g.FirstAt, g.LastAt, cmp.Or(g.Error, string(g.DeadReason))}
		},
		empty: "no dead jobs",
	}, limit)
}

func (s *session) moveVerb() verb {
	return verb{
		root: "move", noun: "job move", args: "JOB QUEUE",
		short:   "Move a job to another queue",
		long:    "The job keeps its state and goes to the end of the other queue. An active job can't be moved.",
		example: "  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB emails-slow",
		run: func(c *cobra.Command, args []string) error {
			_, err := s.forEachJob(c.Context(), args[:1], func(id string) call { return post(pathf("/jobs/%s/move", id), map[string]string{"queue": args[1]}) })
			return err
		},
	}
}

func (s *session) iterationsVerb() verb {
	return verb{
		root: "iterations", noun: "job iterations", args: "JOB", short: "List the iterations of an agent job", example: "  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB",
		run: func(c *cobra.Command, args []string) error {
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

func (s *session) replayVerb() verb {
	var from int
	v := verb{
		root: "replay", noun: "job replay", args: "JOB --from ITERATION",
		short:   "Start a new job from an iteration of an agent job",
		long:    "The new job has the payload and limits of the original and starts from the checkpoint of that\niteration. The original doesn't change.",
		example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --from 3`,
		flags: func(c *cobra.Command) {
			c.Flags().IntVar(&from, "from", 0, "`NUMBER` of the iteration; see corvo iterations (required)")
			if err := c.MarkFlagRequired("from"); err != nil {
				panic(err)
			}
		},
	}
	return shows(s, v, func(args []string) call { return post(pathf("/jobs/%s/replay", args[0]), map[string]int{"from": from}) },
		func(w io.Writer, j *wire.Enqueued, _ time.Time) { fmt.Fprintln(w, j.JobID) })
}
