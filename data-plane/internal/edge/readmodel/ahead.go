package readmodel

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// ahead reads the events of one namespace and the jobs that they name, a part at a time, while the
// part before is written: SQLite writes on one processor.
//
// A part is read after all of its events, so it may be written at any time later: what
// changed since then has later events.
type ahead struct {
	p     *Projector
	ctx   context.Context // Of the term.
	ns    job.Namespace
	taken uint64     // Number of the last event of what was taken.
	next  chan ready // What is being read; nil if nothing is.
	early bool       // That was begun in an earlier turn, so that there may be more events by now.

	// Only the goroutine that reads uses these; there is one at a time.
	changes changes
	most    int  // So many events are read at a time.
	all     bool // There were no more.
}

// ready is a part that was read; without a change there were no more events.
type ready struct {
	change *change
	seq    uint64 // Number of its last event.
	last   bool   // There were no more events behind it.
	lost   bool   // Events before it are no longer kept, so it was not read.
	from   int64  // With lost: when the oldest event that is kept happened.
	err    error
}

// takeAhead continues with what the last turn left, if that was of the same namespace, and the file
// still has what was written then.
func (p *Projector) takeAhead(ctx context.Context, ns job.Namespace, t *track) *ahead {
	a := p.ahead
	if a == nil || a.ns != ns || a.taken != t.seq {
		p.dropAhead()
		return &ahead{p: p, ctx: ctx, ns: ns, taken: t.seq, changes: changes{last: t.seq}, most: cmp.Or(t.events, turnMax)}
	}
	p.ahead = nil
	if a.early = a.next != nil; !a.early {
		a.all = false
	}
	return a
}

func (p *Projector) dropAhead() {
	if p.ahead != nil {
		p.ahead.drop()
	}
	p.ahead = nil
}

// drop waits until nothing is read any more.
func (a *ahead) drop() {
	if a.next != nil {
		<-a.next
		a.next = nil
	}
}

// read begins to read the next part.
func (a *ahead) read() {
	next := make(chan ready, 1)
	a.next = next
	go func() { next <- a.part() }()
}

// take waits for the next part.
func (a *ahead) take() ready {
	if a.next == nil {
		a.read()
	}
	r := <-a.next
	a.next = nil
	a.taken = r.seq
	if !a.early {
		return r
	}
	a.early, a.all, r.last = false, false, false
	if r == (ready{}) {
		return a.take()
	}
	return r
}

func (a *ahead) part() (r ready) {
	if len(a.changes.parts) < 2 && !a.all { // The last part may still be filled up.
		lost, err := a.events()
		if err != nil {
			return ready{err: fmt.Errorf("read the events of %s: %w", a.ns, err)}
		}
		if lost {
			return ready{lost: true, from: a.changes.from}
		}
	}
	one, ok := a.changes.take()
	if !ok {
		return ready{}
	}
	defer a.p.models.pace.begin(a.ctx).end()
	c, err := a.p.read(a.ns, one.ids)
	c.minutes, c.fresh = one.minutes, !one.older
	return ready{change: c, seq: one.last, last: a.all && len(a.changes.parts) == 0, err: err}
}

// events reads the next events; lost tells that some of them are no longer kept.
func (a *ahead) events() (lost bool, err error) {
	m, err := feed.MarkOf(a.p.store, a.ns)
	if err != nil {
		return false, err
	}
	c := &a.changes
	c.begin(m.Seq > c.last+turnMax)
	piece := a.p.models.pace.begin(a.ctx)
	defer piece.end()
	n := 0
	lost, err = feed.Walk(a.p.store, a.ns, c.last, func(row *feed.Row) bool {
		for i := range row.Events {
			c.add(&row.Events[i], row.Now)
		}
		n += len(row.Events)
		return n < a.most
	})
	piece.free = n == 0
	a.all, a.most = n < a.most, min(2*a.most, turnMax)
	return lost, err
}

// changes are the jobs of a namespace that events named, and that are not read yet.
type changes struct {
	last  uint64 // Number of the last event.
	from  int64  // When the first one that was read last happened.
	parts []part
	named map[job.ID]struct{} // By parts.
	far   bool                // There are more events than a turn reads.
}

// part is the jobs that are written in one transaction. Once it and those before it are, all
// events up to its last are in the rows: a job is in the part of its first event, and is
// written as it is then.
type part struct {
	last    uint64 // Number of its last event.
	ids     []job.ID
	older   bool // The first event here of one of its jobs isn't that it was enqueued.
	minutes minutes
}

// sliceOf is how many rows one transaction writes.
func sliceOf(far bool) int {
	if far {
		return bulkMax
	}
	return sliceMax
}

// begin is called before events are added. A job that is read already and has one of them is read again.
func (c *changes) begin(far bool) {
	c.from, c.far = 0, far
	if c.named == nil {
		c.named = make(map[job.ID]struct{})
	}
	clear(c.named)
	for i := range c.parts {
		for _, id := range c.parts[i].ids {
			c.named[id] = struct{}{}
		}
	}
}

// take takes the first part out.
func (c *changes) take() (one part, ok bool) {
	if len(c.parts) == 0 {
		return part{}, false
	}
	one, c.parts = c.parts[0], c.parts[1:]
	return one, true
}

// add adds an event of the entry that was applied at now.
func (c *changes) add(e *feed.Event, now int64) {
	c.last, c.from = e.Seq, cmp.Or(c.from, now)
	_, named := c.named[e.ID]
	more := !named && !e.ID.IsZero()
	if n := len(c.parts); n == 0 || more && len(c.parts[n-1].ids) == sliceOf(c.far) {
		c.parts = append(c.parts, part{})
	}
	at := &c.parts[len(c.parts)-1]
	at.last = e.Seq
	at.minutes.event(e.Type, now)
	if more {
		c.named[e.ID] = struct{}{}
		at.ids, at.older = append(at.ids, e.ID), at.older || e.Type != feed.Enqueued
	}
}

// read reads jobs as they are now.
func (p *Projector) read(ns job.Namespace, ids []job.ID) (*change, error) {
	slices.SortFunc(ids, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	c := &change{rows: make([]Row, 0, len(ids))}
	return c, stateread.NewHeadReader(p.store).Jobs(ns, ids, func(id job.ID, h *records.Head, b *records.Body) error {
		if h == nil {
			c.gone = append(c.gone, id)
			return nil
		}
		r, err := rowFrom(p.store, ns, id, h, b)
		c.rows = append(c.rows, r)
		return err
	})
}
