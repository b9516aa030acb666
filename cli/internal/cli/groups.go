package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

func (s *session) batchNoun() *cobra.Command {
	return noun("batch", "Manage batches: groups of jobs with a callback when all are finished",
		s.batchesCommand("list"), s.batchGetCommand("get"), s.batchCreateCommand("create"), s.batchSealCommand("seal"))
}

func (s *session) batchesCommand(use string) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: use, Short: "List batches, newest first", Example: "  {cmd}", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, collection[wire.Batch]{
				path: "/batches", member: "batches", header: []string{"BATCH", "STATUS", "TOTAL", "OPEN", "COMPLETED", "DEAD", "CREATED", "CALLBACK"},
				row: func(b *wire.Batch) []any {
					return []any{b.ID, b.Status, b.Total, b.Open, b.Completed, b.Dead, b.CreatedAt, b.CallbackQueue}
				},
				empty: "no batches; create one with: corvo batch create --callback-queue reports",
			}, limit)
		},
	}
	limitFlag(c, &limit)
	return c
}

func (s *session) batchGetCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use + " BATCH", Short: "Show a batch", Example: "  {cmd} batch_01JD0Z5W6T8RXVQ4K2M3N7P9SB", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return show(c.Context(), s, call{method: "GET", path: pathf("/batches/%s", args[0]), repeatable: true}, func(w io.Writer, a *wire.BatchPage, now time.Time) {
				printBatch(w, &a.Batch, now)
			})
		},
	}
}

func printBatch(w io.Writer, b *wire.Batch, now time.Time) {
	f := facts{w, now, 14}
	f.line("batch", b.ID)
	f.line("status", string(b.Status))
	f.line("jobs", fmt.Sprintf("%d, %d not finished", b.Total, b.Open))
	f.line("outcomes", fmt.Sprintf("%d completed, %d dead, %d cancelled, %d deleted", b.Completed, b.Dead, b.Cancelled, b.Deleted))
	f.line("callback", strings.TrimSpace(b.CallbackQueue+" "+b.CallbackJobID))
	f.at("created", b.CreatedAt)
	f.at("finished", b.FinishedAt)
}

func (s *session) batchCreateCommand(use string) *cobra.Command {
	var body wire.BatchOptions
	var payload string
	c := &cobra.Command{
		Use:   use,
		Short: "Create a batch and print its id",
		Long: `Add jobs to an open batch with corvo enqueue --batch. After the batch is sealed and its
last job is completed, dead or cancelled, one job is added to the callback queue.`,
		Example: `  BATCH=$({cmd} --callback-queue albums --callback-payload '{"album":7}')
  corvo enqueue resize '{"image":1}' --batch $BATCH
  corvo batch seal $BATCH`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if payload != "" {
				raw, err := checkJSON("--callback-payload", []byte(payload))
				if err != nil {
					return err
				}
				body.CallbackPayload = raw
			}
			ask := call{method: "POST", path: "/api/v1/batches", body: body}
			return show(c.Context(), s, ask, func(w io.Writer, b *wire.BatchMade, _ time.Time) { fmt.Fprintln(w, b.BatchID) })
		},
	}
	c.Flags().StringVar(&body.CallbackQueue, "callback-queue", "", "`QUEUE` of the callback job")
	c.Flags().StringVar(&payload, "callback-payload", "", "payload `JSON` of the callback job; counts are added to it")
	completeFlag(c, "callback-queue", s.completeQueues)
	return c
}

func (s *session) batchSealCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use + " BATCH", Short: "Close a batch to new jobs so that it can finish", Example: "  {cmd} batch_01JD0Z5W6T8RXVQ4K2M3N7P9SB", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return show(c.Context(), s, call{method: "POST", path: pathf("/batches/%s/seal", args[0]), body: struct{}{}, repeatable: true}, printBatch)
		},
	}
}

func (s *session) chainNoun() *cobra.Command {
	return noun("chain", "Manage chains: jobs that run one after another", s.chainsCommand("list"), s.chainGetCommand("get"))
}

func (s *session) chainsCommand(use string) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: use, Short: "List chains, newest first", Example: "  {cmd}", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, collection[wire.ChainRow]{
				path: "/chains", member: "chains", header: []string{"CHAIN", "STATUS", "STEP", "CREATED"},
				row: func(v *wire.ChainRow) []any {
					return []any{v.ID, v.Status, attempts(v.CurrentStep+1, v.Steps), v.CreatedAt}
				},
				empty: `no chains; create one with: corvo enqueue a '{}' --chain '{"steps":[{"queue":"a"},{"queue":"b"}]}'`,
			}, limit)
		},
	}
	limitFlag(c, &limit)
	return c
}

func (s *session) chainGetCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use + " CHAIN", Short: "Show a chain with the job of each step", Example: "  {cmd} chn_01JD0Z5W6T8RXVQ4K2M3N7P9SB", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ask := call{method: "GET", path: pathf("/chains/%s", args[0]), repeatable: true}
			return show(c.Context(), s, ask, s.printChain)
		},
	}
}

func (s *session) printChain(w io.Writer, v *wire.Chain, now time.Time) {
	f := facts{w, now, 14}
	f.line("chain", v.ID)
	f.line("status", strings.TrimSpace(string(v.Status)+" "+parens(v.ExitReason)))
	f.at("created", v.CreatedAt)
	var rows [][]string
	row := func(name string, step *wire.ChainJob) {
		if step != nil {
			rows = append(rows, []string{name, step.Queue, first(string(step.State), "-"), first(step.JobID, "-")})
		}
	}
	for i := range v.Steps {
		row(attempts(i+1, len(v.Steps)), &v.Steps[i])
	}
	row("on failure", v.OnFailure)
	row("on exit", v.OnExit)
	s.table(w, []string{"STEP", "QUEUE", "STATE", "JOB"}, rows)
}
