package reconcile_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// A loop claims more emails at a time than it can send before its claim ends.
func TestMail_AnEmailThatWaitsLongerThanItsClaimIsSentOnce(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	const emails = 100
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		for range emails {
			if err := tx.InsertOutbox(ctx, r.outbox(store.OutboxMail, "sign-in", r.now())); err != nil {
				return err
			}
		}
		return nil
	})
	var mu sync.Mutex
	sent := make(map[string]int)
	send := func(_ context.Context, row store.Outbox) error {
		mu.Lock()
		sent[row.ID]++
		mu.Unlock()
		time.Sleep(150 * time.Millisecond) // So long does the mail server take.
		return nil
	}
	o := r.options()
	o.Claim = 2 * time.Second
	for range 2 {
		untilTheEnd(t, reconcile.New(r.store, r.cells, send, o).Run)
	}
	r.done(t)
	mu.Lock()
	defer mu.Unlock()
	if len(sent) != emails {
		t.Errorf("%d emails were sent, want %d", len(sent), emails)
	}
	maps.DeleteFunc(sent, func(_ string, times int) bool { return times == 1 })
	if len(sent) > 0 {
		t.Errorf("%d emails were sent more than once", len(sent))
	}
}
