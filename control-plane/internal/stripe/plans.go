package stripe

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// planAt is the plan that an hour is paid by: the one in force at its beginning.
func planAt(ctx context.Context, tx *store.Tx, tenantID string, at time.Time) (store.PlanVersion, error) {
	changes, err := tx.SubscriptionChanges(ctx, tenantID, at, at.Add(1))
	if err != nil {
		return store.PlanVersion{}, err
	}
	if len(changes) == 0 {
		return store.PlanVersion{}, fmt.Errorf("plan of tenant %s at %s: %w", tenantID, at.Format(time.RFC3339), store.ErrNotFound)
	}
	c := changes[len(changes)-1]
	return tx.GetPlan(ctx, c.Plan, c.PlanVersion)
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
