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

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// twoJobs is the example of verbs that take jobs and nothing else.
const twoJobs = `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB job_01JD0Z5W6T8RXVQ4K2M3N7P9SC`

func (s *session) jobVerbs() []verb {
	return append(s.stateVerbs(),
		s.enqueueVerb(), s.enqueueBatchVerb(), s.jobsVerb(), s.whyVerb(), s.deleteVerb(), s.moveVerb(), s.iterationsVerb(), s.replayVerb(), s.bulkVerb(), s.exportVerb(),
		verb{root: "inspect", noun: "job get", args: "JOB...", short: "Show everything about jobs", run: s.inspect, example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB -o json | jq .state`},
		s.jobVerb("retry", "Retry dead, cancelled or completed jobs; run scheduled and retrying ones now", "corvo cancel"),
		s.jobVerb("cancel", "Cancel jobs; the worker of an active job is asked to stop", "corvo retry"),
		s.decision("hold", "reason", "looks large", "Hold jobs until they are approved or rejected",
			"An active job is cancelling until its worker gives it back, and is held then."),
		s.decision("approve", "comment", "asked the customer", "Approve held jobs so that they can run", ""),
		s.decision("reject", "comment", "not what was ordered", "Reject held jobs; they become dead", ""),
	)
}

func (s *session) inspect(c *cobra.Command, ids []string) error {
	if len(ids) == 1 {
		return show(c.Context(), s, inspectCall(ids[0]), printJob)
	}
	if _, err := s.api(); err != nil {
		return err // The same for all of them.
	}
	var rows []json.RawMessage
	var jobs []wire.Job
	failed := each(c.Context(), ids, func(id string) error {
		job, raw, err := answerOf[wire.Job](c.Context(), s, inspectCall(id))
		if err == nil {
			rows, jobs = append(rows, raw), append(jobs, job)
		}
		return err
	})
	err := s.emitAll(rows, func(w io.Writer) {
		for i := range jobs {
			if i > 0 {
				fmt.Fprintln(w)
			}
			printJob(w, &jobs[i], time.Now())
		}
	})
	return errors.Join(err, s.settle(failed, len(ids)))
}

func inspectCall(id string) call { return get(pathf("/jobs/%s", id)) }

func printJob(w io.Writer, j *wire.Job, now time.Time) {
	f := facts{w, now, 12}
	line, at := f.line, f.at
	line("job", j.ID)
	line("queue", j.Queue)
	line("state", strings.TrimSpace(string(j.State)+" "+parens(string(j.DeadReason))))
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
	at("deleted", j.RetainedUntil)
	if j.Redacted {
		line("payload", hidden)
	} else {
		line("payload", string(j.Payload))
	}
	line("progress", string(j.Progress))
	line("checkpoint", string(j.Checkpoint))
	line("result", string(j.Result))
	for _, e := range j.Errors {
		line(fmt.Sprintf("error #%d", e.Attempt), shownError(j.Redacted, e.Error)+"  "+ago(e.CreatedAt, now))
	}
}

// hidden stands for what a server leaves out of what it shows.
const hidden = "(hidden: this credential lacks payload.read)"

// shownError is the text of an error; there is none if it is hidden, or if nothing failed.
func shownError(redacted bool, text string) string {
	if redacted {
		return hidden
	}
	return text
}

// lastError is the column of a list: whether a job failed can be seen, why may be hidden.
func lastError(j *wire.JobRow) string {
	return shownError(j.Redacted && !j.FailedAt.IsZero(), j.LastError)
}

func parens(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

func priorityWord(p int) string {
	if words := wire.Priorities(); p >= 0 && p < len(words) {
		return string(words[p])
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

// jobVerb does the same to each of some jobs; undo is the command that takes it back.
func (s *session) jobVerb(name, short, undo string) verb {
	return verb{
		root: name, noun: "job " + name, args: "JOB...", short: short, example: twoJobs,
		run: func(c *cobra.Command, ids []string) error {
			done, err := s.forEachJob(c.Context(), ids, func(id string) call { return post(pathf("/jobs/%s/"+name, id), nothing{}) })
			if done > 0 {
				s.hintf("undo: %s %s", undo, strings.Join(ids, " "))
			}
			return err
		},
	}
}

func (s *session) deleteVerb() verb {
	var yes bool
	return verb{
		root: "delete", noun: "job delete", args: "JOB...",
		short: "Permanently delete jobs",
		long:  "Deletes jobs and their history. This can't be undone. To only stop a job, use `corvo cancel`.",
		example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} --yes job_01JD0Z5W6T8RXVQ4K2M3N7P9SB`,
		flags: func(c *cobra.Command) { yesFlag(c, &yes) },
		run: func(c *cobra.Command, ids []string) error {
			if !yes && !s.confirm(fmt.Sprintf("Permanently delete %s?", count(len(ids), "job"))) {
				return &Failure{Exit: ExitFail, Code: "NOT_CONFIRMED", What: "nothing was deleted", Fix: "answer y, or add --yes"}
			}
			_, err := s.forEachJob(c.Context(), ids, func(id string) call { return del(pathf("/jobs/%s", id)) })
			return err
		},
	}
}

func yesFlag(c *cobra.Command, yes *bool) {
	c.Flags().BoolVarP(yes, "yes", "y", false, "don't ask for confirmation")
}

// confirm asks on a terminal. Without one there is nobody to ask, and the ids
// on the command line are the consent.
func (s *session) confirm(question string) bool {
	if !s.asks() {
		return true
	}
	fmt.Fprintf(s.proc.Stderr, "%s [y/N] ", printable(question))
	var answer string
	_, _ = fmt.Fscanln(s.proc.Stdin, &answer) // No answer is a no.
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

// mustConfirm refuses without a yes of the flag or of somebody at a terminal: the names on
// the command line are no consent.
func (s *session) mustConfirm(yes bool, question, why string) error {
	if yes || s.asks() && s.confirm(question) {
		return nil
	}
	return &Failure{Exit: ExitUsage, Code: "NOT_CONFIRMED", What: "nothing was deleted", Why: why, Fix: "answer y, or add --yes"}
}

// asks reports whether there is somebody to ask.
func (s *session) asks() bool { return isTerminal(s.proc.Stdin) && isTerminal(s.proc.Stderr) }

// forEachJob makes a call for each job, and prints the answers with the job's id in them.
func (s *session) forEachJob(ctx context.Context, ids []string, ask func(id string) call) (int, error) {
	return s.forEach(ctx, ids, ask, func(id string, answer map[string]json.RawMessage) any {
		answer["job_id"], _ = marshal(id) // Text always encodes.
		return answer
	})
}

// forEachNamed makes a call for each name, and prints the statuses; called is what the
// name is for machines.
func (s *session) forEachNamed(ctx context.Context, called string, names []string, ask func(name string) call) (int, error) {
	return s.forEach(ctx, names, ask, func(name string, answer map[string]json.RawMessage) any {
		return map[string]any{called: name, "status": statusOf(answer)}
	})
}

// forEach runs one call over many items: prints what row makes of each answer, reports
// one error per failure. It returns how many succeeded.
func (s *session) forEach(ctx context.Context, items []string, ask func(item string) call, row func(item string, answer map[string]json.RawMessage) any) (int, error) {
	if _, err := s.api(); err != nil {
		return 0, err // The same for all of them.
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	var rows []json.RawMessage
	var lines []string
	failed := each(ctx, items, func(item string) error {
		answer, _, err := answerOf[map[string]json.RawMessage](ctx, s, ask(item))
		if err != nil {
			return err
		}
		raw, err := marshal(row(item, answer))
		if err != nil {
			return err
		}
		rows, lines = append(rows, raw), append(lines, item+"  "+statusOf(answer)+"\n")
		return nil
	})
	text := func(w io.Writer) { fmt.Fprint(w, strings.Join(lines, "")) }
	var err error
	if len(items) == 1 && len(rows) == 1 {
		err = s.emit(rows[0], text)
	} else if len(rows) > 0 || s.machine() && len(items) > 1 {
		err = s.emitAll(rows, text)
	}
	return len(rows), errors.Join(err, s.settle(failed, len(items)))
}

func statusOf(answer map[string]json.RawMessage) (status string) {
	_ = json.Unmarshal(answer["status"], &status) // Absent: shown as nothing.
	return status
}

// itemFailure is one failed item of several.
type itemFailure struct {
	item string
	err  error
}

// each does it to one item after the other, until it is interrupted.
func each(ctx context.Context, items []string, do func(string) error) []itemFailure {
	var failed []itemFailure
	for _, item := range items {
		if err := do(item); err != nil {
			failed = append(failed, itemFailure{item, err})
			if ctx.Err() != nil {
				break
			}
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
