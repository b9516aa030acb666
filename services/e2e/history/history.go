package nemesis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// history is everything that clients of the service were told, with times. All
// clients are in this process, so one clock orders them.
type history struct {
	mu       sync.Mutex // Guards the rest.
	enqueues []enqueued
	runs     map[string][]run     // By job id, in the order of their starts.
	confirms map[string][]confirm // By job id.
	faults   []string
	changed  chan struct{} // Closed and replaced with every enqueue.
}

// enqueued is an enqueue whose caller was told an id.
type enqueued struct {
	id    string
	key   string // Its payload, and its idempotency key.
	probe bool   // Made to measure how soon writes resume.
	begun time.Time
	acked time.Time
}

// run is one start of a handler.
type run struct {
	key     string
	worker  string
	attempt int
	at      time.Time
}

// confirm is an ack that the worker knows to be confirmed.
type confirm struct {
	token string
	at    time.Time
}

func newHistory() *history {
	return &history{runs: map[string][]run{}, confirms: map[string][]confirm{}, changed: make(chan struct{})}
}

func (h *history) enqueue(e enqueued) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enqueues = append(h.enqueues, e)
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *history) start(id string, r run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[id] = append(h.runs[id], r)
}

func (h *history) confirm(id, token string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.confirms[id] = append(h.confirms[id], confirm{token, at})
}

// broken records something that no history may contain.
func (h *history) broken(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, what)
}

// count is how many enqueues were acknowledged, and a channel that is closed when
// there are more.
func (h *history) count() (int, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.enqueues), h.changed
}

// resumed is how long after the kill the first enqueue was acknowledged that began
// after it: of all callers, and of those alone that use the SDK as programs do.
func (h *history) resumed(kill time.Time) (any, sdk time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := func(d, now time.Duration) time.Duration {
		if d == 0 || now < d {
			return now
		}
		return d
	}
	for _, e := range slices.Backward(h.enqueues) {
		if e.acked.Before(kill) {
			break // They are almost in the order of their responses.
		}
		if e.begun.Before(kill) {
			continue
		}
		any = first(any, e.acked.Sub(kill))
		if !e.probe {
			sdk = first(sdk, e.acked.Sub(kill))
		}
	}
	return any, sdk, any > 0 && sdk > 0
}

// unfinished are the acknowledged jobs of which no worker has a confirmed end.
func (h *history) unfinished() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for _, e := range h.enqueues {
		if len(h.confirms[e.id]) == 0 {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// ids are all jobs that any client knows.
func (h *history) ids() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := make(map[string]string, len(h.enqueues))
	for id, runs := range h.runs {
		keys[id] = runs[0].key
	}
	for _, e := range h.enqueues {
		keys[e.id] = e.key
	}
	return keys
}

// leaseSlack: the lease runs on the leader's clock, from the commit of the fetch on;
// the handler starts a little later.
const leaseSlack = 500 * time.Millisecond

// check compares the history with the rules and returns every breach. stored is
// every job of it as the service shows it at the end.
func (h *history) check(stored map[string]*corvo.JobInfo, lease time.Duration) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	faults := slices.Clone(h.faults)
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }

	byKey := map[string]string{} // Job id by key.
	claim := func(key, id string) {
		if other, ok := byKey[key]; ok && other != id {
			say("the idempotency key %s made two jobs, %s and %s", key, other, id)
		}
		byKey[key] = id
	}
	for _, e := range h.enqueues {
		claim(e.key, e.id)
		if state := state(stored, e.id); state != corvo.StateCompleted {
			say("%s was acknowledged at %s and is %q", e.id, e.acked.Format(time.StampMilli), state)
		}
		if len(h.runs[e.id]) == 0 {
			say("%s was never run", e.id)
		}
	}
	for id, runs := range h.runs {
		claim(runs[0].key, id)
		h.checkRuns(say, id, runs, stored[id], lease)
	}
	for id, confirms := range h.confirms {
		for _, c := range confirms[1:] {
			if c.token != confirms[0].token {
				say("%s was completed under two leases", id)
			}
		}
		if state := state(stored, id); state != corvo.StateCompleted {
			say("the end of %s was confirmed and it is %q", id, state)
		}
	}
	slices.Sort(faults)
	return faults
}

// checkRuns: delivery is at least once, so a second run is not a fault in itself.
// It must come after an expired lease, and the job's record must say so.
func (h *history) checkRuns(say func(string, ...any), id string, runs []run, job *corvo.JobInfo, lease time.Duration) {
	slices.SortFunc(runs, func(a, b run) int { return a.at.Compare(b.at) })
	for _, c := range h.confirms[id] {
		if last := runs[len(runs)-1]; last.at.After(c.at) {
			say("%s was handed out again, to %s, %s after its end was confirmed", id, last.worker, last.at.Sub(c.at))
		}
	}
	for i, r := range runs[1:] {
		before := runs[i]
		if r.attempt <= before.attempt {
			say("%s was handed out as attempt %d after attempt %d", id, r.attempt, before.attempt)
		}
		if pause := r.at.Sub(before.at); pause < lease-leaseSlack {
			say("%s was handed out again %s after its lease of %s began", id, pause, lease)
		}
	}
	if job != nil && len(runs)-1 > job.Crashes {
		say("%s ran %d times and its record tells of %d leases that ran out", id, len(runs), job.Crashes)
	}
}

// state is empty for a job that the service does not show.
func state(stored map[string]*corvo.JobInfo, id string) corvo.JobState {
	if job := stored[id]; job != nil {
		return job.State
	}
	return ""
}

// confirmed is how many acks were confirmed to workers.
func (h *history) confirmed() (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.confirms {
		n += int64(len(c))
	}
	return n
}

// duplicates is how many runs were not their job's first.
func (h *history) duplicates() (runs, again int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		runs += len(r)
		again += len(r) - 1
	}
	return runs, again
}

// percentile of sorted values, by nearest rank.
func percentile[T cmp.Ordered](sorted []T, p float64) T {
	rank := int(math.Ceil(p * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
