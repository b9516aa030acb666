// Package health decides whether this node should lead: it holds the reasons why
// not, and what they add up to. What finds a reason (the disk's watchdog, its space
// monitor, the clock, a shutdown) sets it here; what moves or takes leadership (the
// balancer, the hand-over, raft's transport, the groups) asks here and nowhere
// else.
//
// It must not know raft, disks or clocks: it is a set of reasons.
//
// Surprising: a node with a nearly full disk may lead. When every disk of the cell
// is full some node has to, so that jobs can be acked and deleted.
package health

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Reason is why a node should not lead. The text is what operators see.
type Reason string

// Reasons. What each of them means is in the table below.
const (
	DiskTight   Reason = "disk_nearly_full"
	DiskFull    Reason = "disk_full"
	DiskStalled Reason = "disk_stalled"
	// Damaged: a file does not have the bytes that were written.
	Damaged      Reason = "damaged_file"
	Clock        Reason = "clock"
	ShuttingDown Reason = "shutting_down"
	Closed       Reason = "closed" // The node takes no calls any more.

	// What a node says of one of its groups; the others are as fit as before.
	GroupQuarantined Reason = "group_quarantined"
	GroupDisputed    Reason = "group_disputed"
	PeerBehind       Reason = "peer_behind"
)

// Level is how well a node can lead, best first. Leadership moves to a node of a
// better level, never to one of a worse.
type Level int

// Levels, in order.
const (
	Fit      Level = iota
	Degraded       // Leads only while no fitter node can: it refuses new jobs.
	Critical       // Likewise, and grants no leases.
	Unfit          // Leads only if nothing else is possible.
)

func (s Level) String() string {
	return [...]string{"fit", "degraded", "critical", "unfit"}[s]
}

// rule is what a reason does.
type rule struct {
	level Level
	// silences: the node stops sending as a leader at once, whether or not another
	// can take over, because what it sends may be wrong or keep the others from
	// electing. Silence is always safe.
	silences bool
}

func ruleOf(r Reason) rule {
	switch r {
	case GroupQuarantined, GroupDisputed, PeerBehind:
		return rule{Fit, false}
	case DiskTight, Damaged:
		return rule{Degraded, false}
	case DiskFull:
		return rule{Critical, false}
	case DiskStalled, Clock, Closed:
		return rule{Unfit, true}
	default: // ShuttingDown, and a reason that only a newer peer knows.
		return rule{Unfit, false}
	}
}

// Cause is a reason and what was observed.
type Cause struct {
	Reason Reason
	Detail string
}

// LevelOf is the level that follows from causes.
func LevelOf(causes []Cause) Level {
	worst := Fit
	for _, c := range causes {
		worst = max(worst, ruleOf(c.Reason).level)
	}
	return worst
}

// Health of this node. A nil *Health is always fit.
type Health struct {
	logger *slog.Logger

	mu      sync.RWMutex // Guards the rest.
	causes  map[Reason]string
	changed chan struct{} // Closed and replaced at each change.
}

// New returns a fit Health that logs its changes.
func New(logger *slog.Logger) *Health {
	return &Health{logger: logger, causes: make(map[Reason]string), changed: make(chan struct{})}
}

// Set adds a reason; detail is for people. Setting it again changes only the detail.
func (h *Health) Set(r Reason, detail string) {
	if !h.add(r, detail) {
		return
	}
	level := slog.LevelError
	if r == ShuttingDown || r == Closed {
		level = slog.LevelInfo
	}
	h.logger.Log(context.Background(), level, "this node should not lead", "reason", r, "detail", detail)
}

// add reports whether the reason is new. Nothing is logged while others wait: the log may lie on the
// disk that stalls.
func (h *Health) add(r Reason, detail string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.causes[r]
	h.causes[r] = detail
	if !known {
		h.fire()
	}
	return !known
}

// Clear removes a reason.
func (h *Health) Clear(r Reason) {
	if h.remove(r) {
		h.logger.Info("a reason not to lead is gone", "reason", r)
	}
}

func (h *Health) remove(r Reason) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.causes[r]
	delete(h.causes, r)
	if known {
		h.fire()
	}
	return known
}

// fire wakes the waiters; the caller holds mu.
func (h *Health) fire() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// Causes lists the reasons, in the order of their names.
func (h *Health) Causes() []Cause {
	if h == nil {
		return nil
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []Cause
	for _, r := range slices.Sorted(maps.Keys(h.causes)) {
		out = append(out, Cause{r, h.causes[r]})
	}
	return out
}

// Level is what the reasons add up to.
func (h *Health) Level() Level { return LevelOf(h.Causes()) }

// Has reports whether r is set.
func (h *Health) Has(r Reason) bool {
	if h == nil {
		return false
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	_, ok := h.causes[r]
	return ok
}

// Silent reports whether the node must not act as a leader now: no heartbeats, no
// entries, no requests for votes. It is called for every message.
func (h *Health) Silent() bool {
	if h == nil {
		return false
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	for r := range h.causes {
		if ruleOf(r).silences {
			return true
		}
	}
	return false
}

// Changed is closed when the reasons next change. Take it before looking. It is
// nil, and so never closed, for a nil *Health.
func (h *Health) Changed() <-chan struct{} {
	if h == nil {
		return nil
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.changed
}

// String lists the reasons for people, "" when there are none.
func (h *Health) String() string { return Text(h.Causes()) }

// Text lists causes for people.
func Text(causes []Cause) string {
	var parts []string
	for _, c := range causes {
		part := string(c.Reason)
		if c.Detail != "" {
			part += " (" + c.Detail + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
