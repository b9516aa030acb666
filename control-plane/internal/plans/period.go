package plans

import (
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Period is the billing period of a time: the month in UTC.
func Period(at time.Time) (start, end time.Time) {
	y, m, _ := at.UTC().Date()
	return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC), time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
}

// Segment is a run of whole hours with one version of a plan.
type Segment struct {
	From, To    time.Time
	Plan        string
	PlanVersion int64
}

// Segments divides a span of whole hours, by changes as the store lists them. An hour belongs
// to the plan in force at its beginning. Hours before the first change belong to none.
func Segments(changes []store.SubscriptionChange, from, to time.Time) (out []Segment) {
	for i, c := range changes {
		begin, end := nextHour(c.At), to
		if i+1 < len(changes) {
			end = nextHour(changes[i+1].At)
		}
		begin, end = later(begin, from), earlier(end, to)
		if !begin.Before(end) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Plan == c.Plan && out[n-1].PlanVersion == c.PlanVersion && out[n-1].To.Equal(begin) {
			out[n-1].To = end
			continue
		}
		out = append(out, Segment{From: begin, To: end, Plan: c.Plan, PlanVersion: c.PlanVersion})
	}
	return out
}

// nextHour is the first whole hour that isn't before a time.
func nextHour(t time.Time) time.Time {
	h := t.UTC().Truncate(time.Hour)
	if h.Before(t) {
		h = h.Add(time.Hour)
	}
	return h
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
