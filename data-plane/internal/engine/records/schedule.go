package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Schedule is a cron schedule as stored.
//
// Invariants: Next is set iff there is a due row of that time, and never while the
// schedule is paused. The row of its name leads to it.
type Schedule struct {
	command.Schedule
	Version   uint64 // Grows with each change of what stands in command.Schedule.
	CreatedAt int64
	UpdatedAt int64
	Next      int64 // When it is looked at: at the tick it waits for, or later; 0: never.
	// Since: ticks before it were dealt with. None is dealt with twice, whatever is
	// proposed: it never goes back, also when there is no next tick (R-T4).
	Since   int64
	LastRun int64 // When it made a job last.
	LastJob job.ID
	Missed  uint64 // Ticks that made no job.
}

func (s *Schedule) Fields(f *codec.Fields) {
	s.Schedule.Fields(f)
	f.Uint(&s.Version)
	for _, at := range []*int64{&s.CreatedAt, &s.UpdatedAt, &s.Next, &s.Since, &s.LastRun} {
		f.Natural(at)
	}
	codec.ID(f, &s.LastJob)
	f.Uint(&s.Missed)
}

func (s *Schedule) Encode() []byte { return encode(160+len(s.Job.Payload), s) }

// DecodeSchedule reads what Schedule.Encode wrote.
func DecodeSchedule(v []byte) (Schedule, error) { return decode[Schedule]("schedule", v) }

// DecodeScheduleID reads what stands under a schedule's name.
func DecodeScheduleID(v []byte) (job.ScheduleID, error) {
	f := codec.Reading(v)
	var id job.ScheduleID
	codec.ID(&f, &id)
	return id, closeRecord("name of a schedule", &f)
}
