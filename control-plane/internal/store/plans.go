package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// PlanVersion is what a plan gives and costs. A version never changes once it is there.
type PlanVersion struct {
	Plan    string
	Version int64
	Title   string
	// Rank orders plans, the smallest first.
	Rank       int64
	Currency   string
	BaseAmount int64 // A month, in the currency's smallest unit.
	// OverLimit is what happens beyond jobs_per_month_max.
	OverLimit string
	// SelfServe: tenants can choose it; Listed: tenants see it.
	SelfServe, Listed bool
	CreatedAt         time.Time
	Entitlements      map[string]int64
	Prices            []Price // By meter.
}

// Price of a meter: beyond what is included, every Per cost Amount.
type Price struct {
	Meter                 string
	Included, Per, Amount int64
}

// Subscription is where a tenant stands with its plan, whose name is the tenant's.
type Subscription struct {
	TenantID    string
	PlanVersion int64
	// NextPlan is a change that waits for NextAt; empty: none.
	NextPlan    string
	NextVersion int64
	NextAt      time.Time
	// State is active, past_due, restricted or suspended. It is followed by the next one
	// at StateUntil if nothing is paid.
	State                  string
	StateSince, StateUntil time.Time
	UpdatedAt              time.Time
	Version                int64
}

// SubscriptionActive is the state of a tenant that owes nothing.
const SubscriptionActive = "active"

// SubscriptionChange says that a plan was in force from a time on.
type SubscriptionChange struct {
	TenantID    string
	At          time.Time
	Plan        string
	PlanVersion int64
}

// Override is an entitlement of one tenant that differs from its plan's.
type Override struct {
	TenantID, Name string
	Value          int64
	Unlimited      bool
	Reason         string
	EndsAt         time.Time // Zero: not by itself.
	CreatedAt      time.Time
}

// Hold is what one limit holds back of a tenant's jobs.
type Hold struct {
	TenantID, Limit   string
	Dispatch, Enqueue bool
	Value             int64
	Until             time.Time // Zero: not by itself.
	CreatedAt         time.Time
}

// Entitled is what a tenant may have: its plan's version with the overrides that count.
type Entitled struct {
	Plan      string
	Version   int64
	Title     string
	OverLimit string
	// State of the subscription.
	State string
	// Values by name; what isn't there has no limit.
	Values map[string]int64
}

var (
	planVersions = table[PlanVersion]{
		name: "plan_versions", columns: "plan, version, title, rank, currency, base_amount, over_limit, self_serve, listed, created_at",
		fields: func(v *PlanVersion) []any {
			return []any{&v.Plan, &v.Version, &v.Title, &v.Rank, &v.Currency, &v.BaseAmount, &v.OverLimit, asBool{&v.SelfServe}, asBool{&v.Listed}, asTime{&v.CreatedAt}}
		},
	}
	subscriptions = table[Subscription]{
		name: "subscriptions", columns: "tenant_id, plan_version, next_plan, next_version, next_at, state, state_since, state_until, updated_at, version",
		fields: func(v *Subscription) []any {
			return []any{&v.TenantID, &v.PlanVersion, &v.NextPlan, &v.NextVersion, asTime{&v.NextAt}, &v.State, asTime{&v.StateSince}, asTime{&v.StateUntil},
				asTime{&v.UpdatedAt}, &v.Version}
		},
		key: "tenant_id", changes: "plan_version, next_plan, next_version, next_at, state, state_since, state_until, updated_at",
	}
	subscriptionChanges = table[SubscriptionChange]{
		name: "subscription_changes", columns: "tenant_id, at, plan, plan_version",
		fields: func(v *SubscriptionChange) []any {
			return []any{&v.TenantID, asTime{&v.At}, &v.Plan, &v.PlanVersion}
		},
	}
	overrides = table[Override]{
		name: "entitlement_overrides", columns: "tenant_id, name, value, unlimited, reason, ends_at, created_at",
		fields: func(v *Override) []any {
			return []any{&v.TenantID, &v.Name, &v.Value, asBool{&v.Unlimited}, &v.Reason, asTime{&v.EndsAt}, asTime{&v.CreatedAt}}
		},
	}
	holds = table[Hold]{
		name: "tenant_holds", columns: "tenant_id, limit_name, dispatch, enqueue, value, until, created_at",
		fields: func(v *Hold) []any {
			return []any{&v.TenantID, &v.Limit, asBool{&v.Dispatch}, asBool{&v.Enqueue}, &v.Value, asTime{&v.Until}, asTime{&v.CreatedAt}}
		},
	}
)

