package queue

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cron"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Limits of cron schedules.
const (
	ScheduleNameBytesMax = 128
	JitterMax            = 24 * time.Hour
	NextRunsShown        = 5
)

// onTime is how late a tick may be and still count as on time; the catch-up policy
// is for older ones. A change of leader takes less.
const onTime = 10 * time.Second

// ScheduleInput describes a whole schedule; fields left out have their defaults.
type ScheduleInput struct {
	Name     string
	Cron     string
	Timezone string // "" is UTC.
	Jitter   time.Duration
	Overlap  wire.Overlap // "" is the default.
	CatchUp  wire.CatchUp // "" is the default.
	// Paused: nil leaves it as it is; a new schedule is not paused.
	Paused *bool
	// Job is what each tick enqueues, without a time or an idempotency key.
	Job EnqueueInput
}

// Schedule is a cron schedule as stored, with its next runs.
type Schedule struct {
	wire.Schedule
	Version uint64
}

// CreateSchedule makes a schedule. Its name must be free.
func (s *Service) CreateSchedule(ctx context.Context, c Caller, in ScheduleInput) (Schedule, error) {
	now := s.now()
	if fields := in.Check(c, now); len(fields) > 0 {
		return Schedule{}, fault.InvalidFields(fields)
	}
	if err := c.may(permission.ScheduleUpdate, in.Job.Queue); err != nil {
		return Schedule{}, err
	}
	id := job.ScheduleID(s.ids.next(now))
	cmd := &command.PutSchedule{NS: c.Namespace, ID: id, Schedule: in.stamp()}
	cmd.Schedule.Paused = in.Paused != nil && *in.Paused
	if err := s.putSchedule(ctx, c, "schedule.create", cmd, now); err != nil {
		return Schedule{}, err
	}
	return readBack(ctx, func(ctx context.Context) (Schedule, error) { return s.Schedule(ctx, c, id) })
}

// PutSchedule replaces a schedule. A version that is not 0 must be its current one.
func (s *Service) PutSchedule(ctx context.Context, c Caller, id job.ScheduleID, version uint64, in ScheduleInput) (Schedule, error) {
	if fields := in.Check(c, s.now()); len(fields) > 0 {
		return Schedule{}, fault.InvalidFields(fields)
	}
	if err := c.may(permission.ScheduleUpdate, in.Job.Queue); err != nil {
		return Schedule{}, err
	}
	err := s.changeSchedule(ctx, c, "schedule.update", id, version, func(old *command.Schedule) command.Schedule {
		put := in.stamp()
		put.Paused = old.Paused
		if in.Paused != nil {
			put.Paused = *in.Paused
		}
		return put
	})
	if err != nil {
		return Schedule{}, err
	}
	return readBack(ctx, func(ctx context.Context) (Schedule, error) { return s.Schedule(ctx, c, id) })
}

// PauseSchedule stops the ticks of a schedule; they are not made up for later.
func (s *Service) PauseSchedule(ctx context.Context, c Caller, id job.ScheduleID) error {
	return s.pauseSchedule(ctx, c, id, true)
}

// ResumeSchedule starts the ticks again, from now on.
func (s *Service) ResumeSchedule(ctx context.Context, c Caller, id job.ScheduleID) error {
	return s.pauseSchedule(ctx, c, id, false)
}

func (s *Service) pauseSchedule(ctx context.Context, c Caller, id job.ScheduleID, paused bool) error {
	act := "schedule.resume"
	if paused {
		act = "schedule.pause"
	}
	return s.changeSchedule(ctx, c, act, id, 0, func(old *command.Schedule) command.Schedule {
		put := *old
		put.Paused = paused
		return put
	})
}

// changesMax bounds how often a change is retried because others changed the
// schedule first.
const changesMax = 8

