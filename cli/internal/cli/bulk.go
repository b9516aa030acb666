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

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

const (
	bulkPath = "/api/v1/jobs/bulk"
	// bulkIDsMax is how many ids one call takes.
	bulkIDsMax = 10_000
	// bulkInputMax bounds what is read from standard input.
	bulkInputMax = 256 << 20
	// bulkLook is how often an operation is asked for.
	bulkLook = 200 * time.Millisecond
)

type bulkFlags struct {
	wire.BulkRequest
	filter string
	list   listFlags
	group  string
	yes    bool
}

func (s *session) bulkVerb() verb {
	var f bulkFlags
	return verb{
		root: "bulk", noun: "job bulk", args: "ACTION [JOB...]", short: "Act on many jobs, by id or by filter",
		long: "ACTION is " + oneOf(wire.BulkActions()) + `,
and does what the command for a single job does. Jobs in a state that doesn't allow it are
skipped, with the reason.

Choose jobs by id (as arguments, or on stdin as lines or as the JSON of another command) or by
a filter (as flags, or as the JSON of POST /api/v1/jobs/search). A filter asks for confirmation
and runs on the server, which keeps going if you stop this command.`,
		example: `  {cmd} retry job_01JD0Z5W6T8RXVQ4K2M3N7P9SB job_01JD0Z5W6T8RXVQ4K2M3N7P9SC
  {cmd} retry --queue emails --state dead --after 24h
  {cmd} move --to emails.v2 --filter '{"queue":"emails","state":["pending"],"priority":"high"}'
  corvo jobs --state dead --limit 0 -o jsonl | {cmd} delete --yes`,
		flags: func(c *cobra.Command) {
			c.ValidArgs = texts(wire.BulkActions())
			fs := c.Flags()
			fs.StringVar(&f.MoveToQueue, "to", "", "`QUEUE` to move jobs to")
			wordFlag(c, &f.Priority, "priority", "new priority: %s", wire.Priorities())
			fs.StringVar(&f.filter, "filter", "", "jobs that match this `JSON` filter")
			fs.StringVar(&f.list.queue, "queue", "", "jobs in this `QUEUE`")
			fs.StringSliceVar(&f.list.states, "state", nil, "jobs in these `STATES`")
			fs.StringArrayVar(&f.list.tags, "tag", nil, "jobs with this tag, `KEY:VALUE`; can be repeated")
			fs.StringVar(&f.list.after, "after", "", "jobs created after this `TIME`, or within this duration, such as 24h")
			fs.StringVar(&f.list.before, "before", "", "jobs created before this `TIME`")
			fs.IntVar(&f.list.limit, "limit", 0, "at most `N` of the jobs that match, newest first")
			yesFlag(c, &f.yes)
			completeFlag(c, "queue", s.completeQueues)
			fs.StringVar(&f.group, "error-group", "", "dead jobs of this group; `corvo dead --groups` shows their IDs")
			completeFlag(c, "to", s.completeQueues)
			completeWords(c, "state", wire.States()...)
		},
		run: func(c *cobra.Command, args []string) error {
			f.Action = wire.BulkAction(args[0])
			return s.bulk(c.Context(), args[1:], f)
		},
	}
}

func (s *session) bulk(ctx context.Context, ids []string, f bulkFlags) error {
	if err := f.checkAction(); err != nil {
		return err
	}
	filter, err := f.filterOf(time.Now())
	if err != nil {
		return err
	}
	switch {
	case filter != nil && len(ids) > 0:
		return usagef("choose jobs by id or by filter, not by both")
	case filter != nil:
		if err := s.confirmBulk(f, true, "every job that matches the filter"); err != nil {
			return err
		}
		return s.bulkByFilter(ctx, f.BulkRequest, filter)
	case len(ids) == 0 || len(ids) == 1 && ids[0] == "-":
		if ids, err = s.idsFromStdin(); err != nil {
			return err
		}
	}
	if err := s.confirmBulk(f, false, count(len(ids), "job")); err != nil {
		return err
	}
	return s.bulkByID(ctx, f.BulkRequest, ids)
}

// checkAction refuses an action that does not exist or lacks its flag, before anything is
// read or sent.
func (f *bulkFlags) checkAction() error {
	if !slices.Contains(wire.BulkActions(), f.Action) {
		bad := usagef("%q isn't a bulk action", f.Action)
		bad.Fix = "use " + oneOf(wire.BulkActions())
		return bad
	}
	for _, needs := range []struct {
		action      wire.BulkAction
		flag, value string
	}{{wire.BulkMove, "to", f.MoveToQueue}, {wire.BulkChangePriority, "priority", string(f.Priority)}} {
		switch given := needs.value != ""; {
		case f.Action == needs.action && !given:
			return usagef("%s needs --%s", f.Action, needs.flag)
		case f.Action != needs.action && given:
			return usagef("--%s is only for %s", needs.flag, needs.action)
		}
	}
	return nil
}

// confirmBulk asks before a delete, and before anything that a filter chooses: nobody has
// seen that list of jobs. Without a terminal ids are the consent; a filter needs --yes.
func (s *session) confirmBulk(f bulkFlags, byFilter bool, what string) error {
	if f.yes || !byFilter && f.Action != wire.BulkDelete {
		return nil
	}
	question := fmt.Sprintf("Run %s on %s?", f.Action, what)
	if f.Action == wire.BulkDelete {
		question = "Permanently delete " + what + "?"
	}
	if (s.asks() || !byFilter) && s.confirm(question) {
		return nil
	}
	return &Failure{Exit: ExitUsage, Code: "NOT_CONFIRMED", What: "not confirmed, so nothing was changed",
		Fix: "add --yes to run it without a prompt; `corvo jobs` with the same conditions shows which jobs match"}
}

