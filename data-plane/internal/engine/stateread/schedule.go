package stateread

import (
	"bytes"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReadSchedule reads a schedule, or statedb.ErrNotFound.
func ReadSchedule(g *statedb.Group, ns job.Namespace, id job.ScheduleID) (records.Schedule, error) {
	v, err := g.Get(keys.In(g.Prefix()).Schedule(ns, id))
	if err != nil {
		return records.Schedule{}, err
	}
	return records.DecodeSchedule(v)
}

// IDSchedule is a schedule with its id.
type IDSchedule struct {
	ID job.ScheduleID
	records.Schedule
}

// ReadSchedules lists up to limit schedules of a namespace after an id, by id.
func ReadSchedules(g *statedb.Group, ns job.Namespace, after job.ScheduleID, limit int) ([]IDSchedule, error) {
	space := keys.In(g.Prefix())
	from, to := space.SchedulesAfter(ns, after)
	var out []IDSchedule
	err := g.Scan(from, to, func(key, value []byte) (bool, error) {
		id, err := space.ScheduleID(key)
		if err != nil {
			return false, err
		}
		s, err := records.DecodeSchedule(bytes.Clone(value)) // Its payload outlives the call.
		if err != nil {
			return false, fmt.Errorf("schedule %s: %w", id, err)
		}
		out = append(out, IDSchedule{id, s})
		return len(out) < limit, nil
	})
	return out, err
}
