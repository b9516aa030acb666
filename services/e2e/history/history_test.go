package history

import (
	"strings"
	"testing"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// A check that finds nothing in a bad history checks nothing.
func TestHistory_EveryBreachIsFound(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	done := func(crashes int) *corvo.JobInfo {
		return &corvo.JobInfo{State: corvo.StateCompleted, Crashes: crashes}
	}
	// good is a job that was Enqueued, lost with its worker, run again and ended.
	good := func() *History {
		h := New()
		h.Enqueue(Enqueued{ID: "a", Key: "k", Begun: at(0), Acked: at(time.Second)})
		h.Start("a", Run{Key: "k", Worker: "w1", Attempt: 1, At: at(2 * time.Second)})
		h.Start("a", Run{Key: "k", Worker: "w2", Attempt: 2, At: at(8 * time.Second)})
		h.Confirm("a", "lease 2", at(9*time.Second))
		return h
	}
	cases := []struct {
		name   string
		change func(h *History, stored map[string]*corvo.JobInfo)
		breach string
	}{
		{name: "nothing wrong", change: func(*History, map[string]*corvo.JobInfo) {}},
		{name: "lost", breach: "was acknowledged at", change: func(_ *History, stored map[string]*corvo.JobInfo) {
			delete(stored, "a")
		}},
		{name: "dead", breach: "was confirmed and it is", change: func(_ *History, stored map[string]*corvo.JobInfo) {
			stored["a"].State = corvo.StateDead
		}},
		{name: "never run", breach: "was never run", change: func(h *History, stored map[string]*corvo.JobInfo) {
			h.Enqueue(Enqueued{ID: "b", Key: "k2", Begun: at(0), Acked: at(time.Second)})
			stored["b"] = done(0)
		}},
		{name: "handed out after its end", breach: "after its end was confirmed", change: func(h *History, stored map[string]*corvo.JobInfo) {
			h.Start("a", Run{Key: "k", Worker: "w3", Attempt: 3, At: at(20 * time.Second)})
			stored["a"].Crashes = 2
		}},
		{name: "same attempt twice", breach: "as attempt 2 after attempt 2", change: func(h *History, stored map[string]*corvo.JobInfo) {
			h.runs["a"][0].Attempt = 2
		}},
		{name: "an earlier attempt, asked for after a later one", breach: "as attempt 1 after attempt 2", change: func(h *History, _ map[string]*corvo.JobInfo) {
			h.runs["a"][0].Attempt, h.runs["a"][1].Attempt = 2, 1
		}},
		{name: "an answer that came late", change: func(h *History, _ map[string]*corvo.JobInfo) {
			h.HandOut("a", "lease 1", 1, at(2*time.Second))
			h.HandOut("a", "lease 2", 2, at(7*time.Second))
			h.runs["a"][0].At = at(9500 * time.Millisecond)
		}},
		{name: "a later attempt after the end of an earlier one", breach: "after its end was confirmed", change: func(h *History, _ map[string]*corvo.JobInfo) {
			h.HandOut("a", "lease 1", 1, at(2*time.Second))
			h.HandOut("a", "lease 2", 2, at(2*time.Second))
			h.confirms["a"][0] = confirm{"lease 1", at(9 * time.Second)}
		}},
		{name: "before the lease ran out", breach: "after its lease", change: func(h *History, _ map[string]*corvo.JobInfo) {
			h.runs["a"][1].At = at(3 * time.Second)
		}},
		{name: "just before the lease ran out", breach: "after its lease", change: func(h *History, _ map[string]*corvo.JobInfo) {
			h.runs["a"][1].At = at(6 * time.Second)
		}},
		{name: "crashed its workers, and is not dead", breach: "INV-1: b was acknowledged at", change: func(h *History, stored map[string]*corvo.JobInfo) {
			h.Enqueue(Enqueued{ID: "b", Key: "k2", Begun: at(0), Acked: at(time.Second)})
			h.Start("b", Run{Key: "k2", Worker: "w1", Attempt: 1, At: at(2 * time.Second)})
			stored["b"] = &corvo.JobInfo{State: corvo.StatePending, Crashes: crashes}
		}},
		{name: "again without a cause", breach: "its record tells of 0 leases", change: func(_ *History, stored map[string]*corvo.JobInfo) {
			stored["a"].Crashes = 0
		}},
		{name: "two leases completed", breach: "under two leases", change: func(h *History, _ map[string]*corvo.JobInfo) {
			h.Confirm("a", "lease 1", at(9*time.Second))
		}},
		{name: "dead because it took too many workers with it", change: func(h *History, stored map[string]*corvo.JobInfo) {
			h.Enqueue(Enqueued{ID: "b", Key: "k2", Begun: at(0), Acked: at(time.Second)})
			h.Start("b", Run{Key: "k2", Worker: "w1", Attempt: 1, At: at(2 * time.Second)})
			stored["b"] = &corvo.JobInfo{State: corvo.StateDead, Crashes: crashes}
		}},
		{name: "dead for no such reason", breach: "INV-1: b was acknowledged at", change: func(h *History, stored map[string]*corvo.JobInfo) {
			h.Enqueue(Enqueued{ID: "b", Key: "k2", Begun: at(0), Acked: at(time.Second)})
			h.Start("b", Run{Key: "k2", Worker: "w1", Attempt: 1, At: at(2 * time.Second)})
			stored["b"] = &corvo.JobInfo{State: corvo.StateDead, Crashes: crashes - 1}
		}},
		{name: "one key, two jobs", breach: "made two jobs", change: func(h *History, stored map[string]*corvo.JobInfo) {
			h.Start("b", Run{Key: "k", Worker: "w1", Attempt: 1, At: at(3 * time.Second)})
			stored["b"] = done(0)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, stored := good(), map[string]*corvo.JobInfo{"a": done(1)}
			c.change(h, stored)
			breaches := h.Check(stored, 5*time.Second)
			if c.breach == "" && len(breaches) > 0 || c.breach != "" && !strings.Contains(strings.Join(breaches, "\n"), c.breach) {
				t.Errorf("found %q, want %q", breaches, c.breach)
			}
		})
	}
}

func TestHistory_AJobThatIsNotWhatWasSentIsFound(t *testing.T) {
	t.Parallel()
	h := New()
	h.Enqueue(Enqueued{ID: "a", Key: "k"})
	stored := map[string]*corvo.JobInfo{"a": {Payload: Payload(KeyOf(Payload("k")))}}
	if found := h.Changed(stored); len(found) > 0 {
		t.Errorf("nothing changed: %v", found)
	}
	stored["a"].Payload = Payload("other")
	if found := h.Changed(stored); len(found) != 1 {
		t.Errorf("another payload: %v", found)
	}
}
