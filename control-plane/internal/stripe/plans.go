package stripe

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// planAt is the plan that an hour of a tenant is paid by, also of one that was deleted.
func planAt(ctx context.Context, tx *store.Tx, tenantID string, at time.Time) (store.PlanVersion, error) {
	t, err := tx.FindTenant(ctx, tenantID)
	if err != nil {
		return store.PlanVersion{}, err
	}
	return plans.At(ctx, tx, t, at)
}

// subscriptionOf is a tenant's plan and where it stands.
func subscriptionOf(ctx context.Context, tx *store.Tx, tenantID string) (plan string, sub store.Subscription, err error) {
	t, err := tx.FindTenant(ctx, tenantID)
	if err != nil {
		return "", sub, err
	}
	sub, err = tx.GetSubscription(ctx, tenantID)
	return t.Plan, sub, err
}

// paid reports whether a plan costs anything.
func paid(v store.PlanVersion) bool { return v.BaseAmount > 0 || len(v.Prices) > 0 }
