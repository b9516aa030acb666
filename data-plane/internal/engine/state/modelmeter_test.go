package state

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// The oracle: what is billed. It writes down what happened, and adds that up when it is
// asked, hour by hour.

// modelStored is a change of what is stored: the payload of a job so many times, and bytes.
type modelStored struct {
	of       *modelJob
	at       int64
	payloads int64
	bytes    int64
}

// modelAttempt is an attempt that ended.
type modelAttempt struct {
	ns job.Namespace
	at int64
}

// unknown is the payload of a job that follows on others: what the engine wrote is
// looked up, because another test says what it is to write.
const unknown = -1

// keep stores a new job.
func (m *oracle) keep(j *modelJob) {
	j.payload = int64(len(j.Payload))
	m.stored = append(m.stored, modelStored{j, m.now, 1, 0})
}

// keepResult stores a result, or with fewer than no bytes removes it.
func (m *oracle) keepResult(j *modelJob, bytes int64) {
	j.result += bytes
	m.stored = append(m.stored, modelStored{j, m.now, 0, bytes})
}

// drop removes what is stored of a job.
func (m *oracle) drop(j *modelJob) {
	m.stored = append(m.stored, modelStored{j, m.now, -1, -j.result})
}

func (m *oracle) attempted(j *modelJob) {
	m.attempts = append(m.attempts, modelAttempt{j.NS, m.now})
}

// billedAt is an hour of a namespace.
type billedAt struct {
	ns   job.Namespace
	hour uint64
}

// billed is what was counted, in the order of the meters.
type billed struct{ jobs, executions, payloads, byteHours uint64 }

// bill adds everything up.
func (m *oracle) bill() map[billedAt]billed {
	out := map[billedAt]billed{}
	add := func(ns job.Namespace, at int64, f func(*billed)) {
		k := billedAt{ns, records.HourOf(at)}
		b := out[k]
		f(&b)
		out[k] = b
	}
	for _, j := range m.jobs {
		add(j.NS, j.made, func(b *billed) { b.jobs++; b.payloads += uint64(j.payload) })
	}
	for _, a := range m.attempts {
		add(a.ns, a.at, func(b *billed) { b.executions++ })
	}
	for _, ns := range testNamespaces {
		for hour, kept := range m.kept(ns) {
			add(ns, int64(hour)*int64(time.Hour), func(b *billed) { b.byteHours = uint64(kept) / records.ByteHour })
		}
	}
	return out
}

// kept is what a namespace stored, in bytes times milliseconds of each hour until now.
func (m *oracle) kept(ns job.Namespace) map[uint64]int64 {
	out := map[uint64]int64{}
	const hour = int64(time.Hour / time.Millisecond)
	at, bytes := int64(0), int64(0)
	until := func(ms int64) {
		for bytes > 0 && at < ms {
			end := min(ms, (at/hour+1)*hour)
			out[uint64(at/hour)] += bytes * (end - at)
			at = end
		}
		at = ms
	}
	for _, c := range m.stored {
		if c.of.NS == ns {
			until(c.at / int64(time.Millisecond))
			bytes += c.payloads*c.of.payload + c.bytes
		}
	}
	until(m.now / int64(time.Millisecond))
	return out
}

// of are the readings of a namespace by hour.
func (m *meterRows) of(ns job.Namespace) map[uint64]records.Reading {
	out := map[uint64]records.Reading{}
	for at, r := range m.over {
		if at.ns == ns {
			out[at.hour] = r
		}
	}
	if r, there := m.open[ns]; there {
		out[r.Hour] = r
	}
	return out
}

// billed compares what is billed with what happened (INV-20).
func (p *pair) billed(a *auditor) {
	for _, j := range p.m.jobs {
		if j.payload == unknown {
			j.payload = int64(len(a.groups.bodies[j.ID].Payload)) // Never empty.
			if j.payload == 0 {
				p.t.Fatalf("job %s has no payload", j.ID)
			}
		}
	}
	for _, ns := range testNamespaces {
		kept := p.m.kept(ns)
		for hour, r := range a.meters.of(ns) {
			if int64(r.KeptAt(p.now)) != kept[hour] {
				p.t.Fatalf("%s kept %+v in %s, want %d byte-ms (INV-20)", ns, r, hourText(hour), kept[hour])
			}
		}
	}
	want := p.m.bill()
	for _, r := range p.readings(p.t, stateread.ReadingsFrom{}, p.now) {
		k := billedAt{r.NS, r.Hour}
		got := billed{r.Jobs, r.Executions, r.PayloadBytes, r.StoredByteHours}
		if got != want[k] {
			p.t.Fatalf("%s is billed %+v for %s, want %+v (INV-20)", r.NS, got, hourText(r.Hour), want[k])
		}
		delete(want, k)
	}
	for k, b := range want {
		if b != (billed{}) {
			p.t.Fatalf("%s is not billed for %s, want %+v (INV-20)", k.ns, hourText(k.hour), b)
		}
	}
}
