package change

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func subscription(t store.Tenant) Target { return Target{"subscription", t.ID, t.Plan, t.ID} }

// ChangePlan gives a tenant the plan that is in t and s from a time on, and tells the cell.
func ChangePlan(t *store.Tenant, s *store.Subscription, at time.Time) Record {
	r := UpdateTenant(t).InCell()
	r.Target = subscription(*t)
	tenant := r.write
	r.write = func(ctx context.Context, tx *store.Tx, now time.Time) error {
		if err := tenant(ctx, tx, now); err != nil {
			return err
		}
		s.UpdatedAt = now
		if err := tx.UpdateSubscription(ctx, s); err != nil {
			return err
		}
		return tx.PutSubscriptionChange(ctx, store.SubscriptionChange{TenantID: t.ID, At: at, Plan: t.Plan, PlanVersion: s.PlanVersion})
	}
	return r
}

// UpdateSubscription writes a change that waits, which the cell need not know.
func UpdateSubscription(t store.Tenant, s *store.Subscription) Record {
	return updated(subscription(t), &s.UpdatedAt, (*store.Tx).UpdateSubscription, s)
}

// UpdateSubscriptionState writes the state, which the cell learns as what is held back.
func UpdateSubscriptionState(t store.Tenant, s *store.Subscription) Record {
	return UpdateSubscription(t, s).limits(t.ID, time.Time{})
}

// limits makes the cell learn the tenant's limits now, and at an end if there is one.
func (r Record) limits(tenantID string, end time.Time) Record {
	r.tell = append(r.tell, notice{kind: store.OutboxTenant, subject: tenantID})
	return r.limitsAt(tenantID, end)
}

func (r Record) limitsAt(tenantID string, end time.Time) Record {
	if !end.IsZero() {
		r.tell = append(r.tell, notice{kind: store.OutboxTenant, subject: tenantID, at: end})
	}
	return r
}

// PutOverride sets an entitlement of one tenant, which the cell learns now and at its end.
func PutOverride(t *store.Tenant, v store.Override) Record {
	return inTenant(t, func(ctx context.Context, tx *store.Tx) error { return tx.PutOverride(ctx, v) }, v.Name).limitsAt(t.ID, v.EndsAt)
}

// DeleteOverride gives a tenant what its plan gives.
func DeleteOverride(t *store.Tenant, name string) Record {
	return inTenant(t, func(ctx context.Context, tx *store.Tx) error { return tx.DeleteOverride(ctx, t.ID, name) }, name)
}

// inTenant writes something beside a tenant's record, and tells the cell.
func inTenant(t *store.Tenant, write func(context.Context, *store.Tx) error, name string) Record {
	r := UpdateTenant(t).InCell()
	r.Target = Target{"override", name, name, t.ID}
	tenant := r.write
	r.write = func(ctx context.Context, tx *store.Tx, now time.Time) error {
		if err := write(ctx, tx); err != nil {
			return err
		}
		return tenant(ctx, tx, now)
	}
	return r
}

func hold(tenantID, limit string) Target { return Target{"hold", limit, limit, tenantID} }

// PutHold holds back jobs of a tenant, which the cell learns now and at its end.
func PutHold(v store.Hold) Record {
	return record(hold(v.TenantID, v.Limit), (*store.Tx).PutHold, v).limits(v.TenantID, v.Until)
}

// DeleteHold ends it.
func DeleteHold(tenantID, limit string) Record {
	return Record{Target: hold(tenantID, limit), write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
		return tx.DeleteHold(ctx, tenantID, limit)
	}}.limits(tenantID, time.Time{})
}
