package cron

import (
	"math"
	"time"
)

// Rule says at which instants a schedule runs; all are whole seconds. It never
// changes.
type Rule struct {
	second, minute, hour, dom, month, dow uint64 // Sets of allowed values.
	// bothDays: day of month and day of week must both match, because one of them is
	// "*"; otherwise one of the two is enough.
	bothDays bool
	// everyHour: the rule follows elapsed time, not the wall clock.
	everyHour bool
	zone      *time.Location

	every, anchor int64 // Seconds; a rule with every has no sets.
}

// horizon bounds the search for a run, in seconds: 29 February is never further
// away than eight years.
const horizon = 9 * 366 * 24 * 3600

const day = 24 * 3600

// Next is the first run after a time, in the rule's zone; zero if there is none.
func (r *Rule) Next(after time.Time) time.Time {
	from := after.Unix() + 1
	if r.every > 0 {
		return r.time(r.anchor + (r.passed(from-1)+1)*r.every)
	}
	for until := from + horizon; from < until; {
		p := r.periodAt(from)
		if at, ok := r.first(&p, from, min(p.end, until)); ok {
			return r.time(at)
		}
		from = p.end
	}
	return time.Time{}
}

// Count is how many runs there are after after, up to and including until.
func (r *Rule) Count(after, until time.Time) int64 {
	from, to := after.Unix()+1, until.Unix()+1
	if from >= to {
		return 0
	}
	if r.every > 0 {
		return r.passed(to-1) - r.passed(from-1)
	}
	var n int64
	for from < to {
		p := r.periodAt(from)
		end := min(p.end, to)
		if from == p.start && r.owed(&p) && r.countLocal(p.start+p.offset, p.start+p.offset+1) == 0 {
			n++
		}
		n += r.countLocal(max(from+p.offset, r.fresh(&p)), end+p.offset)
		from = end
	}
	return n
}

// Between lists the runs after after, up to and including until, in order; of more
// than limit runs only the latest.
func (r *Rule) Between(after, until time.Time, limit int) []time.Time {
	if limit <= 0 {
		return nil
	}
	if r.Count(after, until) > int64(limit) {
		after = r.startOf(after, until, int64(limit))
	}
	var out []time.Time
	for at := r.Next(after); !at.IsZero() && !at.After(until); at = r.Next(at) {
		out = append(out, at)
	}
	return out
}

// startOf finds the time after which exactly the n latest runs remain. A second has
// at most one run, so a search by Count finds it.
func (r *Rule) startOf(after, until time.Time, n int64) time.Time {
	enough, few := after.Unix(), until.Unix()
	for few-enough > 1 {
		middle := enough + (few-enough)/2
		if r.Count(time.Unix(middle, 0), until) >= n {
			enough = middle
		} else {
			few = middle
		}
	}
	return time.Unix(enough, 0)
}

// passed is how many intervals have ended at a time.
func (r *Rule) passed(at int64) int64 { return max(at-r.anchor, 0) / r.every }

func (r *Rule) time(at int64) time.Time { return time.Unix(at, 0).In(r.zone) }

// period is a stretch of time in which a zone's clocks do not change. Local seconds
// are what the clocks show, counted since 1970 as if they were UTC: time plus
// offset.
type period struct {
	start, end int64 // Seconds since 1970, without the end.
	offset     int64
	change     int64 // How far the clocks went forward at the start; negative: back.
}

func (r *Rule) periodAt(at int64) period {
	t := r.time(at)
	_, offset := t.Zone()
	p := period{start: math.MinInt64 / 2, end: math.MaxInt64 / 2, offset: int64(offset)}
	start, end := t.ZoneBounds()
	if !end.IsZero() {
		p.end = end.Unix()
	}
	if p.end <= at { // Go 1.26 ends leap years a day early where a zone file goes by its last rule.
		p.end = at + day
	}
	if !start.IsZero() {
		p.start = start.Unix()
		_, before := start.Add(-time.Second).Zone()
		p.change = int64(offset - before)
	}
	return p
}

// first finds the first run of a period in [from, to).
func (r *Rule) first(p *period, from, to int64) (int64, bool) {
	if from == p.start && r.owed(p) {
		return from, true
	}
	local, ok := r.firstLocal(max(from+p.offset, r.fresh(p)), to+p.offset)
	return local - p.offset, ok
}

// owed reports whether the runs skipped just before the period come at its start.
func (r *Rule) owed(p *period) bool {
	if r.everyHour || p.change <= 0 {
		return false
	}
	_, ok := r.firstLocal(p.start+p.offset-p.change, p.start+p.offset)
	return ok
}

// fresh is the local time up to which the period repeats what the clocks showed
// before, if that matters to the rule.
func (r *Rule) fresh(p *period) int64 {
	if r.everyHour || p.change >= 0 {
		return math.MinInt64
	}
	return p.start + p.offset - p.change
}
