package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// SchedulesMax bounds the schedules of a namespace.
const SchedulesMax = 1000

func (x *entry) schedule(ns job.Namespace, id job.ScheduleID) (s records.Schedule, ok bool) {
	return find(x, x.m.space.Schedule(ns, id), "schedule", records.DecodeSchedule)
}

// waitFor replaces the due row of a schedule; 0 waits for nothing.
func (x *entry) waitFor(ns job.Namespace, id job.ScheduleID, s *records.Schedule, next int64) {
	if s.Next != 0 {
		x.txn.Delete(x.m.space.Due(keys.Due{At: s.Next, Kind: keys.DueSchedule, NS: ns, ID: job.ID(id)}))
	}
	if s.Next = next; next != 0 {
		x.addDue(keys.Due{At: next, Kind: keys.DueSchedule, NS: ns, ID: job.ID(id)}, nil)
	}
}

func (x *entry) putScheduleRecord(ns job.Namespace, id job.ScheduleID, s *records.Schedule) {
	x.txn.Set(x.m.space.Schedule(ns, id), s.Encode())
}

// fireSchedule removes a due row that no schedule answers for. One that does has its
// Tick.
func (x *entry) fireSchedule(d keys.Due) Result {
	s, ok := x.schedule(d.NS, job.ScheduleID(d.ID))
	if !ok || s.Next != d.At {
		x.txn.Delete(x.m.space.Due(d))
	}
	return Result{Refusal: WrongState}
}
