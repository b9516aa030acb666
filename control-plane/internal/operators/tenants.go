package operators

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// readingsShown of a tenant.
	readingsShown = 50
	// invoicesShown of a tenant.
	invoicesShown = 24
)

// Query checks which tenants are asked for.
func Query(search, plan, state, sort string) (q store.TenantQuery, _ error) {
	q = store.TenantQuery{Search: strings.TrimSpace(search), Plan: plan, State: state, Order: store.TenantOrder(sort)}
	if sort == "" {
		q.Order = store.ByCreated
	}
	if all := store.TenantOrders(); !slices.Contains(all, q.Order) {
		return q, fault.InvalidField("sort", "is %q, must be one of %s", sort, words(all))
	}
	if states := []string{"", string(plans.Active), plans.PastDue, plans.Restricted, plans.Suspended}; !slices.Contains(states, state) {
		return q, fault.InvalidField("state", "is %q, must be one of %s", state, strings.Join(states[1:], ", "))
	}
	return q, nil
}

func words(orders []store.TenantOrder) string {
	var out []string
	for _, o := range orders {
		out = append(out, string(o))
	}
	return strings.Join(out, ", ")
}

// Key is where a listing goes on after a tenant.
func Key(o store.TenantOrder, v store.TenantUse) string {
	if o == store.ByName {
		return v.Name
	}
	return fmt.Sprintf("%s %d", v.ID, o.Figure(v))
}

// After continues a listing; an empty key begins it.
func After(q store.TenantQuery, key string) (store.TenantQuery, error) {
	q.After = key
	id, figure, hasFigure := strings.Cut(key, " ")
	if !hasFigure {
		return q, nil
	}
	n, err := strconv.ParseInt(figure, 10, 64)
	q.After, q.AfterFigure = id, n
	return q, err
}

