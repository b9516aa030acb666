package shard

import "time"

// pace decides how long an entry waits for company. A single caller never waits.
// With several, those that were answered a moment ago will be back at once with
// their next call; without waiting for them closed-loop callers fall into two
// alternating halves and every one pays two syncs.
type pace struct {
	answered int           // Callers answered by the last entry.
	at       time.Time     // When.
	commit   time.Duration // Smoothed time of a commit.
}

const (
	gatherMax   = 500 * time.Microsecond
	gatherSleep = 20 * time.Microsecond
)

func (p *pace) committed(d time.Duration) { p.commit += (d - p.commit) / 8 }

// done notes how many callers were answered just now.
func (p *pace) done(answered int) { p.answered, p.at = answered, time.Now() }

func (p *pace) deadline() time.Time {
	if p.answered < 2 {
		return time.Time{}
	}
	return p.at.Add(min(p.commit/2, gatherMax))
}

// wait sleeps a little if some of the callers just answered are still missing, and reports
// whether it did.
func (p *pace) wait(have int, until time.Time) bool {
	if have >= p.answered || until.IsZero() || !time.Now().Before(until) {
		return false
	}
	sleep(gatherSleep)
	return true
}
