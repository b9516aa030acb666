package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/notify"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Limits of lists.
const (
	ListDefault  = 50
	ListMax      = readmodel.LimitMax
	FilterTagMax = 10
	// FilterStatesMax is above the number of states: some may be named twice.
	FilterStatesMax = 64
	// TotalMax bounds how many jobs a search counts.
	TotalMax = 10_000
	// PagePayloadsMax bounds the payloads of one page, in bytes.
	PagePayloadsMax = 4 << 20
)

// Views are the read-only use cases: lists from the read model, timelines from the
// state, events from the feed.
type Views struct {
	service *Service
	shard   *shard.Shard
	model   *readmodel.Projector
	hub     *notify.Hub
}

// NewViews makes the views of the shard of a service.
func NewViews(s *Service, model *readmodel.Projector, hub *notify.Hub) *Views {
	return &Views{service: s, shard: s.shard, model: model, hub: hub}
}

// Lag is how late the lists of the shard are, on the node that leads it.
func (v *Views) Lag() (time.Duration, error) { return v.model.Lag(time.Now()) }

// JobFilter selects jobs; its zero value selects all. Times are exclusive bounds.
type JobFilter struct {
	Queue                           string
	ErrorGroup                      string // Of dead jobs: the ID of an ErrorGroup.
	States                          []string
	Tags                            []JobTag
	Priority                        wire.Priority
	WorkerID                        string
	CreatedAfter, CreatedBefore     time.Time
	ScheduledAfter, ScheduledBefore time.Time
	StartedAfter, StartedBefore     time.Time
	CompletedAfter, CompletedBefore time.Time
	AttemptMin, AttemptMax          *int
	HasErrors                       *bool
	Sort                            string // Only created_at.
	Order                           string // desc, which is the default, or asc.
	Limit                           int    // 0 is ListDefault.
	Cursor                          string
	countTo                         int  // How many jobs may be counted for the total; 0 is none.
	asItIs                          bool // The list need not be up to date with the call.
	patient                         bool // Waits for its turn, however long that takes.
}

// reader is the caller as the read model knows it.
func (c *Caller) reader(patient bool) readmodel.Reader {
	return readmodel.Reader{Tenant: c.Tenant, Operator: c.Rights.Somewhere(permission.JobRetry), Patient: patient}
}

// JobTag is one tag that a job must have.
type JobTag struct{ Key, Value string }

// List is a page of jobs, newest first.
func (v *Views) List(ctx context.Context, c Caller, in JobFilter) (wire.JobList, error) {
	p, err := v.list(ctx, c, permission.JobList, in)
	out := wire.JobList{Jobs: each(p.Rows, viewRow), Page: viewPage(&p)}
	for i := range out.Jobs {
		c.redactRow(&out.Jobs[i])
	}
	return out, err
}

// Search is a page of jobs with what they were enqueued with, and how many there are.
func (v *Views) Search(ctx context.Context, c Caller, in JobFilter) (wire.JobSearch, error) {
	in.countTo = TotalMax
	p, err := v.list(ctx, c, permission.JobList, in)
	if err != nil {
		return wire.JobSearch{}, err
	}
	jobs, err := v.withBodies(c, p.Rows)
	if err == nil {
		err = v.service.noteRead(ctx, &c, readOf(jobs, func(f *wire.FoundJob) (string, bool) { return f.ID, len(f.Payload) > 0 }))
	}
	// What the copy has may be exact; what there is, is not, while the copy is late.
	return wire.JobSearch{Jobs: jobs, Page: viewPage(&p), Total: p.Total.Jobs, TotalExact: p.Total.Exact && p.Exact()}, err
}