// ListTenants lists living ones with their stored figures.
func (s *Service) ListTenants(ctx context.Context, r *cloudv1.ListTenantsRequest) (*cloudv1.ListTenantsResponse, error) {
	q, err := Query(r.GetSearch(), r.GetPlan(), r.GetState(), r.GetSort())
	if err != nil {
		return nil, err
	}
	shown, next, err := listing.Of[store.TenantUse, *cloudv1.TenantSummary]{
		Method: "ListTenants", Filter: []any{q.Search, q.Plan, q.State, string(q.Order)}, Across: true,
		Page: func(tx *store.Tx, _ string, p store.Page) ([]store.TenantUse, error) {
			q, err := After(q, p.After)
			if err != nil {
				return nil, err
			}
			q.Limit = p.Limit
			return tx.ListTenantUse(ctx, q)
		},
		Key: func(v store.TenantUse) string { return Key(q.Order, v) }, Show: summary,
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListTenantsResponse{Tenants: shown, NextPageToken: next}, err
}

func summary(v store.TenantUse) *cloudv1.TenantSummary {
	m := &cloudv1.TenantSummary{
		TenantId: v.ID, Tenant: v.Name, DisplayName: v.DisplayName, Plan: v.Plan, PlanVersion: int32(v.PlanVersion), State: v.State,
		Members: int32(v.Members), Namespaces: int32(v.Namespaces), CreatedAt: timestamppb.New(v.CreatedAt), InCell: v.Observed >= v.Generation,
	}
	if f := v.Figures; !f.At.IsZero() {
		m.Figures = &cloudv1.TenantFigures{
			At: timestamppb.New(f.At), Currency: f.Currency, Revenue: f.Revenue, RevenueLastMonth: f.RevenueLastMonth,
			JobsDay: f.JobsDay, JobsHour: f.JobsHour, OpenJobs: f.OpenJobs, StoredBytes: f.StoredBytes,
		}
	}
	return m
}

// DescribeTenant tells where one stands. What other rooms show to the tenant they show here.
func (s *Service) DescribeTenant(ctx context.Context, r *cloudv1.DescribeTenantRequest) (*cloudv1.DescribeTenantResponse, error) {
	res := &cloudv1.DescribeTenantResponse{}
	var t store.Tenant
	err := s.Store.ReadService(ctx, func(tx *store.Tx) (err error) {
		if t, err = find(ctx, tx, r.GetTenant()); err != nil {
			return err
		}
		found, err := tx.ListTenantUse(ctx, store.TenantQuery{Search: t.ID, Limit: 1})
		if err != nil || len(found) == 0 {
			return err
		}
		res.Tenant = summary(found[0])
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.standing(in(ctx, t), res); err != nil {
		return nil, err
	}
	return res, s.Store.ReadTenant(ctx, t.ID, func(tx *store.Tx) error { return s.counted(ctx, tx, t, res) })
}

// standing is the tenant's own view of its plan and its bills.
func (s *Service) standing(ctx context.Context, res *cloudv1.DescribeTenantResponse) error {
	plan, err := s.Plans.GetSubscription(ctx, &cloudv1.GetSubscriptionRequest{})
	if err != nil {
		return err
	}
	res.Subscription, res.Limits = plan.GetSubscription(), plan.GetLimits()
	current, err := s.Usage.PreviewInvoice(ctx, &cloudv1.PreviewInvoiceRequest{})
	if err != nil {
		return err
	}
	res.Current, res.ForecastTotal = current.GetInvoice(), current.GetForecastTotal()
	last, err := s.Usage.PreviewInvoice(ctx, &cloudv1.PreviewInvoiceRequest{Period: timestamppb.New(lastMonth(s.Now()))})
	if err != nil {
		return err
	}
	res.LastMonth = last.GetInvoice()
	invoices, err := s.Stripe.ListInvoices(ctx, &cloudv1.ListInvoicesRequest{PageSize: invoicesShown})
	res.Invoices = invoices.GetInvoices()
	return err
}

func lastMonth(now time.Time) time.Time { return bill.Month(bill.Month(now).Start.Add(-1)).Start }

// counted is what bills are made from.
func (s *Service) counted(ctx context.Context, tx *store.Tx, t store.Tenant, res *cloudv1.DescribeTenantResponse) error {
	segments, err := tx.SubscriptionChanges(ctx, t.ID, lastMonth(s.Now()), s.Now().Add(1))
	if err != nil {
		return err
	}
	for _, c := range slices.Backward(segments) {
		res.Segments = append(res.Segments, &cloudv1.PlanSegment{From: timestamppb.New(c.At), Plan: c.Plan, PlanVersion: int32(c.PlanVersion)})
	}
	names, err := tx.NamespaceNames(ctx, t.ID)
	if err != nil {
		return err
	}
	readings, err := tx.ListTenantReadings(ctx, t.ID, readingsShown)
	if err != nil {
		return err
	}
	for _, v := range readings {
		res.Readings = append(res.Readings, &cloudv1.TenantReading{
			Hour: timestamppb.New(metering.Start(v.Hour)), NamespaceId: v.NamespaceID, Namespace: names[v.NamespaceID], Cell: v.Cell, Source: v.Source,
			Counts: &cloudv1.Counts{
				JobsEnqueued: v.JobsEnqueued, Executions: v.Executions, PayloadBytes: v.PayloadBytes, StoredByteHours: v.StoredByteHours,
				EgressBytes: v.EgressBytes, StreamsPeak: v.StreamsPeak,
			},
		})
	}
	at, err := closing(ctx, tx, t.Cell)
	if err == nil && at.Hour > 0 {
		res.ClosedTo = timestamppb.New(metering.Start(at.Hour))
	}
	return err
}

// SetTenantPlan gives a tenant the newest version of any plan.
func (s *Service) SetTenantPlan(ctx context.Context, r *cloudv1.SetTenantPlanRequest) (*cloudv1.SetTenantPlanResponse, error) {
	m, err := s.change(ctx, r.GetTenant(), r.GetReason(), func(ctx context.Context, tx *store.Tx, t *store.Tenant, why string) error {
		return plans.Set(ctx, s.Kit, tx, t, r.GetPlan(), why)
	})
	return &cloudv1.SetTenantPlanResponse{Subscription: m}, err
}

// SetOverride gives a tenant something else than its plan does, until it ends.
func (s *Service) SetOverride(ctx context.Context, r *cloudv1.SetOverrideRequest) (*cloudv1.SetOverrideResponse, error) {
	v := store.Override{Name: r.GetName(), Value: r.GetValue(), Unlimited: r.GetUnlimited()}
	if r.GetEndsAt() != nil {
		v.EndsAt = r.GetEndsAt().AsTime()
	}
	if err := checkEnd(v.EndsAt); err != nil {
		return nil, err
	}
	m, err := s.change(ctx, r.GetTenant(), r.GetReason(), func(ctx context.Context, tx *store.Tx, t *store.Tenant, why string) error {
		v.Reason = why
		return plans.SetOverride(ctx, s.Kit, tx, t, v)
	})
	return &cloudv1.SetOverrideResponse{Subscription: m}, err
}

// RemoveOverride lets the tenant's plan count again.
func (s *Service) RemoveOverride(ctx context.Context, r *cloudv1.RemoveOverrideRequest) (*cloudv1.RemoveOverrideResponse, error) {
	m, err := s.change(ctx, r.GetTenant(), r.GetReason(), func(ctx context.Context, tx *store.Tx, t *store.Tenant, why string) error {
		return plans.RemoveOverride(ctx, s.Kit, tx, t, r.GetName(), why)
	})
	return &cloudv1.RemoveOverrideResponse{Subscription: m}, err
}

// change does something to a tenant, and gives its subscription afterwards.
func (s *Service) change(ctx context.Context, tenant, reason string,
	do func(context.Context, *store.Tx, *store.Tenant, string) error) (*cloudv1.Subscription, error) {
	why, err := reasonOf(reason)
	if err != nil {
		return nil, err
	}
	var t store.Tenant
	err = s.Store.Service(ctx, func(tx *store.Tx) (err error) {
		if t, err = find(ctx, tx, tenant); err != nil {
			return err
		}
		return do(in(ctx, t), tx, &t, why)
	})
	if err != nil {
		return nil, err
	}
	s.Wake()
	m, err := s.Plans.GetSubscription(in(ctx, t), &cloudv1.GetSubscriptionRequest{})
	return m.GetSubscription(), err
}
