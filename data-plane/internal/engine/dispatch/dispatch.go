package dispatch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

const (
	windowLoad = 1024 // Rows read from the store at a time.
	windowMax  = 4096 // Places kept in memory; later ones are read back when their turn comes.
	queuesMax  = 4096 // Queues kept in memory although nobody waits for them.
)

// Table is the memory of one term of leadership.
type Table struct {
	store  *statedb.Group
	space  keys.Space
	queues map[queueKey]*queue
	// hot lists the queues that may have both jobs and waiters.
	hot          []*queue
	turn         uint64   // Counts fetches.
	order        []*queue // Of the fetch at hand; kept for its memory.
	rows, places int      // windowLoad and windowMax; tests make them small.
	shrinkAt     int      // How many queues are too many; larger while many are waited for.
	// begun lists the windows from which the entry being built took something.
	begun []*window
	// until is when, in calendar time, jobs of a namespace may start again; 0 is now.
	until func(job.Namespace) int64
	limits
}

type queueKey struct {
	ns   job.Namespace
	name string
}

type queue struct {
	queueKey
	stateread.QueueState
	pending   // What the entry being built will change of the numbers in QueueState.
	windows   [job.Priorities]window
	heldUntil int64     // Its namespace's jobs may not start before, by the tenant's plan.
	served    uint64    // The turn that last took from it.
	waiters   []*Waiter // In order of arrival; those that left are skipped and dropped.
	left      int       // How many of waiters have left.
	isHot     bool
}

// window is the front of one ready order.
//
// Invariant: every ready row of the store with a place up to `tail` is in items,
// or is in `gone`, or was taken by the entry being built. Rows after tail are in
// the store only, and there are none when more is false.
type window struct {
	items []item
	head  int // items[:head] were taken.
	tail  keys.Position
	more  bool
	gone  map[keys.Position]struct{} // Still in items, but no longer ready.
	begun bool                       // Listed in Table.begun.
}

type item struct {
	pos keys.Position
	id  job.ID
}

// New starts an empty memory over the committed state.
func New(store *statedb.Group) *Table {
	return &Table{store: store, space: keys.In(store.Prefix()), queues: make(map[queueKey]*queue), rows: windowLoad, places: windowMax, shrinkAt: queuesMax, until: func(job.Namespace) int64 { return 0 }}
}

// Shrink forgets queues that nobody waits for once there are too many: anybody may
// fetch from any name, and what is forgotten is read from the store again. It may
// be called only between two entries.
func (t *Table) Shrink() {
	if len(t.queues) <= t.shrinkAt {
		return
	}
	for k, q := range t.queues {
		if len(q.waiters) == 0 {
			delete(t.queues, k)
		}
	}
	t.shrinkAt = max(queuesMax, 2*len(t.queues))
}

// Taken is what Take chose.
type Taken struct {
	Jobs   []job.ID
	Floors []command.Floor
}

// Take removes up to n ready jobs of the given queues from the memory, best
// priority first within a queue. The queue that was served longest ago comes first:
// a count that all fetches share would let one fetcher's rhythm decide which queue
// another one sees. The caller proposes a Fetch for exactly these.
func (t *Table) Take(ns job.Namespace, names []string, n int) (Taken, error) {
	var out Taken
	t.turn++
	t.order = t.order[:0]
	for _, name := range names {
		q, err := t.queue(ns, name)
		if err != nil {
			return Taken{}, err
		}
		t.order = append(t.order, q)
	}
	slices.SortStableFunc(t.order, func(a, b *queue) int { return cmp.Compare(a.served, b.served) })
	for _, q := range t.order {
		had := len(out.Jobs)
		if err := t.takeFrom(q, n, &out); err != nil {
			return Taken{}, err
		}
		if len(out.Jobs) > had {
			q.served = t.turn
		}
		if len(out.Jobs) >= n {
			break
		}
	}
	return out, nil
}

