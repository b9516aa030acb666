package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// History is everything that clients of the service were told, with times. All
// clients are in this process, so one clock orders them.
type History struct {
	mu       sync.Mutex // Guards the rest.
	enqueues []Enqueued
	runs     map[string][]Run // By job id, in the order of their starts.
	handed   map[handedOut]time.Time
	tokens   map[handedOut]map[string]time.Time // When each lease was asked for.
	handled  map[handedOut]int                  // How often an attempt was worked on.
	attempts map[string]int                     // By lease token.
	confirms map[string][]confirm               // By job id.
	faults   []string
	changed  chan struct{} // Closed and replaced with every enqueue.
}

// Enqueued is an enqueue whose caller was told an id.
type Enqueued struct {
	ID    string
	Key   string // Its payload, and its idempotency key.
	Probe bool   // Made to measure how soon writes resume.
	Begun time.Time
	Acked time.Time
}

// Run is one start of a handler.
type Run struct {
	Key     string
	Worker  string
	Attempt int
	At      time.Time
}

// confirm is an ack that the worker knows to be confirmed.
type confirm struct {
	token string
	at    time.Time
}

// handedOut is one attempt at a job.
type handedOut struct {
	id      string
	attempt int
}

// New is a history without events.
func New() *History {
	return &History{
		runs: map[string][]Run{}, handed: map[handedOut]time.Time{}, tokens: map[handedOut]map[string]time.Time{}, handled: map[handedOut]int{}, attempts: map[string]int{}, confirms: map[string][]confirm{}, changed: make(chan struct{}),
	}
}

// Enqueue records an enqueue that was acknowledged.
func (h *History) Enqueue(e Enqueued) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enqueues = append(h.enqueues, e)
	close(h.changed)
	h.changed = make(chan struct{})
}

// HandOut records that an answer had a job in it, and when the job was asked for: its lease
// began since then. The answer itself may have been under way for long.
func (h *History) HandOut(id, token string, attempt int, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := handedOut{id, attempt}
	h.handed[a] = asked
	if h.tokens[a] == nil {
		h.tokens[a] = map[string]time.Time{}
	}
	if first, ok := h.tokens[a][token]; !ok || asked.Before(first) {
		h.tokens[a][token] = asked
	}
	h.attempts[token] = attempt
}

// Start records that a handler began.
func (h *History) Start(id string, r Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[id] = append(h.runs[id], r)
	h.handled[handedOut{id, r.Attempt}]++
}

// Confirm records an ack that was confirmed to the worker.
func (h *History) Confirm(id, token string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.confirms[id] = append(h.confirms[id], confirm{token, at})
}

// Broken records something that no history may contain.
func (h *History) Broken(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, what)
}

const payloadHead, payloadTail = `{"key":"`, `"}`

// Payload is that of the job with a key.
func Payload(key string) json.RawMessage { return json.RawMessage(payloadHead + key + payloadTail) }

// KeyOf is the key in a payload.
func KeyOf(payload json.RawMessage) string {
	return strings.TrimSuffix(strings.TrimPrefix(string(payload), payloadHead), payloadTail)
}

// Changed are the jobs whose payload is not what was sent: INV-1.
func (h *History) Changed(stored map[string]*corvo.JobInfo) (breaches []string) {
	for id, key := range h.IDs() {
		if job, want := stored[id], Payload(key); job != nil && string(job.Payload) != string(want) {
			breaches = append(breaches, fmt.Sprintf("INV-1: %s has the payload %s, want %s", id, job.Payload, want))
		}
	}
	return breaches
}

// Count is how many enqueues were acknowledged, and a channel that is closed when
// there are more.
func (h *History) Count() (int, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.enqueues), h.changed
}

// Resumed is how long after the kill the first enqueue was acknowledged that began
// after it: of all callers, and of those alone that use the SDK as programs do.
func (h *History) Resumed(kill time.Time) (any, sdk time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := func(d, now time.Duration) time.Duration {
		if d == 0 || now < d {
			return now
		}
		return d
	}
	for _, e := range slices.Backward(h.enqueues) {
		if e.Acked.Before(kill) {
			break // They are almost in the order of their responses.
		}
		if e.Begun.Before(kill) {
			continue
		}
		any = first(any, e.Acked.Sub(kill))
		if !e.Probe {
			sdk = first(sdk, e.Acked.Sub(kill))
		}
	}
	return any, sdk, any > 0 && sdk > 0
}

