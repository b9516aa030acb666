package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	// bulkIDsMax is how many ids one call takes.
	bulkIDsMax = 10_000
	// bulkInputMax bounds what is read from standard input.
	bulkInputMax = 256 << 20
	// bulkLook is how often an operation is asked for.
	bulkLook = 200 * time.Millisecond
)

type bulkFlags struct {
	filter   string
	list     listFlags
	to       string
	priority string
	yes      bool
}

func (s *session) bulkCommand(use string) *cobra.Command {
	var f bulkFlags
	c := &cobra.Command{
		Use:   use + " ACTION [JOB...]",
		Short: "Do one thing to many jobs: by their ids, or all that a filter finds",
		Long: `ACTION is retry, delete, cancel, move, requeue, change_priority, hold, approve or reject,
and does what the command for one job does. Jobs that are not as it needs them are left as
they are, and said why.

Which jobs: ids as arguments, or on standard input as lines or as JSON that another command
printed; or a filter, as flags or as the JSON of POST /api/v1/jobs/search. What a filter
finds is done by the server; when this command is stopped, the server goes on.`,
		Example: `  {cmd} retry job_01JD0Z5W6T8RXVQ4K2M3N7P9SB job_01JD0Z5W6T8RXVQ4K2M3N7P9SC
  {cmd} retry --queue emails --state dead --after 24h
  {cmd} move --to emails.v2 --filter '{"queue":"emails","state":["pending"],"priority":"high"}'
  corvo jobs --state dead --limit 0 -o jsonl | {cmd} delete --yes`,
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: []string{"retry", "delete", "cancel", "move", "requeue", "change_priority", "hold", "approve", "reject"},
		RunE:      func(c *cobra.Command, args []string) error { return s.bulk(c.Context(), args[0], args[1:], f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.to, "to", "", "the `QUEUE` to move to")
	fs.StringVar(&f.priority, "priority", "", "the new priority: critical, high or normal")
	fs.StringVar(&f.filter, "filter", "", "all jobs that this `JSON` filter finds")
	fs.StringVar(&f.list.queue, "queue", "", "all of this `QUEUE`")
	fs.StringSliceVar(&f.list.states, "state", nil, "all in these `STATES`")
	fs.StringArrayVar(&f.list.tags, "tag", nil, "all with this tag, `KEY=VALUE`; may be repeated")
	fs.StringVar(&f.list.after, "after", "", "all created after this `TIME`, or in so long a time")
	fs.StringVar(&f.list.before, "before", "", "all created before this `TIME`")
	fs.IntVar(&f.list.limit, "limit", 0, "of those that the filter finds at most `N`, the newest")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask before a delete")
	completeFlag(c, "queue", s.completeQueues)
	completeFlag(c, "to", s.completeQueues)
	completeWords(c, "priority", "critical", "high", "normal")
	completeWords(c, "state", "scheduled", "pending", "active", "retrying", "held", "completed", "dead", "cancelled")
	return c
}

// bulkDone is what a call did, or an operation so far.
type bulkDone struct {
	Affected int           `json:"affected"`
	Errors   int           `json:"errors"`
	Refused  []bulkRefusal `json:"refused,omitempty"`
}

type bulkRefusal struct {
	JobID string `json:"job_id"`
	Code  string `json:"code"`
	Error string `json:"error"`
}

func (s *session) bulk(ctx context.Context, action string, ids []string, f bulkFlags) error {
	filter, err := f.filterOf(time.Now())
	if err != nil {
		return err
	}
	a, err := s.api()
	if err != nil {
		return err
	}
	ask := map[string]any{"action": action}
	for name, value := range map[string]string{"move_to_queue": f.to, "priority": f.priority} {
		if value != "" {
			ask[name] = value
		}
	}
	switch {
	case filter != nil && len(ids) > 0:
		return usagef("say which jobs by their ids or by a filter, not by both")
	case filter != nil:
		if err := s.mayDelete(action, f, "all jobs that the filter finds"); err != nil {
			return err
		}
		ask["filter"] = filter
		return s.bulkByFilter(ctx, a, ask)
	case len(ids) == 0 || len(ids) == 1 && ids[0] == "-":
		if ids, err = s.idsFromStdin(); err != nil {
			return err
		}
	}
	if err := s.mayDelete(action, f, count(len(ids), "job")); err != nil {
		return err
	}
	return s.bulkByID(ctx, a, ask, ids)
}

// mayDelete asks on a terminal. Without one ids are the consent, a filter is not.
func (s *session) mayDelete(action string, f bulkFlags, what string) error {
	terminal := isTerminal(s.proc.Stdin) && isTerminal(s.proc.Stderr)
	byFilter := strings.HasPrefix(what, "all")
	if action != "delete" || f.yes || !terminal && !byFilter || terminal && s.confirm("Delete "+what+" for good?") {
		return nil
	}
	return &Failure{Exit: ExitUsage, Code: "NOT_CONFIRMED", What: "nothing was deleted", Why: "the jobs cannot be had back", Fix: "answer y, or use --yes"}
}

// filterOf is the filter of the flags; nil if there is none.
func (f *bulkFlags) filterOf(now time.Time) (any, error) {
	l := &f.list
	flags := l.queue != "" || len(l.states)+len(l.tags) > 0 || l.after != "" || l.before != ""
	if l.limit < 0 {
		return nil, usagef("--limit must not be negative")
	}
	if f.filter != "" {
		var filter map[string]any
		if json.Unmarshal([]byte(f.filter), &filter) != nil || filter == nil {
			return nil, usagef(`--filter must be a JSON object, such as '{"queue":"emails","state":["dead"]}'`)
		}
		if flags {
			return nil, usagef("write conditions as flags or into --filter, not both")
		}
		if l.limit > 0 {
			filter["limit"] = l.limit
		}
		return filter, nil
	}
	if !flags {
		if l.limit > 0 {
			return nil, usagef("--limit bounds what a filter finds, and there is none; add --queue, --state, --tag, --after or --before")
		}
		return nil, nil
	}
	filter := map[string]any{}
	tags, err := parseTags("", l.tags)
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"created_after": l.after, "created_before": l.before} {
		if text == "" {
			continue
		}
		at, err := parseMoment(text, now)
		if err != nil {
			return nil, err
		}
		filter[name] = at.UTC().Format(time.RFC3339Nano)
	}
	if l.queue != "" {
		filter["queue"] = l.queue
	}
	if len(l.states) > 0 {
		filter["state"] = l.states
	}
	if len(tags) > 0 {
		filter["tags"] = tags
	}
	if l.limit > 0 {
		filter["limit"] = l.limit
	}
	return filter, nil
}

// idsFromStdin reads ids, or the JSON of jobs.
func (s *session) idsFromStdin() ([]string, error) {
	if isTerminal(s.proc.Stdin) {
		return nil, &Failure{Exit: ExitUsage, Code: "USAGE", What: "no jobs are named", Fix: "add ids, or a filter such as --queue emails --state dead"}
	}
	in, err := io.ReadAll(io.LimitReader(s.proc.Stdin, bulkInputMax+1))
	if err != nil {
		return nil, &Failure{Exit: ExitFail, Code: "INPUT", What: "cannot read stdin", Why: err.Error()}
	}
	if len(in) > bulkInputMax {
		return nil, usagef("more than %d MiB on stdin; send ids instead of jobs, or a filter", bulkInputMax>>20)
	}
	if in = bytes.TrimSpace(in); len(in) == 0 || in[0] != '{' && in[0] != '[' {
		return strings.Fields(string(in)), nil
	}
	var ids []string
	for d := json.NewDecoder(bytes.NewReader(in)); ; {
		var one any
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return ids, nil
		}
		if err == nil {
			ids, err = appendIDs(ids, one)
		}
		if err != nil {
			return nil, &Failure{Exit: ExitUsage, Code: "USAGE", What: "stdin holds neither ids nor jobs", Why: err.Error(),
				Fix: "send an id on each line, or what `corvo jobs -o jsonl` prints"}
		}
	}
}

