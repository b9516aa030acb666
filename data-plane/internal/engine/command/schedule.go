package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Overlap says what a tick does while the job of an earlier one is not finished.
// Stored: append only.
type Overlap uint8

const (
	OverlapAllow  Overlap = iota // Enqueues another one.
	OverlapSkip                  // Does nothing.
	OverlapCancel                // Cancels the earlier one, and enqueues another one.
	overlapsEnd
)

// CatchUp says which ticks are made good that passed while nobody could enqueue them.
// Stored: append only.
type CatchUp uint8

const (
	CatchUpOnce CatchUp = iota // The latest.
	CatchUpSkip                // None.
	CatchUpAll                 // All, the latest hundred at most.
	catchUpsEnd
)

// Schedule is a cron schedule as its owner describes it. Neither expression nor time
// zone is read by state: the leader computes the ticks.
type Schedule struct {
	Name    string
	Cron    string
	Zone    string // IANA name.
	Paused  bool
	Jitter  time.Duration // A tick is late by less than this.
	Overlap Overlap
	CatchUp CatchUp
	Job     Template
}

func (s *Schedule) Fields(f *codec.Fields) {
	f.Text(&s.Name)
	f.Text(&s.Cron)
	f.Text(&s.Zone)
	f.Bool(&s.Paused)
	f.Duration(&s.Jitter)
	codec.Enum(f, &s.Overlap, overlapsEnd)
	codec.Enum(f, &s.CatchUp, catchUpsEnd)
	s.Job.Fields(f)
}

// Template is a job to be made over and over.
type Template struct {
	Queue       string
	Payload     []byte
	Priority    job.Priority
	Retry       RetryPolicy
	RetryOpen   RetryParts
	ExpireAfter time.Duration // 0: never.
	Tags        []Tag
	UniqueKey   string
	UniqueFor   time.Duration
}

func (t *Template) Fields(f *codec.Fields) {
	f.Name(&t.Queue)
	f.Bytes(&t.Payload)
	codec.Byte(f, &t.Priority)
	t.Retry.Fields(f)
	codec.Byte(f, &t.RetryOpen)
	f.Duration(&t.ExpireAfter)
	Tags(f, &t.Tags)
	f.Text(&t.UniqueKey)
	f.Duration(&t.UniqueFor)
}

// PutSchedule makes a schedule, or changes the one of that id.
type PutSchedule struct {
	NS       job.Namespace
	ID       job.ScheduleID
	Schedule Schedule
	Next     int64 // The first tick from now on; 0: there is none.
	// Change: the schedule must exist, and be of Version; otherwise it must not.
	Change  bool
	Version uint64
}

func (c *PutSchedule) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	c.Schedule.Fields(f)
	f.Natural(&c.Next)
	f.Bool(&c.Change)
	f.Uint(&c.Version)
}

// DeleteSchedule removes a schedule; jobs that it made stay.
type DeleteSchedule struct {
	NS job.Namespace
	ID job.ScheduleID
}

func (c *DeleteSchedule) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
}

// TicksMax bounds the ticks of one Tick.
const TicksMax = 100

// Tick makes the jobs of a schedule for instants that have come. It counts only
// while the schedule still waits for Due: a repetition, or a leader that saw an older
// version, changes nothing.
type Tick struct {
	NS      job.Namespace
	ID      job.ScheduleID
	Due     int64   // The next tick as the proposer knows it; 0 with Manual.
	Version uint64  // Of the schedule as the proposer knows it.
	Ticks   []int64 // Instants to make a job for, in their order.
	Missed  uint64  // Instants that the catch-up policy leaves out.
	Next    int64   // The tick after; 0: there is none.
	// Manual: somebody wants one now; Due and Next mean nothing then.
	Manual bool
}

func (c *Tick) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	f.Natural(&c.Due)
	f.Uint(&c.Version)
	for i := range codec.Items(f, &c.Ticks, 1) {
		f.Natural(&c.Ticks[i])
	}
	f.Uint(&c.Missed)
	f.Natural(&c.Next)
	f.Bool(&c.Manual)
}
