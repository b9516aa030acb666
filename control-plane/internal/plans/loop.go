package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	leaseFor = time.Minute
	tick     = 10 * time.Second
	dueMax   = 200

	// ownersMax of a tenant get an email.
	ownersMax = 10
)

// Run carries out what is due until ctx ends. Of several processes, one does at a time.
func (s *Service) Run(ctx context.Context) { s.loop.Run(ctx) }

// CarryOut makes the changes of plans and ends the overrides that are due.
func (s *Service) CarryOut(ctx context.Context) error { return s.loop.Pass(ctx) }

// pass does what is due, each in a transaction that looks again: two at once do no harm, and
// one that ends in between has done all of it or nothing.
func (s *Service) pass(ctx context.Context, now time.Time) error {
	due, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.Subscription, error) { return tx.DueSubscriptions(ctx, now, dueMax) })
	problems := []error{err}
	for _, v := range due {
		problems = append(problems, s.each(ctx, v.TenantID, func(tx *store.Tx) error { return s.due(ctx, tx, v.TenantID, now) }))
	}
	ended, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.Override, error) { return tx.EndedOverrides(ctx, now, dueMax) })
	problems = append(problems, err)
	for _, v := range ended {
		problems = append(problems, s.each(ctx, v.TenantID, func(tx *store.Tx) error { return s.end(ctx, tx, v, now) }))
	}
	if len(due)+len(ended) > 0 {
		s.Wake()
	}
	return errors.Join(problems...)
}

func (s *Service) each(ctx context.Context, tenantID string, f func(*store.Tx) error) error {
	err := s.Store.Tenant(ctx, tenantID, f)
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrStale) {
		return nil // What was changed since is due still, or not any more.
	}
	return fmt.Errorf("plan of tenant %s: %w", tenantID, err)
}

// due carries out a change of plan, unless the plan is too small by now: then the tenant keeps
// what it has, and its owners are told.
func (s *Service) due(ctx context.Context, tx *store.Tx, tenantID string, now time.Time) error {
	t, err := tx.GetTenant(ctx, tenantID)
	if err != nil {
		return err
	}
	v, err := tx.GetSubscription(ctx, tenantID)
	if err != nil || v.NextPlan == "" || now.Before(v.NextAt) {
		return err
	}
	// No request: the audit log says that the system did it.
	ctx = access.With(ctx, access.Caller{TenantID: t.ID, Tenant: t.Name})
	next, err := tx.GetPlan(ctx, v.NextPlan, v.NextVersion)
	if err != nil {
		return err
	}
	err = s.fits(ctx, tx, t, next, now)
	if refusal, ok := fault.As(err); ok && refusal.Reason == "PLAN_TOO_SMALL" {
		return s.keep(ctx, tx, standing{t, v}, refusal.Fields)
	}
	if err != nil {
		return err
	}
	return apply(ctx, s.Kit, tx, &t, &v, next, v.NextAt, "")
}

// keep leaves a tenant with its plan, and says why.
func (s *Service) keep(ctx context.Context, tx *store.Tx, st standing, wrong []fault.Field) error {
	next := st.NextPlan
	if err := s.unwait(ctx, tx, &st, "plan.keep", change.Fields{"reason": {After: problems(wrong)}}); err != nil {
		return err
	}
	owners, err := tx.ReachableOwners(ctx, st.tenant.ID, ownersMax)
	if err != nil {
		return err
	}
	for _, u := range owners {
		m, err := mail.PlanKept(u.Email, st.tenant.Name, st.tenant.Plan, next, problems(wrong), s.URLs.Console("/"+st.tenant.Name+"/settings"), s.Now())
		if err == nil {
			err = mail.Put(ctx, s.Kit, tx, st.tenant.ID, st.tenant.ID, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end removes an override whose time is over. It has counted no more since.
func (s *Service) end(ctx context.Context, tx *store.Tx, v store.Override, now time.Time) error {
	is, err := tx.GetOverride(ctx, v.TenantID, v.Name)
	if err != nil || live(is, now) {
		return err
	}
	t, err := tx.FindTenant(ctx, v.TenantID)
	if err != nil {
		return err
	}
	ctx = access.With(ctx, access.Caller{TenantID: t.ID, Tenant: t.Name})
	return change.Make(ctx, s.Kit, tx, "override.end", change.DeleteOverride(&t, v.Name), change.Fields{v.Name: {Before: shown(is)}})
}
