package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// wait is a caller that waits until cells have applied something.
type wait struct {
	tenantID string
	seen     func(*store.Tx) (bool, error)
	due      bool      // To be checked. Guarded by the book's mu.
	over     chan over // Has room for the one answer.
}

// over is how a wait ended.
type over struct {
	seen bool
	err  error
}

// waitBook is the callers that wait. They do not poll: the loop checks for all of them
// at once, when it has recorded something of their tenant.
type waitBook struct {
	mu   sync.Mutex
	all  map[*wait]bool // Guarded by mu.
	news chan struct{}
}

func newWaitBook() waitBook {
	return waitBook{all: make(map[*wait]bool), news: make(chan struct{}, 1)}
}

func (b *waitBook) add(w *wait) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[w] = true
	b.ring()
}

// ring wakes the loop. The caller has mu.
func (b *waitBook) ring() {
	select {
	case b.news <- struct{}{}:
	default: // It is already awake.
	}
}

// any reports whether somebody waits.
func (b *waitBook) any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all) > 0
}

func (b *waitBook) remove(w *wait) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, w)
}

// tell marks the waits for the tenants of rows to be checked.
func (b *waitBook) tell(rows []store.Outbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.all {
		for _, r := range rows {
			w.due = w.due || w.tenantID == r.TenantID
		}
	}
	b.ring()
}

// take returns the waits to check: all of them, or the marked ones.
func (b *waitBook) take(all bool) (due []*wait) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.all {
		if all || w.due {
			w.due = false
			due = append(due, w)
		}
	}
	return due
}

// Await waits until seen reports true of a tenant's records, or ctx ends: false. It asks
// the database once; then the loop checks whenever it has carried something of the
// tenant, and every answerEvery for what another process has carried.
func (l *Loop) Await(ctx context.Context, tenantID string, seen func(*store.Tx) (bool, error)) (bool, error) {
	w := &wait{tenantID: tenantID, seen: seen, over: make(chan over, 1)}
	l.waits.add(w)
	defer l.waits.remove(w)
	var is bool
	look := func(tx *store.Tx) (err error) {
		is, err = seen(tx)
		return err
	}
	var err error
	if tenantID == "" { // Records of no tenant.
		err = l.store.ReadService(ctx, look)
	} else {
		err = l.store.ReadTenant(ctx, tenantID, look)
	}
	switch {
	case ctx.Err() != nil:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("wait for the cell: %w", err)
	case is:
		return true, nil
	}
	select {
	case o := <-w.over:
		return o.seen, o.err
	case <-ctx.Done():
		return false, nil
	}
}

// answerEvery is how often the database is asked while somebody waits.
const answerEvery = 250 * time.Millisecond

// Watch serves Await until ctx ends. Run includes it; Watch alone is for a process
// that waits for what another one carries.
func (l *Loop) Watch(ctx context.Context) {
	tick := time.NewTicker(answerEvery)
	defer tick.Stop()
	for ticks := true; ; {
		if waits := l.waits.any(); waits != ticks {
			if ticks = waits; waits {
				tick.Reset(answerEvery)
			} else {
				tick.Stop()
			}
		}
		select {
		case <-l.waits.news:
			l.answer(ctx, l.waits.take(false))
		case <-tick.C:
			l.answer(ctx, l.waits.take(true))
		case <-ctx.Done():
			return
		}
	}
}

// answer checks the records of waits in one transaction. While the database is
// unavailable they go on waiting.
func (l *Loop) answer(ctx context.Context, waits []*wait) {
	if len(waits) == 0 {
		return
	}
	answers := make([]over, len(waits))
	err := l.store.ReadService(ctx, func(tx *store.Tx) error {
		for i, w := range waits {
			is, err := w.seen(tx)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			answers[i] = over{is, err}
		}
		return nil
	})
	if err != nil {
		return
	}
	for i, w := range waits {
		if answers[i].seen || answers[i].err != nil {
			l.waits.remove(w)
			w.over <- answers[i]
		}
	}
}
