package shard

import "time"

// pace decides how long an entry waits for company. A single caller never waits. With
// several, those that were answered a moment ago will be back with their next call. Without
// waiting for them, closed-loop callers fall into two halves that take turns, and each
// pays two syncs. Waiting is worth it while the callers are back sooner than a sync
// takes; how long that is hangs on their connections, so it is measured.
type pace struct {
	expect int           // Those who may be in the next entry: those answered then, and those in line.
	until  time.Time     // How long the next entry waits for them,
	naps   int           // and in how many naps at most: a test's clock may stand still meanwhile.
	commit time.Duration // Smoothed time of a commit, without applying: what an entry less saves.
	back   time.Duration // Smoothed: how long after their answers all callers are back.

	callers  int  // Those answered last, and others in line or in the entry under way then.
	part     bool // Others were in line or under way, so how soon those are back says nothing of all.
	all      bool // The next entry waits for all of them.
	overlaps bool // Entries like the last one are stored while others are applied: see follow.
}

const (
	// gatherMax bounds the wait for callers who are back too late to be worth waiting for all
	// of them: some are back at once.
	gatherMax   = 500 * time.Microsecond
	gatherSleep = 20 * time.Microsecond
)

func (p *pace) committed(d time.Duration) { p.commit += (d - p.commit) / 8 }

// returned learns from the callers answered before. As long as some of them are missing, it is
// known only that it takes longer than until now.
func (p *pace) returned(r returns, now time.Time) {
	if r.answered == 0 || p.part {
		return
	}
	took := r.all.Sub(r.at)
	if r.all.IsZero() {
		took = max(now.Sub(r.at), p.back)
	}
	p.back += (took - p.back) / 4
}

// halves: callers take turns, because all of them together are not back sooner than a sync takes.
// While an entry is synced, others gather for the next.
func (p *pace) halves() bool { return p.overlaps && p.callers > 1 && !p.soon() }

// soon: all callers together are back sooner than a sync takes.
func (p *pace) soon() bool { return p.back < p.commit*7/8 }

// together has the next entry wait for everybody, to learn when all of them are back.
func (p *pace) together() { p.all = true }

// answered notes how many callers were answered just now, and how many others are in line or in
// the entry under way. The next entry may overlap with the one of those answered, or may not.
func (p *pace) answered(n, others int, overlaps bool, now time.Time) {
	all := p.all
	p.expect, p.until, p.naps, p.all = n+others, time.Time{}, 0, false
	p.callers, p.overlaps, p.part = n+others, overlaps, overlaps && others > 0
	if p.expect < 2 || n == 0 {
		return
	}
	wait := min(p.commit/2, gatherMax)
	// Those in line wait for the others only if all of them then share the sync.
	if all || p.soon() {
		wait = p.commit
	} else {
		p.expect = n
	}
	p.until, p.naps = now.Add(wait), int(wait/gatherSleep)
}

// wait sleeps a little if some of the callers just answered are still missing, and reports
// whether it did.
func (p *pace) wait(have int, nap func(time.Duration)) bool {
	if have >= p.expect || p.naps == 0 || !time.Now().Before(p.until) {
		return false
	}
	p.naps--
	nap(gatherSleep)
	return true
}
