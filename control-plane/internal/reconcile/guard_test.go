package reconcile_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// A database that was silently restored from an older copy writes nothing: it would undo
// later changes.
func TestGuard_AnOlderCopyOfTheDatabaseIsNoticedAndWritesNothing(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]func(ctx context.Context, tx *store.Tx, now time.Time) error{
		"generations that it has not drawn": func(ctx context.Context, tx *store.Tx, now time.Time) error {
			return reconcile.SetGeneration(ctx, tx, 0, now)
		},
		"another incarnation": func(ctx context.Context, tx *store.Tx, now time.Time) error {
			return tx.PutSetting(ctx, reconcile.IncarnationSetting, "inc_older", now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := onSQLite(t)
			r.signUp(t)
			_, stop := r.start(t, r.options())
			r.done(t)
			stop()
			before := r.cell.appliedCalls()
			r.write(t, func(ctx context.Context, tx *store.Tx) error {
				k, err := tx.GetKey(ctx, tenantID, keyID)
				if err != nil {
					return err
				}
				k.Name, k.Generation = "as it was an hour ago", k.Generation+1
				if err := tx.UpdateKey(ctx, &k); err != nil {
					return err
				}
				if err := r.tell(ctx, tx, store.OutboxKey, keyID); err != nil {
					return err
				}
				return older(ctx, tx, r.now())
			})
			o := r.options()
			o.Guard = 20 * time.Millisecond
			l, _ := r.start(t, o)
			eventually.True(t, patience, "noticed", func() bool { return l.Restored() != nil })
			if err := l.Restored(); !strings.Contains(err.Error(), "--after-restore") {
				t.Errorf("it does not say what to do: %v", err)
			}
			eventually.True(t, patience, "a failed try", func() bool { return strings.Contains(l.Health().LastProblem, "older copy") })
			if n := r.cell.appliedCalls(); n != before {
				t.Errorf("%d entries were written", n-before)
			}
		})
	}
}
