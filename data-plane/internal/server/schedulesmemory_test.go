package server

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// scheduler is the part of the fake use cases about schedules: one of every id.
type scheduler struct{}

func memSchedule(id job.ScheduleID, in queue.ScheduleInput) queue.Schedule {
	return queue.Schedule{
		ID: id, Version: 1, Name: in.Name, Cron: in.Cron, Timezone: "UTC", Overlap: "allow", CatchUp: "once", Queue: in.Job.Queue,
		Payload: in.Job.Payload, NextRunAt: memClock, NextRuns: []time.Time{memClock}, CreatedAt: memClock, UpdatedAt: memClock,
	}
}

var memDaily = queue.ScheduleInput{Name: "daily", Cron: "@daily", Job: queue.EnqueueInput{Queue: "q"}}

func (scheduler) Schedules(context.Context, queue.Caller, string, int) (queue.SchedulePage, error) {
	return queue.SchedulePage{Schedules: []queue.Schedule{memSchedule(job.ScheduleID{1}, memDaily)}}, nil
}

func (scheduler) Schedule(_ context.Context, _ queue.Caller, id job.ScheduleID) (queue.Schedule, error) {
	return memSchedule(id, memDaily), nil
}

func (scheduler) CreateSchedule(_ context.Context, c queue.Caller, in queue.ScheduleInput) (queue.Schedule, error) {
	if fields := in.Check(c, memClock); len(fields) > 0 {
		return queue.Schedule{}, fault.InvalidFields(fields)
	}
	return memSchedule(job.ScheduleID{1}, in), nil
}

func (s scheduler) PutSchedule(ctx context.Context, c queue.Caller, _ job.ScheduleID, _ uint64, in queue.ScheduleInput) (queue.Schedule, error) {
	return s.CreateSchedule(ctx, c, in)
}

func (scheduler) DeleteSchedule(context.Context, queue.Caller, job.ScheduleID) error { return nil }
func (scheduler) PauseSchedule(context.Context, queue.Caller, job.ScheduleID) error  { return nil }
func (scheduler) ResumeSchedule(context.Context, queue.Caller, job.ScheduleID) error { return nil }

func (scheduler) RunSchedule(context.Context, queue.Caller, job.ScheduleID) (queue.EnqueueResult, error) {
	return queue.EnqueueResult{JobID: job.ID{1}, Status: queue.StatusPending}, nil
}

func (scheduler) PreviewSchedule(_ context.Context, cron, timezone string) ([]time.Time, error) {
	in := queue.ScheduleInput{Name: "p", Cron: cron, Timezone: timezone, Job: queue.EnqueueInput{Queue: "q"}}
	if fields := in.Check(queue.Caller{}, memClock); len(fields) > 0 {
		return nil, fault.InvalidFields(fields)
	}
	return []time.Time{memClock}, nil
}
