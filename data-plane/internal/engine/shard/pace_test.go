package shard

import (
	"testing"
	"time"
)

// Callers in two halves: one half is answered while the other is in line.
func TestPace_HalvesBecomeOneWhenTheyAreBackSooner(t *testing.T) {
	for _, c := range []struct {
		name   string
		back   time.Duration // Of one half.
		expect int
		wait   time.Duration
	}{
		// Who is late once is waited for too, as long as it takes less than the sync that it would pay.
		{"soon", 300 * time.Microsecond, 10, time.Millisecond},
		{"late", 950 * time.Microsecond, 5, gatherMax},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Unix(0, 0)
			var p pace
			for range 100 {
				p.committed(time.Millisecond)
				p.returned(returns{answered: 5, at: now, all: now.Add(c.back)}, now.Add(time.Millisecond))
				now = now.Add(time.Millisecond)
				p.answered(5, 5, false, now)
			}
			if p.expect != c.expect {
				t.Errorf("the next entry waits for %d callers, not %d", p.expect, c.expect)
			}
			if wait := p.until.Sub(now).Round(time.Microsecond); wait != c.wait {
				t.Errorf("it waits for %s, not %s", wait, c.wait)
			}
		})
	}
}

func TestPace_NobodyWaitsForCallersWhoStayAway(t *testing.T) {
	now := time.Unix(0, 0)
	p := pace{commit: time.Millisecond}
	for range 20 {
		p.returned(returns{answered: 2, at: now}, now.Add(5*time.Millisecond))
		now = now.Add(5 * time.Millisecond)
		p.answered(2, 3, false, now)
	}
	if p.expect != 2 || p.until.Sub(now) > gatherMax {
		t.Errorf("the next entry waits for %d callers for %s", p.expect, p.until.Sub(now))
	}
	p.answered(1, 0, false, now)
	if !p.until.IsZero() {
		t.Error("a single caller waits")
	}
}

// What a round in between sees too early says nothing.
func TestPace_MissingCallersOnlyEverCountAsLate(t *testing.T) {
	now := time.Unix(0, 0)
	p := pace{back: 100 * time.Microsecond}
	p.returned(returns{answered: 4, at: now}, now.Add(50*time.Microsecond))
	if p.back != 100*time.Microsecond {
		t.Errorf("callers are taken to be back after %s", p.back)
	}
}

// Where entries overlap, callers in halves go on taking turns until an entry with all of them shows that they are
// back together sooner than a sync takes.
func TestPace_WhereEntriesOverlapOnlyAllOfThemTellHowSoonTheyAreBack(t *testing.T) {
	now := time.Unix(0, 0)
	p := pace{commit: time.Millisecond, back: 2 * time.Millisecond}
	answer := func(n, others int, back time.Duration) {
		p.returned(returns{answered: n, at: now, all: now.Add(back)}, now.Add(time.Millisecond))
		now = now.Add(time.Millisecond)
		p.answered(n, others, true, now)
	}
	for range 100 {
		answer(5, 5, 100*time.Microsecond)
	}
	if !p.halves() || p.expect != 5 {
		t.Errorf("half of the callers is taken for all: %+v", p)
	}
	p.together()
	answer(5, 5, 100*time.Microsecond)
	if wait := p.until.Sub(now); p.expect != 10 || wait != p.commit {
		t.Errorf("the next entry waits %s for %d callers", wait, p.expect)
	}
	for range 20 {
		answer(10, 0, 100*time.Microsecond)
	}
	if p.halves() {
		t.Errorf("they still take turns: %+v", p)
	}
}
