// Package feed owns the ordered change feed of a shard: the typed events that
// each log entry caused, kept as one value per entry under the entry's index.
// Everything that follows the jobs (read model, event streams) reads it with a
// cursor of its own and can resume or notice that it fell off the end.
//
// It must not know why an event happened nor who reads it. Events are facts in
// the order they happened: (index, ordinal in the entry) is their place.
//
// The surprising fact: tenants never see that place. Each namespace numbers its
// own events without gaps, so that what is missing between two numbers tells
// nothing about the neighbours it shares a shard with.
package feed

import (
	"errors"
	"fmt"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Type of an event. Stored: append only.
type Type uint8

const (
	Enqueued Type = iota + 1
	Scheduled
	Promoted // Its time came: pending.
	Started
	Progress
	Completed
	Failed // An attempt failed; Retrying or Dead follows.
	Released
	LeaseExpired // A worker was lost; Dead follows if it was one too many.
	CancelRequested
	Cancelled
	Retried
	Deleted
	QueuePaused
	QueueResumed
	Retrying // Waits for its next attempt.
	Dead
	QueueUpdated // Made, or its limits changed.
	QueueDeleted // With all its jobs; each is Deleted when its rows are swept.
	Held
	Approved  // Runs.
	Rejected  // Dead follows.
	Continued // One more iteration of an agent.
	Expired   // Dead follows, at once or when its worker lets go.
	Moved     // From another queue; Queue is the new one.
	Unblocked // What it waited for has ended.
	QueueCleared
	QueueDraining
	BudgetExceeded
	Prioritized // It has another priority.
	typesEnd
)

var typeNames = [...]string{
	Enqueued: "enqueued", Scheduled: "scheduled", Promoted: "promoted", Started: "started", Progress: "progress",
	Completed: "completed", Failed: "failed", Released: "released", LeaseExpired: "lease_expired",
	CancelRequested: "cancel_requested", Cancelled: "cancelled", Retried: "retried", Deleted: "deleted",
	QueuePaused: "queue_paused", QueueResumed: "queue_resumed", Retrying: "retrying", Dead: "dead",
	QueueUpdated: "queue_updated", QueueDeleted: "queue_deleted",
	Held: "held", Approved: "approved", Rejected: "rejected", Continued: "continued", Expired: "expired", Moved: "moved",
	Unblocked: "unblocked", QueueCleared: "queue_cleared", QueueDraining: "queue_draining", BudgetExceeded: "budget_exceeded",
	Prioritized: "priority_changed",
}

func (t Type) String() string {
	if t.Valid() {
		return typeNames[t]
	}
	return fmt.Sprintf("event(%d)", uint8(t))
}

// Valid reports whether t is one of the declared types.
func (t Type) Valid() bool { return t >= Enqueued && t < typesEnd }

// Types lists every type in the order of their numbers.
func Types() []Type {
	all := make([]Type, 0, typesEnd-1)
	for t := Enqueued; t < typesEnd; t++ {
		all = append(all, t)
	}
	return all
}

// Event is one fact about a job, or about a queue when ID is zero.
type Event struct {
	Type  Type
	NS    job.Namespace
	Queue string
	ID    job.ID
	State job.State // After the event; 0 for queue events and deleted jobs.
	// From is the state before, if the event changed it; of several events of one
	// change only the first has it. 0 for new jobs.
	From    job.State
	Attempt uint32
	// Seq numbers the events of the namespace, from 1 and without gaps. Decode
	// derives it from the entry's links.
	Seq uint64
}

// Link ties an entry into the chain of one namespace's events.
type Link struct {
	NS    job.Namespace
	First uint64 // Number of the namespace's first event in this entry.
	Prev  uint64 // Index of the entry with the events before; 0 if there are none.
	// N numbers the namespace's entries, from 1. Of each 64th and each 4,096th the entry
	// 64 and 4,096 before is linked too, so that a place far back is found in some hundred
	// steps (strides).
	N   uint64
	Far [len(strides)]uint64
}

// strides are the lengths of the steps back along a namespace's entries, besides one.
// Stored: changing them needs another version of events and marks.
var strides = [...]uint64{64, 4096}

const (
	eventVersion = 1
	linkBytesMin = 19
	eventBytes   = 22 // The fewest bytes of an event.
)

// ErrMalformed is returned for bytes that are not the events of an entry.
var ErrMalformed = errors.New("malformed feed entry")

// Encode writes the events of one entry that was applied at now (Unix
// nanoseconds). Every namespace among the events has exactly one link.
func Encode(now int64, links []Link, events []Event) []byte {
	w := codec.Writer{Buf: make([]byte, 0, 16+24*len(links)+40*len(events))}
	w.Byte(eventVersion)
	w.Int(now)
	w.Uint(uint64(len(links)))
	for _, l := range links {
		w.ID(l.NS)
		w.Uint(l.First)
		w.Uint(l.Prev)
		w.Uint(l.N)
		for level, stride := range strides {
			if l.N%stride == 0 {
				w.Uint(l.Far[level])
			}
		}
	}
	w.Uint(uint64(len(events)))
	place := placer(links)
	for i := range events {
		e := &events[i]
		w.Uint(place(e.NS))
		w.Byte(byte(e.Type))
		w.Text(e.Queue)
		w.ID(e.ID)
		w.Byte(byte(e.State))
		w.Byte(byte(e.From))
		w.Uint(uint64(e.Attempt))
	}
	return w.Buf
}

// placer finds the link of a namespace. Neighbours mostly share one, and most
// entries have only one.
func placer(links []Link) func(job.Namespace) uint64 {
	var last uint64
	var places map[job.Namespace]uint64
	return func(ns job.Namespace) uint64 {
		if last < uint64(len(links)) && links[last].NS == ns {
			return last
		}
		if places == nil {
			places = make(map[job.Namespace]uint64, len(links))
			for i, l := range links {
				places[l.NS] = uint64(i)
			}
		}
		place, ok := places[ns]
		if !ok {
			panic(fmt.Sprintf("feed: event of %s without a link", ns))
		}
		last = place
		return place
	}
}

// Decode reads what Encode wrote.
func Decode(b []byte) (now int64, events []Event, err error) {
	r := codec.NewReader(b)
	now, links, err := decodeLinks(r)
	if err != nil {
		return 0, nil, err
	}
	events = make([]Event, r.Count(eventBytes))
	for i := range events {
		place := r.Uint()
		if place >= uint64(len(links)) {
			return 0, nil, fmt.Errorf("%w: event %d has no link", ErrMalformed, i)
		}
		l := &links[place]
		events[i] = Event{
			Type: Type(r.Byte()), NS: l.NS, Queue: r.Name(), ID: r.ID(),
			State: job.State(r.Byte()), From: job.State(r.Byte()), Attempt: r.Uint32(), Seq: l.First,
		}
		l.First++
	}
	if err := r.Close(); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return now, events, nil
}

func decodeLinks(r *codec.Reader) (now int64, links []Link, err error) {
	if v := r.Byte(); v != eventVersion {
		return 0, nil, fmt.Errorf("%w: version %d", ErrMalformed, v)
	}
	now = r.Time()
	links = make([]Link, r.Count(linkBytesMin))
	for i := range links {
		l := Link{NS: r.ID(), First: r.Uint(), Prev: r.Uint(), N: r.Uint()}
		for level, stride := range strides {
			if l.N%stride == 0 {
				l.Far[level] = r.Uint()
			}
		}
		links[i] = l
	}
	if err := r.Err(); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return now, links, nil
}

// Has reports whether an entry has events of a namespace.
func Has(b []byte, ns job.Namespace) (bool, error) {
	_, links, err := decodeLinks(codec.NewReader(b))
	return slices.ContainsFunc(links, func(l Link) bool { return l.NS == ns }), err
}

// Without is an entry without the events of a namespace; nil if there are no others.
func Without(b []byte, ns job.Namespace) ([]byte, error) {
	now, events, err := Decode(b)
	if err != nil {
		return nil, err
	}
	_, links, err := decodeLinks(codec.NewReader(b))
	if err != nil {
		return nil, err
	}
	links = slices.DeleteFunc(links, func(l Link) bool { return l.NS == ns })
	events = slices.DeleteFunc(events, func(e Event) bool { return e.NS == ns })
	if len(events) == 0 {
		return nil, nil
	}
	return Encode(now, links, events), nil
}

// Mark is where the events of a namespace end.
type Mark struct {
	Seq   uint64 // Number of the last event; 0 if there never was one.
	Index uint64 // Entry of the last event.
	N     uint64 // Number of that entry among the namespace's.
	// Far are the last entries of which the number is a multiple of each stride.
	Far [len(strides)]uint64
}

// Next links the entry with an index behind the mark, and moves the mark there. Seq is
// for the caller to count.
func (m *Mark) Next(ns job.Namespace, index uint64) Link {
	l := Link{NS: ns, First: m.Seq + 1, Prev: m.Index, N: m.N + 1}
	m.Index, m.N = index, l.N
	for level, stride := range strides {
		if l.N%stride == 0 {
			l.Far[level], m.Far[level] = m.Far[level], index
		}
	}
	return l
}

const markVersion = 1

// Encode is the stored form of the mark.
func (m Mark) Encode() []byte {
	w := codec.Writer{Buf: make([]byte, 0, 32)}
	w.Byte(markVersion)
	w.Uint(m.Seq)
	w.Uint(m.Index)
	w.Uint(m.N)
	for _, far := range m.Far {
		w.Uint(far)
	}
	return w.Buf
}

// DecodeMark reads what Mark.Encode wrote.
func DecodeMark(b []byte) (Mark, error) {
	r := codec.NewReader(b)
	if v := r.Byte(); v != markVersion {
		return Mark{}, fmt.Errorf("%w: mark of version %d", ErrMalformed, v)
	}
	m := Mark{Seq: r.Uint(), Index: r.Uint(), N: r.Uint()}
	for level := range m.Far {
		m.Far[level] = r.Uint()
	}
	if err := r.Close(); err != nil {
		return Mark{}, fmt.Errorf("%w: mark: %w", ErrMalformed, err)
	}
	return m, nil
}
