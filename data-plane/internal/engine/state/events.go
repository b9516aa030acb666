package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// marksCached bounds the event marks kept between entries.
const marksCached = 10_000

// chainEnd is the decoded event mark of a namespace.
type chainEnd struct {
	feed.Mark
	entry uint64 // That was linked last.
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

// writeEvents numbers the entry's events, per namespace and without gaps, and
// stores them with the marks they move.
func (x *entry) writeEvents() {
	if len(x.events) == 0 {
		return
	}
	var end *chainEnd
	var last job.Namespace
	for i := range x.events {
		ns := x.events[i].NS
		if end == nil || ns != last { // Neighbours mostly share a namespace.
			end, last = x.chain(ns), ns
		}
		end.Seq++
	}
	for _, l := range x.links {
		end := x.m.marks[l.NS]
		x.txn.Set(x.m.space.EventMark(l.NS), end.Encode())
		if n := len(x.m.touched); x.m.ring != nil && (n == 0 || x.m.touched[n-1] != l.NS) {
			x.m.touched = append(x.m.touched, l.NS)
		}
	}
	x.txn.SetNew(x.m.space.Feed(x.index), feed.Encode(x.now, x.links, x.events))
	x.m.events = x.events
}

// chain returns the end of a namespace's chain, linked into this entry.
func (x *entry) chain(ns job.Namespace) *chainEnd {
	end, ok := x.m.marks[ns]
	if !ok {
		end = new(chainEnd)
		end.Mark, _ = find(x, x.m.space.EventMark(ns), "event mark", feed.DecodeMark)
		x.m.marks[ns] = end
	}
	if end.entry != x.index {
		end.entry = x.index
		x.links = append(x.links, end.Next(ns, x.index))
	}
	return end
}
