package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// news tells everybody who waits that something was noted.
type news struct {
	mu   sync.Mutex
	next chan struct{} // Closed at the next news. Guarded by mu.
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.next)
	n.next = make(chan struct{})
}

func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.next
}

// WaitObserved waits until every proxy goes by a record's generation, at most max. It
// asks the database, so that it does not matter which process carries the change.
func (l *Loop) WaitObserved(ctx context.Context, kind store.OutboxKind, tenantID, id string, generation int64, max time.Duration) (bool, error) {
	l.Wake()
	ctx, cancel := context.WithTimeout(ctx, max)
	defer cancel()
	for {
		next := l.news.wait()
		var seen int64
		err := l.store.ReadTenant(ctx, tenantID, func(tx store.Tx) (err error) {
			seen, err = observedOf(ctx, tx, kind, tenantID, id)
			return err
		})
		switch {
		case err == nil && seen >= generation:
			return true, nil
		case ctx.Err() != nil:
			return false, nil
		case err != nil:
			return false, fmt.Errorf("wait for %s %s to be observed: %w", kind, id, err)
		}
		select {
		case <-next:
		case <-time.After(l.o.Poll):
		case <-ctx.Done():
		}
	}
}

func observedOf(ctx context.Context, tx store.Tx, kind store.OutboxKind, tenantID, id string) (int64, error) {
	switch kind {
	case store.OutboxTenant:
		t, err := tx.FindTenant(ctx, id)
		return t.Observed, err
	case store.OutboxNamespace:
		n, err := tx.GetNamespace(ctx, tenantID, id)
		return n.Observed, err
	case store.OutboxKey:
		k, err := tx.GetKey(ctx, tenantID, id)
		return k.Observed, err
	}
	return 0, errors.New("records of this kind aren't observed")
}