// appendIDs finds the ids in what commands print: ids, jobs, lists of them.
func appendIDs(ids []string, v any) ([]string, error) {
	switch v := v.(type) {
	case string:
		return append(ids, v), nil
	case []any:
		var err error
		for _, one := range v {
			if ids, err = appendIDs(ids, one); err != nil {
				return nil, err
			}
		}
		return ids, nil
	case map[string]any:
		for _, name := range []string{"id", "job_id"} {
			if id, ok := v[name].(string); ok {
				return append(ids, id), nil
			}
		}
		if jobs, ok := v["jobs"].([]any); ok {
			return appendIDs(ids, jobs)
		}
	}
	return nil, errors.New("an object without an id")
}

func (s *session) bulkByID(ctx context.Context, a *api, ask map[string]any, ids []string) error {
	var sum bulkDone
	for some := range slices.Chunk(ids, bulkIDsMax) {
		ask["job_ids"] = some
		r, err := a.post(ctx, "/api/v1/jobs/bulk", ask)
		if err != nil {
			return errors.Join(err, s.showBulk(&sum))
		}
		var done bulkDone
		if err := a.decode(r, &done); err != nil {
			return err
		}
		sum.Affected += done.Affected
		sum.Errors += done.Errors
		sum.Refused = append(sum.Refused, done.Refused...)
		if len(ids) > bulkIDsMax {
			s.progressf("%d of %d", sum.Affected+sum.Errors, len(ids))
		}
	}
	return s.showBulk(&sum)
}

