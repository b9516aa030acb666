package records

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// A throttle counts the leases that began in the window that ends now; no window,
// wherever it is laid, has more than the limit (INV-7, with no tolerance). What is
// counted is kept in runs: starts that are close together are one run, and all of
// it leaves the window with its last. A start may therefore count up to
// window/startGrain longer than its window, never shorter.

// Starts are the runs in the order of their times.
type Starts []StartRun

// StartRun is n leases that began between first and last, Unix nanoseconds.
type StartRun struct {
	First, Last int64
	N           uint32
}

const (
	StartGrain   = 32
	StartRunsMax = 64 // Windows that change leave runs of other grains; the oldest are joined.
)

// live is s without what is out of the window at now.
func (s Starts) live(now int64, t command.Throttle) Starts {
	gone := 0
	for gone < len(s) && s[gone].out(now, t) {
		gone++
	}
	return s[gone:]
}

func (r StartRun) out(now int64, t command.Throttle) bool { return now-r.Last >= int64(t.Window) }

// Room is how many leases may begin at now.
func (s Starts) Room(now int64, t command.Throttle) int64 {
	room := int64(t.Limit)
	for _, r := range s.live(now, t) {
		room -= int64(r.N)
	}
	return max(room, 0)
}

// Opens is when there will be room again: now, if there is some.
func (s Starts) Opens(now int64, t command.Throttle) int64 {
	s = s.live(now, t)
	used := int64(0)
	for _, r := range s {
		used += int64(r.N)
	}
	for _, r := range s {
		if used < int64(t.Limit) {
			break
		}
		used -= int64(r.N)
		now = SaturatingAdd(r.Last, int64(t.Window))
	}
	return now
}

// Add counts a lease that begins at now, which is not before any other.
func (s Starts) Add(now int64, t command.Throttle) Starts {
	s = slices.Clone(s.live(now, t))
	if k := len(s) - 1; k >= 0 && now-s[k].First <= int64(t.Window)/StartGrain {
		s[k].Last = now
		s[k].N++
		return s
	}
	s = append(s, StartRun{now, now, 1})
	if len(s) > StartRunsMax {
		s[1].First = s[0].First
		s[1].N += s[0].N
		s = s[1:]
	}
	return s
}

func (s *Starts) fields(f *codec.Fields) {
	last := int64(0)
	for i := range codec.Items(f, (*[]StartRun)(s), 3) {
		r := &(*s)[i]
		f.Since(&r.First, last)
		f.Since(&r.Last, r.First)
		f.Uint32(&r.N)
		last = r.Last
	}
}
