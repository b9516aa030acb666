package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

func (s *session) batchVerbs() []verb {
	const example = "  {cmd} batch_01JD0Z5W6T8RXVQ4K2M3N7P9SB"
	return []verb{
		lists(s, verb{noun: "batch list", short: "List batches, newest first"}, collection[wire.Batch]{
			path: "/batches", member: "batches", header: []string{"BATCH", "STATUS", "TOTAL", "OPEN", "COMPLETED", "DEAD", "CREATED", "CALLBACK"},
			row: func(b *wire.Batch) []any {
				return []any{b.ID, b.Status, b.Total, b.Open, b.Completed, b.Dead, b.CreatedAt, b.CallbackQueue}
			},
			empty: "no batches; create one with: corvo batch create --callback-queue reports",
		}),
		shows(s, verb{noun: "batch get", args: "BATCH", short: "Show a batch", example: example},
			func(args []string) call { return get(pathf("/batches/%s", args[0])) },
			func(w io.Writer, a *wire.BatchPage, now time.Time) { printBatch(w, &a.Batch, now) }),
		shows(s, verb{noun: "batch seal", args: "BATCH", short: "Close a batch to new jobs so that it can finish", example: example},
			func(args []string) call { return post(pathf("/batches/%s/seal", args[0]), nothing{}).again() }, printBatch),
		s.batchCreateVerb(),
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

func (s *session) batchCreateVerb() verb {
	var body wire.BatchOptions
	var payload string
	return verb{
		noun:  "batch create",
		short: "Create a batch and print its id",
		long: `Add jobs to an open batch with corvo enqueue --batch. After the batch is sealed and its
last job is completed, dead or cancelled, one job is added to the callback queue.`,
		example: `  BATCH=$({cmd} --callback-queue albums --callback-payload '{"album":7}')
  corvo enqueue resize '{"image":1}' --batch $BATCH
  corvo batch seal $BATCH`,
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&body.CallbackQueue, "callback-queue", "", "`QUEUE` of the callback job")
			c.Flags().StringVar(&payload, "callback-payload", "", "payload `JSON` of the callback job; counts are added to it")
			completeFlag(c, "callback-queue", s.completeQueues)
		},
		run: func(c *cobra.Command, _ []string) (err error) {
			if payload != "" {
				if body.CallbackPayload, err = checkJSON("--callback-payload", []byte(payload)); err != nil {
					return err
				}
			}
			return show(c.Context(), s, post(pathf("/batches"), body), func(w io.Writer, b *wire.BatchMade, _ time.Time) { fmt.Fprintln(w, b.BatchID) })
		},
	}
}

func (s *session) chainVerbs() []verb {
	return []verb{
		lists(s, verb{noun: "chain list", short: "List chains, newest first"}, collection[wire.ChainRow]{
			path: "/chains", member: "chains", header: []string{"CHAIN", "STATUS", "STEP", "CREATED"},
			row: func(v *wire.ChainRow) []any {
				return []any{v.ID, v.Status, attempts(v.CurrentStep+1, v.Steps), v.CreatedAt}
			},
			empty: `no chains; create one with: corvo enqueue a '{}' --chain '{"steps":[{"queue":"a"},{"queue":"b"}]}'`,
		}),
		shows(s, verb{noun: "chain get", args: "CHAIN", short: "Show a chain with the job of each step", example: "  {cmd} chn_01JD0Z5W6T8RXVQ4K2M3N7P9SB"},
			func(args []string) call { return get(pathf("/chains/%s", args[0])) }, s.printChain),
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
			rows = append(rows, []string{name, step.Queue, cmp.Or(string(step.State), "-"), cmp.Or(step.JobID, "-")})
		}
	}
	for i := range v.Steps {
		row(attempts(i+1, len(v.Steps)), &v.Steps[i])
	}
	row("on failure", v.OnFailure)
	row("on exit", v.OnExit)
	s.table(w, []string{"STEP", "QUEUE", "STATE", "JOB"}, rows)
}
