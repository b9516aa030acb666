package dispatch

import (
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
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
	// Matched: the entry being built offers it jobs; the answer decides whether it
	// leaves or goes on waiting in its place.
	Matched bool
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
		t.heat(q)
	}
	return nil
}

// Leave takes w out. Its entries in the queues' lists are dropped when met, and
// here when a list is mostly such entries.
func (t *Table) Leave(w *Waiter) {
	w.parked, w.Matched = false, false
	for _, name := range w.Queues {
		if q, ok := t.queues[queueKey{w.NS, name}]; ok {
			q.waiters = slices.DeleteFunc(q.waiters, func(o *Waiter) bool { return o == w || !o.parked })
		}
	}
}

// waiting is the first waiter of q that no offer is out for.
func (q *queue) waiting() *Waiter {
	for _, w := range q.waiters {
		if w.parked && !w.Matched {
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

// Match pairs waiters with ready jobs until one of them runs out. Each waiter is
// marked Matched: the caller proposes a Fetch per offer and then either lets the
// waiter Leave or clears the mark with Unmatch.
func (t *Table) Match() ([]Offer, error) {
	var offers []Offer
	for len(t.hot) > 0 {
		q := t.hot[0]
		for {
			w := q.waiting()
			if w == nil {
				break
			}
			var taken Taken
			if err := t.takeFrom(q, w.Count, &taken); err != nil {
				return nil, err
			}
			if len(taken.Jobs) == 0 {
				break
			}
			w.Matched = true
			offers = append(offers, Offer{w, taken})
		}
		q.isHot = false
		t.hot = t.hot[1:]
	}
	return offers, nil
}

// Promise pairs a job that the entry being built will make ready with somebody
// who waits for it, so that the grant rides in the same entry. It returns nil
// when nobody waits. Ready jobs go first: Match ran before.
func (t *Table) Promise(ns job.Namespace, name string, offered func(*Waiter) int) *Waiter {
	q, ok := t.queues[queueKey{ns, name}]
	if !ok || q.paused {
		return nil
	}
	for _, w := range q.waiters {
		if w.parked && (!w.Matched || offered(w) > 0 && offered(w) < w.Count) {
			return w
		}
	}
	return nil
}

// Unmatch puts a waiter whose offer came to nothing back to waiting, in its place.
func (t *Table) Unmatch(w *Waiter) {
	if !w.parked {
		return
	}
	w.Matched = false
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
