package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
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

// EncodeSchedule and DecodeSchedule are shared with the records of state.
func EncodeSchedule(w *codec.Writer, s *Schedule) {
	w.Text(s.Name)
	w.Text(s.Cron)
	w.Text(s.Zone)
	w.Bool(s.Paused)
	w.Uint(uint64(s.Jitter))
	w.Byte(byte(s.Overlap))
	w.Byte(byte(s.CatchUp))
	EncodeTemplate(w, &s.Job)
}

// DecodeSchedule reads what EncodeSchedule wrote.
func DecodeSchedule(r *codec.Reader) Schedule {
	return Schedule{
		Name: r.Text(), Cron: r.Text(), Zone: r.Text(), Paused: r.Bool(), Jitter: duration(r),
		Overlap: Overlap(r.Enum(byte(overlapsEnd))), CatchUp: CatchUp(r.Enum(byte(catchUpsEnd))), Job: DecodeTemplate(r),
	}
}

// EncodeTemplate and DecodeTemplate are shared with the records of state.
func EncodeTemplate(w *codec.Writer, t *Template) {
	w.Text(t.Queue)
	w.Bytes(t.Payload)
	w.Byte(byte(t.Priority))
	EncodeRetry(w, t.Retry)
	w.Byte(byte(t.RetryOpen))
	w.Uint(uint64(t.ExpireAfter))
	EncodeTags(w, t.Tags)
	w.Text(t.UniqueKey)
	w.Uint(uint64(t.UniqueFor))
}

// DecodeTemplate reads what EncodeTemplate wrote.
func DecodeTemplate(r *codec.Reader) Template {
	return Template{
		Queue: r.Name(), Payload: r.Bytes(), Priority: job.Priority(r.Byte()), Retry: DecodeRetry(r),
		RetryOpen: RetryParts(r.Byte()), ExpireAfter: duration(r), Tags: DecodeTags(r),
		UniqueKey: r.Text(), UniqueFor: duration(r),
	}
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

func (c *PutSchedule) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
	EncodeSchedule(w, &c.Schedule)
	w.Int(c.Next)
	w.Bool(c.Change)
	w.Uint(c.Version)
}

func (c *PutSchedule) decode(r *codec.Reader) {
	c.NS, c.ID, c.Schedule, c.Next, c.Change, c.Version = r.ID(), r.ID(), DecodeSchedule(r), r.Time(), r.Bool(), r.Uint()
}

// DeleteSchedule removes a schedule; jobs that it made stay.
type DeleteSchedule struct {
	NS job.Namespace
	ID job.ScheduleID
}

func (c *DeleteSchedule) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
}

func (c *DeleteSchedule) decode(r *codec.Reader) { c.NS, c.ID = r.ID(), r.ID() }

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

func (c *Tick) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
	w.Int(c.Due)
	w.Uint(c.Version)
	w.Uint(uint64(len(c.Ticks)))
	for _, at := range c.Ticks {
		w.Int(at)
	}
	w.Uint(c.Missed)
	w.Int(c.Next)
	w.Bool(c.Manual)
}

func (c *Tick) decode(r *codec.Reader) {
	c.NS, c.ID, c.Due, c.Version = r.ID(), r.ID(), r.Time(), r.Uint()
	if n := r.Count(1); n > 0 {
		c.Ticks = make([]int64, n)
		for i := range c.Ticks {
			c.Ticks[i] = r.Time()
		}
	}
	c.Missed, c.Next, c.Manual = r.Uint(), r.Time(), r.Bool()
}
