package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// meterRows is what an audit finds of readings, and of what they are about: the bytes and
// jobs that a reading names are those of the sets (INV-20).
type meterRows struct {
	open  map[job.Namespace]records.Reading
	over  map[billedAt]records.Reading
	bytes map[job.ID]uint64 // Of payload and result, as they are stored.
}

func (m *meterRows) row(space keys.Space, k, v []byte) error {
	if m.open == nil {
		m.open, m.over = map[job.Namespace]records.Reading{}, map[billedAt]records.Reading{}
	}
	r, err := records.DecodeReading(v)
	if err != nil {
		return err
	}
	if k[4] == 0x3a {
		ns, err := space.OpenReadingOf(k)
		m.open[ns] = r
		return err
	}
	hour, ns, err := space.ReadingOf(k)
	if hour != r.Hour {
		return keys.ErrKey
	}
	m.over[billedAt{ns, hour}] = r
	return err
}

func (m *meterRows) part(_ job.Namespace, family byte, k, v []byte) {
	if m.bytes == nil {
		m.bytes = map[job.ID]uint64{}
	}
	switch family {
	case keys.Body:
		if b, err := records.DecodeBody(v); err == nil {
			m.bytes[job.ID(k[22:38])] += uint64(len(b.Payload))
		}
	case keys.Result:
		m.bytes[job.ID(k[22:38])] += uint64(len(v))
	}
}

func (m *meterRows) audit(a *auditor) {
	type sum struct{ open, stored uint64 }
	sums := map[job.Namespace]sum{}
	for _, heads := range []map[job.ID]records.Head{a.heads, a.left} {
		for id, h := range heads {
			if !h.Metered {
				continue
			}
			if h.Stored != m.bytes[id] {
				a.t.Fatalf("job %s stores %d bytes and says %d", id, m.bytes[id], h.Stored)
			}
			s := sums[a.ns[id]]
			s.stored += h.Stored
			if !h.State.Terminal() {
				s.open++
			}
			sums[a.ns[id]] = s
		}
	}
	for ns, r := range m.open {
		if got := (sum{r.OpenJobs, r.StoredBytes}); got != sums[ns] {
			a.t.Fatalf("%s counts open jobs and stored bytes %+v, its sets are %+v", ns, got, sums[ns])
		}
		delete(sums, ns)
	}
	for at, r := range m.over {
		if still := m.open[at.ns]; at.hour >= still.Hour || r.Until != records.ByteHour {
			a.t.Fatalf("%s still counts hour %d, and has a row %+v", at.ns, still.Hour, r)
		}
	}
	for ns, s := range sums {
		if s != (sum{}) {
			a.t.Fatalf("%s has %+v and counts nothing", ns, s)
		}
	}
}