func (t *Table) takeFrom(q *queue, n int, out *Taken) error {
	if q.Paused {
		return nil
	}
	n = min(n, len(out.Jobs)+t.room(q))
	for p := range q.windows {
		w := &q.windows[p]
		for len(out.Jobs) < n {
			it, ok, err := t.next(q, job.Priority(p))
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if !w.begun {
				// Everything before the first place that an entry takes was settled by
				// earlier entries. Later places of the same entry say nothing: it may
				// be refused the jobs before them.
				out.Floors = append(out.Floors, command.Floor{Queue: q.name, Priority: job.Priority(p), Pos: it.pos})
				w.begun = true
				t.begun = append(t.begun, w)
			}
			w.head++
			out.Jobs = append(out.Jobs, it.id)
			t.taken(q)
		}
	}
	return nil
}

// next peeks at the first ready job of a window, loading more rows if needed.
func (t *Table) next(q *queue, p job.Priority) (item, bool, error) {
	w := &q.windows[p]
	for {
		for w.head < len(w.items) {
			it := w.items[w.head]
			if _, gone := w.gone[it.pos]; !gone {
				return it, true, nil
			}
			delete(w.gone, it.pos)
			w.head++
		}
		w.items, w.head = w.items[:0], 0
		clear(w.gone)
		if !w.more {
			return item{}, false, nil
		}
		if err := t.load(q, p); err != nil {
			return item{}, false, err
		}
	}
}

