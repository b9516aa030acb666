// Package recurring does what a room has to do again and again, in one process of several at
// a time.
//
// It must not know what is done. Surprising: two passes at once must do no harm all the same. A
// process that stands still for longer than its lease goes on where it was. The process that has
// the lease doesn't write it at every pass, which would be most of what an idle control plane
// writes.
package recurring

import (
	"context"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Work is what is done again and again.
type Work struct {
	// Name is that of the lease, of this work alone.
	Name string
	// Every is the time between two passes.
	Every time.Duration
	// Lease is how long the others leave the work to a process that has died. A pass gets half
	// of it.
	Lease time.Duration
	// Failed is what the log says of a pass that failed. The next one tries again.
	Failed string
	// Pass does what is due. What it doesn't get to is left to the next one.
	Pass func(ctx context.Context, now time.Time) error
}

// Loop does it.
type Loop struct {
	kit    kit.Kit
	work   Work
	holder string

	mu   sync.Mutex // Guards the rest.
	held time.Time  // When the lease was taken last, by the kit's clock,
	at   time.Time  // and by the monotonic one; zero is never, or not any more.
}

// New makes a Loop.
func New(k kit.Kit, w Work) *Loop {
	holder, _ := seal.NewToken(w.Name + "_") // A unique name; it need not be secret.
	return &Loop{kit: k, work: w, holder: holder[:len(w.Name)+16]}
}

// Run makes a pass at once, and one at every tick until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	tick := time.NewTicker(l.work.Every)
	defer tick.Stop()
	for {
		if err := l.Pass(ctx); err != nil && ctx.Err() == nil {
			l.kit.Log.WarnContext(ctx, l.work.Failed+"; retrying", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Pass makes one pass, unless another process has the work.
func (l *Loop) Pass(ctx context.Context) error {
	now := l.kit.Now()
	if mine, err := l.mine(ctx, now); err != nil || !mine {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.work.Lease/2)
	defer cancel()
	return l.work.Pass(ctx, now)
}

// mine takes the lease, or renews it once a quarter of it is over: then there is still more of it
// than a pass gets.
func (l *Loop) mine(ctx context.Context, now time.Time) (mine bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Neither clock may say that it is older: the one of the database's other users can be set, and
	// the monotonic one stands still while the machine sleeps.
	if old := now.Sub(l.held); old >= 0 && max(old, time.Since(l.at)) < l.work.Lease/4 {
		return true, nil
	}
	began := time.Now()
	err = l.kit.Store.Service(ctx, func(tx *store.Tx) (err error) {
		_, mine, err = tx.TakeLease(ctx, l.work.Name, l.holder, now, now.Add(l.work.Lease))
		return err
	})
	if l.held, l.at = now, began; err != nil || !mine {
		l.held, l.at = time.Time{}, time.Time{}
	}
	return mine, err
}
