package dispatch

import (
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Waiter is a fetch that waits for a job. The proposal loop owns it.
type Waiter struct {
	NS       job.Namespace
	Queues   []string
	Count    int
	Worker   string
	Hostname string
	Peer     uint64
	Lease    time.Duration

	parked bool
	// offered jobs are in the entry being built; its outcome decides whether the
	// waiter leaves or goes on waiting in its place.
	offered int
}

// Park lets w wait on all its queues.
func (t *Table) Park(w *Waiter) error {
	w.parked = true
	for _, name := range w.Queues {
		q, err := t.queue(w.NS, name)
		if err != nil {
			return err
		}
		q.waiters = append(q.waiters, w)
		t.heatIfOpen(q)
	}
	return nil
}

// Leave takes w out. Its entries in the queues' lists are dropped when met at the
// front, and all at once when a list is mostly such entries.
func (t *Table) Leave(w *Waiter) {
	if !w.parked {
		return
	}
	w.parked, w.offered = false, 0
	for _, name := range w.Queues {
		q, ok := t.queues[queueKey{w.NS, name}]
		if !ok {
			continue
		}
		if q.left++; q.left > len(q.waiters)/2 {
			q.waiters = slices.DeleteFunc(q.waiters, func(o *Waiter) bool { return !o.parked })
			q.left = 0
		}
	}
}

// waiting is the first waiter of q that no offer is out for.
func (q *queue) waiting() *Waiter {
	for len(q.waiters) > 0 && !q.waiters[0].parked {
		q.waiters[0] = nil
		q.waiters, q.left = q.waiters[1:], q.left-1
	}
	for _, w := range q.waiters {
		if w.parked && w.offered == 0 {
			return w
		}
	}
	return nil
}

func (t *Table) heat(q *queue) {
	if !q.isHot && len(q.waiters) > 0 {
		q.isHot = true
		t.hot = append(t.hot, q)
	}
}

// Hot reports whether Match may find something.
func (t *Table) Hot() bool { return len(t.hot) > 0 }

// Offer pairs a waiter with ready jobs.
type Offer struct {
	Waiter *Waiter
	Taken
}

// Match pairs the waiter who waits longest for a hot queue with up to most of its ready jobs,
// or reports that nobody who waits can have any. Hot queues take turns, since an entry has room for
// some offers only; a table that isn't asked on stays hot. The caller proposes a Fetch for the
// offer and then lets the waiter either Leave or Unmatch.
func (t *Table) Match(most int) (Offer, bool, error) {
	for len(t.hot) > 0 {
		q := t.hot[0]
		if w := q.waiting(); w != nil {
			var taken Taken
			if err := t.takeFrom(q, min(w.Count, most), &taken); err != nil {
				return Offer{}, false, err
			}
			if len(taken.Jobs) > 0 {
				w.offered = len(taken.Jobs)
				t.hot = append(t.hot[1:], q)
				return Offer{w, taken}, true, nil
			}
			t.block(q)
		}
		q.isHot = false
		t.hot = t.hot[1:]
	}
	return Offer{}, false, nil
}

// Awaited reports whether somebody waits for a queue's jobs.
func (t *Table) Awaited(ns job.Namespace, name string) bool {
	q, ok := t.queues[queueKey{ns, name}]
	return ok && len(q.waiters) > q.left
}

// Promise pairs a job that the entry being built will make ready with somebody
// who waits for it, so that the grant rides in the same entry. It returns nil
// when nobody waits; first tells that the entry had no offer for the waiter yet,
// which happens only if fresh allows it. Ready jobs go first (INV-8): Match ran before, but
// offers a waiter the jobs of one queue only.
func (t *Table) Promise(ns job.Namespace, name string, fresh bool) (w *Waiter, first bool) {
	q, ok := t.queues[queueKey{ns, name}]
	if !ok || q.Paused || t.held(q) || q.mayHaveReady() || q.Limited() && t.room(q) == 0 {
		return nil, false
	}
	for _, w := range q.waiters {
		if w.parked && w.offered < w.Count && (w.offered > 0 || fresh) {
			w.offered++
			t.taken(q)
			return w, w.offered == 1
		}
	}
	return nil, false
}

// Unmatch puts a waiter whose offer came to nothing back to waiting, in its place.
func (t *Table) Unmatch(w *Waiter) {
	if !w.parked {
		return
	}
	w.offered = 0
	for _, name := range w.Queues {
		if q, ok := t.queues[queueKey{w.NS, name}]; ok {
			t.heat(q)
		}
	}
}

// Waiters lists everybody who waits, each once.
func (t *Table) Waiters() []*Waiter {
	seen := make(map[*Waiter]struct{})
	var all []*Waiter
	for _, q := range t.queues {
		for _, w := range q.waiters {
			if _, dup := seen[w]; !dup && w.parked {
				seen[w] = struct{}{}
				all = append(all, w)
			}
		}
	}
	return all
}
