package plans

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/recurring"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Payments tells whether a tenant pays: it has a subscription that takes on the plan that is
// chosen, and a payment method.
type Payments interface {
	Pays(ctx context.Context, tx *store.Tx, tenantID string) (bool, error)
}

// Used is what the ledger has counted of a tenant: jobs in the billing period so far, and the
// most open jobs and stored bytes that any one of its namespaces has.
type Used struct{ JobsThisMonth, OpenJobs, StoredBytes int64 }

type used struct {
	name string
	n    int64
}

func (u Used) all() []used {
	return []used{{"jobs_per_month_max", u.JobsThisMonth}, {"open_jobs_max", u.OpenJobs}, {"stored_bytes_max", u.StoredBytes}}
}

// Needs of a Service.
type Needs struct {
	kit.Kit
	// Payments is nil where nobody can pay: plans that cost something are the operator's to
	// give.
	Payments Payments
	// Used is nil where nothing is counted: limits of it are then left out.
	Used func(ctx context.Context, tx *store.Tx, tenantID string, now time.Time) (Used, error)
}

// Service is the use cases and the loop.
type Service struct {
	Needs

	loop *recurring.Loop
}

// New makes a Service.
func New(n Needs) *Service {
	s := &Service{Needs: n}
	s.loop = recurring.New(n.Kit, recurring.Work{Name: "plans", Every: tick, Lease: leaseFor, Failed: "can't carry out changes of plans", Pass: s.pass})
	return s
}

// ListPlans lists those that tenants see, the smallest first.
func (s *Service) ListPlans(ctx context.Context, _ *cloudv1.ListPlansRequest) (*cloudv1.ListPlansResponse, error) {
	list, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.PlanVersion, error) { return tx.ListPlans(ctx) })
	res := new(cloudv1.ListPlansResponse)
	for _, p := range list {
		if p.Listed {
			res.Plans = append(res.Plans, planMessage(p))
		}
	}
	return res, err
}

func planMessage(p store.PlanVersion) *cloudv1.Plan {
	m := &cloudv1.Plan{
		Name: p.Plan, Version: int32(p.Version), Title: p.Title, Currency: p.Currency, BaseAmount: p.BaseAmount, Entitlements: messages(p.Entitlements),
		OverLimit: p.OverLimit, SelfServe: p.SelfServe,
	}
	for _, price := range p.Prices {
		m.Prices = append(m.Prices, &cloudv1.Price{Meter: price.Meter, Included: price.Included, Per: price.Per, Amount: price.Amount})
	}
	return m
}

// standing is a tenant with its subscription.
type standing struct {
	tenant store.Tenant
	store.Subscription
}

func standingOf(ctx context.Context, tx *store.Tx, tenantID string) (st standing, err error) {
	if st.tenant, err = tx.GetTenant(ctx, tenantID); errors.Is(err, store.ErrNotFound) {
		return st, fault.Missing("tenant")
	}
	if err == nil {
		st.Subscription, err = tx.GetSubscription(ctx, tenantID)
	}
	return st, err
}

// GetSubscription tells where the tenant stands.
func (s *Service) GetSubscription(ctx context.Context, _ *cloudv1.GetSubscriptionRequest) (*cloudv1.GetSubscriptionResponse, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.GetSubscriptionResponse, error) {
		st, err := standingOf(ctx, tx, access.From(ctx).TenantID)
		if err != nil {
			return nil, err
		}
		m, err := s.message(ctx, tx, st)
		if err != nil {
			return nil, err
		}
		limits, err := s.limits(ctx, tx, st)
		return &cloudv1.GetSubscriptionResponse{Subscription: m, Limits: limits}, err
	})
}

func (s *Service) message(ctx context.Context, tx *store.Tx, st standing) (*cloudv1.Subscription, error) {
	now := s.Now()
	p, err := tx.GetPlan(ctx, st.tenant.Plan, st.PlanVersion)
	if err != nil {
		return nil, err
	}
	e, err := under(ctx, tx, st.tenant.ID, p, now)
	if err != nil {
		return nil, err
	}
	own, err := tx.ListOverrides(ctx, st.tenant.ID)
	if err != nil {
		return nil, err
	}
	period := bill.Month(now)
	m := &cloudv1.Subscription{
		TenantId: st.tenant.ID, Plan: planMessage(p), Entitlements: messages(e.Values), State: st.State, StateSince: timestamppb.New(st.StateSince),
		StateUntil: maybe(st.StateUntil), NextPlan: st.NextPlan, NextPlanAt: maybe(st.NextAt), PeriodStart: timestamppb.New(period.Start), PeriodEnd: timestamppb.New(period.End),
		Etag: etag.Of(st.Version, "subscription", st.tenant.ID),
	}
	for _, o := range own {
		if live(o, now) {
			m.Overrides = append(m.Overrides, &cloudv1.Override{Name: o.Name, Value: o.Value, Unlimited: o.Unlimited, Reason: o.Reason, EndsAt: maybe(o.EndsAt)})
		}
	}
	return m, nil
}

