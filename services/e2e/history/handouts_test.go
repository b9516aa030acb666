package history

import (
	"strings"
	"testing"
	"time"
)

func TestHandOuts_EveryBreachIsFound(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(secs int) time.Time { return began.Add(time.Duration(secs) * time.Second) }
	for _, tt := range []struct {
		name, breach string
		change       func(h *History)
	}{
		{"nothing wrong", "", func(*History) {}},
		{"an answer that came twice", "", func(h *History) { h.HandOut("a", "lease 2", 2, at(8)) }},
		{"a lease that no event tells of", "INV-3: attempt 3 of a was handed out under 1 leases", func(h *History) { h.HandOut("a", "lease 3", 3, at(8)) }},
		{"one attempt, two leases", "INV-3: attempt 2 of a was handed out under 2 leases", func(h *History) { h.HandOut("a", "another", 2, at(8)) }},
		{"worked on twice", "INV-4: attempt 2 of a was worked on 2 times", func(h *History) { h.Handled("a", 2) }},
		{"worked on twice, by a run", "INV-4: attempt 2 of a was worked on 2 times", func(h *History) { h.Start("a", Run{Attempt: 2}) }},
		{"handed out after its end", "was asked for 1s after its end was confirmed", func(h *History) { h.HandOut("b", "lease b", 1, at(11)); h.Confirm("b", "lease b", at(10)) }},
		{"nobody heard of a lease", "INV-3 was not looked at", func(h *History) { clear(h.tokens) }},
		{"nobody heard of an end", "INV-3 was not looked at", func(h *History) { clear(h.confirms) }},
	} {
		h := New()
		h.HandOut("a", "lease 1", 1, at(1))
		h.Handled("a", 1)
		h.HandOut("a", "lease 2", 2, at(7))
		h.Handled("a", 2)
		h.Confirm("a", "lease 2", at(9))
		tt.change(h)
		found := strings.Join(h.CheckHandOuts(&good().Record), "\n")
		if tt.breach == "" && found != "" || !strings.Contains(found, tt.breach) {
			t.Errorf("%s: found %q, want %q", tt.name, found, tt.breach)
		}
	}
}

func TestHistory_AJobHadEndedByItsFirstConfirmation(t *testing.T) {
	t.Parallel()
	h, now := New(), time.Now()
	if _, ok := h.Ended("a"); ok {
		t.Error("it has ended")
	}
	h.Confirm("a", "lease", now.Add(time.Second))
	h.Confirm("a", "lease", now)
	if at, ok := h.Ended("a"); !ok || !at.Equal(now) {
		t.Errorf("it had ended at %s, want %s", at, now)
	}
}