func (t *Table) load(q *queue, p job.Priority) error {
	w := &q.windows[p]
	from, to := t.space.ReadyFrom(q.ns, q.name, p, after(w.tail))
	w.more = false
	err := t.store.Scan(from, to, func(key, value []byte) (bool, error) {
		if len(w.items) == t.rows {
			w.more = true
			return false, nil
		}
		pos, err := t.space.ReadyPosition(key)
		if err != nil {
			return false, err
		}
		if len(value) != len(job.ID{}) {
			return false, fmt.Errorf("%w: ready row with %d bytes", keys.ErrKey, len(value))
		}
		w.items = append(w.items, item{pos, job.ID(value)})
		w.tail = pos
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("load ready jobs of queue %q: %w", q.name, err)
	}
	return nil
}

func after(p keys.Position) keys.Position {
	if p.Ordinal == 1<<32-1 {
		return keys.Position{Index: p.Index + 1}
	}
	return keys.Position{Index: p.Index, Ordinal: p.Ordinal + 1}
}

// queue returns the memory of a queue, reading its record on first use.
func (t *Table) queue(ns job.Namespace, name string) (*queue, error) {
	k := queueKey{ns, name}
	if q, ok := t.queues[k]; ok {
		return q, nil
	}
	qs, counts, err := stateread.ReadQueueState(t.store, ns, name)
	if err != nil {
		return nil, err
	}
	q := &queue{queueKey: k, QueueState: qs, heldUntil: t.until(ns)}
	q.rewindTo(&counts)
	t.queues[k] = q
	return q, nil
}

// rewind forgets what is loaded; the next look starts at the floors again.
func (t *Table) rewind(q *queue) error {
	counts, err := stateread.ReadCounts(t.store, q.ns, q.name)
	if err != nil {
		return err
	}
	q.rewindTo(&counts)
	return nil
}

func (q *queue) rewindTo(counts *records.Counts) {
	for p := range q.windows {
		q.windows[p] = window{tail: before(counts.Floor[p]), more: true}
	}
}

// before is the last place ahead of p, so that loading after it includes p.
func before(p keys.Position) keys.Position {
	switch {
	case p.IsZero():
		return p
	case p.Ordinal == 0:
		return keys.Position{Index: p.Index - 1, Ordinal: 1<<32 - 1}
	default:
		return keys.Position{Index: p.Index, Ordinal: p.Ordinal - 1}
	}
}

// Absorb learns what an applied entry did.
func (t *Table) Absorb(a *state.Applied) error {
	for _, w := range t.begun {
		w.begun = false
	}
	t.begun = t.begun[:0]
	t.pass(a.Now)
	t.settle()
	for _, qs := range a.Queues {
		if err := t.absorbQueue(qs); err != nil {
			return err
		}
	}
	for _, ns := range a.Ended {
		t.end(ns)
	}
	for _, b := range a.Budgets {
		if err := t.absorbBudget(b); err != nil {
			return err
		}
	}
	granted := grants(a)
	for _, r := range a.Ready {
		if at, taken := granted[r.ID]; taken && r.Pos.Less(at) {
			continue // Made ready and handed out by the same entry.
		}
		if err := t.absorbReady(r); err != nil {
			return err
		}
	}
	for _, r := range a.Unready {
		t.absorbUnready(r)
	}
	return nil
}

// end forgets the queues of a namespace that was deleted. Those who wait for its jobs have
// to Leave.
func (t *Table) end(ns job.Namespace) {
	theirs := func(q *queue) bool { return q.ns == ns }
	t.hot = slices.DeleteFunc(t.hot, theirs)
	t.blocked = slices.DeleteFunc(t.blocked, theirs)
	maps.DeleteFunc(t.queues, func(k queueKey, _ *queue) bool { return k.ns == ns })
}

// grants are the jobs the entry handed out, with the place of the (last) grant:
// only what became ready before it was handed out.
func grants(a *state.Applied) map[job.ID]keys.Position {
	if len(a.Ready) == 0 {
		return nil
	}
	granted := make(map[job.ID]keys.Position)
	for i := range a.Results {
		for _, g := range a.Results[i].Grants {
			granted[g.ID] = g.Epoch
		}
	}
	return granted
}

// absorbQueue learns the numbers and settings of a queue. It reads the ready orders
// anew where a fetch of the entry may have been refused jobs that are still ready.
func (t *Table) absorbQueue(qs stateread.QueueState) error {
	q, ok := t.queues[queueKey{qs.NS, qs.Queue}]
	if !ok {
		return nil
	}
	q.QueueState = qs
	if qs.Rewind {
		if err := t.rewind(q); err != nil {
			return err
		}
	}
	t.heatIfOpen(q)
	return nil
}

func (t *Table) absorbReady(r state.Ready) error {
	q, ok := t.queues[queueKey{r.NS, r.Queue}]
	if !ok {
		return nil // Read from the store when somebody asks for the queue.
	}
	w := &q.windows[r.Priority]
	switch {
	case w.more: // The store has it, after others.
	case len(w.items)-w.head >= t.places:
		w.more = true
	case !w.tail.Less(r.Pos):
		return fmt.Errorf("ready place %v of job %s is not after %v", r.Pos, r.ID, w.tail)
	default:
		w.compact()
		w.items = append(w.items, item{r.Pos, r.ID})
		w.tail = r.Pos
	}
	t.heatIfOpen(q)
	return nil
}

// compact gives back the room of taken items before append would grow the slice.
func (w *window) compact() {
	if w.head > 0 && len(w.items) == cap(w.items) {
		n := copy(w.items, w.items[w.head:])
		w.items, w.head = w.items[:n], 0
	}
}

func (t *Table) absorbUnready(r state.Ready) {
	q, ok := t.queues[queueKey{r.NS, r.Queue}]
	if !ok {
		return
	}
	w := &q.windows[r.Priority]
	if w.tail.Less(r.Pos) {
		return // Not loaded yet: its row is already gone from the store.
	}
	if w.head == len(w.items) || r.Pos.Less(w.items[w.head].pos) {
		return // Taken by the entry that then found it gone.
	}
	if w.gone == nil {
		w.gone = make(map[keys.Position]struct{})
	}
	w.gone[r.Pos] = struct{}{}
}
