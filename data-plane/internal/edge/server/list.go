package server

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

func (c *call) listJobs() error {
	in, err := c.filterFromQuery()
	if err != nil {
		return err
	}
	return c.listed(in)
}

func (c *call) searchJobs() error {
	var in queue.JobFilter
	if err := decode(c, searchShape, &in); err != nil {
		return err
	}
	if in.Limit > queue.ListMax {
		in.Limit = 0 // The contract's answer to too many is the default.
	}
	a, err := c.place.Views.Search(c.r.Context(), c.who.Caller, in)
	a.DurationMS = c.tookMS()
	return c.answer(a, err)
}

func (c *call) listed(in queue.JobFilter) error {
	a, err := c.place.Views.List(c.r.Context(), c.who.Caller, in)
	a.DurationMS = c.tookMS()
	return c.answer(a, err)
}

// tookMS is whole: clients in languages with strict types read it as an integer.
func (c *call) tookMS() int64 { return c.s.now().Sub(c.start).Milliseconds() }

// searchShape is the contract's filter. What is not there yet is refused by name,
// because ignoring it would find other jobs than were asked for.
var searchShape = shape.New("JobSearchRequest",
	shape.Text("queue", "Only jobs of this queue.", func(f *queue.JobFilter) *string { return &f.Queue }),
	shape.Text("error_group", "Only the dead jobs of this group; GET /api/v1/dead/groups has its id.", func(f *queue.JobFilter) *string { return &f.ErrorGroup }),
	statesField("state", "Only jobs in one of these states.", func(f *queue.JobFilter) *[]string { return &f.States }),
	searchTags(),
	shape.Enum("priority", "critical, high or normal.", wire.Priorities(), func(f *queue.JobFilter) *wire.Priority { return &f.Priority }),
	shape.Text("worker_id", "The worker of the latest attempt.", func(f *queue.JobFilter) *string { return &f.WorkerID }),
	shape.Time("created_after", "After this time.", func(f *queue.JobFilter) *time.Time { return &f.CreatedAfter }),
	shape.Time("created_before", "Before this time.", func(f *queue.JobFilter) *time.Time { return &f.CreatedBefore }),
	shape.Time("scheduled_after", "After this time.", func(f *queue.JobFilter) *time.Time { return &f.ScheduledAfter }),
	shape.Time("scheduled_before", "Before this time.", func(f *queue.JobFilter) *time.Time { return &f.ScheduledBefore }),
	shape.Time("started_after", "After this time.", func(f *queue.JobFilter) *time.Time { return &f.StartedAfter }),
	shape.Time("started_before", "Before this time.", func(f *queue.JobFilter) *time.Time { return &f.StartedBefore }),
	shape.Time("completed_after", "After this time.", func(f *queue.JobFilter) *time.Time { return &f.CompletedAfter }),
	shape.Time("completed_before", "Before this time.", func(f *queue.JobFilter) *time.Time { return &f.CompletedBefore }),
	shape.Int("attempt_min", "At least this many attempts.", func(f *queue.JobFilter, n int) { f.AttemptMin = &n }),
	shape.Int("attempt_max", "At most this many attempts.", func(f *queue.JobFilter, n int) { f.AttemptMax = &n }),
	shape.Bool("has_errors", "Whether an attempt has failed.", func(f *queue.JobFilter) *bool {
		f.HasErrors = new(bool)
		return f.HasErrors
	}),
	shape.Text("sort", "Must be created_at.", func(f *queue.JobFilter) *string { return &f.Sort }),
	shape.Text("order", "desc (default) or asc.", func(f *queue.JobFilter) *string { return &f.Order }),
	shape.Int("limit", "Jobs per page, at most 1000; 50 if left out or larger.", func(f *queue.JobFilter, n int) {
		if f.Limit = n; n == 0 {
			f.Limit = -1 // Asked for nothing, which is refused.
		}
	}),
	shape.Text("cursor", "The cursor of the previous page; the filters must be the same.", func(f *queue.JobFilter) *string { return &f.Cursor }),
	shape.Reserved[queue.JobFilter]("payload_contains"),
	shape.Reserved[queue.JobFilter]("payload_jq"),
	shape.Reserved[queue.JobFilter]("expire_after"),
	shape.Reserved[queue.JobFilter]("expire_before"),
	shape.Reserved[queue.JobFilter]("unique_key"),
	shape.Reserved[queue.JobFilter]("batch_id"),
	shape.Reserved[queue.JobFilter]("parent_id"),
	shape.Reserved[queue.JobFilter]("chain_id"),
	shape.Reserved[queue.JobFilter]("error_contains"),
	shape.Reserved[queue.JobFilter]("job_id_prefix"),
).Strictly()

func statesField(name, doc string, at func(*queue.JobFilter) *[]string) shape.Field[queue.JobFilter] {
	f := shape.Texts(name, doc, at)
	f.Schema.Items.Enum = shape.TextsOf(wire.States())
	return f
}

