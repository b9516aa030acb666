package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// marksCached bounds the event marks kept between entries.
const marksCached = 10_000

// eventsEnd is where the events of a namespace end, and those that it has in this entry.
type eventsEnd struct {
	feed.Mark
	row feed.RowWriter
}

// event notes a fact about a job. The first event of a change tells the state
// before it.
func (x *entry) event(t feed.Type, j *subject) {
	e := feed.Event{Type: t, NS: j.ns, Queue: j.Queue, ID: j.id, State: j.State, Attempt: j.Attempt}
	e.From, j.left = j.left, 0
	x.events = append(x.events, e)
}

// happened is event for what the job keeps in its own history, too.
func (x *entry) happened(t feed.Type, j *subject) {
	j.Note(t, x.now)
	x.event(t, j)
}

// writeEvents stores the entry's events, a row for each namespace, with the marks they
// move.
func (x *entry) writeEvents() {
	var end *eventsEnd
	var last job.Namespace
	var order []job.Namespace
	for i := range x.events {
		e := &x.events[i]
		if end == nil || e.NS != last { // Neighbours mostly share a namespace.
			end, last = x.eventsEnd(e.NS), e.NS
			if end.row.Len() == 0 {
				order = append(order, e.NS)
			}
		}
		end.row.Add(e)
	}
	for _, ns := range order {
		end := x.m.marks[ns]
		first := end.Seq + 1
		x.txn.SetNew(x.m.space.Events(ns, first), end.row.Row(x.index, x.now, &end.Mark))
		x.txn.Set(x.m.space.EventMark(ns), end.Encode())
		if n := len(x.m.touched); x.m.ring != nil && (n == 0 || x.m.touched[n-1] != ns) {
			x.m.touched = append(x.m.touched, ns)
		}
	}
	x.m.events = x.events
}

// eventsEnd is the end of a namespace's events, from the cache or the store.
func (x *entry) eventsEnd(ns job.Namespace) *eventsEnd {
	end, ok := x.m.marks[ns]
	if !ok {
		end = new(eventsEnd)
		end.Mark, _ = find(x, x.m.space.EventMark(ns), "event mark", feed.DecodeMark)
		x.m.marks[ns] = end
	}
	return end
}
