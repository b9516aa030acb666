package server

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

func (t steady) Schedules(ctx context.Context, c queue.Caller, cursor string, limit int) (queue.SchedulePage, error) {
	return steadily(ctx, t, func(j Jobs) (queue.SchedulePage, error) { return j.Schedules(ctx, c, cursor, limit) })
}

func (t steady) Schedule(ctx context.Context, c queue.Caller, id job.ScheduleID) (queue.Schedule, error) {
	return steadily(ctx, t, func(j Jobs) (queue.Schedule, error) { return j.Schedule(ctx, c, id) })
}

func (t steady) CreateSchedule(ctx context.Context, c queue.Caller, in queue.ScheduleInput) (queue.Schedule, error) {
	return steadily(ctx, t, func(j Jobs) (queue.Schedule, error) { return j.CreateSchedule(ctx, c, in) })
}

func (t steady) PutSchedule(ctx context.Context, c queue.Caller, id job.ScheduleID, version uint64, in queue.ScheduleInput) (queue.Schedule, error) {
	return steadily(ctx, t, func(j Jobs) (queue.Schedule, error) { return j.PutSchedule(ctx, c, id, version, in) })
}

func (t steady) DeleteSchedule(ctx context.Context, c queue.Caller, id job.ScheduleID) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.DeleteSchedule(ctx, c, id) })
}

func (t steady) PauseSchedule(ctx context.Context, c queue.Caller, id job.ScheduleID) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.PauseSchedule(ctx, c, id) })
}

func (t steady) ResumeSchedule(ctx context.Context, c queue.Caller, id job.ScheduleID) error {
	return steadilyDo(ctx, t, func(j Jobs) error { return j.ResumeSchedule(ctx, c, id) })
}

func (t steady) RunSchedule(ctx context.Context, c queue.Caller, id job.ScheduleID) (queue.EnqueueResult, error) {
	return steadily(ctx, t, func(j Jobs) (queue.EnqueueResult, error) { return j.RunSchedule(ctx, c, id) })
}

func (t steady) PreviewSchedule(ctx context.Context, cron, timezone string) ([]time.Time, error) {
	return steadily(ctx, t, func(j Jobs) ([]time.Time, error) { return j.PreviewSchedule(ctx, cron, timezone) })
}
