package stateread

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Reading is what was counted for a namespace in an hour so far.
type Reading struct {
	NS              job.Namespace
	Hour, Seq       uint64
	Jobs            uint64
	Executions      uint64
	PayloadBytes    uint64
	StoredByteHours uint64
	OpenJobs        uint64 // At the end of the hour, or now.
	StoredBytes     uint64 // Likewise.
}

// ReadingsFrom says which readings are wanted.
type ReadingsFrom struct {
	Hour uint64 // Of this hour and later ones,
	// and only those that changed after the entry with this index, or of hours that ended
	// after this calendar time.
	Seq      uint64
	Complete int64
	// Next is where the page before ended; nil for the first.
	Next []byte
}

// ReadingsPage is some readings.
type ReadingsPage struct {
	List []Reading
	Next []byte // Nil: there are no more.
}

// readingsPage is how many readings end a page. The hours of one row are not parted.
const readingsPage = 1000

// ReadReadings reads what was counted, with what is stored counted up to calendar time
// now: every entry of before must have been applied, and later ones must be later.
//
// Pages are read one after another while entries are applied. The readings that are still
// counted come first: one whose hour ends meanwhile has a row, which is read afterwards.
func ReadReadings(g *statedb.Group, from ReadingsFrom, now int64) (p ReadingsPage, err error) {
	from.Hour = max(from.Hour, oldestReading(now))
	view := g.View()
	defer func() { err = errors.Join(err, view.Close()) }()
	r := readingsReader{from: from, now: now, space: keys.In(g.Prefix())}
	place, err := readPlace(from.Next)
	if err != nil {
		return p, err
	}
	if place.hour == 0 {
		err = r.readOpen(view, place.ns)
	}
	if err == nil && r.next == nil {
		err = r.readRows(view, place)
	}
	return ReadingsPage{r.list, r.next}, err
}

// oldestReading is the first hour of which readings are kept.
func oldestReading(now int64) uint64 {
	hour := records.HourOf(now)
	return hour - min(hour, records.ReadingHoursKept)
}

// ReadOpenReading reads what is counted for a namespace in the last hour in which
// anything happened; false if nothing was counted yet.
func ReadOpenReading(g *statedb.Group, ns job.Namespace) (records.Reading, bool, error) {
	return Get(g, keys.In(g.Prefix()).OpenReading(ns), records.DecodeReading)
}

// readingPlace is the first row of a page: of hour 0 are the open ones.
type readingPlace struct {
	hour uint64
	ns   job.Namespace
}

// ErrPlace: a page begins where none ended.
var ErrPlace = errors.New("no page ends there")

func readPlace(b []byte) (p readingPlace, err error) {
	switch len(b) {
	case 0:
		return p, nil
	case 8 + 16:
		return readingPlace{binary.BigEndian.Uint64(b), job.Namespace(b[8:])}, nil
	}
	return p, ErrPlace
}

func (p readingPlace) bytes() []byte {
	return append(binary.BigEndian.AppendUint64(nil, p.hour), p.ns[:]...)
}

type readingsReader struct {
	from  ReadingsFrom
	now   int64
	space keys.Space
	list  []Reading
	next  []byte
}

// full ends a page before the row at a place.
func (r *readingsReader) full(p readingPlace) bool {
	if len(r.list) < readingsPage {
		return false
	}
	r.next = p.bytes()
	return true
}

func (r *readingsReader) readOpen(view Reader, after job.Namespace) error {
	lower, upper := r.space.OpenReadings(after)
	return view.Scan(lower, upper, func(key, value []byte) (bool, error) {
		ns, err := r.space.OpenReadingOf(key)
		if err != nil || r.full(readingPlace{ns: ns}) {
			return false, err
		}
		rec, err := records.DecodeReading(value)
		if err != nil {
			return false, fmt.Errorf("reading of %s: %w", ns, err)
		}
		r.add(ns, &rec)
		r.sinceThen(ns, &rec)
		return true, nil
	})
}

func (r *readingsReader) readRows(view Reader, place readingPlace) error {
	if place.hour == 0 {
		place = readingPlace{hour: r.from.Hour}
	}
	lower, upper := r.space.Readings(place.hour, place.ns)
	return view.Scan(lower, upper, func(key, value []byte) (bool, error) {
		hour, ns, err := r.space.ReadingOf(key)
		if err != nil || r.full(readingPlace{hour, ns}) {
			return false, err
		}
		rec, err := records.DecodeReading(value)
		if err != nil {
			return false, fmt.Errorf("reading of %s: %w", ns, err)
		}
		r.add(ns, &rec)
		return true, nil
	})
}

// add is a reading and the hours before it that have none.
func (r *readingsReader) add(ns job.Namespace, rec *records.Reading) {
	q := rec.Quiet
	for hour := max(q.From, r.from.Hour); q.From > 0 && hour < rec.Hour; hour++ {
		r.say(Reading{NS: ns, Hour: hour, Seq: q.Seq, StoredByteHours: q.StoredBytes, OpenJobs: q.OpenJobs, StoredBytes: q.StoredBytes})
	}
	r.say(Reading{
		NS: ns, Hour: rec.Hour, Seq: rec.Seq, Jobs: rec.Jobs, Executions: rec.Executions, PayloadBytes: rec.PayloadBytes,
		StoredByteHours: rec.KeptAt(r.now) / records.ByteHour, OpenJobs: rec.OpenJobs, StoredBytes: rec.StoredBytes,
	})
}

// sinceThen are the hours up to now in which nothing happened.
func (r *readingsReader) sinceThen(ns job.Namespace, rec *records.Reading) {
	if rec.StoredBytes == 0 {
		return
	}
	for hour := max(rec.Hour+1, r.from.Hour); hour <= records.HourOf(r.now); hour++ {
		still := records.Reading{Hour: hour, StoredBytes: rec.StoredBytes}
		r.say(Reading{
			NS: ns, Hour: hour, Seq: rec.Seq, StoredByteHours: still.KeptAt(r.now) / records.ByteHour,
			OpenJobs: rec.OpenJobs, StoredBytes: rec.StoredBytes,
		})
	}
}

// say keeps a reading that is wanted.
func (r *readingsReader) say(v Reading) {
	ended := records.EndOfHour(v.Hour)
	if v.Hour >= r.from.Hour && (v.Seq > r.from.Seq || ended > r.from.Complete) {
		r.list = append(r.list, v)
	}
}

// OldReadings finds readings that are kept no longer: what to propose, nil for nothing.
// It looks at some namespaces from one on, and says with which to go on.
func OldReadings(g *statedb.Group, now int64, from job.Namespace) (c *command.TrimReadings, next job.Namespace, err error) {
	space := keys.In(g.Prefix())
	found := &command.TrimReadings{Before: oldestReading(now)}
	lower, upper := space.ReadingsBefore(found.Before)
	err = g.Scan(lower, upper, func(_, _ []byte) (bool, error) {
		c = found
		return false, nil
	})
	if err != nil {
		return nil, next, err
	}
	looked := 0
	lower, upper = space.OpenReadings(from)
	err = g.Scan(lower, upper, func(key, value []byte) (bool, error) {
		ns, err := space.OpenReadingOf(key)
		if err != nil {
			return false, err
		}
		if looked == readingsPage || len(found.Idle) == command.TrimReadingsMax {
			next = ns
			return false, nil
		}
		looked++
		r, err := records.DecodeReading(value)
		if err == nil && r.Hour < found.Before && r.OpenJobs == 0 && r.StoredBytes == 0 {
			found.Idle, c = append(found.Idle, ns), found
		}
		return err == nil, err
	})
	return c, next, err
}
