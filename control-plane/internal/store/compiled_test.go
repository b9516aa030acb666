package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// What a transaction ran is compiled for the next one, which sees what was written between
// them. A transaction that was given up in the middle of a statement spoils none.
func TestSQLite_StatementsAreCompiledOnce(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "control.db"))
	find := func(id string) error {
		return s.ReadService(t.Context(), func(tx *store.Tx) error {
			_, err := tx.FindTenant(t.Context(), id)
			return err
		})
	}
	_, before := store.Compiled(s)
	wantErr(t, "a tenant that isn't there", find("tn_a"), store.ErrNotFound)
	if _, after := store.Compiled(s); after != before+1 {
		t.Fatalf("%d statements are compiled after one was new, %d before", after, before)
	}
	service(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.InsertTenant(ctx, tenant("tn_a", "acme")) })
	wantErr(t, "a tenant that is there", find("tn_a"), nil)

	ended, cancel := context.WithCancel(t.Context())
	err := s.ReadService(ended, func(tx *store.Tx) error {
		cancel()
		_, err := tx.FindTenant(ended, "tn_a")
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a transaction that was given up: %v", err)
	}
	for range 4 { // Every connection.
		wantErr(t, "a tenant that is there", find("tn_a"), nil)
	}
	if _, after := store.Compiled(s); after != before+1 {
		t.Errorf("%d statements are compiled, %d before: it was one", after, before)
	}
}

func TestSQLite_CompiledStatementsAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "control.db"))
	for i := range store.CompiledMax + 5 {
		for range 2 {
			err := s.ReadService(t.Context(), func(tx *store.Tx) error {
				n, err := store.CountBy(t.Context(), tx, fmt.Sprint("SELECT ", i))
				if n != i {
					t.Errorf("%d is %d", i, n)
				}
				return err
			})
			wantErr(t, "count", err, nil)
		}
	}
	if _, n := store.Compiled(s); n != store.CompiledMax {
		t.Errorf("%d statements are compiled, at most %d are kept", n, store.CompiledMax)
	}
}
