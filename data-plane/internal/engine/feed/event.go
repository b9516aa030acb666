// Package feed owns the ordered feeds of a shard, one per namespace: the typed events
// that each log entry caused in it, kept as one row per entry under the number of the
// first. Everything that follows the jobs (read model, event streams) reads it with a
// number as its cursor and can resume or notice that it fell off the end.
//
// It must not know why an event happened nor who reads it. Events are facts in
// the order they happened.
//
// The surprising fact: there is no feed of the shard. Each namespace numbers its own
// events without gaps, so that what is missing between two numbers tells nothing about
// the neighbours, and what it keeps is bounded by its own settings alone.
package feed

import (
	"errors"
	"fmt"

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
	// Seq numbers the events of the namespace, from 1 and without gaps. It is not stored:
	// the row's key has the first one's.
	Seq uint64
}

// Row is what an entry did in a namespace.
type Row struct {
	Index uint64 // Of the entry.
	Now   int64  // When it was applied: Unix nanoseconds of calendar time.
	// Bytes is what all events of the namespace up to here took, those that are no longer
	// kept included: the difference of two rows is what lies between them.
	Bytes  uint64
	Events []Event
}

const (
	rowVersion = 1
	eventBytes = 21 // The fewest bytes of an event.
)

// ErrMalformed is returned for bytes that are not a row or a mark.
var ErrMalformed = errors.New("malformed events")

// RowWriter collects the events of one entry and namespace.
type RowWriter struct {
	w codec.Writer
	n uint64
}

// Add adds an event.
func (b *RowWriter) Add(e *Event) {
	b.n++
	b.w.Byte(byte(e.Type))
	b.w.Text(e.Queue)
	b.w.ID(e.ID)
	b.w.Byte(byte(e.State))
	b.w.Byte(byte(e.From))
	b.w.Uint(uint64(e.Attempt))
}

// Len is how many events were added.
func (b *RowWriter) Len() uint64 { return b.n }

// rowRoom is about what a row takes besides its events, its key included.
const rowRoom = 64

// Row writes the row of the entry with an index that was applied at now, and begins anew.
// It moves the mark there.
func (b *RowWriter) Row(index uint64, now int64, m *Mark) []byte {
	m.Seq += b.n
	m.Bytes += uint64(len(b.w.Buf)) + rowRoom
	m.At = now
	w := codec.Writer{Buf: make([]byte, 0, rowRoom+len(b.w.Buf))}
	w.Byte(rowVersion)
	w.Uint(index)
	w.Int(now)
	w.Uint(m.Bytes)
	w.Uint(b.n)
	row := append(w.Buf, b.w.Buf...)
	b.w.Buf, b.n = b.w.Buf[:0], 0
	return row
}

// Decode reads a row of a namespace of which the key has the number first.
func Decode(ns job.Namespace, first uint64, value []byte) (Row, error) {
	r := codec.NewReader(value)
	row, n, err := decodeHead(r)
	if err != nil {
		return Row{}, err
	}
	row.Events = make([]Event, n)
	for i := range row.Events {
		row.Events[i] = Event{
			Type: Type(r.Byte()), NS: ns, Queue: r.Name(), ID: r.ID(),
			State: job.State(r.Byte()), From: job.State(r.Byte()), Attempt: r.Uint32(), Seq: first + uint64(i),
		}
	}
	if err := r.Close(); err != nil {
		return Row{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return row, nil
}

// decodeHead reads a row up to its events, and how many these are.
func decodeHead(r *codec.Reader) (row Row, n int, err error) {
	if v := r.Byte(); v != rowVersion {
		return Row{}, 0, fmt.Errorf("%w: version %d", ErrMalformed, v)
	}
	row = Row{Index: r.Uint(), Now: r.Time(), Bytes: r.Uint()}
	n = r.Count(eventBytes)
	if err := r.Err(); err != nil {
		return Row{}, 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return row, n, nil
}

// Mark is where the events of a namespace end.
type Mark struct {
	Seq   uint64 // Number of the last event; 0 if there never was one.
	Bytes uint64 // See Row.
	At    int64  // When the last event happened, as in Row.
}

const markVersion = 1

// Encode is the stored form of the mark.
func (m Mark) Encode() []byte {
	w := codec.Writer{Buf: make([]byte, 0, 24)}
	w.Byte(markVersion)
	w.Uint(m.Seq)
	w.Uint(m.Bytes)
	w.Int(m.At)
	return w.Buf
}

// DecodeMark reads what Mark.Encode wrote.
func DecodeMark(b []byte) (Mark, error) {
	r := codec.NewReader(b)
	if v := r.Byte(); v != markVersion {
		return Mark{}, fmt.Errorf("%w: mark of version %d", ErrMalformed, v)
	}
	m := Mark{Seq: r.Uint(), Bytes: r.Uint(), At: r.Time()}
	if err := r.Close(); err != nil {
		return Mark{}, fmt.Errorf("%w: mark: %w", ErrMalformed, err)
	}
	return m, nil
}
