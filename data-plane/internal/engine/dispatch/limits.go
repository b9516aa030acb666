package dispatch

import (
	"errors"
	"math"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Apply enforces the limits of queues; the memory keeps to them, so that an entry
// rarely asks for what it will be refused, and knows when to look again. It has the
// exact numbers of every limited queue after each entry, and adds what the entry
// being built will take and free.

// limits is the part of a Table that is about limited queues.
type limits struct {
	now stateread.Times // Of the entry being built, as its proposer stamps it.
	// counted lists the queues with something in pending; freed the jobs whose slots
	// are counted there.
	counted []*queue
	freed   map[job.ID]struct{}
	// blocked lists queues with waiters whose throttle is closed, whose budget is spent or that are held;
	// opens is when, by either clock, the first of them opens, 0 if there are none.
	blocked []*queue
	opens   stateread.Times
}

// pending is what the entry being built does to a limited queue.
type pending struct {
	takes     int64
	frees     int64
	isCounted bool
	isBlocked bool
}

// Begin starts an entry that will be proposed at now: throttles that opened let
// their waiters be looked at.
func (t *Table) Begin(now stateread.Times) {
	t.pass(now)
	if reached(t.opens.Lease, t.now.Lease) || reached(t.opens.Calendar, t.now.Calendar) {
		t.lookAgain()
	}
}

// Hold says until when, in calendar time, the jobs of namespaces may not start: math.MaxInt64
// is until the next call. It is for the entries from now on: within one, the ready jobs of a
// queue and those that the entry makes are held alike, which keeps their order (INV-8).
func (t *Table) Hold(until func(job.Namespace) int64) {
	t.until = until
	for _, q := range t.queues {
		q.heldUntil = until(q.ns)
	}
	t.lookAgain()
}

// held: no job of q starts in the entry being built, whatever is ready.
func (t *Table) held(q *queue) bool { return q.heldUntil > t.now.Calendar }

// lookAgain lets Match look at the queues that may have opened.
func (t *Table) lookAgain() {
	list := t.blocked
	t.blocked, t.opens = nil, stateread.Times{}
	for _, q := range list {
		q.isBlocked = false
		t.heatIfOpen(q)
	}
}

// pass lets both times go on, never back.
func (t *Table) pass(now stateread.Times) {
	t.now.Lease, t.now.Calendar = max(t.now.Lease, now.Lease), max(t.now.Calendar, now.Calendar)
}

func reached(at, now int64) bool { return at != 0 && at <= now }

// Opens is when a throttle (in lease time) and when a budget (in calendar time) lets a
// waiter be looked at again; 0 if none will.
func (t *Table) Opens() stateread.Times { return t.opens }

// Frees tells what the entry being built settles before it fetches: the slots of
// those leases are usable by that fetch. It looks at them only if the fetch is short
// of slots.
func (t *Table) Frees(settled []command.Command, ns job.Namespace, names []string, count int) error {
	if len(settled) == 0 {
		return nil
	}
	short, err := t.shortOfSlots(ns, names, count)
	if err != nil || !short {
		return err
	}
	for _, c := range settled {
		id, by, ok := state.Settles(c)
		if !ok {
			continue
		}
		ns, _ := command.NamespaceOf(c)
		if err := t.frees(ns, id, by); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) shortOfSlots(ns job.Namespace, names []string, count int) (bool, error) {
	for _, name := range names {
		q, err := t.queue(ns, name)
		if err != nil {
			return false, err
		}
		if n, ok := q.Slots(); ok && n-q.takes < int64(count) {
			return true, nil
		}
	}
	return false, nil
}

func (t *Table) frees(ns job.Namespace, id job.ID, by command.Holder) error {
	if _, twice := t.freed[id]; twice {
		return nil
	}
	h, err := stateread.ReadHead(t.store, ns, id)
	if errors.Is(err, statedb.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	q, ok := t.queues[queueKey{ns, h.Queue}]
	if !ok || !h.State.Leased() || !records.Holds(&h, by) {
		return nil
	}
	if t.freed == nil {
		t.freed = make(map[job.ID]struct{})
	}
	t.freed[id] = struct{}{}
	t.count(q)
	q.frees++
	return nil
}

// room is how many jobs of q the entry being built may still take. Slots that it
// frees itself are for newcomers only when nobody waits: the next entry gives them
// to who waited longest.
func (t *Table) room(q *queue) int {
	if t.held(q) {
		return 0
	}
	room := int64(math.MaxInt32)
	if n, ok := q.Slots(); ok {
		if q.frees > 0 && q.waiting() == nil {
			n += q.frees
		}
		room = min(room, n-q.takes)
	}
	if n, ok := q.Starts(t.now); ok {
		room = min(room, n-q.takes)
	}
	return int(max(room, 0))
}

// taken counts a job of q for the entry being built.
func (t *Table) taken(q *queue) {
	if q.Limited() {
		t.count(q)
		q.takes++
	}
}

func (t *Table) count(q *queue) {
	if !q.isCounted {
		q.isCounted = true
		t.counted = append(t.counted, q)
	}
}

// settle forgets what was counted: the entry was applied.
func (t *Table) settle() {
	for _, q := range t.counted {
		q.takes, q.frees, q.isCounted = 0, 0, false
	}
	t.counted = t.counted[:0]
	clear(t.freed)
}

// heatIfOpen lets Match look at a queue that may hand out something, and remembers
// when to look again at one whose throttle is closed.
func (t *Table) heatIfOpen(q *queue) {
	if t.room(q) > 0 {
		t.heat(q)
		return
	}
	t.block(q)
}

// block remembers a queue whose throttle, or whose tenant's plan, keeps its waiters waiting.
func (t *Table) block(q *queue) {
	at := q.QueueState.Opens(t.now)
	if t.held(q) {
		at = stateread.Times{Calendar: q.heldUntil}
	}
	if at == (stateread.Times{}) || q.waiting() == nil {
		return
	}
	t.opens.Lease, t.opens.Calendar = sooner(t.opens.Lease, at.Lease), sooner(t.opens.Calendar, at.Calendar)
	if !q.isBlocked {
		q.isBlocked = true
		t.blocked = append(t.blocked, q)
	}
}

// sooner is the earlier of two times, of which 0 is none.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// mayHaveReady reports whether some ready job of q is known or not looked for yet.
func (q *queue) mayHaveReady() bool {
	for p := range q.windows {
		if w := &q.windows[p]; w.more || w.head < len(w.items) {
			return true
		}
	}
	return false
}

// absorbBudget looks anew at the queues in memory that a budget may shut or open. One of a
// tag shuts no queue, but jobs of any; they may have been what a queue's waiters wait for.
func (t *Table) absorbBudget(b state.BudgetOf) error {
	for k, q := range t.queues {
		if k.ns != b.NS || b.Scope == command.BudgetQueue && k.name != b.Target {
			continue
		}
		if b.Scope != command.BudgetTag {
			qs, _, err := stateread.ReadQueueState(t.store, k.ns, k.name)
			if err != nil {
				return err
			}
			q.QueueState = qs
		}
		t.heatIfOpen(q)
	}
	return nil
}
