package ratelimit

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestWords_AreForPeople(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Second: "a second", 90 * time.Second: "90 seconds", 60 * time.Minute: "60 minutes",
		3 * time.Hour: "3 hours", 150*time.Minute + time.Second: "3 hours",
	} {
		if got := words(d); !strings.HasPrefix(got, want) {
			t.Errorf("words(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestAnonymous_AFloodMeetsItsOwnNetworkOnly(t *testing.T) {
	t.Parallel()
	s, now := NewAnonymous(), time.Unix(1000, 0)
	taken := 0
	for s.Take("203.0.113.7", now) == nil {
		taken++
	}
	if taken != int(anonymousNarrow.Burst) {
		t.Errorf("%d at once", taken)
	}
	refusal := s.Take("203.0.113.7:99", now)
	if refusal == nil || refusal.RetryAfter <= 0 {
		t.Fatalf("%v", refusal)
	}
	// The time is true: a moment before it is refused, then it is not.
	if s.Take("203.0.113.7", now.Add(refusal.RetryAfter-time.Millisecond)) == nil || s.Take("203.0.113.7", now.Add(refusal.RetryAfter)) != nil {
		t.Error("the time to wait is not true")
	}
	if s.Take("203.0.113.8", now) != nil || s.Take("198.51.100.1", now) != nil {
		t.Error("a neighbour pays for it")
	}
	// Whoever has a whole /48 meets the wider limit.
	taken = 0
	for i := 0; s.Take(fmt.Sprintf("2001:db8:1:%x::1", i), now) == nil; i++ {
		taken++
	}
	if taken != int(anonymousWide.Burst) {
		t.Errorf("%d from one /48", taken)
	}
	if s.Take("2001:db8:2::1", now) != nil {
		t.Error("another /48 pays for it")
	}
}

func TestBuckets_MemoryIsBounded(t *testing.T) {
	t.Parallel()
	b, now := NewBuckets(Rate{PerSecond: 1, Burst: 2}), time.Unix(1000, 0)
	for i := range bucketsMax + 1000 {
		b.Take(fmt.Sprint(i), now)
	}
	if len(b.all) > bucketsMax {
		t.Errorf("%d entries", len(b.all))
	}
}
