package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// Handled records that a worker began to work on an attempt.
func (h *History) Handled(id string, attempt int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handled[handedOut{id, attempt}]++
}

// Ended is when the end of a job was first confirmed to a worker: by then it had ended.
func (h *History) Ended(id string) (at time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.confirms[id] {
		if !ok || c.at.Before(at) {
			at, ok = c.at, true
		}
	}
	return at, ok
}

// CheckHandOuts compares what workers were handed and did, of whichever queue, with the events: each attempt was handed out
// under as many leases, and worked on as often, as it was started (INV-3, INV-4); and never once its end was confirmed. No
// job of the record may have been retried by hand, nor be one of several iterations.
func (h *History) CheckHandOuts(r *Record) (breaches []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	say := func(format string, args ...any) { breaches = append(breaches, fmt.Sprintf(format, args...)) }
	starts := map[handedOut]int{}
	for _, e := range r.Events {
		if e.Type == wire.EventStarted && e.Data != nil {
			starts[handedOut{e.JobID, e.Data.Attempt}]++
		}
	}
	for a, tokens := range h.tokens {
		if len(tokens) > starts[a] {
			say("INV-3: attempt %d of %s was handed out under %d leases, and by its events started %d times", a.attempt, a.id, len(tokens), starts[a])
		}
		for token, asked := range tokens {
			for _, c := range h.confirms[a.id] {
				if asked.After(c.at) {
					say("INV-3: %s was handed out under %s, which was asked for %s after its end was confirmed", a.id, token, asked.Sub(c.at))
				}
			}
		}
	}
	for a, times := range h.handled {
		if times > starts[a] {
			say("INV-4: attempt %d of %s was worked on %d times, and by its events started %d times", a.attempt, a.id, times, starts[a])
		}
	}
	if len(h.handled) > 0 && (len(h.tokens) == 0 || len(h.confirms) == 0) {
		say("INV-3 was not looked at: workers worked, and nobody heard of a lease or of an end")
	}
	slices.Sort(breaches)
	return breaches
}
