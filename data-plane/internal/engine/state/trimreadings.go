package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// trimReadings removes old readings, and what is counted for namespaces that had nothing
// since. A leader can't shorten for how long readings are kept.
func (x *entry) trimReadings(c *command.TrimReadings) Result {
	hour := records.HourOf(x.now)
	before := min(c.Before, hour-min(hour, records.ReadingHoursKept))
	x.txn.DeleteRange(x.m.space.ReadingsBefore(before))
	for _, ns := range c.Idle {
		if r := x.m.readings[ns]; r != nil && r.dirty {
			continue // Of this entry: what is stored is older.
		}
		key := x.m.space.OpenReading(ns)
		r, there := find(x, key, "reading", records.DecodeReading)
		if there && r.Hour < before && r.OpenJobs == 0 && r.StoredBytes == 0 {
			x.txn.Delete(key)
			delete(x.m.readings, ns)
		}
	}
	return Result{}
}
