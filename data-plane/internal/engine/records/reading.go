package records

import (
	"math"
	"math/bits"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// ReadingHoursKept is for how many hours readings are kept: whoever bills has that long to
// read them.
const ReadingHoursKept = 40 * 24

// ByteHour is a byte that is stored for an hour, in the unit of Reading.Kept.
const ByteHour = uint64(time.Hour / time.Millisecond)

// Reading is what was counted for a namespace in an hour of calendar time. It is billed:
// every number is exact, and none goes down within the hour.
//
// An hour in which nothing happened has no reading of its own. The reading after it says
// since when there was none, and what was stored meanwhile.
type Reading struct {
	Hour uint64 // Since 1970.
	Seq  uint64 // Index of the last entry that changed it.

	Jobs         uint64 // Came into existence.
	Executions   uint64 // Attempts that ended: acked, failed, or their lease ran out.
	PayloadBytes uint64 // Of those jobs.
	// Kept is what was stored for how long, in byte-milliseconds, in the first Until
	// milliseconds of the hour.
	Kept, Until uint64

	OpenJobs    uint64 // Have not ended.
	StoredBytes uint64 // Payloads and results of the jobs that are there.

	Quiet Quiet
}

// Quiet are the hours before a reading that have none; no hour if From is that of the
// reading, or 0.
type Quiet struct {
	From                  uint64 // The first of them.
	OpenJobs, StoredBytes uint64
	Seq                   uint64 // Index of the entry that ended them.
}

// NewReading begins to count for a namespace.
func NewReading(now int64) Reading {
	r := Reading{Hour: HourOf(now)}
	r.Until = r.into(now)
	return r
}

// into is how far a calendar time is into the hour, in milliseconds: all of it if that is
// over.
func (r *Reading) into(now int64) uint64 {
	hour := HourOf(now)
	switch {
	case hour < r.Hour:
		return 0
	case hour > r.Hour:
		return ByteHour
	}
	return uint64(now/int64(time.Millisecond)) - hour*ByteHour
}

// KeptAt is Kept at a calendar time, if nothing changes until then.
func (r *Reading) KeptAt(now int64) uint64 {
	return addUp(r.Kept, r.StoredBytes, max(r.into(now), r.Until)-r.Until)
}

// Pass takes the reading to a calendar time of its hour.
func (r *Reading) Pass(now int64) {
	r.Kept = r.KeptAt(now)
	r.Until = max(r.into(now), r.Until)
}

// Next is the reading of a later hour, begun at a calendar time by an entry.
func (r *Reading) Next(now int64, index uint64) Reading {
	next := NewReading(now)
	next.Kept = addUp(0, r.StoredBytes, next.Until)
	next.OpenJobs, next.StoredBytes = r.OpenJobs, r.StoredBytes
	if r.StoredBytes > 0 && r.Hour+1 < next.Hour {
		next.Quiet = Quiet{From: r.Hour + 1, OpenJobs: r.OpenJobs, StoredBytes: r.StoredBytes, Seq: index}
	}
	return next
}

// addUp is sum + n*times, or the largest number if that is larger.
func addUp(sum, n, times uint64) uint64 {
	high, product := bits.Mul64(n, times)
	total, carry := bits.Add64(sum, product, 0)
	if high > 0 || carry > 0 {
		return math.MaxUint64
	}
	return total
}

// Parts of a Reading. Stored: append only.
const readingQuiet codec.Mask = 1 << iota

func (r *Reading) parts() codec.Mask { return readingQuiet.If(r.Quiet != Quiet{}) }

func (r *Reading) Fields(f *codec.Fields) {
	for _, p := range []*uint64{
		&r.Hour, &r.Seq, &r.Jobs, &r.Executions, &r.PayloadBytes, &r.Kept, &r.Until, &r.OpenJobs, &r.StoredBytes,
	} {
		f.Uint(p)
	}
	parts := f.Parts(r.parts())
	if parts.Has(readingQuiet) {
		f.Uint(&r.Quiet.From)
		f.Uint(&r.Quiet.OpenJobs)
		f.Uint(&r.Quiet.StoredBytes)
		f.Uint(&r.Quiet.Seq)
	}
	f.Confirm(parts, r.parts())
}

func (r *Reading) Encode() []byte {
	f := newRecord(48)
	r.Fields(&f)
	return f.Written()
}

// DecodeReading reads what Reading.Encode wrote.
func DecodeReading(v []byte) (r Reading, err error) {
	f := openRecord(v)
	r.Fields(&f)
	return r, closeRecord("reading", &f)
}
