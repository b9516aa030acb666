package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// scheduleShape is strict: a misspelt time zone that is passed over would be UTC. What
// only the server says may stand in it, so that an answer can be changed and sent back.
var scheduleShape = shape.New("ScheduleRequest", append(append([]shape.Field[queue.ScheduleInput]{ //nolint:gochecknoglobals // A constant table.
	shape.Text("name", "Name, unique in the namespace.", func(in *queue.ScheduleInput) *string { return &in.Name }).Must(),
	shape.Text("cron", "Five fields, six with seconds first, or a macro such as @daily or @every 90s.",
		func(in *queue.ScheduleInput) *string { return &in.Cron }).Must(),
	shape.Text("timezone", "IANA name; default UTC.", func(in *queue.ScheduleInput) *string { return &in.Timezone }),
	shape.Duration("jitter", "Delay each tick by less than this.", setJitter),
	shape.Millis("jitter_ms", "The same in milliseconds.", setJitter),
	shape.Word("overlap", "What to do while the previous job hasn't ended: allow (default), skip or cancel.", wire.Overlaps(),
		func(in *queue.ScheduleInput) *string { return &in.Overlap }),
	shape.Word("catch_up", "Which missed ticks to run: once (default: the latest), skip or all.", wire.CatchUps(),
		func(in *queue.ScheduleInput) *string { return &in.CatchUp }),
	shape.Bool("paused", "Whether the schedule is paused; leave out to keep the current value.",
		func(in *queue.ScheduleInput) *bool { in.Paused = new(bool); return in.Paused }),
}, jobOfSchedule(
	"queue", "payload", "priority", "tags", "max_retries", "retry_backoff", "retry_base_delay", "retry_max_delay",
	"retry_base_delay_ms", "retry_max_delay_ms", "unique_key", "unique_period", "expire_after", "expire_after_ms",
)...), toldOnly("id", "next_run_at", "next_runs", "last_run_at", "last_job_id", "missed", "created_at", "updated_at")...)...).Strictly()

type previewRequest struct{ cron, timezone string }

var previewShape = shape.New("SchedulePreviewRequest", //nolint:gochecknoglobals // A constant table.
	shape.Text("cron", "Cron expression, as in a schedule.", func(in *previewRequest) *string { return &in.cron }).Must(),
	shape.Text("timezone", "IANA name; default UTC.", func(in *previewRequest) *string { return &in.timezone }),
).Strictly()

func setJitter(in *queue.ScheduleInput, d time.Duration) { in.Jitter = d }

// jobOfSchedule are members of an enqueue, for the jobs that a schedule makes.
func jobOfSchedule(names ...string) []shape.Field[queue.ScheduleInput] {
	out := make([]shape.Field[queue.ScheduleInput], len(names))
	for i, name := range names {
		out[i] = shape.Of(enqueueShape.Field(name), func(in *queue.ScheduleInput) *queue.EnqueueInput { return &in.Job })
	}
	return out
}

// toldOnly are members that the server tells; in a request they mean nothing.
func toldOnly(names ...string) []shape.Field[queue.ScheduleInput] {
	out := make([]shape.Field[queue.ScheduleInput], len(names))
	for i, name := range names {
		out[i] = shape.Ignored[queue.ScheduleInput](name)
	}
	return out
}

func newScheduleAnswer(s *queue.Schedule) wire.Schedule {
	a := wire.Schedule{
		ID: s.ID.String(), Name: s.Name, Cron: s.Cron, Timezone: s.Timezone, Queue: s.Queue, Payload: orEmpty(s.Payload),
		Priority: wire.Priority(s.Priority.String()), Tags: s.Tags, MaxRetries: s.Retry.MaxRetries, UniqueKey: s.UniqueKey, UniquePeriod: int64(s.UniquePeriod / time.Second),
		Overlap: wire.Overlap(s.Overlap), CatchUp: wire.CatchUp(s.CatchUp), Paused: s.Paused, NextRunAt: nullable(s.NextRunAt), NextRuns: s.NextRuns,
		LastRunAt: nullable(s.LastRunAt), Missed: s.Missed, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
		RetryBackoff: wire.Backoff(s.Retry.Backoff), RetryBaseDelayMS: optionalMillis(s.Retry.BaseDelay), RetryMaxDelayMS: optionalMillis(s.Retry.MaxDelay),
	}
	if s.ExpireAfter > 0 {
		a.ExpireAfter = s.ExpireAfter.String()
	}
	if s.Jitter > 0 {
		a.Jitter = s.Jitter.String()
	}
	if !s.LastJob.IsZero() {
		a.LastJobID = s.LastJob.String()
	}
	return a
}