// list reads a page from the read model, of the queues in which the caller has p.
func (v *Views) list(ctx context.Context, c Caller, p permission.Permission, in JobFilter) (readmodel.Page, error) {
	f, fields := in.filter()
	if len(fields) > 0 {
		return readmodel.Page{}, fault.InvalidFields(fields)
	}
	needs := []permission.Permission{p}
	if in.ErrorGroup != "" { // Its id is made of the error, so it tells whether one guessed that.
		needs = append(needs, permission.PayloadRead)
	}
	var err error
	if f.Only, err = c.within(in.Queue, needs...); err != nil {
		return readmodel.Page{}, err
	}
	if err := v.leads(); err != nil {
		return readmodel.Page{}, err
	}
	page, err := v.model.List(ctx, c.Namespace, c.reader(in.patient), &f)
	switch {
	case errors.Is(err, readmodel.ErrCursor):
		err = fault.InvalidFields([]fault.Field{{Path: "cursor", Message: notACursor}})
	case errors.Is(err, readmodel.ErrOtherFilter):
		err = fault.InvalidFields([]fault.Field{{Path: "cursor", Message: "belongs to a list with other filters; leave it out to start over"}})
	}
	return page, err
}

func viewPage(p *readmodel.Page) wire.Page {
	a := wire.Page{Cursor: p.Cursor, HasMore: p.Cursor != "", LagMS: p.Lag.Milliseconds(), Rebuilding: p.Rebuilding}
	if !p.AsOf.IsZero() {
		a.AsOf = new(p.AsOf.UTC())
	}
	if p.Rebuilding && p.ToRebuild > 0 {
		a.Rebuild = &wire.Rebuild{JobsDone: p.Rebuilt, JobsTotal: p.ToRebuild}
	}
	return a
}

// withBodies reads what the copy does not have. Bodies never change, so they cannot
// contradict the filter that found the jobs.
func (v *Views) withBodies(c Caller, rows []readmodel.Row) ([]wire.FoundJob, error) {
	out := make([]wire.FoundJob, len(rows))
	left := PagePayloadsMax
	for i := range rows {
		f := &out[i]
		f.JobRow = viewRow(&rows[i])
		c.redactRow(&f.JobRow)
		b, err := stateread.ReadBody(v.shard.Store(), c.Namespace, rows[i].ID)
		if errors.Is(err, statedb.ErrNotFound) {
			f.PayloadOmitted = true // Deleted since.
			continue
		}
		if err != nil {
			return nil, err
		}
		f.UniqueKey, f.ParentID, f.BatchID, f.ChainID, f.ChainStep = b.UniqueKey, idOrNone(b.Parent), idOrNone(b.Batch), idOrNone(b.Chain), chainStep(&b)
		if f.Redacted {
			continue
		}
		if f.PayloadOmitted = len(b.Payload) > left; !f.PayloadOmitted {
			f.Payload = orEmpty(b.Payload)
			left -= len(b.Payload)
		}
	}
	return out, nil
}

// leads refuses on a node that does not lead: the leader's read model and feed are
// ahead.
func (v *Views) leads() error {
	if !v.shard.Group().Leading() {
		return fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "this node is not the leader of the shard")
	}
	return nil
}

func viewRow(r *readmodel.Row) wire.JobRow {
	row := wire.JobRow{
		ID: r.ID.String(), Queue: r.Queue, State: stateOf(r.State), Priority: int(r.Priority), Attempt: int(r.Attempt), MaxRetries: int(r.MaxRetries),
		Crashes: int(r.Crashes), Tags: tagMap(r.Tags), CreatedAt: when(r.CreatedAt), ScheduledAt: when(r.ScheduledAt),
		StartedAt: when(r.StartedAt), FailedAt: when(r.FailedAt), WorkerID: r.Worker, LastError: r.LastError, DeadReason: wire.DeadReason(r.Reason.String()), HoldReason: r.HoldReason,
	}
	if r.State == job.Completed {
		row.CompletedAt = when(r.FinishedAt)
	}
	return row
}

