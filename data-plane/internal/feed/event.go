// Package feed owns the ordered change feed of a shard: the typed events that
// each log entry caused, kept as one value per entry under the entry's index.
// Everything that follows the jobs (read model, event streams) reads it with a
// cursor of its own and can resume or notice that it fell off the end.
//
// It must not know why an event happened nor who reads it. Events are facts in
// the order they happened: (index, ordinal in the entry) is their place.
package feed

import (
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
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
	Failed // An attempt failed; State tells retrying or dead.
	Released
	LeaseExpired
	CancelRequested
	Cancelled
	Retried
	Deleted
	QueuePaused
	QueueResumed
	typesEnd
)

var typeNames = [...]string{
	Enqueued: "enqueued", Scheduled: "scheduled", Promoted: "promoted", Started: "started", Progress: "progress",
	Completed: "completed", Failed: "failed", Released: "released", LeaseExpired: "lease_expired",
	CancelRequested: "cancel_requested", Cancelled: "cancelled", Retried: "retried", Deleted: "deleted",
	QueuePaused: "queue_paused", QueueResumed: "queue_resumed",
}

func (t Type) String() string {
	if t >= Enqueued && t < typesEnd {
		return typeNames[t]
	}
	return fmt.Sprintf("event(%d)", uint8(t))
}

// Event is one fact about a job, or about a queue when ID is zero.
type Event struct {
	Type    Type
	NS      job.Namespace
	Queue   string
	ID      job.ID
	State   job.State // After the event; 0 for queue events and deleted jobs.
	Attempt uint32
}

const eventVersion = 1

// ErrMalformed is returned for bytes that are not the events of an entry.
var ErrMalformed = errors.New("malformed feed entry")

// Encode writes the events of one entry that was applied at now (Unix nanoseconds).
func Encode(now int64, events []Event) []byte {
	w := codec.Writer{Buf: make([]byte, 0, 16+56*len(events))}
	w.Byte(eventVersion)
	w.Int(now)
	w.Uint(uint64(len(events)))
	for _, e := range events {
		w.Byte(byte(e.Type))
		w.ID(e.NS)
		w.Text(e.Queue)
		w.ID(e.ID)
		w.Byte(byte(e.State))
		w.Uint(uint64(e.Attempt))
	}
	return w.Buf
}

// Decode reads what Encode wrote.
func Decode(b []byte) (now int64, events []Event, err error) {
	r := codec.NewReader(b)
	if v := r.Byte(); v != eventVersion {
		return 0, nil, fmt.Errorf("%w: version %d", ErrMalformed, v)
	}
	now = r.Time()
	events = make([]Event, r.Count(36))
	for i := range events {
		events[i] = Event{
			Type: Type(r.Byte()), NS: r.ID(), Queue: r.Name(), ID: r.ID(),
			State: job.State(r.Byte()), Attempt: r.Uint32(),
		}
	}
	if err := r.Close(); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return now, events, nil
}