// changeSchedule proposes the schedule after change, again if it was changed
// meanwhile.
func (s *Service) changeSchedule(ctx context.Context, c Caller, act string, id job.ScheduleID, version uint64, change func(*command.Schedule) command.Schedule) error {
	for range changesMax {
		old, err := s.readSchedule(ctx, c, permission.ScheduleUpdate, id)
		if err != nil {
			return err
		}
		if version != 0 && version != old.Version {
			break
		}
		cmd := &command.PutSchedule{NS: c.Namespace, ID: id, Schedule: change(&old.Schedule), Change: true, Version: old.Version}
		err = s.putSchedule(ctx, c, act, cmd, s.now())
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return fault.New(fault.Conflict, "CONFLICT", "schedule %s was changed by somebody else; read it again", id)
}

var errChanged = errors.New("the schedule was changed")

func (s *Service) putSchedule(ctx context.Context, c Caller, act string, cmd *command.PutSchedule, now time.Time) error {
	rule, err := ruleOf(cmd.ID, cmd.Schedule.Cron, cmd.Schedule.Zone)
	if err != nil { // It was valid when stored.
		return fault.InvalidFields([]fault.Field{{Path: "cron", Message: err.Error()}})
	}
	cmd.Next = nanos(rule.Next(now))
	res, err := s.act(ctx, c, scheduleAct(act, cmd.ID).with("name", cmd.Schedule.Name), cmd)
	if err != nil {
		return err
	}
	switch res.Refusal {
	case state.Accepted:
		return nil
	case state.Exists:
		return &fault.Error{
			Code: fault.Conflict, Reason: "CONFLICT", Message: "another schedule in this namespace has this name",
			Fields: []fault.Field{{Path: "name", Message: "is taken"}},
		}
	case state.NotFound:
		return errNoSchedule(cmd.ID)
	case state.TooMany:
		return fault.New(fault.Conflict, "TOO_MANY_SCHEDULES", "this namespace has %d schedules, which is the limit; delete some of them first", state.SchedulesMax)
	default:
		return errChanged
	}
}

// DeleteSchedule removes a schedule. Jobs that it made stay.
func (s *Service) DeleteSchedule(ctx context.Context, c Caller, id job.ScheduleID) error {
	if _, err := s.readSchedule(ctx, c, permission.ScheduleUpdate, id); err != nil {
		return err
	}
	_, err := s.actOn(ctx, c, scheduleAct("schedule.delete", id), &command.DeleteSchedule{NS: c.Namespace, ID: id}, errNoSchedule(id))
	return err
}

// RunSchedule enqueues a job of a schedule now, paused or not. The ticks do not change.
func (s *Service) RunSchedule(ctx context.Context, c Caller, id job.ScheduleID) (wire.ScheduleRun, error) {
	rec, err := s.readSchedule(ctx, c, permission.ScheduleUpdate, id)
	if err != nil {
		return wire.ScheduleRun{}, err
	}
	if err := s.gate.admit(c.Namespace, 1, len(rec.Job.Payload), time.Now()); err != nil {
		return wire.ScheduleRun{}, err
	}
	rep, err := s.do(ctx, c, shard.Request{After: s.audited(c, scheduleAct("schedule.run", id), &command.Tick{NS: c.Namespace, ID: id, Manual: true})})
	if err != nil {
		return wire.ScheduleRun{}, err
	}
	switch res := &rep.After[1]; res.Refusal {
	case state.Accepted:
		return wire.ScheduleRun{JobID: res.ID.String(), Status: wire.EnqueueStatus(res.State.String())}, nil
	case state.NotFound:
		return wire.ScheduleRun{}, errNoSchedule(id)
	case state.Exists:
		return wire.ScheduleRun{}, fault.New(fault.Conflict, "CONFLICT", "schedule %s enqueued no job: job %s has its unique key", id, res.ID)
	case state.WrongState:
		return wire.ScheduleRun{}, fault.New(fault.Conflict, "CONFLICT",
			"schedule %s enqueued no job: its previous job %s is still %s, and its jobs can't overlap", id, res.ID, res.State)
	default:
		of, err := s.readSchedule(ctx, c, permission.ScheduleUpdate, id)
		if err != nil {
			return wire.ScheduleRun{}, err
		}
		return wire.ScheduleRun{}, enqueueRefusal("", &EnqueueInput{Queue: of.Job.Queue}, res)
	}
}

// Schedule reads one schedule.
func (s *Service) Schedule(ctx context.Context, c Caller, id job.ScheduleID) (Schedule, error) {
	rec, err := s.readSchedule(ctx, c, permission.ScheduleRead, id)
	if err != nil {
		return Schedule{}, err
	}
	v := Schedule{viewSchedule(id, &rec), rec.Version}
	c.redactSchedule(&v.Schedule)
	if rule, err := ruleOf(id, rec.Cron, rec.Zone); err == nil && !rec.Paused {
		v.NextRuns = nextRuns(rule, s.now())
	}
	return v, s.noteRead(ctx, &c, readOfSchedules([]wire.Schedule{v.Schedule}))
}

// Schedules lists the schedules of a namespace in the order they were made.
func (s *Service) Schedules(ctx context.Context, c Caller, page PageInput) (wire.ScheduleList, error) {
	after, limit, err := readPage(page, job.ParseScheduleID)
	if err != nil {
		return wire.ScheduleList{}, err
	}
	shown, err := shard.Read(ctx, s.shard, func(g *statedb.Group) (out wire.ScheduleList, err error) {
		list, err := readSchedules(g, &c, after, limit+1)
		if out.HasMore = len(list) > limit; out.HasMore {
			list = list[:limit]
			out.Cursor = list[limit-1].ID.String()
		}
		out.Schedules = each(list, func(s *stateread.IDSchedule) wire.Schedule { return viewSchedule(s.ID, &s.Schedule) })
		for i := range out.Schedules {
			c.redactSchedule(&out.Schedules[i])
		}
		return out, err
	})
	if err != nil {
		return shown, err
	}
	return shown, s.noteRead(ctx, &c, readOfSchedules(shown.Schedules))
}

// PreviewSchedule lists when an expression would run next.
func (s *Service) PreviewSchedule(_ context.Context, expression, timezone string) ([]time.Time, error) {
	var bad checker
	now := s.now()
	rule := bad.rule(expression, timezone, now)
	if len(bad) > 0 {
		return nil, fault.InvalidFields(bad)
	}
	return nextRuns(rule, now), nil
}

func nextRuns(rule *cron.Rule, after time.Time) []time.Time {
	var runs []time.Time
	for range NextRunsShown {
		if after = rule.Next(after); after.IsZero() {
			break
		}
		runs = append(runs, after.UTC())
	}
	return runs
}

// readSchedule reads a schedule for whose queue the caller has p.
func (s *Service) readSchedule(ctx context.Context, c Caller, p permission.Permission, id job.ScheduleID) (records.Schedule, error) {
	rec, err := look(ctx, s.shard, errNoSchedule(id), func(g *statedb.Group) (records.Schedule, error) {
		return stateread.ReadSchedule(g, c.Namespace, id)
	})
	if err == nil {
		err = c.mayOn(p, rec.Job.Queue, errNoSchedule(id))
	}
	return rec, err
}

// readSchedules reads up to n schedules that the caller may see.
func readSchedules(g *statedb.Group, c *Caller, after job.ScheduleID, n int) (out []stateread.IDSchedule, err error) {
	for {
		list, err := stateread.ReadSchedules(g, c.Namespace, after, n)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if after = list[i].ID; c.Rights.Queue(permission.ScheduleRead, list[i].Job.Queue) && len(out) < n {
				out = append(out, list[i])
			}
		}
		if len(list) < n || len(out) == n {
			return out, nil
		}
	}
}

