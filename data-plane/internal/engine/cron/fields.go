package cron

import (
	"math/bits"
	"time"
)

// The functions of this file know nothing of zones: they work on local seconds, see
// period.

// firstLocal finds the first second in [from, to) that the fields allow.
func (r *Rule) firstLocal(from, to int64) (int64, bool) {
	for d := floorDay(from); d < to; d += day {
		if !r.onDay(d) {
			continue
		}
		if s, ok := r.onClock(int(max(from-d, 0))); ok {
			return d + int64(s), d+int64(s) < to
		}
	}
	return 0, false
}

// countLocal counts the seconds in [from, to) that the fields allow.
func (r *Rule) countLocal(from, to int64) int64 {
	var n int64
	for d := floorDay(from); d < to && from < to; d += day {
		if r.onDay(d) {
			n += r.countClock(min(to-d, day)) - r.countClock(max(from-d, 0))
		}
	}
	return n
}

func floorDay(at int64) int64 {
	d := at - at%day
	if d > at {
		d -= day
	}
	return d
}

// onDay reports whether the rule runs on the day that begins at d.
func (r *Rule) onDay(d int64) bool {
	t := time.Unix(d, 0).UTC()
	_, month, date := t.Date()
	if r.month>>month&1 == 0 {
		return false
	}
	dom, dow := r.dom>>date&1 == 1, r.dow>>t.Weekday()&1 == 1
	if r.bothDays {
		return dom && dow
	}
	return dom || dow
}

// onClock is the first second of a day, at or after from, at which the rule runs.
func (r *Rule) onClock(from int) (int, bool) {
	h, m, s := from/3600, from/60%60, from%60
	if r.hour>>h&1 == 1 {
		if r.minute>>m&1 == 1 {
			if s, ok := atLeast(r.second, s); ok {
				return h*3600 + m*60 + s, true
			}
		}
		if m, ok := atLeast(r.minute, m+1); ok {
			return h*3600 + m*60 + bits.TrailingZeros64(r.second), true
		}
	}
	h, ok := atLeast(r.hour, h+1)
	return h*3600 + bits.TrailingZeros64(r.minute)*60 + bits.TrailingZeros64(r.second), ok
}

// atLeast is the smallest value of a set that is not below n.
func atLeast(set uint64, n int) (int, bool) {
	rest := set >> n
	return n + bits.TrailingZeros64(rest), rest != 0
}

// countClock counts the seconds of a day, before the given one, at which the rule
// runs.
func (r *Rule) countClock(before int64) int64 {
	h, m, s := before/3600, before/60%60, before%60
	minute := int64(bits.OnesCount64(r.second))
	hour := int64(bits.OnesCount64(r.minute)) * minute
	n := below(r.hour, h) * hour
	if r.hour>>h&1 == 1 {
		n += below(r.minute, m) * minute
		if r.minute>>m&1 == 1 {
			n += below(r.second, s)
		}
	}
	return n
}

// below counts the values of a set below n.
func below(set uint64, n int64) int64 { return int64(bits.OnesCount64(set & (1<<n - 1))) }
