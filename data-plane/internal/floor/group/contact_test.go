package group

import (
	"testing"
	"time"
)

func TestContact_BelievesASilenceAfterATimeoutAndASecondLook(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	now := time.Now()
	c := contact{timeout: timeout, began: now.Add(-10 * time.Millisecond)}
	steps := []struct {
		what      string
		following bool
		last      time.Time
		place     int
		wake      bool
		next      time.Duration
	}{
		{what: "started", following: true, next: timeout/firstPart - 10*time.Millisecond},
		{what: "started, its place is later", following: true, place: 2, next: 175*time.Millisecond - 10*time.Millisecond},
		{what: "heard just now", following: true, last: now, next: timeout},
		{what: "heard a while ago", following: true, last: now.Add(-400 * time.Millisecond), next: 100 * time.Millisecond},
		{what: "its place is later", following: true, last: now.Add(-timeout), place: 2, next: 200 * time.Millisecond},
		{what: "silent: looks again", following: true, last: now.Add(-timeout), next: secondLook},
		{what: "heard meanwhile", following: true, last: now, next: timeout},
		{what: "silent anew", following: true, last: now.Add(-timeout), next: secondLook},
		{what: "still silent", following: true, last: now.Add(-timeout), wake: true, next: timeout},
		{what: "stands for election", last: now.Add(-timeout), next: timeout},
		{what: "follows again and looks twice again", following: true, last: now.Add(-timeout), next: secondLook},
		{what: "heard of that leader", following: true, last: now, next: timeout},
	}
	for _, s := range steps {
		wake, next := c.look(s.following, s.last, now, s.place)
		if wake != s.wake || next != s.next {
			t.Errorf("%s: wake %v and look after %s, want %v and %s", s.what, wake, next, s.wake, s.next)
		}
	}
}

func TestContact_AFirstLeaderIsWaitedForAQuarterAsLong(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := contact{timeout: time.Second, began: now.Add(-time.Second / firstPart)}
	for i, want := range []bool{false, true, false, true} { // Each looks twice.
		if wake, _ := c.look(true, time.Time{}, now, 0); wake != want {
			t.Errorf("look %d: wake %v", i, wake)
		}
	}
	patient := contact{timeout: time.Minute, began: now}
	if _, next := patient.look(true, time.Time{}, now, 1); next != (firstMost+firstMost/placeSteps)/firstPart {
		t.Errorf("a replica with a timeout of a minute looks after %s", next)
	}
	alone := contact{timeout: soloHeartbeat, began: now}
	if _, next := alone.look(true, time.Time{}, now, 0); next != firstLeast {
		t.Errorf("a replica without others looks after %s", next)
	}
}

func TestContact_GroupsOfOneNodeDoNotStandInTheSameInstant(t *testing.T) {
	t.Parallel()
	const timeout, groups, members = 500 * time.Millisecond, 32, 3
	for lost := range members {
		stands := make(map[time.Duration]int) // When, and how many groups.
		first := make(map[int]int)            // Who stands first, and in how many groups.
		for id := uint32(1); id <= groups; id++ {
			c := contact{timeout: timeout, group: id}
			earliest, second, who := time.Hour, time.Hour, 0
			for m := range members {
				at := c.patience(timeout, placeIn(id, m, members))
				switch {
				case m == lost:
				case at < earliest:
					earliest, second, who = at, earliest, m
				default:
					second = min(second, at)
				}
			}
			if second-earliest < timeout/placeSteps {
				t.Errorf("group %d: two members stand %s apart", id, second-earliest)
			}
			if earliest > timeout+timeout/placeSteps+timeout/10 {
				t.Errorf("group %d: the first stands after %s", id, earliest)
			}
			stands[earliest]++
			first[who]++
		}
		for at, n := range stands {
			if n > groups/staggers*2 {
				t.Errorf("member %d lost: %d of %d groups stand after %s", lost, n, groups, at)
			}
		}
		if len(first) != members-1 || min(first[(lost+1)%members], first[(lost+2)%members]) < groups/members-1 {
			t.Errorf("member %d lost: those left stand first in %v groups", lost, first)
		}
	}
}