// GetPlan finds a version of a plan with what it gives and costs; 0 is the newest.
func (t *Tx) GetPlan(ctx context.Context, plan string, version int64) (PlanVersion, error) {
	v, err := planVersions.get(ctx, t.common(), "plan = ? AND (version = ? OR ? = 0) ORDER BY version DESC LIMIT 1", plan, version, version)
	if err != nil {
		return v, fmt.Errorf("plan %q: %w", plan, err)
	}
	return v, t.completePlan(ctx, &v)
}

// ListPlans are the newest versions of all plans, the smallest first.
func (t *Tx) ListPlans(ctx context.Context) ([]PlanVersion, error) {
	list, err := planVersions.list(ctx, t.common(), pageMax,
		"version = (SELECT p.version FROM plans p WHERE p.name = plan_versions.plan) ORDER BY rank, plan")
	for i := range list {
		if err == nil {
			err = t.completePlan(ctx, &list[i])
		}
	}
	return list, err
}

func (t *Tx) completePlan(ctx context.Context, v *PlanVersion) error {
	type entitlement struct {
		name  string
		value int64
	}
	all, err := query(ctx, t.common(), "list entitlements of a plan", func(e *entitlement) []any { return []any{&e.name, &e.value} },
		"SELECT name, value FROM plan_entitlements WHERE plan = ? AND version = ? LIMIT ?", v.Plan, v.Version, pageMax)
	if err != nil {
		return err
	}
	v.Entitlements = make(map[string]int64, len(all))
	for _, e := range all {
		v.Entitlements[e.name] = e.value
	}
	v.Prices, err = query(ctx, t.common(), "list prices of a plan", func(p *Price) []any { return []any{&p.Meter, &p.Included, &p.Per, &p.Amount} },
		"SELECT meter, included, per, amount FROM plan_prices WHERE plan = ? AND version = ? ORDER BY meter LIMIT ?", v.Plan, v.Version, pageMax)
	return err
}

// InsertPlanVersion adds the next version of a plan, or the first one of a new plan;
// ErrStale if another one was added since.
func (t *Tx) InsertPlanVersion(ctx context.Context, v PlanVersion) error {
	if v.Version == 1 {
		if err := t.across().insert(ctx, "plans", "name, version", v.Plan, v.Version); err != nil {
			return err
		}
	} else if n, err := t.across().exec(ctx, "raise plan", "UPDATE plans SET version = ? WHERE name = ? AND version = ?", v.Version, v.Plan, v.Version-1); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("version %d of plan %s: %w", v.Version, v.Plan, ErrStale))
	}
	if err := planVersions.insert(ctx, t.across(), v); err != nil {
		return err
	}
	for name, value := range v.Entitlements {
		if err := t.across().insert(ctx, "plan_entitlements", "plan, version, name, value", v.Plan, v.Version, name, value); err != nil {
			return err
		}
	}
	for _, p := range v.Prices {
		if err := t.across().insert(ctx, "plan_prices", "plan, version, meter, included, per, amount", v.Plan, v.Version, p.Meter, p.Included, p.Per, p.Amount); err != nil {
			return err
		}
	}
	return nil
}

// insertSubscription subscribes a new tenant to the newest version of its plan.
func (t *Tx) insertSubscription(ctx context.Context, v Tenant) error {
	plan, err := planVersions.get(ctx, t.common(), "plan = ? ORDER BY version DESC LIMIT 1", v.Plan)
	if err != nil {
		return fmt.Errorf("plan %q: %w", v.Plan, err)
	}
	s := Subscription{TenantID: v.ID, PlanVersion: plan.Version, State: SubscriptionActive, StateSince: v.CreatedAt, UpdatedAt: v.CreatedAt, Version: 1}
	if err := subscriptions.insert(ctx, t.of(v.ID), s); err != nil {
		return err
	}
	return t.PutSubscriptionChange(ctx, SubscriptionChange{TenantID: v.ID, At: v.CreatedAt, Plan: v.Plan, PlanVersion: plan.Version})
}