var scheduleParams = []shape.Param{ //nolint:gochecknoglobals // A constant table.
	shape.WholeParam("limit", "Schedules per page, at most 1000; default 50."),
	shape.TextParam("cursor", "The cursor of the previous page."),
}

func (c *call) schedules() error {
	var d shape.Decoder
	q := c.query(&d)
	limit := limitParam(&d, q, 0, queue.SchedulesMax)
	if err := d.Err(); err != nil {
		return err
	}
	page, err := c.place.Local.Schedules(c.r.Context(), c.who.Caller, q.Get("cursor"), limit)
	if err != nil {
		return err
	}
	return c.reply(wire.ScheduleList{Schedules: each(page.Schedules, newScheduleAnswer), Cursor: page.Cursor, HasMore: page.Cursor != ""})
}

// scheduleInput reads the body; every problem is told at once.
func (c *call) scheduleInput() (in queue.ScheduleInput, err error) {
	d, err := decodeAll(c, scheduleShape, &in)
	if err != nil {
		return in, err
	}
	if len(d.Problems) > 0 {
		d.Also("", in.Check(c.who.Caller, c.s.now()), shape.AsIs)
	}
	return in, d.ErrOr(c.tooLarge("", &in.Job))
}

func (c *call) createSchedule() error {
	in, err := c.scheduleInput()
	if err != nil {
		return err
	}
	s, err := c.place.Local.CreateSchedule(c.r.Context(), c.who.Caller, in)
	if err != nil {
		return err
	}
	return c.replySchedule(http.StatusCreated, &s)
}

func (c *call) putSchedule() error {
	id, err := c.scheduleID()
	if err != nil {
		return err
	}
	in, err := c.scheduleInput()
	if err != nil {
		return err
	}
	version, err := c.ifMatch()
	if err != nil {
		return err
	}
	s, err := c.place.Local.PutSchedule(c.r.Context(), c.who.Caller, id, version, in)
	if err != nil {
		return err
	}
	return c.replySchedule(http.StatusOK, &s)
}

func (c *call) schedule() error {
	id, err := c.scheduleID()
	if err != nil {
		return err
	}
	s, err := c.place.Local.Schedule(c.r.Context(), c.who.Caller, id)
	if err != nil {
		return err
	}
	return c.replySchedule(http.StatusOK, &s)
}

func (c *call) replySchedule(status int, s *queue.Schedule) error {
	c.w.Header().Set("ETag", fmt.Sprintf("%q", strconv.FormatUint(s.Version, 10)))
	return c.replyStatus(status, newScheduleAnswer(s))
}

// ifMatch is the version that the caller has read; 0 if it does not say.
func (c *call) ifMatch() (uint64, error) {
	text := c.r.Header.Get("If-Match")
	if text == "" || text == "*" {
		return 0, nil
	}
	inner, err := strconv.Unquote(text)
	if err == nil {
		if v, err := strconv.ParseUint(inner, 10, 64); err == nil && v > 0 {
			return v, nil
		}
	}
	return 0, fault.InvalidFields([]fault.Field{{Path: "If-Match", Message: "must be the ETag you got when you read the schedule"}})
}

func (c *call) deleteSchedule() error {
	return c.aboutSchedule("deleted", c.place.Local.DeleteSchedule)
}

func (c *call) pauseSchedule() error { return c.aboutSchedule("paused", c.place.Local.PauseSchedule) }

func (c *call) resumeSchedule() error {
	return c.aboutSchedule("resumed", c.place.Local.ResumeSchedule)
}

func (c *call) aboutSchedule(done string, do func(context.Context, queue.Caller, job.ScheduleID) error) error {
	id, err := c.scheduleID()
	if err != nil {
		return err
	}
	return c.done(done, do(c.r.Context(), c.who.Caller, id))
}

func (c *call) runSchedule() error {
	id, err := c.scheduleID()
	if err != nil {
		return err
	}
	if err := c.noKey("check the schedule's last_job_id before you repeat the call"); err != nil {
		return err
	}
	res, err := c.place.Local.RunSchedule(c.r.Context(), c.who.Caller, id)
	if err != nil {
		return err
	}
	return c.replyStatus(http.StatusCreated, wire.ScheduleRun{JobID: res.JobID.String(), Status: wire.EnqueueStatus(res.Status)})
}

func (c *call) previewSchedule() error {
	var in previewRequest
	if err := decode(c, previewShape, &in); err != nil {
		return err
	}
	runs, err := c.place.Local.PreviewSchedule(c.r.Context(), in.cron, in.timezone)
	if err != nil {
		return err
	}
	return c.reply(wire.SchedulePreview{NextRuns: runs})
}

// scheduleID is the {id} of the path. What is not an id names no schedule.
func (c *call) scheduleID() (job.ScheduleID, error) {
	return pathID(c, "id", job.ParseScheduleID, "the schedule does not exist")
}
