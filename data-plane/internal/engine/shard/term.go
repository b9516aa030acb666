package shard

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/fair"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/dispatch"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
)

// term is the leader's memory and loop for one term of leadership. Everything
// but the channels belongs to the loop.
type term struct {
	shard   *Shard
	inbox   *inbox
	cancels chan *request // Parked fetches whose callers gave up.
	nudge   chan struct{} // Holds one: look again.
	deleted chan struct{} // Holds one: a queue was deleted and is to be swept.
	ended   chan struct{} // Closed after the last reply.

	table    *dispatch.Table
	parked   map[*dispatch.Waiter]*request
	renewals map[job.ID]renewed
	due      dueTimer // In calendar time.
	leases   dueTimer // In lease time: ends of leases, and retries.
	// first is the log index at which the term began: leases granted before it get
	// a fresh full length (R-T3).
	first   uint64
	began   int64 // In lease time.
	pace    pace
	busy    time.Duration // How long the group had been applying when the last entry was done.
	company company
	parking *fair.Budget[job.Namespace] // Parked fetches.
}

func newTerm(s *Shard) *term {
	return &term{
		shard: s, inbox: newInbox(s.opts.Weight), parking: fair.NewBudget(parkedMax, s.opts.Weight), cancels: make(chan *request), nudge: make(chan struct{}, 1), ended: make(chan struct{}),
		deleted: make(chan struct{}, 1),
		table:   s.newTable(), parked: make(map[*dispatch.Waiter]*request), renewals: make(map[job.ID]renewed),
		first: s.group.AppliedIndex(), began: s.group.Now().Lease, leases: dueTimer{lease: true},
	}
}

// newTable is the memory of what was committed.
func (s *Shard) newTable() *dispatch.Table {
	t := dispatch.New(s.store)
	s.hold(t)
	return t
}

// hold tells the memory what plans hold back.
func (s *Shard) hold(t *dispatch.Table) {
	if s.opts.Held != nil {
		t.Hold(s.opts.Held())
	}
}

// run is the proposal loop. It returns when the term is over.
func (t *term) run(ctx context.Context) {
	t.due.reset()
	t.leases.reset()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case q := <-t.cancels:
			t.unpark(q)
			continue
		default: // Requests go before waiting for more of them.
		}
		if t.table.Hot() && !t.shard.holdOff.Load() { // Jobs became ready that somebody waits for.
			if !t.round(nil) {
				return
			}
			continue
		}
		first := t.inbox.take()
		if first != nil {
			if !t.round(first) {
				return
			}
			continue
		}
		timer.Reset(t.sleep(t.shard.group.Now()))
		select {
		case <-t.inbox.arrived:
			continue
		case q := <-t.cancels:
			t.unpark(q)
			continue
		case <-timer.C:
		case <-t.nudge:
		case <-ctx.Done():
			return
		}
		if !t.round(nil) {
			return
		}
	}
}

// sleep is how long nothing is due and no throttle opens for a waiter. It is never long:
// a wall clock that jumps has to be noticed.
func (t *term) sleep(now group.Times) time.Duration {
	lease, calendar := t.leases.sleep(now.Lease), t.due.sleep(now.Calendar)
	if opens := t.table.Opens(); !t.shard.holdOff.Load() {
		if opens.Lease != 0 {
			lease = min(lease, time.Duration(max(opens.Lease-now.Lease, 0)))
		}
		if opens.Calendar != 0 {
			calendar = min(calendar, time.Duration(max(opens.Calendar-now.Calendar, 0)))
		}
	}
	if calendar > 0 {
		calendar += t.shard.group.Standstill()
	}
	return min(lease, calendar, group.LookEvery)
}

// gather collects requests for one entry: everything that is there, and for a
// moment the callers that were just answered (see pace).
func (t *term) gather(first *request) *batch {
	b := &batch{}
	now := time.Now()
	if first != nil {
		t.add(b, first, now)
	}
	for t.hasRoom(b, now) {
		if q := t.inbox.take(); q != nil {
			t.add(b, q, now)
			continue
		}
		if len(b.requests) == 0 || !t.pace.wait(len(b.requests), t.shard.opts.Nap) {
			break
		}
	}
	return b
}

// add puts a request into an entry.
func (t *term) add(b *batch, q *request, now time.Time) {
	t.company.meet(q.ns, now)
	b.add(q)
}

// hasRoom: the entry may take another request.
func (t *term) hasRoom(b *batch, now time.Time) bool {
	return !b.full() && b.cost < t.company.room(now)
}

// unpark takes a waiting fetch back. One that was answered already finds its
// answer; one that the loop has not met yet is answered when it does.
func (t *term) unpark(q *request) {
	if q.waiter == nil {
		q.cancelled = true
		return
	}
	if _, ok := t.parked[q.waiter]; ok {
		t.dropWaiter(q)
		q.done <- Reply{}
	}
}

func (t *term) dropWaiter(q *request) {
	delete(t.parked, q.waiter)
	t.parking.Give(q.waiter.NS, 1)
	t.table.Leave(q.waiter)
	t.shard.stats.Parked.Add(-1)
}

func (t *term) refuse(list []*request, err error) {
	for _, q := range list {
		if q.waiter != nil {
			if _, ok := t.parked[q.waiter]; !ok {
				continue
			}
			t.dropWaiter(q)
		}
		q.done <- Reply{Err: err}
	}
}

// refuseMatched answers the parked fetches whose grant was in a failed entry.
func (t *term) refuseMatched(b *batch, err error) {
	for _, o := range b.offers {
		if q, ok := t.parked[o.waiter]; ok {
			t.dropWaiter(q)
			q.done <- Reply{Err: err}
		}
	}
}

// end answers everybody who is still waiting; nothing of theirs was proposed.
func (t *term) end() {
	for _, q := range t.parked {
		q.done <- Reply{Err: errNotLeader()}
	}
	t.shard.stats.Parked.Add(-int64(len(t.parked)))
	for q := t.inbox.take(); q != nil; q = t.inbox.take() {
		q.done <- Reply{Err: errNotLeader()}
	}
	close(t.ended)
}
