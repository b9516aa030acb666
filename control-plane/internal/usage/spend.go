package usage

import (
	"context"
	"errors"
	"slices"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// What happens when a spend limit is reached.
const (
	ActionAlert  = "alert"  // Emails alone.
	ActionHold   = "hold"   // No attempt begins.
	ActionReject = "reject" // No job is enqueued either.
)

// alertsMax emails are written in a period.
const alertsMax = 5

// spendLimit is a tenant's, with Version 0 if it never set one.
func spendLimit(ctx context.Context, tx *store.Tx, tenantID string) (store.SpendLimit, error) {
	l, err := tx.GetSpendLimit(ctx, tenantID)
	if errors.Is(err, store.ErrNotFound) {
		return store.SpendLimit{TenantID: tenantID, Action: ActionAlert, Alerts: []int{}}, nil
	}
	return l, err
}

func spendTag(l store.SpendLimit) string { return etag.Of(l.Version, "spend_limit", l.TenantID) }

func spendMessage(l store.SpendLimit, currency string) *cloudv1.SpendLimit {
	m := &cloudv1.SpendLimit{Amount: l.Amount, Currency: currency, Action: l.Action, Etag: spendTag(l)}
	for _, n := range l.Alerts {
		m.AlertPercents = append(m.AlertPercents, int32(n))
	}
	return m
}

// spent is what a tenant has spent in the current period, in open hours too, and in what.
func spent(ctx context.Context, tx *store.Tx, st standing) (amount int64, currency string, _ error) {
	return spentIn(ctx, tx, st, bill.Month(st.now))
}

// spentIn is what a tenant has spent in a period.
func spentIn(ctx context.Context, tx *store.Tx, st standing, period bill.Period) (amount int64, currency string, _ error) {
	p, err := pricesOf(ctx, tx, st.Tenant, period, st.now)
	if err != nil {
		return 0, "", err
	}
	counts, err := soFar(ctx, tx, st.Tenant, p)
	if err != nil {
		return 0, "", err
	}
	inv, err := p.invoice(counts)
	return inv.Total, p.Currency, err
}

// GetSpendLimit gives the limit that the tenant set, and what it has spent.
func (s *Service) GetSpendLimit(ctx context.Context, _ *cloudv1.GetSpendLimitRequest) (*cloudv1.GetSpendLimitResponse, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.GetSpendLimitResponse, error) {
		st, err := s.standing(ctx, tx)
		if err != nil {
			return nil, err
		}
		l, err := spendLimit(ctx, tx, st.Tenant.ID)
		if err != nil {
			return nil, err
		}
		amount, currency, err := spent(ctx, tx, st)
		return &cloudv1.GetSpendLimitResponse{Limit: spendMessage(l, currency), Spent: amount}, err
	})
}

// SetSpendLimit sets or, with no amount, removes it. The loop looks at it within seconds.
func (s *Service) SetSpendLimit(ctx context.Context, r *cloudv1.SetSpendLimitRequest) (*cloudv1.SetSpendLimitResponse, error) {
	after, err := checkSpend(r.GetLimit())
	if err != nil {
		return nil, err
	}
	res := &cloudv1.SetSpendLimitResponse{}
	return res, s.Write(ctx, func(tx *store.Tx) error {
		st, err := s.standing(ctx, tx)
		if err != nil {
			return err
		}
		before, err := spendLimit(ctx, tx, st.Tenant.ID)
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetLimit().GetEtag(), spendTag(before), "the spend limit"); err != nil {
			return err
		}
		p, err := pricesOf(ctx, tx, st.Tenant, bill.Month(st.now), st.now)
		if err != nil {
			return err
		}
		if c := r.GetLimit().GetCurrency(); c != "" && c != p.Currency {
			return fault.InvalidField("limit.currency", "must be %s, as your plan is billed in it", p.Currency)
		}
		now := before
		now.Amount, now.Currency, now.Action, now.Alerts = after.Amount, p.Currency, after.Action, after.Alerts
		if err := s.changeSpend(ctx, tx, before, &now); err != nil {
			return err
		}
		res.Limit = spendMessage(now, p.Currency)
		return nil
	})
}

func (s *Service) changeSpend(ctx context.Context, tx *store.Tx, before store.SpendLimit, now *store.SpendLimit) error {
	fields := change.Fields{}
	if before.Amount != now.Amount {
		fields["amount"] = store.Change{Before: before.Amount, After: now.Amount}
	}
	if before.Action != now.Action {
		fields["action"] = store.Change{Before: before.Action, After: now.Action}
	}
	if !slices.Equal(before.Alerts, now.Alerts) {
		fields["alert_percents"] = store.Change{Before: before.Alerts, After: now.Alerts}
	}
	if len(fields) == 0 {
		return nil
	}
	return change.Make(ctx, s.Kit, tx, "spend_limit.update", change.PutSpendLimit(now), fields)
}

func checkSpend(m *cloudv1.SpendLimit) (l store.SpendLimit, _ error) {
	var wrong []fault.Field
	if m.GetAmount() < 0 {
		wrong = append(wrong, fault.Field{Name: "limit.amount", Problem: "can't be negative; 0 is no limit"})
	}
	l.Amount, l.Action, l.Alerts = m.GetAmount(), m.GetAction(), []int{}
	if l.Action == "" {
		l.Action = ActionAlert
	}
	if !slices.Contains([]string{ActionAlert, ActionHold, ActionReject}, l.Action) {
		wrong = append(wrong, fault.Field{Name: "limit.action", Problem: "must be alert, hold or reject"})
	}
	if len(m.GetAlertPercents()) > alertsMax {
		wrong = append(wrong, fault.Field{Name: "limit.alert_percents", Problem: "has more than five percentages"})
	}
	for _, n := range m.GetAlertPercents() {
		if n < 1 || n > 100 || slices.Contains(l.Alerts, int(n)) {
			wrong = append(wrong, fault.Field{Name: "limit.alert_percents", Problem: "must be different numbers from 1 to 100"})
			break
		}
		l.Alerts = append(l.Alerts, int(n))
	}
	slices.Sort(l.Alerts)
	return l, fault.InvalidFields(wrong)
}

// callerOf is a context in which the system does something in a tenant.
func callerOf(ctx context.Context, t store.Tenant) context.Context {
	return access.With(ctx, access.Caller{TenantID: t.ID, Tenant: t.Name})
}
