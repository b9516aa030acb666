package records

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However often a reading is taken on, it has what was stored, times how long.
func TestReading_KeepsBytesTimesTimeHoweverOftenItIsTakenOn(t *testing.T) {
	t.Parallel()
	const begin = int64(500_000) * int64(time.Hour)
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint64Range(0, ByteHour-1).Draw(t, "first")
		r := NewReading(begin + int64(first)*int64(time.Millisecond))
		var want, at = uint64(0), first
		for range rapid.IntRange(0, 10).Draw(t, "changes") {
			next := rapid.Uint64Range(at, ByteHour).Draw(t, "at")
			want += r.StoredBytes * (next - at)
			at = next
			r.Pass(begin + int64(next)*int64(time.Millisecond))
			r.StoredBytes = rapid.Uint64Range(0, 1<<30).Draw(t, "stored")
		}
		if r.Kept != want {
			t.Fatalf("kept %d, want %d", r.Kept, want)
		}
		later := begin + rapid.Int64Range(int64(time.Hour), int64(100*time.Hour)).Draw(t, "later")
		if got := r.KeptAt(later); got != want+r.StoredBytes*(ByteHour-at) {
			t.Fatalf("an hour that is over kept %d", got)
		}
		next := r.Next(later, 9)
		if into := uint64(later/int64(time.Millisecond)) - next.Hour*ByteHour; next.Kept != r.StoredBytes*into || next.StoredBytes != r.StoredBytes {
			t.Fatalf("the next hour begins with %+v", next)
		}
		quiet := next.Hour - r.Hour - 1
		if got := next.Quiet; (got.From != 0) != (quiet > 0 && r.StoredBytes > 0) || got.From != 0 && (got.From != r.Hour+1 || got.StoredBytes != r.StoredBytes || got.Seq != 9) {
			t.Fatalf("after %d quiet hours: %+v", quiet, got)
		}
	})
}

func TestReading_StopsAtTheLargestNumber(t *testing.T) {
	t.Parallel()
	r := NewReading(0)
	r.StoredBytes = math.MaxUint64 / 2
	r.Pass(int64(time.Hour) - 1)
	if r.Kept != math.MaxUint64 {
		t.Errorf("kept %d", r.Kept)
	}
	r.StoredBytes = 1
	if got := r.KeptAt(int64(time.Hour)); got != math.MaxUint64 {
		t.Errorf("kept %d", got)
	}
}
