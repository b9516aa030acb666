package reconcile_test

import (
	"context"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// The server makes one Loop. A use case writes records and outbox rows, wakes the loop,
// which else sees them at its next poll, and may wait until the cell has them.
func Example() {
	serve := func(ctx context.Context, s store.Store, cells map[string]reconcile.Cell, mail reconcile.SendMail, tenantID string) (bool, error) {
		loop := reconcile.New(s, cells, mail, reconcile.Options{})
		go loop.Run(ctx) // Until ctx ends and what it began has ended.

		loop.Wake()
		return loop.Await(ctx, tenantID, func(tx *store.Tx) (bool, error) {
			tenant, err := tx.GetTenant(ctx, tenantID)
			return tenant.Observed >= tenant.Generation, err // Whether the cell has the change.
		})
	}
	_ = serve
}
