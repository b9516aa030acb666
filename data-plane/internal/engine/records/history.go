package records

import "github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

// Moment is one line of a job's short history.
type Moment struct {
	What    What
	At      int64
	Attempt uint32
}

// What happened at a Moment. Stored: append only.
type What uint8

const (
	WasEnqueued What = iota + 1
	WasScheduled
	WasPromoted
	WasStarted
	WasCompleted
	WasFailed
	WasReleased
	WasLeaseExpired
	WasCancelRequested
	WasCancelled
	WasRetried
	WasDead
	WasHeld
	WasApproved
	WasRejected
	WasContinued // The next iteration of an agent.
	WasExpired
	WasMoved
	WasUnblocked
	WasPrioritized
)

var whatNames = [...]string{
	WasEnqueued: "enqueued", WasScheduled: "scheduled", WasPromoted: "promoted", WasStarted: "started",
	WasCompleted: "completed", WasFailed: "failed", WasReleased: "released", WasLeaseExpired: "lease_expired",
	WasCancelRequested: "cancel_requested", WasCancelled: "cancelled", WasRetried: "retried", WasDead: "dead",
	WasHeld: "held", WasApproved: "approved", WasRejected: "rejected", WasContinued: "continued", WasExpired: "expired",
	WasMoved: "moved", WasUnblocked: "unblocked", WasPrioritized: "priority_changed",
}

func (m What) String() string {
	if m >= WasEnqueued && int(m) < len(whatNames) {
		return whatNames[m]
	}
	return "unknown"
}

// TimelineMax moments are kept: the first, and the latest of the others.
const TimelineMax = 16

// Note never changes the moments that are there: copies of the head share them.
func (h *Head) Note(what What, at int64) {
	keep := h.Timeline
	if len(keep) == TimelineMax {
		keep = append(append(make([]Moment, 0, TimelineMax), keep[0]), keep[2:]...)
	}
	h.Timeline = append(keep[:len(keep):len(keep)], Moment{what, at, h.Attempt})
}

func timeline(f *codec.Fields, moments *[]Moment) {
	last := int64(0)
	for i := range codec.Items(f, moments, 3) {
		m := &(*moments)[i]
		codec.Byte(f, &m.What)
		f.Since(&m.At, last)
		f.Uint32(&m.Attempt)
		last = m.At
	}
}