// filterOf is the filter of the flags; nil if there is none.
func (f *bulkFlags) filterOf(now time.Time) (any, error) {
	l := &f.list
	flags := l.queue != "" || f.group != "" || len(l.states)+len(l.tags) > 0 || l.after != "" || l.before != ""
	if l.limit < 0 {
		return nil, usagef("--limit can't be negative")
	}
	if f.filter != "" {
		var filter map[string]any
		if json.Unmarshal([]byte(f.filter), &filter) != nil || filter == nil {
			return nil, usagef(`--filter must be a JSON object, such as '{"queue":"emails","state":["dead"]}'`)
		}
		if flags {
			return nil, usagef("use --filter or filter flags, not both")
		}
		if l.limit > 0 {
			filter["limit"] = l.limit
		}
		return filter, nil
	}
	if !flags {
		if l.limit > 0 {
			return nil, usagef("--limit needs a filter; add --queue, --state, --tag, --after or --before")
		}
		return nil, nil
	}
	tags, err := parseTags("", l.tags)
	if err != nil {
		return nil, err
	}
	filter := wire.JobSearchRequest{Queue: l.queue, ErrorGroup: f.group, Tags: tags, Limit: l.limit}
	for _, state := range l.states {
		filter.State = append(filter.State, wire.State(state))
	}
	filter.CreatedAfter, filter.CreatedBefore, err = l.created(now)
	return filter, err
}

// idsFromStdin reads ids, or the JSON of jobs.
func (s *session) idsFromStdin() ([]string, error) {
	if isTerminal(s.proc.Stdin) {
		return nil, &Failure{Exit: ExitUsage, Code: "USAGE", What: "no jobs given", Fix: "add ids, or a filter such as --queue emails --state dead"}
	}
	in, err := io.ReadAll(io.LimitReader(s.proc.Stdin, bulkInputMax+1))
	if err != nil {
		return nil, &Failure{Exit: ExitFail, Code: "INPUT", What: "can't read stdin", Why: err.Error()}
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

func (s *session) bulkByID(ctx context.Context, ask wire.BulkRequest, ids []string) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	var sum wire.BulkResult
	for some := range slices.Chunk(ids, bulkIDsMax) {
		ask.JobIDs = some
		done, _, err := answerOf[wire.BulkResult](ctx, s, post(bulkPath, ask))
		if err != nil {
			return errors.Join(err, s.showBulk(&sum))
		}
		sum.Affected += done.Affected
		sum.Errors += done.Errors
		sum.DurationMS += done.DurationMS
		sum.Refused = append(sum.Refused, done.Refused...)
		if len(ids) > bulkIDsMax {
			s.progressf("%d of %d", sum.Affected+sum.Errors, len(ids))
		}
	}
	return s.showBulk(&sum)
}

// showBulk prints the sum of several calls.
func (s *session) showBulk(sum *wire.BulkResult) error {
	raw, err := marshal(sum)
	if err != nil {
		return err
	}
	return s.endBulk(raw, sum)
}

// endBulk prints what was done and says why the rest was left.
func (s *session) endBulk(raw json.RawMessage, done *wire.BulkResult) error {
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
		fmt.Fprintf(w, "%s changed, %d skipped\n", count(done.Affected, "job"), done.Errors)
	})
}

// bulkByFilter lets the server do it, and watches: no call lasts long.
func (s *session) bulkByFilter(ctx context.Context, ask wire.BulkRequest, filter any) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	ask.Async = true
	begun, _, err := answerOf[wire.BulkBegun](ctx, s, post(bulkPath, struct {
		wire.BulkRequest
		Filter any `json:"filter"` // As it was given: it may have members of a newer server.
	}{ask, filter}))
	if err != nil {
		return err
	}
	path := pathf("/bulk/%s", begun.OperationID)
	for {
		op, raw, err := answerOf[wire.BulkOperation](ctx, s, get(path))
		if err != nil {
			s.talkf("the server continues; check its progress with: corvo api GET %s", path)
			return err
		}
		if op.Status.Ended() {
			err := s.endBulk(raw, &wire.BulkResult{Affected: op.Affected, Errors: op.Errors, Refused: op.Refused})
			if op.Status == wire.BulkFailed {
				err = errors.Join(err, &Failure{Exit: ExitFail, Code: "BULK_FAILED", What: "the operation failed", Why: op.Error})
			}
			return err
		}
		s.progressf("%s, %d of %d", op.Status, op.Processed, op.Total)
		select {
		case <-time.After(bulkLook):
		case <-ctx.Done():
			s.talkf("the server continues; check its progress with: corvo api GET %s", path)
			return interruption("")
		}
	}
}

// progressf shows a line that the next one replaces, on a terminal alone.
func (s *session) progressf(format string, args ...any) {
	if isTerminal(s.proc.Stderr) {
		fmt.Fprintf(s.proc.Stderr, "\r\x1b[K%s\r", printable(fmt.Sprintf(format, args...)))
	}
}
