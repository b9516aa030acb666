package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// A program opens one Store, which migrates the database, and does everything in
// transactions: for the service, or for one tenant.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "store")
	check(err)
	defer os.RemoveAll(dir)
	s, err := store.Open(ctx, "sqlite:"+filepath.Join(dir, "control.db"), store.Options{})
	check(err)

	check(s.Service(ctx, func(tx *store.Tx) error {
		return tx.InsertTenant(ctx, store.Tenant{ID: "tn_1", Name: "acme", Plan: "free", Cell: "cell-1"})
	}))
	check(s.Tenant(ctx, "tn_1", func(tx *store.Tx) error { // Runs again if it lost a race.
		tenant, err := tx.GetTenant(ctx, "tn_1") // Read here what you change:
		if err != nil {
			return err
		}
		tenant.DisplayName = "Acme"
		fmt.Println(tenant.Name)
		return tx.UpdateTenant(ctx, &tenant) // ErrStale if tenant is not the stored version.
	}))
	check(s.Close())
	// Output: acme
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