func (s *session) showBulk(sum *bulkDone) error {
	raw, err := marshal(sum)
	if err != nil {
		return err
	}
	return s.endBulk(raw, sum)
}

// endBulk prints what was done and says why the rest was left.
func (s *session) endBulk(raw json.RawMessage, done *bulkDone) error {
	if !s.machine() {
		for _, r := range done.Refused {
			s.talkf("%s: %s", r.JobID, r.Error)
		}
		if more := done.Errors - len(done.Refused); more > 0 {
			s.talkf("and %d more", more)
		}
	}
	switch {
	case done.Errors > 0 && done.Affected > 0:
		s.exit = ExitPartial
	case done.Errors > 0:
		s.exit = ExitConflict
	}
	return s.emit(raw, func(w io.Writer) {
		fmt.Fprintf(w, "%s done, %d left as they are\n", count(done.Affected, "job"), done.Errors)
	})
}

// bulkByFilter lets the server do it, and watches: no call lasts long.
func (s *session) bulkByFilter(ctx context.Context, a *api, ask map[string]any) error {
	ask["async"] = true
	r, err := a.post(ctx, "/api/v1/jobs/bulk", ask)
	if err != nil {
		return err
	}
	var begun struct {
		ID string `json:"bulk_operation_id"`
	}
	if err := a.decode(r, &begun); err != nil {
		return err
	}
	for {
		r, err := a.get(ctx, pathf("/bulk/%s", begun.ID))
		if err != nil {
			s.talkf("how far it got: corvo api GET %s", pathf("/bulk/%s", begun.ID))
			return err
		}
		var op struct {
			bulkDone
			Status    string `json:"status"`
			Error     string `json:"error"`
			Processed int    `json:"processed"`
			Total     int    `json:"total"`
		}
		if err := a.decode(r, &op); err != nil {
			return err
		}
		switch op.Status {
		case "completed":
			return s.endBulk(r.body, &op.bulkDone)
		case "failed":
			return errors.Join(s.endBulk(r.body, &op.bulkDone), &Failure{Exit: ExitFail, Code: "BULK_FAILED", What: "the operation failed", Why: op.Error})
		}
		s.progressf("%s, %d of %d", op.Status, op.Processed, op.Total)
		select {
		case <-time.After(bulkLook):
		case <-ctx.Done():
			s.talkf("the server goes on; how far it is: corvo api GET %s", pathf("/bulk/%s", begun.ID))
			return ctx.Err()
		}
	}
}

// progressf shows a line that the next one replaces, on a terminal alone.
func (s *session) progressf(format string, args ...any) {
	if isTerminal(s.proc.Stderr) {
		fmt.Fprintf(s.proc.Stderr, "\r\x1b[K"+format+"\r", args...)
	}
}
