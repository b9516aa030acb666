package server

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/usage"
)

// used is what the ledger has counted of a tenant, for the limits of its plan.
func used(ctx context.Context, tx *store.Tx, tenantID string, now time.Time) (plans.Used, error) {
	u, err := usage.UsedBy(ctx, tx, tenantID, now)
	return plans.Used(u), err
}