// searchTags reads tags into the filter's list.
func searchTags() shape.Field[queue.JobFilter] {
	f := shape.Tags("tags", "Only jobs with all of these tags.", queue.TagsMax, func(*queue.JobFilter) *map[string]string { return nil })
	f.Read = func(d *shape.Decoder, path string, v []byte, into *queue.JobFilter) string {
		var tags map[string]string
		msg := shape.Tags("", "", queue.TagsMax, func(*queue.JobFilter) *map[string]string { return &tags }).Read(d, path, v, into)
		for key, value := range tags {
			into.Tags = append(into.Tags, queue.JobTag{Key: key, Value: value})
		}
		return msg
	}
	return f
}

// listParams are the parameters of the list; any other is refused, because a
// filter with a typing error in its name would find everything.
var listParams = []shape.Param{
	shape.TextParam("queue", "Only jobs of this queue."),
	shape.TextParam("state", "Only jobs in one of these states, separated by commas."),
	shape.TextParam("error_group", "Only the dead jobs of this group; GET /api/v1/dead/groups has its id."),
	shape.TextParam("tag", "Only jobs with this tag (key:value). Repeat to require several tags."),
	shape.TimeParam("created_after", "After this time."),
	shape.TimeParam("created_before", "Before this time."),
	shape.TextParam("order", "desc (default) or asc, by creation time."),
	shape.IntParam("limit", "Jobs per page, at most 1000; default 50."),
	shape.TextParam("cursor", "The cursor of the previous page; the filters must be the same."),
}

func (c *call) filterFromQuery() (queue.JobFilter, error) {
	var d shape.Decoder
	q := c.query(&d)
	in := queue.JobFilter{
		Queue: q.Get("queue"), States: words(q["state"]), ErrorGroup: q.Get("error_group"), Order: q.Get("order"), Cursor: q.Get("cursor"),
		CreatedAfter: timeParam(&d, q, "created_after"), CreatedBefore: timeParam(&d, q, "created_before"),
	}
	for _, text := range q["tag"] {
		key, value, ok := strings.Cut(text, ":")
		if !ok {
			d.Problem("tag", "%q is not a tag; use key:value", text)
			continue
		}
		in.Tags = append(in.Tags, queue.JobTag{Key: key, Value: value})
	}
	in.Limit = limitParam(&d, q, 0, queue.ListMax)
	return in, d.Err()
}

var exportParams = []shape.Param{
	shape.TextParam("queue", "Only jobs of this queue."),
	shape.TextParam("state", "Only jobs in one of these states, separated by commas."),
	shape.TextParam("after", "Start after the job with this id: last_id of the previous page."),
	shape.IntParam("limit", "Jobs per page, 1 to 1000; default 100. A page also ends after 4 MiB of payloads and results."),
}

func (c *call) exportJobs() error {
	var d shape.Decoder
	q := c.query(&d)
	in := queue.ExportInput{Queue: q.Get("queue"), Limit: limitParam(&d, q, queue.ExportDefault, queue.ExportMax)}
	for _, word := range words(q["state"]) {
		in.States = append(in.States, wire.State(word))
	}
	if text := q.Get("after"); text != "" {
		var err error
		if in.After, err = job.ParseID(text); err != nil {
			d.Problem("after", "%q is not a job id", text)
		}
	}
	if err := d.Err(); err != nil {
		return err
	}
	return c.answer(c.place.Views.Export(c.r.Context(), c.who.Caller, in))
}

// query is the parameters of the call. It refuses those that mean nothing, and a second
// value where only one counts.
func (c *call) query(d *shape.Decoder) url.Values {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		d.Problem("query", "can't be parsed: %s", err)
	}
	for name, values := range q {
		i := slices.IndexFunc(c.route.query, func(p shape.Param) bool { return p.Name == name })
		switch {
		case i < 0:
			d.Problem(name, "%s", shape.UnknownParam(name, c.route.query))
		case len(values) > 1 && !severalTimes[name]:
			d.Problem(name, "is sent %d times; send it once", len(values))
		}
	}
	slices.SortFunc(d.Problems, func(a, b fault.Field) int { return strings.Compare(a.Path, b.Path) })
	return q
}

// severalTimes are the parameters that may be repeated.
var severalTimes = map[string]bool{"state": true, "tag": true, "queues": true, "job_ids": true, "types": true}

// words splits comma lists; empty words are left out.
func words(lists []string) []string {
	var out []string
	for _, list := range lists {
		for w := range strings.SplitSeq(list, ",") {
			if w = strings.TrimSpace(w); w != "" {
				out = append(out, w)
			}
		}
	}
	return out
}

// limitParam reads how many a page is to have; otherwise if it is not said.
func limitParam(d *shape.Decoder, q url.Values, otherwise, most int) int {
	text := q.Get("limit")
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		d.Problem("limit", "must be between 1 and %d", most)
	}
	return n
}

func timeParam(d *shape.Decoder, q url.Values, name string) time.Time {
	text := q.Get(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		d.Problem(name, "must be a time such as 2026-11-30T12:00:00Z")
	}
	return t
}