func maybe(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// limits are where what is counted stands.
func (s *Service) limits(ctx context.Context, tx *store.Tx, st standing) (out []*cloudv1.LimitStatus, _ error) {
	now := s.Now()
	e, err := Of(ctx, tx, st.tenant.ID, now)
	if err != nil {
		return nil, err
	}
	var all []used
	if s.Used != nil {
		u, err := s.Used(ctx, tx, st.tenant.ID, now)
		if err != nil {
			return nil, err
		}
		all = u.all()
	}
	for _, c := range []Counted{Namespaces, Members, Keys} {
		n, err := c.count(tx, ctx, st.tenant.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, used{c.max, int64(n)})
	}
	holds, err := tx.ListHolds(ctx, st.tenant.ID)
	if err != nil {
		return nil, err
	}
	for _, u := range all {
		is, _ := entitlementOf(u.name)
		most, limited := e.Max(u.name)
		m := &cloudv1.LimitStatus{Name: u.name, Title: is.title, Unit: is.unit, Used: u.n, Max: most, Unlimited: !limited, Holds: heldBy(holds, u.name, now)}
		if u.name == "jobs_per_month_max" {
			m.ResetsAt = timestamppb.New(bill.Month(now).End)
		}
		out = append(out, m)
	}
	return append(out, spendStatus(holds, now)...), nil
}

// LimitSpend is the limit that a tenant sets for what it spends.
const LimitSpend = "spend"

// spendStatus says that the spend limit holds jobs back, without how much was spent: not everybody
// who sees the plan may see that.
func spendStatus(holds []store.Hold, now time.Time) []*cloudv1.LimitStatus {
	held := heldBy(holds, LimitSpend, now)
	if held == "" {
		return nil
	}
	return []*cloudv1.LimitStatus{{Name: LimitSpend, Title: "Spend limit", ResetsAt: timestamppb.New(bill.Month(now).End), Holds: held}}
}

// heldBy is what is held back because of a limit.
func heldBy(holds []store.Hold, name string, now time.Time) string {
	for _, h := range holds {
		switch {
		case h.Limit != strings.TrimSuffix(name, "_max") || !h.Until.IsZero() && !now.Before(h.Until):
		case h.Enqueue:
			return "enqueue"
		case h.Dispatch:
			return "dispatch"
		}
	}
	return ""
}

// ChangePlan changes to a bigger plan at once, to another one at the end of the period.
func (s *Service) ChangePlan(ctx context.Context, r *cloudv1.ChangePlanRequest) (*cloudv1.ChangePlanResponse, error) {
	res := new(cloudv1.ChangePlanResponse)
	change := func(tx *store.Tx) error {
		st, err := standingOf(ctx, tx, access.From(ctx).TenantID)
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), etag.Of(st.Version, "subscription", st.tenant.ID), "this subscription"); err != nil {
			return err
		}
		at, err := s.choose(ctx, tx, &st, r.GetPlan(), r.GetValidateOnly())
		if err != nil {
			return err
		}
		res.EffectiveAt = timestamppb.New(at)
		res.Subscription, err = s.message(ctx, tx, st)
		return err
	}
	if r.GetValidateOnly() {
		return res, s.Store.ReadTenant(ctx, access.From(ctx).TenantID, change)
	}
	return res, s.Write(ctx, change)
}

// choose checks a change and, unless it is only asked for, makes it or lets it wait. st is as
// it is then; the time is when the plan changes or has changed.
func (s *Service) choose(ctx context.Context, tx *store.Tx, st *standing, name string, only bool) (time.Time, error) {
	next, err := s.selfServe(ctx, tx, name)
	if err != nil {
		return time.Time{}, err
	}
	now, present := s.Now(), st.tenant.Plan == next.Plan && st.PlanVersion == next.Version
	switch {
	case present && st.NextPlan != "":
		return time.Time{}, fault.New(fault.Conflict, "PLAN_CHANGE_WAITS", "tenant %s has the plan %s until a change to %s; take that change back instead: `corvo plan cancel-change`", st.tenant.Name, next.Plan, st.NextPlan)
	case present:
		return now, nil
	case st.NextPlan == next.Plan && st.NextVersion == next.Version:
		return st.NextAt, nil
	}
	if err := s.payable(ctx, tx, st, next); err != nil {
		return time.Time{}, err
	}
	has, err := tx.GetPlan(ctx, st.tenant.Plan, st.PlanVersion)
	if err != nil {
		return time.Time{}, err
	}
	at := now
	if next.Rank <= has.Rank {
		at = bill.Month(now).End
	}
	if err := s.fits(ctx, tx, st.tenant, next, at); err != nil {
		return time.Time{}, err
	}
	if at.After(now) {
		return at, s.wait(ctx, tx, st, next, at, only)
	}
	if only {
		st.tenant.Plan, st.PlanVersion = next.Plan, next.Version
		st.NextPlan, st.NextVersion, st.NextAt = "", 0, time.Time{}
		return at, nil
	}
	return at, apply(ctx, s.Kit, tx, &st.tenant, &st.Subscription, next, at, "")
}