// Unfinished are the acknowledged jobs of which no worker has a confirmed end.
func (h *History) Unfinished() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for _, e := range h.enqueues {
		if len(h.confirms[e.ID]) == 0 {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// IDs are all jobs that any client knows.
func (h *History) IDs() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := make(map[string]string, len(h.enqueues))
	for id, runs := range h.runs {
		keys[id] = runs[0].Key
	}
	for _, e := range h.enqueues {
		keys[e.ID] = e.Key
	}
	return keys
}

// leaseSlack: the lease runs on the leader's clock, from the commit of the fetch on;
// the handler starts a little later.
const leaseSlack = 500 * time.Millisecond

// Check compares the history with the rules and returns every breach. stored is
// every job of it as the service shows it at the end.
func (h *History) Check(stored map[string]*corvo.JobInfo, lease time.Duration) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	faults := slices.Clone(h.faults)
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }

	byKey := map[string]string{} // Job id by key.
	claim := func(key, id string) {
		if other, ok := byKey[key]; ok && other != id {
			say("INV-1: the idempotency key %s made two jobs, %s and %s", key, other, id)
		}
		byKey[key] = id
	}
	for _, e := range h.enqueues {
		claim(e.Key, e.ID)
		if state := state(stored, e.ID); state != corvo.StateCompleted && !CrashLoop(stored[e.ID]) {
			say("INV-1: %s was acknowledged at %s and is %q", e.ID, e.Acked.Format(time.StampMilli), state)
		}
		if len(h.runs[e.ID]) == 0 {
			say("INV-2: %s was never run", e.ID)
		}
	}
	for id, runs := range h.runs {
		claim(runs[0].Key, id)
		h.checkRuns(say, id, runs, stored[id], lease)
	}
	for id, confirms := range h.confirms {
		for _, c := range confirms[1:] {
			if c.token != confirms[0].token {
				say("INV-3: %s was completed under two leases", id)
			}
		}
		if state := state(stored, id); state != corvo.StateCompleted {
			say("INV-3: the end of %s was confirmed and it is %q", id, state)
		}
	}
	slices.Sort(faults)
	return faults
}

// checkRuns: delivery is at least once, so a second run is not a fault in itself.
// It must come after an expired lease, and the job's record must say so. An answer may come
// so late that the lease in it has run out, and others have had the job meanwhile: then a
// handler begins after that of a later attempt, which is no fault either.
func (h *History) checkRuns(say func(string, ...any), id string, runs []Run, job *corvo.JobInfo, lease time.Duration) {
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), a.At.Compare(b.At)) })
	last := runs[len(runs)-1]
	for _, c := range h.confirms[id] {
		if attempt := h.attempts[c.token]; last.Attempt > attempt && attempt > 0 || h.asked(id, last).After(c.at) {
			say("INV-3: %s was handed out again, to %s, %s after its end was confirmed", id, last.Worker, last.At.Sub(c.at))
		}
	}
	for i, r := range runs[1:] {
		before := runs[i]
		switch pause := r.At.Sub(h.asked(id, before)); {
		case r.Attempt == before.Attempt || pause < 0:
			say("INV-3: %s was handed out as attempt %d after attempt %d", id, before.Attempt, r.Attempt)
		case pause < lease-leaseSlack:
			say("INV-3: %s was handed out again %s after its lease of %s began", id, pause, lease)
		}
	}
	if job != nil && len(runs)-1 > job.Crashes {
		say("INV-4: %s ran %d times and its record tells of %d leases that ran out", id, len(runs), job.Crashes)
	}
}

// asked is the earliest moment at which the lease of a run can have begun.
func (h *History) asked(id string, r Run) time.Time {
	if at, ok := h.handed[handedOut{id, r.Attempt}]; ok {
		return at
	}
	return r.At
}

// crashes is how many lost leases make a job dead (R-L5).
const crashes = 3

// CrashLoop reports whether a job ended because it took too many workers with it.
func CrashLoop(job *corvo.JobInfo) bool {
	return job != nil && job.State == corvo.StateDead && job.Crashes >= crashes
}

// state is empty for a job that the service does not show.
func state(stored map[string]*corvo.JobInfo, id string) corvo.JobState {
	if job := stored[id]; job != nil {
		return job.State
	}
	return ""
}

// Confirmed is how many acks were confirmed to workers.
func (h *History) Confirmed() (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.confirms {
		n += int64(len(c))
	}
	return n
}

// Duplicates is how many runs were not their job's first.
func (h *History) Duplicates() (runs, again int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		runs += len(r)
		again += len(r) - 1
	}
	return runs, again
}
