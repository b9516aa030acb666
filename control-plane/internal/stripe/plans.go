package stripe

import (
	"context"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

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