// selfServe finds a plan that a tenant may choose itself.
func (s *Service) selfServe(ctx context.Context, tx *store.Tx, name string) (store.PlanVersion, error) {
	list, err := tx.ListPlans(ctx)
	if err != nil {
		return store.PlanVersion{}, err
	}
	var names []string
	for _, p := range list {
		switch {
		case !p.Listed:
		case p.Plan == name && p.SelfServe:
			return p, nil
		case p.Plan == name:
			return p, fault.New(fault.Conflict, "PLAN_NOT_SELF_SERVE", "the plan %s is given by the operator; ask them for it", name)
		case p.SelfServe:
			names = append(names, p.Plan)
		}
	}
	return store.PlanVersion{}, fault.InvalidField("plan", "is %q, must be one of %s", name, strings.Join(names, ", "))
}

// payable refuses a plan that costs something to a tenant that can't pay for it.
func (s *Service) payable(ctx context.Context, tx *store.Tx, st *standing, p store.PlanVersion) error {
	if !costs(p) {
		return nil
	}
	if s.Payments == nil {
		return fault.New(fault.Conflict, "PAYMENT_REQUIRED", "the plan %s costs something, and payments are off here; ask the operator to give tenant %s the plan", p.Plan, st.tenant.Name)
	}
	pays, err := s.Payments.Pays(ctx, tx, st.tenant.ID)
	switch {
	case err != nil:
		return err
	case st.State == Restricted || st.State == Suspended:
		return fault.New(fault.Conflict, "PAYMENT_REQUIRED", "tenant %s is %s because an invoice isn't paid; pay it on the console's billing page, then change the plan", st.tenant.Name, st.State)
	case !pays:
		return fault.New(fault.Conflict, "PAYMENT_REQUIRED", "the plan %s costs something, and tenant %s pays for none so far; pay for it at the checkout: in the console, or with corvo billing checkout %s", p.Plan, st.tenant.Name, p.Plan)
	}
	return nil
}

func costs(p store.PlanVersion) bool {
	for _, price := range p.Prices {
		if price.Amount > 0 {
			return true
		}
	}
	return p.BaseAmount > 0
}

// fits refuses a plan that is too small for what the tenant has.
func (s *Service) fits(ctx context.Context, tx *store.Tx, t store.Tenant, p store.PlanVersion, at time.Time) error {
	e, err := under(ctx, tx, t.ID, p, at)
	if err != nil {
		return err
	}
	wrong, err := s.wontFit(ctx, tx, t.ID, e)
	if err != nil || len(wrong) == 0 {
		return err
	}
	refusal := fault.New(fault.Conflict, "PLAN_TOO_SMALL", "the plan %s is too small for what tenant %s has; remove what doesn't fit, or choose a bigger plan", p.Plan, t.Name)
	refusal.Fields = wrong
	return refusal
}

// wait lets a change wait for the end of the period.
func (s *Service) wait(ctx context.Context, tx *store.Tx, st *standing, p store.PlanVersion, at time.Time, only bool) error {
	st.NextPlan, st.NextVersion, st.NextAt = p.Plan, p.Version, at
	if only {
		return nil
	}
	return change.Make(ctx, s.Kit, tx, "plan.schedule_change", change.UpdateSubscription(st.tenant, &st.Subscription),
		change.Fields{"plan": {Before: st.tenant.Plan, After: p.Plan}, "at": {After: stamp(at)}})
}

// apply gives a tenant a version of a plan from a time on. A change that waits is over.
func apply(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant, s *store.Subscription, p store.PlanVersion, at time.Time, reason string) error {
	fields := change.Fields{"plan": {Before: t.Plan, After: p.Plan}, "plan_version": {Before: s.PlanVersion, After: p.Version}}
	if reason != "" {
		fields["reason"] = store.Change{After: reason}
	}
	t.Plan, s.PlanVersion = p.Plan, p.Version
	s.NextPlan, s.NextVersion, s.NextAt = "", 0, time.Time{}
	return change.Make(ctx, k, tx, "plan.change", change.ChangePlan(t, s, at), fields)
}

// CancelPlanChange takes back a change that waits; without one nothing changes.
func (s *Service) CancelPlanChange(ctx context.Context, _ *cloudv1.CancelPlanChangeRequest) (*cloudv1.CancelPlanChangeResponse, error) {
	res := new(cloudv1.CancelPlanChangeResponse)
	return res, s.Write(ctx, func(tx *store.Tx) error {
		st, err := standingOf(ctx, tx, access.From(ctx).TenantID)
		if err == nil && st.NextPlan != "" {
			err = s.unwait(ctx, tx, &st, "plan.cancel_change", nil)
		}
		if err != nil {
			return err
		}
		res.Subscription, err = s.message(ctx, tx, st)
		return err
	})
}

// unwait ends a change that waits without carrying it out.
func (s *Service) unwait(ctx context.Context, tx *store.Tx, st *standing, action string, more change.Fields) error {
	fields := change.Fields{"next_plan": {Before: st.NextPlan}}
	for name, f := range more {
		fields[name] = f
	}
	st.NextPlan, st.NextVersion, st.NextAt = "", 0, time.Time{}
	return change.Make(ctx, s.Kit, tx, action, change.UpdateSubscription(st.tenant, &st.Subscription), fields)
}
