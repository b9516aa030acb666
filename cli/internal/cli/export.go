package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// exportPage is how many jobs or events one call asks for.
const exportPage = 1000

type exportFlags struct {
	queue, after, file string
	states             []string
	events             bool
}

func (s *session) exportVerb() verb {
	var f exportFlags
	return verb{
		root: "export", noun: "job export", short: "Write jobs or events as JSON lines",
		long: `Writes every job of the namespace, with its payload, result and errors, as one line of JSON,
the oldest first: for your own archive, before retention deletes them. The command keeps what
it writes in order, so an export that was interrupted continues with --after and the id of the
last line. Exits with 8 if events after that one are no longer kept.`,
		example: `  {cmd} --file jobs.ndjson
  {cmd} --queue emails --state completed,dead --file emails.ndjson
  {cmd} --after job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --file rest.ndjson
  {cmd} --events --file events.ndjson`,
		flags: func(c *cobra.Command) {
			fs := c.Flags()
			fs.StringVar(&f.queue, "queue", "", "only jobs of this `QUEUE`")
			fs.StringSliceVar(&f.states, "state", nil, "only jobs in these `STATES`")
			fs.StringVar(&f.after, "after", "", "continue after this `JOB`, or with --events after this number")
			fs.StringVar(&f.file, "file", "-", "write to `FILE`, which must not exist; - is stdout")
			fs.BoolVar(&f.events, "events", false, "the events that are kept, instead of jobs")
		},
		run: func(c *cobra.Command, _ []string) error { return s.export(c.Context(), &f) },
	}
}

func (s *session) export(ctx context.Context, f *exportFlags) (err error) {
	if f.events && (f.queue != "" || len(f.states) > 0) {
		return usagef("--queue and --state are for jobs; leave them out with --events")
	}
	to := io.Writer(s.proc.Stdout)
	if f.file != "-" {
		file, err := os.OpenFile(f.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return cannotCreate(f.file, err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	w := bufio.NewWriter(to)
	pages, thing := s.exportJobs, "job"
	if f.events {
		pages, thing = s.exportEvents, "event"
	}
	n, last, err := pages(ctx, f, w)
	if ferr := w.Flush(); ferr != nil {
		return errors.Join(err, fmt.Errorf("write: %w", ferr))
	}
	switch {
	case err == nil:
		s.talkf("exported %s", count(n, thing))
	case last != "":
		s.talkf("exported %s; continue with --after %s", count(n, thing), last)
	}
	return err
}

// cannotCreate is usage: another name for the file does it.
func cannotCreate(name string, err error) *Failure {
	return &Failure{Exit: ExitUsage, Code: "FILE", What: "can't create " + name, Why: rootCause(err)}
}

// exportJobs writes page after page and returns how many jobs there were, and after which
// one it goes on.
func (s *session) exportJobs(ctx context.Context, f *exportFlags, w io.Writer) (n int, last string, err error) {
	query := url.Values{"limit": {strconv.Itoa(exportPage)}}
	for name, value := range map[string]string{"queue": f.queue, "after": f.after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for _, state := range f.states {
		query.Add("state", state)
	}
	for {
		var page struct {
			wire.ExportPage
			Jobs []json.RawMessage `json:"jobs"`
		}
		if err := s.exportPage(ctx, "/api/v1/jobs/export?"+query.Encode(), &page); err != nil {
			return n, last, err
		}
		if err := writeLines(w, page.Jobs); err != nil {
			return n, last, err
		}
		n, last = n+len(page.Jobs), page.LastID
		s.progressf("exported %s", count(n, "job"))
		if !page.HasMore {
			return n, last, nil
		}
		query.Set("after", last)
	}
}

// exportEvents does the same with events.
func (s *session) exportEvents(ctx context.Context, f *exportFlags, w io.Writer) (n int, last string, err error) {
	query := url.Values{"limit": {strconv.Itoa(exportPage)}, "after_seq": {"0"}}
	if f.after != "" {
		query.Set("after_seq", f.after)
	}
	for {
		var page struct {
			wire.EventPage
			Events []json.RawMessage `json:"events"`
		}
		if err := s.exportPage(ctx, "/api/v1/cluster/events?"+query.Encode(), &page); err != nil {
			return n, last, err
		}
		if page.Lost && query.Get("after_seq") != "0" { // 0 is the oldest that is kept.
			s.exit = ExitPartial
			s.tellLost(query.Get("after_seq"), page.Events)
		}
		if err := writeLines(w, page.Events); err != nil || len(page.Events) == 0 {
			return n, last, err
		}
		var e wire.Event
		if err := json.Unmarshal(page.Events[len(page.Events)-1], &e); err != nil {
			return n, last, fmt.Errorf("read an event: %w", err)
		}
		n, last = n+len(page.Events), strconv.FormatUint(e.Seq, 10)
		s.progressf("exported %s", count(n, "event"))
		query.Set("after_seq", last)
	}
}

// tellLost names the events that are missing in an export.
func (s *session) tellLost(after string, events []json.RawMessage) {
	var first wire.Event
	if len(events) == 0 || json.Unmarshal(events[0], &first) != nil {
		s.talkf("warning: events after %s are no longer kept", after)
		return
	}
	s.talkf("warning: events after %s and before %d are no longer kept", after, first.Seq)
}

func (s *session) exportPage(ctx context.Context, path string, into any) error {
	a, err := s.api()
	if err != nil {
		return err
	}
	r, err := a.send(ctx, get(path))
	if err != nil {
		return err
	}
	return a.decode(r, into)
}

func writeLines(w io.Writer, lines []json.RawMessage) error {
	for _, line := range lines {
		if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}