// GetSubscription is where a tenant stands.
func (t *Tx) GetSubscription(ctx context.Context, tenantID string) (Subscription, error) {
	return subscriptions.get(ctx, t.of(tenantID), "tenant_id = ?", tenantID)
}

// UpdateSubscription changes one at the version it was read at.
func (t *Tx) UpdateSubscription(ctx context.Context, v *Subscription) error {
	return subscriptions.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// DueSubscriptions are those of live tenants whose change is due.
func (t *Tx) DueSubscriptions(ctx context.Context, now time.Time, limit int) ([]Subscription, error) {
	return subscriptions.list(ctx, t.across(), limit, `next_at > 0 AND next_at <= ?
		AND tenant_id IN (SELECT tenant_id FROM tenants WHERE deleted_at = 0) ORDER BY next_at, tenant_id`, now)
}

// PutSubscriptionChange records which plan is in force from a time on; the last one of a
// time counts.
func (t *Tx) PutSubscriptionChange(ctx context.Context, v SubscriptionChange) error {
	_, err := t.of(v.TenantID).exec(ctx, "replace subscription change", "DELETE FROM subscription_changes WHERE tenant_id = ? AND at = ?", v.TenantID, v.At)
	if err != nil {
		return err
	}
	return subscriptionChanges.insert(ctx, t.of(v.TenantID), v)
}

// SubscriptionChanges are those that count for a span: the one in force at its beginning,
// and those before its end, oldest first.
func (t *Tx) SubscriptionChanges(ctx context.Context, tenantID string, from, to time.Time) ([]SubscriptionChange, error) {
	return subscriptionChanges.list(ctx, t.of(tenantID), pageMax, `tenant_id = ? AND at < ?
		AND at >= COALESCE((SELECT MAX(b.at) FROM subscription_changes b WHERE b.tenant_id = ? AND b.at <= ?), 0) ORDER BY at`, tenantID, to, tenantID, from)
}

// SubscriptionChangesOf are those of some tenants before a time, oldest first.
func (t *Tx) SubscriptionChangesOf(ctx context.Context, tenantIDs []string, to time.Time) ([]SubscriptionChange, error) {
	return subscriptionChanges.list(ctx, t.across(), pageMax*len(tenantIDs), "tenant_id IN ("+places(len(tenantIDs))+") AND at < ? ORDER BY at", append(anys(tenantIDs), to)...)
}

// Entitlements is what a tenant may have at a time, read by one statement.
func (t *Tx) Entitlements(ctx context.Context, tenantID string, now time.Time) (Entitled, error) {
	type row struct {
		kind                       int64 // 0: the plan itself, 1: of the plan, 2: an override.
		name, title, overLimit, is string
		value, unlimited           int64
	}
	rows, err := query(ctx, t.of(tenantID), "read entitlements",
		func(r *row) []any {
			return []any{&r.kind, &r.name, &r.title, &r.overLimit, &r.is, &r.value, &r.unlimited}
		},
		`SELECT 0 AS kind, v.plan AS name, v.title, v.over_limit, s.state, v.version, 0
		   FROM tenants t JOIN subscriptions s ON s.tenant_id = t.tenant_id JOIN plan_versions v ON v.plan = t.plan AND v.version = s.plan_version
		   WHERE t.tenant_id = ?
		 UNION ALL SELECT 1, e.name, '', '', '', e.value, 0
		   FROM tenants t JOIN subscriptions s ON s.tenant_id = t.tenant_id JOIN plan_entitlements e ON e.plan = t.plan AND e.version = s.plan_version
		   WHERE t.tenant_id = ?
		 UNION ALL SELECT 2, o.name, '', '', '', o.value, o.unlimited FROM entitlement_overrides o
		   WHERE o.tenant_id = ? AND (o.ends_at = 0 OR o.ends_at > ?)
		 ORDER BY kind, name LIMIT ?`, tenantID, tenantID, tenantID, now, pageMax)
	if err != nil {
		return Entitled{}, err
	}
	if len(rows) == 0 || rows[0].kind != 0 {
		return Entitled{}, fmt.Errorf("entitlements of tenant %s: %w", tenantID, ErrNotFound)
	}
	e := Entitled{Plan: rows[0].name, Version: rows[0].value, Title: rows[0].title, OverLimit: rows[0].overLimit, State: rows[0].is, Values: make(map[string]int64, len(rows))}
	for _, r := range rows[1:] {
		if r.unlimited != 0 {
			delete(e.Values, r.name)
			continue
		}
		e.Values[r.name] = r.value
	}
	return e, nil
}

// PutOverride sets an entitlement of one tenant.
func (t *Tx) PutOverride(ctx context.Context, v Override) error {
	if _, err := t.of(v.TenantID).exec(ctx, "replace override", "DELETE FROM entitlement_overrides WHERE tenant_id = ? AND name = ?", v.TenantID, v.Name); err != nil {
		return err
	}
	return overrides.insert(ctx, t.of(v.TenantID), v)
}

// DeleteOverride ends one.
func (t *Tx) DeleteOverride(ctx context.Context, tenantID, name string) error {
	return t.of(tenantID).change(ctx, "delete override", "DELETE FROM entitlement_overrides WHERE tenant_id = ? AND name = ?", tenantID, name)
}

// GetOverride finds one, also one that has ended.
func (t *Tx) GetOverride(ctx context.Context, tenantID, name string) (Override, error) {
	return overrides.get(ctx, t.of(tenantID), "tenant_id = ? AND name = ?", tenantID, name)
}

// ListOverrides lists a tenant's by name, also those that have ended.
func (t *Tx) ListOverrides(ctx context.Context, tenantID string) ([]Override, error) {
	return overrides.list(ctx, t.of(tenantID), pageMax, "tenant_id = ? ORDER BY name", tenantID)
}

// EndedOverrides are those of all tenants that have ended, oldest first.
func (t *Tx) EndedOverrides(ctx context.Context, now time.Time, limit int) ([]Override, error) {
	return overrides.list(ctx, t.across(), limit, "ends_at > 0 AND ends_at <= ? ORDER BY ends_at, tenant_id, name", now)
}

// PutHold sets what a limit holds back.
func (t *Tx) PutHold(ctx context.Context, v Hold) error {
	if _, err := t.of(v.TenantID).exec(ctx, "replace hold", "DELETE FROM tenant_holds WHERE tenant_id = ? AND limit_name = ?", v.TenantID, v.Limit); err != nil {
		return err
	}
	return holds.insert(ctx, t.of(v.TenantID), v)
}

// DeleteHold ends one.
func (t *Tx) DeleteHold(ctx context.Context, tenantID, limit string) error {
	return t.of(tenantID).change(ctx, "delete hold", "DELETE FROM tenant_holds WHERE tenant_id = ? AND limit_name = ?", tenantID, limit)
}

// GetHold finds one, also one that has ended.
func (t *Tx) GetHold(ctx context.Context, tenantID, limit string) (Hold, error) {
	return holds.get(ctx, t.of(tenantID), "tenant_id = ? AND limit_name = ?", tenantID, limit)
}

// ListHolds lists a tenant's by limit, also those that have ended.
func (t *Tx) ListHolds(ctx context.Context, tenantID string) ([]Hold, error) {
	return holds.list(ctx, t.of(tenantID), pageMax, "tenant_id = ? ORDER BY limit_name", tenantID)
}

// CountMembers counts a tenant's members.
func (t *Tx) CountMembers(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count members", "SELECT COUNT(*) FROM memberships WHERE tenant_id = ?", tenantID)
}

// CountInvitations counts the open ones.
func (t *Tx) CountInvitations(ctx context.Context, tenantID string, now time.Time) (int, error) {
	return t.of(tenantID).count(ctx, "count invitations", "SELECT COUNT(*) FROM invitations WHERE tenant_id = ? AND expires_at > ?", tenantID, now)
}
