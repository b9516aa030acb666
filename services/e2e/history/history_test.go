package nemesis

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
	// good is a job that was enqueued, lost with its worker, run again and ended.
	good := func() *history {
		h := newHistory()
		h.enqueue(enqueued{id: "a", key: "k", begun: at(0), acked: at(time.Second)})
		h.start("a", run{key: "k", worker: "w1", attempt: 1, at: at(2 * time.Second)})
		h.start("a", run{key: "k", worker: "w2", attempt: 2, at: at(8 * time.Second)})
		h.confirm("a", "lease 2", at(9*time.Second))
		return h
	}
	cases := []struct {
		name   string
		change func(h *history, stored map[string]*corvo.JobInfo)
		breach string
	}{
		{name: "nothing wrong", change: func(*history, map[string]*corvo.JobInfo) {}},
		{name: "lost", breach: "was acknowledged at", change: func(_ *history, stored map[string]*corvo.JobInfo) {
			delete(stored, "a")
		}},
		{name: "dead", breach: "was confirmed and it is", change: func(_ *history, stored map[string]*corvo.JobInfo) {
			stored["a"].State = corvo.StateDead
		}},
		{name: "never run", breach: "was never run", change: func(h *history, stored map[string]*corvo.JobInfo) {
			h.enqueue(enqueued{id: "b", key: "k2", begun: at(0), acked: at(time.Second)})
			stored["b"] = done(0)
		}},
		{name: "handed out after its end", breach: "after its end was confirmed", change: func(h *history, stored map[string]*corvo.JobInfo) {
			h.start("a", run{key: "k", worker: "w3", attempt: 3, at: at(20 * time.Second)})
			stored["a"].Crashes = 2
		}},
		{name: "same attempt twice", breach: "as attempt 2 after attempt 2", change: func(h *history, stored map[string]*corvo.JobInfo) {
			h.runs["a"][0].attempt = 2
		}},
		{name: "before the lease ran out", breach: "after its lease", change: func(h *history, _ map[string]*corvo.JobInfo) {
			h.runs["a"][1].at = at(3 * time.Second)
		}},
		{name: "again without a cause", breach: "its record tells of 0 leases", change: func(_ *history, stored map[string]*corvo.JobInfo) {
			stored["a"].Crashes = 0
		}},
		{name: "two leases completed", breach: "under two leases", change: func(h *history, _ map[string]*corvo.JobInfo) {
			h.confirm("a", "lease 1", at(9*time.Second))
		}},
		{name: "one key, two jobs", breach: "made two jobs", change: func(h *history, stored map[string]*corvo.JobInfo) {
			h.start("b", run{key: "k", worker: "w1", attempt: 1, at: at(3 * time.Second)})
			stored["b"] = done(0)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, stored := good(), map[string]*corvo.JobInfo{"a": done(1)}
			c.change(h, stored)
			breaches := h.check(stored, 5*time.Second)
			if c.breach == "" && len(breaches) > 0 || c.breach != "" && !strings.Contains(strings.Join(breaches, "\n"), c.breach) {
				t.Errorf("found %q, want %q", breaches, c.breach)
			}
		})
	}
}
