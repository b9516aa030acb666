package state

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
)

// A throttle counts the leases that began in the window that ends now; no window,
// wherever it is laid, has more than the limit (INV-7, with no tolerance). What is
// counted is kept in runs: starts that are close together are one run, and all of
// it leaves the window with its last. A start may therefore count up to
// window/startGrain longer than its window, never shorter.

// starts are the runs in the order of their times.
type starts []startRun

// startRun is n leases that began between first and last, Unix nanoseconds.
type startRun struct {
	first, last int64
	n           uint32
}

const (
	startGrain   = 32
	startRunsMax = 64 // Windows that change leave runs of other grains; the oldest are joined.
)

// live is s without what is out of the window at now.
func (s starts) live(now int64, t command.Throttle) starts {
	gone := 0
	for gone < len(s) && s[gone].out(now, t) {
		gone++
	}
	return s[gone:]
}

func (r startRun) out(now int64, t command.Throttle) bool { return now-r.last >= int64(t.Window) }

// room is how many leases may begin at now.
func (s starts) room(now int64, t command.Throttle) int64 {
	room := int64(t.Limit)
	for _, r := range s.live(now, t) {
		room -= int64(r.n)
	}
	return max(room, 0)
}

// opens is when there will be room again: now, if there is some.
func (s starts) opens(now int64, t command.Throttle) int64 {
	s = s.live(now, t)
	used := int64(0)
	for _, r := range s {
		used += int64(r.n)
	}
	for _, r := range s {
		if used < int64(t.Limit) {
			break
		}
		used -= int64(r.n)
		now = endOf(r.last, t)
	}
	return now
}

// endOf is when what began at a time leaves its window, never past the end of time.
func endOf(at int64, t command.Throttle) int64 {
	const endOfTime = 1<<63 - 1
	if int64(t.Window) > endOfTime-at {
		return endOfTime
	}
	return at + int64(t.Window)
}

// add counts a lease that begins at now, which is not before any other.
func (s starts) add(now int64, t command.Throttle) starts {
	s = slices.Clone(s.live(now, t))
	if k := len(s) - 1; k >= 0 && now-s[k].first <= int64(t.Window)/startGrain {
		s[k].last = now
		s[k].n++
		return s
	}
	s = append(s, startRun{now, now, 1})
	if len(s) > startRunsMax {
		s[1].first = s[0].first
		s[1].n += s[0].n
		s = s[1:]
	}
	return s
}

func (s starts) encode(w *codec.Writer) {
	w.Uint(uint64(len(s)))
	last := int64(0)
	for _, r := range s {
		w.Int(r.first - last) // Differences are short.
		w.Int(r.last - r.first)
		w.Uint(uint64(r.n))
		last = r.last
	}
}

func decodeStarts(r *codec.Reader) starts {
	n := r.Count(3)
	if n == 0 {
		return nil
	}
	s := make(starts, n)
	last := int64(0)
	for i := range s {
		s[i].first = last + r.Int()
		s[i].last = s[i].first + r.Int()
		s[i].n = r.Uint32()
		last = s[i].last
	}
	return s
}
