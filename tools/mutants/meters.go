package main

const (
	meter            = "internal/engine/state/meter.go"
	trimreadings     = "internal/engine/state/trimreadings.go"
	endnamespace     = "internal/engine/state/endnamespace.go"
	recordsReading   = "internal/engine/records/reading.go"
	statereadReading = "internal/engine/stateread/reading.go"
)

// meterMutations break what is billed.
var meterMutations = []mutation{
	{"metering: a repeated enqueue is a job", enqueue, "\tif res.Replayed {\n\t\treturn res\n", "\tif res.Replayed {\n\t\tif r := x.metering(c.NS); r != nil {\n\t\t\tr.Jobs++\n\t\t}\n\t\treturn res\n"},
	{"metering: a job of a call of many is two", sequence, "ok && admitted {\n", "ok && admitted {\n\t\tif r := x.metering(e.NS); r != nil {\n\t\t\tr.Jobs++\n\t\t}\n"},
	{"metering: a repeated ack is an execution", ack, "\t\treturn x.ackedBefore(c, &j, res)\n", "\t\tx.meterExecution(&j)\n\t\treturn x.ackedBefore(c, &j, res)\n"},
	{"metering: an ack is no execution", ack, "\tx.meterExecution(&j)\n", ""},
	{"metering: a lease that ran out is no execution", lease, "\tx.meterExecution(j)\n", ""},
	{"metering: the lease of a job to be cancelled that ran out is no execution", fire, "\t\tx.meterExecution(&j)\n", ""},
	{"metering: an attempt that is given back is an execution", fail, "\tif !c.Release {\n\t\tx.meterExecution", "\tif c != nil {\n\t\tx.meterExecution"},
	{"metering: a result stores nothing", ack, "\t\tx.meterResult(j, c.Result)\n", ""},
	{"metering: a result is stored on after a retry", meter, "\t\tx.unstore(j, uint64(len(result)))\n", "\t\t_ = len(result)\n"},
	{"metering: a job that is deleted is stored on", deleteJob, "\tx.meterRemoved(j)\n", ""},
	{"metering: a job that is swept is stored on", sweep, "\tx.meterRemoved(&j)\n", ""},
	{"metering: a job that ended is open", transition, "\tx.meterEnd(j)\n", ""},
	{"metering: a job that runs again is not open", retry, "\tx.meterReopened(j)\n", ""},
	{"metering: an hour that ends lacks its rest", meter, "\tr.Pass(x.now)\n", ""},
	{"metering: a new hour begins with nothing stored", recordsReading, "next.OpenJobs, next.StoredBytes = r.OpenJobs, r.StoredBytes", "next.OpenJobs = r.OpenJobs"},
	{"metering: a new hour lacks its beginning", recordsReading, "next.Kept = addUp(0, r.StoredBytes, next.Until)", "next.Kept = 0"},
	{"metering: quiet hours cost nothing", recordsReading, "if r.StoredBytes > 0 && r.Hour+1 < next.Hour {", "if r.StoredBytes > 0 && r.Hour > next.Hour {"},
	{"metering: a deleted namespace is stored on", endnamespace, "\tx.meterEnded(ns)\n", ""},
	{"metering: readings are trimmed too early", trimreadings, "min(c.Before, hour-min(hour, records.ReadingHoursKept))", "min(c.Before, hour)"},
	{"metering: what stores something is trimmed", trimreadings, " && r.OpenJobs == 0 && r.StoredBytes == 0 {", " {"},
	{"metering: it begins before its version", meter, "return x.version >= 2 }", "return x.version >= 1 }"},
	{"metering: an hour that ended is not told again", statereadReading, "(v.Seq > r.from.Seq || ended > r.from.Complete)", "(v.Seq > r.from.Seq || ended < r.from.Complete)"},
}
