package reconcile_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// What another process carries is in the database only. Nothing says so, also to a process in
// which nobody had waited for a while.
func TestAwait_SeesWhatAnotherProcessCarries(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.signUp(t)
	l := reconcile.New(r.store, r.cells, r.sendMail, r.options())
	var watch sync.WaitGroup
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer watch.Wait()
	defer end()
	watch.Go(func() { l.Watch(ctx) })
	for range 2 {
		looks := 0
		seen, err := l.Await(ctx, tenantID, func(*store.Tx) (bool, error) {
			looks++
			return looks > 2, nil
		})
		if !seen || err != nil {
			t.Fatalf("seen %v, %v", seen, err)
		}
		time.Sleep(10 * look) // Nobody waits.
	}
}

// A waiter asks the database once, and is woken when a change is carried. The loop, which
// would otherwise look in an hour, asks once more for all of them.
func TestAwait_NobodyPolls(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.signUp(t)
	o := r.options()
	o.Poll = time.Hour
	l := reconcile.New(r.store, r.cells, r.sendMail, o)
	var looks atomic.Int64
	over := make(chan error, 1)
	go func() {
		seen, err := l.Await(t.Context(), tenantID, func(tx *store.Tx) (bool, error) {
			k, err := tx.GetKey(t.Context(), tenantID, keyID)
			looks.Add(1)
			return k.Observed >= 1, err
		})
		if err == nil && !seen {
			err = errors.New("not seen")
		}
		over <- err
	}()
	eventually.True(t, patience, "somebody waits", func() bool { return looks.Load() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran })
	select {
	case err := <-over:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("nobody was told what the loop has carried")
	}
	if n := looks.Load(); n != 2 {
		t.Errorf("%d looks, want one by whoever waits and one by the loop", n)
	}
}
