package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

const (
	// tickBytes is what a job of a schedule costs an entry besides its payload.
	tickBytes = 1024
	// putOff is how long a schedule waits that can't be planned, because its time zone is gone.
	putOff = 30 * time.Second
	// fullPutOff is how long one waits while a disk is full: it may be for a moment only, as when of two
	// nodes that answer one has no space. So often is each schedule written that is due.
	fullPutOff = 5 * time.Second
)

var errNoPlan = errors.New("this process knows nothing of schedules")

// addTick answers the due row of a schedule, or leaves it for a later entry: an entry
// makes no more jobs of schedules than fit into one, however many are due at midnight,
// and none while the disk is nearly full.
func (t *term) addTick(b *batch, d keys.Due) error {
	if b.fired >= entryBytesMax {
		t.due.leave(d.At, b.now.Calendar)
		return nil
	}
	id := job.ScheduleID(d.ID)
	s, err := stateread.ReadSchedule(t.shard.store, d.NS, id)
	if errors.Is(err, statedb.ErrNotFound) || err == nil && s.Next != d.At {
		b.append(&command.Fire{Due: d}) // It is nobody's row.
		return nil
	}
	if err != nil {
		return fmt.Errorf("read schedule %s: %w", id, err)
	}
	c := t.plan(id, &s, b.now.Calendar)
	c.NS, c.ID, c.Due, c.Version = d.NS, id, d.At, s.Version
	b.cutTick(c, len(s.Job.Payload)+tickBytes)
	b.append(c)
	return nil
}

// plan asks what the schedule does now, or puts it off.
func (t *term) plan(id job.ScheduleID, s *records.Schedule, now int64) *command.Tick {
	if t.shard.full.Load() != nil {
		return &command.Tick{Next: now + int64(fullPutOff)}
	}
	c, err := t.shard.opts.Plan(id, s, now)
	if err != nil {
		t.shard.logger.Error("a schedule can not be planned and is put off", "schedule", id, "cron", s.Cron, "zone", s.Zone, "err", err)
		return &command.Tick{Next: now + int64(putOff)}
	}
	return c
}

// cutTick leaves to the next entry what does not fit into this one.
func (b *batch) cutTick(c *command.Tick, bytes int) {
	if n := max((entryBytesMax-b.fired)/bytes, 1); n < len(c.Ticks) {
		c.Next, c.Ticks = c.Ticks[n], c.Ticks[:n]
	}
	b.fired += tickBytes + len(c.Ticks)*bytes
}