// filter translates the input and lists everything that is wrong with it.
func (in *JobFilter) filter() (readmodel.Filter, []fault.Field) {
	f := readmodel.Filter{
		Queue: in.Queue, Worker: in.WorkerID, HasErrors: in.HasErrors, Limit: in.Limit, Cursor: in.Cursor, Ascending: in.Order == "asc",
		Created: span(in.CreatedAfter, in.CreatedBefore), Scheduled: span(in.ScheduledAfter, in.ScheduledBefore),
		Started: span(in.StartedAfter, in.StartedBefore), Completed: span(in.CompletedAfter, in.CompletedBefore),
	}
	f.AsItIs, f.CountTo = in.asItIs, in.countTo
	var fields []fault.Field
	wrong := func(bad bool, path, format string, args ...any) {
		if bad {
			fields = append(fields, fault.Field{Path: path, Message: fmt.Sprintf(format, args...)})
		}
	}
	if in.Queue != "" {
		msg := checkQueueName(in.Queue)
		wrong(msg != "", "queue", "%s", msg)
	}
	wrong(len(in.States) > FilterStatesMax, "state", "%s", rangeMessage("states", 0, FilterStatesMax, len(in.States)))
	for _, word := range in.States[:min(len(in.States), FilterStatesMax)] {
		s, ok := parseState(word)
		wrong(!ok, "state", "%q is not a state; use %s", word, stateWords())
		if ok && !slices.Contains(f.States, s) {
			f.States = append(f.States, s)
		}
	}
	slices.Sort(f.States)
	if in.ErrorGroup != "" {
		var ok bool
		f.Cause, ok = readmodel.ParseCause(in.ErrorGroup)
		wrong(!ok, "error_group", "%q is no id of an error group; GET /api/v1/dead/groups lists them", clip(in.ErrorGroup))
		wrong(len(f.States) > 0 && !slices.Equal(f.States, []job.State{job.Dead}), "state", "must be dead, or left out, beside error_group: only dead jobs are in one")
	}
	wrong(len(in.Tags) > FilterTagMax, "tags", "%s", rangeMessage("tags", 0, FilterTagMax, len(in.Tags)))
	for _, t := range in.Tags[:min(len(in.Tags), FilterTagMax)] {
		wrong(t.Key == "" || len(t.Key) > TagBytesMax || len(t.Value) > TagBytesMax, "tags", "%q is not a tag; use key:value", t.Key)
		f.Tags = append(f.Tags, command.Tag(t))
	}
	sort.Slice(f.Tags, func(i, j int) bool {
		return f.Tags[i].Key < f.Tags[j].Key || f.Tags[i].Key == f.Tags[j].Key && f.Tags[i].Value < f.Tags[j].Value
	})
	if in.Priority != "" {
		p, ok := job.ParsePriority(string(in.Priority))
		wrong(!ok, "priority", "must be critical, high or normal")
		f.Priority = &p
	}
	f.AttemptMin, f.AttemptMax = attempts(in.AttemptMin, "attempt_min", wrong), attempts(in.AttemptMax, "attempt_max", wrong)
	wrong(len(in.WorkerID) > WorkerNameBytesMax, "worker_id", "is too long")
	wrong(in.Sort != "" && in.Sort != "created_at", "sort", "must be created_at")
	wrong(in.Order != "" && in.Order != "desc" && in.Order != "asc", "order", "must be desc or asc")
	if f.Limit == 0 {
		f.Limit = ListDefault
	}
	wrong(f.Limit < 1 || f.Limit > ListMax, "limit", "must be between 1 and %d", ListMax)
	return f, fields
}

func attempts(n *int, path string, wrong func(bool, string, string, ...any)) *uint32 {
	if n == nil {
		return nil
	}
	wrong(*n < 0 || *n > RetriesMax, path, "must be between 0 and %d", RetriesMax)
	v := uint32(max(*n, 0))
	return &v
}

func span(after, before time.Time) readmodel.Span {
	return readmodel.Span{After: nanos(after), Before: nanos(before)}
}

// nanos clamps a bound to the times that can be stored. The epoch is a bound like any other; 0 is none.
func nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Year() < 1970:
		return 1
	case t.Year() > 2261:
		return 1<<63 - 1
	}
	return max(t.UnixNano(), 1)
}

func parseState(word string) (job.State, bool) {
	for _, s := range job.States() {
		if s.String() == word {
			return s, true
		}
	}
	return 0, false
}

func stateWords() string {
	var words []string
	for _, s := range job.States() {
		words = append(words, s.String())
	}
	return strings.Join(words, ", ")
}
