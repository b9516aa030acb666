package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// ErrRefused: what was asked for can't be done; the text says why.
var ErrRefused = errors.New("refused")

// refused marks what the operator can put right.
func refused(err error) error {
	if f, ok := fault.As(err); ok {
		return fmt.Errorf("%w: %s", ErrRefused, f.Error())
	}
	return err
}

// PlanSpec is a plan as a file has it.
type PlanSpec = plans.Spec

// PlanDifference is one thing that a file changes.
type PlanDifference = plans.Difference

// Plan is the newest version of a plan.
type Plan struct {
	Version int64 `json:"version"`
	PlanSpec
}

// Plans are the newest versions of all plans, the smallest first.
func Plans(ctx context.Context, m Maintenance) (list []Plan, err error) {
	s, err := m.database(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	all, err := store.Get(ctx, s.ReadService, func(tx *store.Tx) ([]store.PlanVersion, error) { return tx.ListPlans(ctx) })
	list = []Plan{}
	for _, p := range all {
		list = append(list, Plan{p.Version, plans.SpecOf(p)})
	}
	return list, err
}

// PlanApplied is what ApplyPlan did. Version is the newest one; with a dry run, or without a
// difference, that of before: 0 for a new plan.
type PlanApplied struct {
	Plan        string           `json:"plan"`
	Version     int64            `json:"version"`
	Differences []PlanDifference `json:"differences"`
	DryRun      bool             `json:"dry_run"`
}

// ApplyPlan makes a file the newest version of its plan. Tenants stay at the version that they
// have.
func ApplyPlan(ctx context.Context, m Maintenance, spec PlanSpec, dryRun bool) (r PlanApplied, err error) {
	s, err := m.database(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r = PlanApplied{Plan: spec.Name, DryRun: dryRun}
	err = s.Service(ctx, func(tx *store.Tx) (err error) {
		r.Version, r.Differences, err = plans.Apply(ctx, tx, time.Now(), spec, dryRun)
		return err
	})
	if r.Differences == nil {
		r.Differences = []PlanDifference{}
	}
	return r, refused(err)
}

// TenantPlan is a tenant as an operator lists them.
type TenantPlan struct {
	Tenant      string    `json:"tenant"`
	TenantID    string    `json:"tenant_id"`
	Plan        string    `json:"plan"`
	PlanVersion int64     `json:"plan_version"`
	State       string    `json:"state"`
	Members     int       `json:"members"`
	Namespaces  int       `json:"namespaces"`
	CreatedAt   time.Time `json:"created_at"`
	// Carried: the tenant's cell has what is recorded of it, its plan's limits among that.
	Carried bool `json:"carried"`
}

// TenantPlans are the living tenants in the order in which they were made.
func TenantPlans(ctx context.Context, m Maintenance) (list []TenantPlan, err error) {
	s, err := m.database(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	list = []TenantPlan{}
	err = s.ReadService(ctx, func(tx *store.Tx) error {
		for t, err := range store.All(func(p store.Page) ([]store.TenantUse, error) { return tx.ListTenantUse(ctx, p) }, func(t store.TenantUse) string { return t.ID }) {
			if err != nil {
				return err
			}
			list = append(list, TenantPlan{
				Tenant: t.Name, TenantID: t.ID, Plan: t.Plan, PlanVersion: t.PlanVersion, State: t.State, Members: t.Members, Namespaces: t.Namespaces,
				CreatedAt: t.CreatedAt.UTC(), Carried: t.Observed >= t.Generation,
			})
		}
		return nil
	})
	return list, err
}

// PlanChange is what SetPlan did. Carried: the tenant's cell holds it to the new plan.
type PlanChange struct {
	Tenant   string `json:"tenant"`
	TenantID string `json:"tenant_id"`
	Before   string `json:"before"`
	Plan     string `json:"plan"`
	Carried  bool   `json:"carried"`
}

// SetPlan gives a tenant the newest version of a plan, and waits up to patience for a running
// control plane to tell the tenant's cell. If none does, the next one will.
func SetPlan(ctx context.Context, m Maintenance, tenant, plan string, patience time.Duration) (PlanChange, error) {
	r := PlanChange{Tenant: tenant, Plan: plan}
	t, carried, err := m.changeTenant(ctx, tenant, patience, func(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant) error {
		r.Before = t.Plan
		return plans.Set(ctx, k, tx, t, plan)
	})
	r.TenantID, r.Carried = t.ID, carried
	if err != nil {
		return r, fmt.Errorf("set the plan of %s: %w", tenant, refused(err))
	}
	return r, nil // The plan stands, carried or not.
}

// Override is an entitlement of one tenant that differs from its plan's.
type Override struct {
	Tenant    string `json:"tenant"`
	TenantID  string `json:"tenant_id"`
	Name      string `json:"name"`
	Value     int64  `json:"value"`
	Unlimited bool   `json:"unlimited"`
	Reason    string `json:"reason"`
	// EndsAt is zero for one that doesn't end by itself.
	EndsAt  time.Time `json:"ends_at,omitzero"`
	Carried bool      `json:"carried"`
}

// SetOverride gives a tenant something else than its plan does, and waits as SetPlan does.
func SetOverride(ctx context.Context, m Maintenance, o Override, patience time.Duration) (Override, error) {
	t, carried, err := m.changeTenant(ctx, o.Tenant, patience, func(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant) error {
		return plans.SetOverride(ctx, k, tx, t, store.Override{Name: o.Name, Value: o.Value, Unlimited: o.Unlimited, Reason: o.Reason, EndsAt: o.EndsAt})
	})
	o.TenantID, o.Carried = t.ID, carried
	return o, refused(err)
}

// RemoveOverride gives a tenant what its plan gives, and waits as SetPlan does.
func RemoveOverride(ctx context.Context, m Maintenance, tenant, name string, patience time.Duration) (Override, error) {
	o := Override{Tenant: tenant, Name: name}
	t, carried, err := m.changeTenant(ctx, tenant, patience, func(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant) error {
		return plans.RemoveOverride(ctx, k, tx, t, name)
	})
	o.TenantID, o.Carried = t.ID, carried
	return o, refused(err)
}
