package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// What is billed is counted by the entry that does it: then a reading is as durable as
// the jobs that it is about, is counted once however often a caller repeats a call, and is
// the same on every replica. A namespace has one reading that is still counted, which an
// entry writes once, however many of its commands change it.

// openReading is a namespace's reading that is still counted.
type openReading struct {
	records.Reading
	ns    job.Namespace
	key   []byte // Of its record.
	dirty bool   // In the entry being applied.
}

// metering is where to count what happens to a namespace now; nil before the cell's
// version has it.
func (x *entry) metering(ns job.Namespace) *openReading {
	if x.meter != nil && x.meter.ns == ns { // As of the command before.
		return x.meter
	}
	if !x.meters() {
		return nil
	}
	r := x.m.readings[ns]
	if r == nil {
		r = x.readReading(ns)
		x.m.readings[ns] = r
	}
	if !r.dirty {
		r.dirty = true
		x.metered = append(x.metered, r)
		x.passTime(r)
	}
	x.meter = r
	return r
}

// meters: the cell's version is one with cellversion.Metering.
func (x *entry) meters() bool { return x.version >= 2 }

func (x *entry) readReading(ns job.Namespace) *openReading {
	r := &openReading{ns: ns, key: x.m.space.OpenReading(ns)}
	var there bool
	if r.Reading, there = find(x, r.key, "reading", records.DecodeReading); !there {
		r.Reading = records.NewReading(x.now)
	}
	return r
}

// passTime takes a reading to the time of the entry. One whose hour is over gets a row of
// its own, which is final.
func (x *entry) passTime(r *openReading) {
	r.Pass(x.now)
	if records.HourOf(x.now) > r.Hour {
		r.Seq = x.index // Whoever has read it before learns how the hour ended.
		x.txn.SetNew(x.m.space.Reading(r.Hour, r.ns), r.Encode())
		r.Reading = r.Next(x.now, x.index)
	}
	r.Seq = x.index
}

func (x *entry) writeReadings() {
	for _, r := range x.metered {
		x.txn.Set(r.key, r.Encode())
		r.dirty = false
	}
}

// meterJob counts a job that comes into existence.
func (x *entry) meterJob(j *subject, payload []byte) {
	if r := x.metering(j.ns); r != nil {
		j.Metered, j.Stored = true, uint64(len(payload))
		r.Jobs++
		r.PayloadBytes += j.Stored
		r.StoredBytes += j.Stored
		r.OpenJobs++
	}
}

// meterExecution counts an attempt that ended. One that is given back did not.
func (x *entry) meterExecution(j *subject) {
	if r := x.metering(j.ns); r != nil {
		r.Executions++
	}
}

// A job that was made before the cell's version had metering stays out of what its
// namespace stores, until it is gone: nothing is subtracted that was never added.

// meterResult counts the result of a job among what is stored.
func (x *entry) meterResult(j *subject, result []byte) {
	if j.Metered {
		n := uint64(len(result))
		j.Stored += n
		x.metering(j.ns).StoredBytes += n
	}
}

// unmeterResult takes it back: the job runs again.
func (x *entry) unmeterResult(j *subject, result []byte) {
	if j.Metered {
		x.unstore(j, uint64(len(result)))
	}
}

func (x *entry) unstore(j *subject, n uint64) {
	j.Stored -= min(j.Stored, n)
	r := x.metering(j.ns)
	r.StoredBytes -= min(r.StoredBytes, n)
}

// meterEnd counts a job out of those that are open, and meterReopened in again.
func (x *entry) meterEnd(j *subject) {
	if j.Metered {
		r := x.metering(j.ns)
		r.OpenJobs -= min(r.OpenJobs, 1)
	}
}

func (x *entry) meterReopened(j *subject) {
	if j.Metered {
		x.metering(j.ns).OpenJobs++
	}
}

// meterRemoved counts a job out whose records are removed.
func (x *entry) meterRemoved(j *subject) {
	if !j.Metered {
		return
	}
	x.unstore(j, j.Stored)
	if !j.State.Terminal() {
		x.meterEnd(j)
	}
}

// meterEnded: nothing of the namespace is stored any more. What was counted stays, until
// it is old.
func (x *entry) meterEnded(ns job.Namespace) {
	if x.m.readings[ns] == nil {
		if _, there := find(x, x.m.space.OpenReading(ns), "reading", records.DecodeReading); !there {
			return
		}
	}
	r := x.metering(ns)
	r.StoredBytes, r.OpenJobs = 0, 0
}
