package records

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
)

// No window, wherever it is laid, has more starts than the limit (INV-7, without
// tolerance); a start is held back no longer than a grain of the window; and opens
// is exactly when there is room.
func TestThrottle_NoWindowHasMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := command.Throttle{
			Limit:  uint32(rapid.IntRange(1, 8).Draw(t, "limit")),
			Window: time.Duration(rapid.SampledFrom([]int64{1, 31, 1000, 1_000_000}).Draw(t, "window")),
		}
		var s Starts
		var taken []int64
		now := epoch
		within := func(at int64, long time.Duration) (n int) {
			for _, began := range taken {
				if at-began < int64(long) {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "jump") {
				now = max(now, s.Opens(now, limit))
			} else {
				now += rapid.Int64Range(0, int64(limit.Window)/3+1).Draw(t, "pass")
			}
			opens := s.Opens(now, limit)
			if open := s.Room(now, limit) > 0; open != (opens == now) {
				t.Fatalf("room %v, and it opens %d from now", open, opens-now)
			} else if !open {
				if s.Room(opens, limit) == 0 || s.Room(opens-1, limit) > 0 {
					t.Fatalf("it does not open at %d", opens)
				}
				if within(now, limit.Window+limit.Window/StartGrain+1) < int(limit.Limit) {
					t.Fatalf("a start is held back for no reason: %+v", s)
				}
				continue
			}
			taken = append(taken, now)
			before := slices.Clone(s)
			after := s.Add(now, limit)
			if !slices.Equal(s, before) { // The leader's memory may still hold it.
				t.Fatalf("%+v became %+v", before, s)
			}
			s = after
			if n := within(now, limit.Window); n > int(limit.Limit) {
				t.Fatalf("%d starts in a window of %d", n, limit.Limit)
			}
		}
	})
}

// However often the throttle is changed, what is remembered of starts is bounded.
func TestThrottle_RunsAreBoundedWhateverTheWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s Starts
		now := epoch
		for range 300 {
			limit := command.Throttle{Limit: 1 << 30, Window: time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "window"))}
			now += rapid.Int64Range(0, 1<<36).Draw(t, "pass")
			before := s.Room(now, limit)
			if s = s.Add(now, limit); len(s) > StartRunsMax || s.Room(now, limit) >= before {
				t.Fatalf("%d runs, room %d after %d", len(s), s.Room(now, limit), before)
			}
		}
	})
}

// Runs that are joined to keep the bound are all counted.
func TestThrottle_JoinedRunsKeepTheirCount(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	var s Starts
	now, began := epoch, int64(0)
	for window := time.Duration(3200); window < 3200*1_000_000; window *= 10 { // Longer and longer: nothing leaves.
		for range StartGrain / 2 {
			now += int64(window)/StartGrain + 1
			s = s.Add(now, command.Throttle{Limit: limit, Window: window})
			began++
		}
	}
	whole := command.Throttle{Limit: limit, Window: time.Hour}
	if len(s) != StartRunsMax || began <= StartRunsMax {
		t.Fatalf("%d runs of %d starts prove little", len(s), began)
	}
	if room := s.Room(now, whole); room != limit-began {
		t.Fatalf("room for %d after %d of %d starts", room, began, limit)
	}
}