func errNoSchedule(id job.ScheduleID) error {
	return fault.New(fault.NotFound, "NOT_FOUND", "there is no schedule %s in this namespace", id)
}

// Check lists everything that is wrong with the input.
func (in *ScheduleInput) Check(c Caller, now time.Time) []fault.Field {
	var bad checker
	switch {
	case in.Name == "":
		bad.failf("name", "is required")
	case strings.ContainsFunc(in.Name, unicode.IsControl) || strings.TrimSpace(in.Name) != in.Name:
		bad.failf("name", "can't contain control characters, or start or end with a space")
	}
	bad.text("name", in.Name, ScheduleNameBytesMax)
	bad.rule(in.Cron, in.Timezone, now)
	bad.delay("jitter", &in.Jitter, 0, JitterMax)
	if _, ok := wordIn(wire.Overlaps(), in.Overlap); !ok {
		bad.failf("overlap", "is %q, must be %s", clip(in.Overlap), listed(wire.Overlaps()))
	}
	if _, ok := wordIn(wire.CatchUps(), in.CatchUp); !ok {
		bad.failf("catch_up", "is %q, must be %s", clip(in.CatchUp), listed(wire.CatchUps()))
	}
	if in.Overlap == wire.OverlapCancel && in.Job.UniqueKey != "" {
		bad.failf("unique_key", "can't be combined with overlap cancel, which would cancel the job that has this key; leave one of them out")
	}
	return append(bad, in.Job.Check(c, now)...)
}

// rule parses an expression and a time zone, or records what is wrong with them.
func (c *checker) rule(expression, timezone string, now time.Time) *cron.Rule {
	zone, err := cron.Zone(timezone)
	if err != nil {
		c.failf("timezone", "%q %s", clip(timezone), err)
		zone = time.UTC
	}
	if expression == "" {
		c.failf("cron", "is required")
		return nil
	}
	rule, err := cron.Parse(expression, zone, now)
	if err != nil {
		c.failf("cron", "%s", err)
	}
	return rule
}

