package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/operators"
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
// have. The reason is for the operators' log; it may be empty.
func ApplyPlan(ctx context.Context, m Maintenance, spec PlanSpec, dryRun bool, reason string) (r PlanApplied, err error) {
	s, err := m.database(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r = PlanApplied{Plan: spec.Name, DryRun: dryRun}
	err = s.Service(ctx, func(tx *store.Tx) (err error) {
		r.Version, r.Differences, err = operators.ApplyPlan(ctx, onHost(), tx, spec, plans.AnyBase, dryRun, m.By, reason)
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
	// Figures are nil for a tenant of which nothing was computed yet.
	Figures *TenantFigures `json:"figures"`
	// Carried: the tenant's cell has what is recorded of it, its plan's limits among that.
	Carried bool `json:"carried"`
}

// TenantFigures are what tenants are compared by: what the current month and the one before
// cost, before tax and in the currency's smallest unit, and how much they use.
type TenantFigures struct {
	At               time.Time `json:"at"`
	Currency         string    `json:"currency"`
	Revenue          int64     `json:"revenue"`
	RevenueLastMonth int64     `json:"revenue_last_month"`
	JobsDay          int64     `json:"jobs_day"`
	JobsHour         int64     `json:"jobs_hour"`
	OpenJobs         int64     `json:"open_jobs"`
	StoredBytes      int64     `json:"stored_bytes"`
}

// TenantQuery is which tenants are listed: by a part of the name or the id, by plan and state,
// and by what they are sorted. Empty: all, the oldest first.
type TenantQuery struct{ Search, Plan, State, Sort string }

// TenantSorts are the words of TenantQuery.Sort.
func TenantSorts() (out []string) {
	for _, o := range store.TenantOrders() {
		out = append(out, string(o))
	}
	return out
}

// TenantPlans are the living tenants.
func TenantPlans(ctx context.Context, m Maintenance, q TenantQuery) (list []TenantPlan, err error) {
	query, err := operators.Query(q.Search, q.Plan, q.State, q.Sort)
	if err != nil {
		return nil, refused(err)
	}
	s, err := m.database(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	list = []TenantPlan{}
	err = s.ReadService(ctx, func(tx *store.Tx) error {
		page := func(p store.Page) ([]store.TenantUse, error) {
			query, err := operators.After(query, p.After)
			if err != nil {
				return nil, err
			}
			query.Limit = p.Limit
			return tx.ListTenantUse(ctx, query)
		}
		for t, err := range store.All(page, func(t store.TenantUse) string { return operators.Key(query.Order, t) }) {
			if err != nil {
				return err
			}
			list = append(list, tenantPlan(t))
		}
		return nil
	})
	return list, err
}

func tenantPlan(t store.TenantUse) TenantPlan {
	p := TenantPlan{
		Tenant: t.Name, TenantID: t.ID, Plan: t.Plan, PlanVersion: t.PlanVersion, State: t.State, Members: t.Members, Namespaces: t.Namespaces,
		CreatedAt: t.CreatedAt.UTC(), Carried: t.Observed >= t.Generation,
	}
	if f := t.Figures; !f.At.IsZero() {
		p.Figures = &TenantFigures{f.At, f.Currency, f.Revenue, f.RevenueLastMonth, f.JobsDay, f.JobsHour, f.OpenJobs, f.StoredBytes}
	}
	return p
}

// onHost is what use cases need that a command calls in a transaction of its own.
func onHost() kit.Kit { return kit.Kit{IDs: ids.NewMaker(), Now: time.Now} }

// PlanChange is what SetPlan did. Carried: the tenant's cell holds it to the new plan.
type PlanChange struct {
	Tenant   string `json:"tenant"`
	TenantID string `json:"tenant_id"`
	Before   string `json:"before"`
	Plan     string `json:"plan"`
	Carried  bool   `json:"carried"`
}

// SetPlan gives a tenant the newest version of a plan, and waits up to patience for a running
// control plane to tell the tenant's cell. If none does, the next one will. The reason is for the
// tenant's audit log; it may be empty.
func SetPlan(ctx context.Context, m Maintenance, tenant, plan, reason string, patience time.Duration) (PlanChange, error) {
	r := PlanChange{Tenant: tenant, Plan: plan}
	t, carried, err := m.changeTenant(ctx, tenant, patience, func(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant) error {
		r.Before = t.Plan
		return plans.Set(ctx, k, tx, t, plan, reason)
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
func RemoveOverride(ctx context.Context, m Maintenance, tenant, name, reason string, patience time.Duration) (Override, error) {
	o := Override{Tenant: tenant, Name: name, Reason: reason}
	t, carried, err := m.changeTenant(ctx, tenant, patience, func(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant) error {
		return plans.RemoveOverride(ctx, k, tx, t, name, reason)
	})
	o.TenantID, o.Carried = t.ID, carried
	return o, refused(err)
}
