package server

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// scheduleShape is strict: a misspelt time zone that is passed over would be UTC. What
// only the server says may stand in it, so that an answer can be changed and sent back.
var scheduleShape = shape.New("ScheduleRequest", append(append([]shape.Field[queue.ScheduleInput]{
	shape.Text("name", "Name, unique in the namespace.", func(in *queue.ScheduleInput) *string { return &in.Name }).Must(),
	shape.Text("cron", "Five fields, six with seconds first, or a macro such as @daily or @every 90s.",
		func(in *queue.ScheduleInput) *string { return &in.Cron }).Must(),
	shape.Text("timezone", "IANA name; default UTC.", func(in *queue.ScheduleInput) *string { return &in.Timezone }),
	shape.Duration("jitter", "Delay each tick by less than this.", setJitter),
	shape.Millis("jitter_ms", "The same in milliseconds.", setJitter),
	shape.Enum("overlap", "What to do while the previous job hasn't ended: allow (default), skip or cancel.", wire.Overlaps(),
		func(in *queue.ScheduleInput) *wire.Overlap { return &in.Overlap }),
	shape.Enum("catch_up", "Which missed ticks to run: once (default: the latest), skip or all.", wire.CatchUps(),
		func(in *queue.ScheduleInput) *wire.CatchUp { return &in.CatchUp }),
	shape.Bool("paused", "Whether the schedule is paused; leave out to keep the current value.",
		func(in *queue.ScheduleInput) *bool { in.Paused = new(bool); return in.Paused }),
}, jobOfSchedule(
	"queue", "payload", "priority", "tags", "max_retries", "retry_backoff", "retry_base_delay", "retry_max_delay",
	"retry_base_delay_ms", "retry_max_delay_ms", "unique_key", "unique_period", "expire_after", "expire_after_ms",
)...), toldOnly("id", "next_run_at", "next_runs", "last_run_at", "last_job_id", "missed", "created_at", "updated_at")...)...).Strictly()

type previewRequest struct{ cron, timezone string }

var previewShape = shape.New("SchedulePreviewRequest",
	shape.Text("cron", "Cron expression, as in a schedule.", func(in *previewRequest) *string { return &in.cron }).Must(),
	shape.Text("timezone", "IANA name; default UTC.", func(in *previewRequest) *string { return &in.timezone }),
).Strictly()

func setJitter(in *queue.ScheduleInput, d time.Duration) { in.Jitter = d }

// jobOfSchedule are members of an enqueue, for the jobs that a schedule makes.
func jobOfSchedule(names ...string) []shape.Field[queue.ScheduleInput] {
	out := make([]shape.Field[queue.ScheduleInput], len(names))
	for i, name := range names {
		out[i] = shape.Embed(enqueueShape.Field(name), func(in *queue.ScheduleInput) *queue.EnqueueInput { return &in.Job })
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

var scheduleParams = []shape.Param{
	shape.IntParam("limit", "Schedules per page, at most 1000; default 50."),
	shape.TextParam("cursor", "The cursor of the previous page."),
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
	return c.answerSchedule(http.StatusCreated, s, err)
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
	return c.answerSchedule(http.StatusOK, s, err)
}

func (c *call) schedule() error {
	id, err := c.scheduleID()
	if err != nil {
		return err
	}
	s, err := c.place.Local.Schedule(c.r.Context(), c.who.Caller, id)
	return c.answerSchedule(http.StatusOK, s, err)
}

func (c *call) answerSchedule(status int, s queue.Schedule, err error) error {
	if err == nil {
		c.w.Header().Set("ETag", fmt.Sprintf("%q", strconv.FormatUint(s.Version, 10)))
	}
	return c.answerAs(status, s.Schedule, err)
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

func (c *call) runSchedule() error {
	id, err := c.scheduleID()
	if err != nil {
		return err
	}
	if err := c.noKey("check the schedule's last_job_id before you repeat the call"); err != nil {
		return err
	}
	res, err := c.place.Local.RunSchedule(c.r.Context(), c.who.Caller, id)
	return c.answerAs(http.StatusCreated, res, err)
}

func (c *call) previewSchedule() error {
	var in previewRequest
	if err := decode(c, previewShape, &in); err != nil {
		return err
	}
	runs, err := c.place.Local.PreviewSchedule(c.r.Context(), in.cron, in.timezone)
	return c.answer(wire.SchedulePreview{NextRuns: runs}, err)
}
