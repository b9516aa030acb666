package group

import (
	"testing"
	"time"
)

func TestContact_BelievesASilenceAfterATimeoutAndASecondLook(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	now := time.Now()
	c := contact{timeout: timeout}
	steps := []struct {
		what      string
		following bool
		last      time.Time
		place     int
		wake      bool
		next      time.Duration
	}{
		{what: "never heard of a leader", following: true, next: timeout},
		{what: "heard just now", following: true, last: now, next: timeout},
		{what: "heard a while ago", following: true, last: now.Add(-400 * time.Millisecond), next: 100 * time.Millisecond},
		{what: "its place is later", following: true, last: now.Add(-timeout), place: 2, next: 200 * time.Millisecond},
		{what: "silent: looks again", following: true, last: now.Add(-timeout), next: secondLook},
		{what: "heard meanwhile", following: true, last: now, next: timeout},
		{what: "silent anew", following: true, last: now.Add(-timeout), next: secondLook},
		{what: "still silent", following: true, last: now.Add(-timeout), wake: true, next: timeout},
		{what: "stands for election", last: now.Add(-timeout), next: timeout},
		{what: "follows again and looks twice again", following: true, last: now.Add(-timeout), next: secondLook},
	}
	for _, s := range steps {
		wake, next := c.look(s.following, s.last, now, s.place)
		if wake != s.wake || next != s.next {
			t.Errorf("%s: wake %v and look after %s, want %v and %s", s.what, wake, next, s.wake, s.next)
		}
	}
}