// stamp turns a valid input into what is stored.
func (in *ScheduleInput) stamp() command.Schedule {
	overlap, _ := wordIn(wire.Overlaps(), in.Overlap)
	catchUp, _ := wordIn(wire.CatchUps(), in.CatchUp)
	priority, _ := job.ParsePriority(string(in.Job.Priority))
	put := command.Schedule{
		Name: in.Name, Cron: strings.TrimSpace(in.Cron), Zone: in.Timezone, Jitter: in.Jitter,
		Overlap: command.Overlap(overlap), CatchUp: command.CatchUp(catchUp),
		Job: command.Template{
			Queue: in.Job.Queue, Payload: said(in.Job.Payload), Priority: priority,
			ExpireAfter: or(in.Job.ExpireAfter, 0), Tags: sortedTags(in.Job.Tags), UniqueKey: in.Job.UniqueKey,
		},
	}
	put.Job.Retry, put.Job.RetryOpen = retryPolicy(in.Job.retrySettings())
	if put.Zone == "" {
		put.Zone = time.UTC.String()
	}
	if len(put.Job.Payload) == 0 {
		put.Job.Payload = emptyObject
	}
	if put.Job.UniqueKey != "" {
		put.Job.UniqueFor = cmp.Or(or(in.Job.UniquePeriod, 0), job.DefaultUniqueFor)
	}
	return put
}

func viewSchedule(id job.ScheduleID, rec *records.Schedule) wire.Schedule {
	t := &rec.Job
	retry := viewRetry(t.Retry, command.RetryAll&^t.RetryOpen)
	return wire.Schedule{
		ID: id.String(), Name: rec.Name, Cron: rec.Cron, Timezone: rec.Zone, Queue: t.Queue, Payload: t.Payload,
		Priority: wire.Priority(t.Priority.String()), Tags: tagMap(t.Tags), UniqueKey: t.UniqueKey, UniquePeriod: int64(t.UniqueFor / time.Second),
		MaxRetries: retry.MaxRetries, RetryBackoff: retry.Backoff, RetryBaseDelayMS: millisOrNone(retry.BaseDelay), RetryMaxDelayMS: millisOrNone(retry.MaxDelay),
		ExpireAfter: spanOrNone(t.ExpireAfter), Jitter: spanOrNone(rec.Jitter), Overlap: wire.Overlaps()[rec.Overlap], CatchUp: wire.CatchUps()[rec.CatchUp],
		Paused: rec.Paused, NextRunAt: whenOrNull(rec.Next), LastRunAt: whenOrNull(rec.LastRun), LastJobID: idOrNone(rec.LastJob),
		Missed: rec.Missed, CreatedAt: when(rec.CreatedAt), UpdatedAt: when(rec.UpdatedAt),
	}
}

// ruleOf is the rule of a stored schedule. "@every" counts from when the schedule
// was made, a time that its id contains.
func ruleOf(id job.ScheduleID, expression, zone string) (*cron.Rule, error) {
	z, err := cron.Zone(zone)
	if err != nil {
		return nil, err
	}
	made := binary.BigEndian.Uint64(id[:8]) >> 16
	return cron.Parse(expression, z, time.UnixMilli(int64(made)))
}

// Plan says what a schedule that is due does now; see shard.Options. Ticks that are on
// time all run. Of older, missed ones, the catch-up policy says which run.
func Plan(id job.ScheduleID, s *records.Schedule, now int64) (*command.Tick, error) {
	rule, err := ruleOf(id, s.Cron, s.Zone)
	if err != nil {
		return nil, err
	}
	from, until := time.Unix(0, s.Since-1), time.Unix(0, now)
	recent := until.Add(-onTime)
	if recent.Before(from) {
		recent = from
	}
	ticks := rule.Between(recent, until, command.TicksMax)
	switch {
	case s.CatchUp == command.CatchUpAll:
		ticks = rule.Between(from, until, command.TicksMax)
	case s.CatchUp == command.CatchUpOnce && len(ticks) == 0:
		ticks = rule.Between(from, until, 1)
	}
	c := &command.Tick{Next: nanos(rule.Next(until)), Missed: uint64(rule.Count(from, until)) - uint64(len(ticks))}
	for _, at := range ticks {
		c.Ticks = append(c.Ticks, at.UnixNano())
	}
	return c, nil
}
