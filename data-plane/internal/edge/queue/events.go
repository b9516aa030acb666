package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/notify"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// EventFilterMax bounds each list of an event filter.
const EventFilterMax = 100

// EventFilter says which events are wanted; empty lists want all.
type EventFilter struct {
	Queues []string
	JobIDs []string
	Types  []string
	// After is the number of the last event that was seen; nil begins with what
	// happens next.
	After *uint64
}

// ErrEventsLost: events after the number asked for are no longer kept. The reader
// must read the whole again and continue from now.
var ErrEventsLost = errors.New("the events after that number are no longer kept")

// EventReader reads a namespace's events in order. It is for one goroutine.
type EventReader struct {
	v        *Views
	ns       job.Namespace
	listener *notify.Listener
	moved    <-chan struct{} // Leadership may have changed.
	seq      uint64

	rights permission.Here
	queues map[string]bool
	ids    map[job.ID]bool
	types  map[feed.Type]bool
}

// Events returns a reader; close it.
func (v *Views) Events(c Caller, in EventFilter) (*EventReader, error) {
	r := &EventReader{v: v, ns: c.Namespace, rights: c.Rights, moved: v.shard.Group().LeadershipChanged()}
	if fields := r.wants(&in); len(fields) > 0 {
		return nil, fault.InvalidFields(fields)
	}
	for _, q := range in.Queues {
		if err := c.may(permission.EventRead, q); err != nil {
			return nil, err
		}
	}
	if err := v.leads(); err != nil {
		return nil, err
	}
	r.listener = v.hub.Listen(c.Namespace)
	if in.After != nil {
		r.seq = *in.After
		return r, nil
	}
	if err := r.GoOnFromNow(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close releases the reader.
func (r *EventReader) Close() { r.listener.Stop() }

// GoOnFromNow skips everything so far, after ErrEventsLost.
func (r *EventReader) GoOnFromNow() error {
	m, err := feed.MarkOf(r.v.shard.Store(), r.ns)
	r.seq = m.Seq
	return err
}

// Seq is the number of the last event that was read or skipped.
func (r *EventReader) Seq() uint64 { return r.seq }

// Next waits for events and returns those that match; possibly none, so that Seq moves
// on past the rest. Its cost depends only on what the namespace itself does. A slow
// reader reads later, from what is kept, and holds nothing in memory. When another
// node leads, the error is a NotLeader fault.
func (r *EventReader) Next(ctx context.Context) ([]wire.Event, error) {
	for {
		select { // Before the read, so that events after it are noticed.
		case <-r.listener.C:
		default:
		}
		events, found, err := r.read()
		if err != nil || found {
			return events, err
		}
		if err := r.wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (r *EventReader) wait(ctx context.Context) error {
	select {
	case <-r.listener.C:
		return nil
	case <-r.moved:
		r.moved = r.v.shard.Group().LeadershipChanged()
		return r.v.leads()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read reads the next row, if there is one.
func (r *EventReader) read() (out []wire.Event, found bool, err error) {
	lost, err := feed.Walk(r.v.shard.Store(), r.ns, r.seq, func(row *feed.Row) bool {
		found = true
		for i := range row.Events {
			e := &row.Events[i]
			r.seq = e.Seq
			if r.wanted(e) {
				out = append(out, viewEvent(e, row.Now))
			}
		}
		return false
	})
	if err == nil && lost {
		err = ErrEventsLost
	}
	return out, found, err
}

func (r *EventReader) wanted(e *feed.Event) bool {
	return r.rights.Queue(permission.EventRead, e.Queue) && (r.queues == nil || r.queues[e.Queue]) && (r.ids == nil || r.ids[e.ID]) && (r.types == nil || r.types[e.Type])
}

// wants reads the filter and lists everything that is wrong with it.
func (r *EventReader) wants(in *EventFilter) (fields []fault.Field) {
	wrong := func(path, format string, args ...any) {
		fields = append(fields, fault.Field{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	for _, list := range []struct {
		path  string
		words []string
	}{{"queues", in.Queues}, {"job_ids", in.JobIDs}, {"types", in.Types}} {
		if len(list.words) > EventFilterMax {
			wrong(list.path, "%s", rangeMessage("items", 0, EventFilterMax, len(list.words)))
			return fields
		}
	}
	for _, q := range in.Queues {
		if msg := checkQueueName(q); msg != "" {
			wrong("queues", "%q: %s", q, msg)
		}
		note(&r.queues, q)
	}
	for _, word := range in.JobIDs {
		id, err := job.ParseID(word)
		if err != nil {
			wrong("job_ids", "%q is not a job id", word)
		}
		note(&r.ids, id)
	}
	for _, word := range in.Types {
		t, ok := typeOf(word)
		if !ok {
			wrong("types", "%q is not an event type; use %s", word, strings.Join(EventTypes(), ", "))
		}
		note(&r.types, t)
	}
	return fields
}

func note[K comparable](set *map[K]bool, k K) {
	if *set == nil {
		*set = make(map[K]bool)
	}
	(*set)[k] = true
}

func typeOf(word string) (feed.Type, bool) {
	for _, t := range feed.Types() {
		if word == eventType(t) {
			return t, true
		}
	}
	return 0, false
}

// EventTypes are the words of all types of events.
func EventTypes() []string {
	var words []string
	for _, t := range feed.Types() {
		words = append(words, eventType(t))
	}
	slices.Sort(words)
	return words
}

// eventType is a type's name on the wire: the bare word for jobs, as existing
// clients know it, and queue.paused and the like for queues.
func eventType(t feed.Type) string {
	if of, ok := strings.CutPrefix(t.String(), "queue_"); ok {
		return "queue." + of
	}
	return t.String()
}

func viewEvent(e *feed.Event, now int64) wire.Event {
	v := wire.Event{Seq: e.Seq, Type: wire.EventType(eventType(e.Type)), AtNS: now, Queue: e.Queue, JobID: idOrNone(e.ID)}
	if v.JobID == "" {
		return v
	}
	v.Data = &wire.EventData{Attempt: int(e.Attempt)}
	if e.State.Valid() {
		v.Data.State = stateOf(e.State)
	}
	if e.From.Valid() {
		v.Data.From = stateOf(e.From)
	}
	return v
}
