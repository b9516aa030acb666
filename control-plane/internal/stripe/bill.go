package stripe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// month is a billing period of a tenant: the plans in force, and what was counted in each.
type month struct {
	period   bill.Period
	currency string
	segments []bill.Segment
	counts   []bill.Counts
}

// monthOf reads a month from the ledger.
func monthOf(ctx context.Context, tx *store.Tx, tenantID string, p bill.Period) (month, error) {
	m := month{period: p}
	t, err := tx.FindTenant(ctx, tenantID)
	if err != nil {
		return m, err
	}
	prices, err := plans.PricesOf(ctx, tx, t, p, p.End)
	if err != nil {
		return m, err
	}
	m.currency, m.segments = prices.Currency, prices.Segments
	hours, err := tx.UsageByHour(ctx, tenantID, hourNumber(p.Start), hourNumber(p.End), false)
	m.counts = make([]bill.Counts, len(m.segments))
	for _, h := range hours {
		for i, s := range m.segments {
			if s.Holds(hourTime(h.At)) {
				m.counts[i] = m.counts[i].Then(bill.Counts(h.Counts))
			}
		}
	}
	return m, err
}

// without is the month with so much less of a meter in an hour.
func (m month) without(hour time.Time, of Meter, n int64) month {
	m.counts = append([]bill.Counts(nil), m.counts...)
	for i, s := range m.segments {
		if s.Holds(hour) {
			*field(&m.counts[i], of) -= n
		}
	}
	return m
}

func field(c *bill.Counts, m Meter) *int64 {
	return [metersCount]*int64{&c.JobsEnqueued, &c.Executions, &c.PayloadBytes, &c.StoredByteHours, &c.EgressBytes, &c.StreamsPeak}[m]
}

// draft is the month's invoice.
func (m month) draft(tenantID string) (*cloudv1.Invoice, error) {
	made, err := bill.Make(m.period, m.segments, m.counts)
	if err != nil {
		return nil, fmt.Errorf("invoice of tenant %s for %s: %w", tenantID, m.period.Start.Format(time.DateOnly), err)
	}
	out := &cloudv1.Invoice{TenantId: tenantID, PeriodStart: timestamppb.New(m.period.Start), PeriodEnd: timestamppb.New(m.period.End),
		Currency: m.currency, Total: made.Total, State: "draft"}
	for _, l := range made.Lines {
		out.Lines = append(out.Lines, &cloudv1.InvoiceLine{Item: l.Item, Title: titleOf(l.Item), Plan: l.Plan, PlanVersion: l.PlanVersion,
			From: timestamppb.New(l.From), To: timestamppb.New(l.To), Quantity: l.Quantity, Included: l.Included, Per: l.Per, UnitAmount: l.UnitAmount, Amount: l.Amount})
	}
	return out, nil
}

// titleOf is how a line is called for people: as the meter is counted, not as it is sent.
func titleOf(item string) string {
	return map[string]string{
		bill.Base: "Base", "jobs_enqueued": "Jobs enqueued", "executions": "Executions", "payload_bytes": "Payload bytes",
		"stored_byte_hours": "Stored byte-hours", "egress_bytes": "Egress bytes", "streams_peak": "Peak streams",
	}[item]
}

// drafts are the invoices of a tenant's months that ended, the newest first.
func (s *Service) drafts(ctx context.Context, tx *store.Tx, tenantID string, before time.Time, limit int) (out []listed, _ error) {
	t, err := tx.FindTenant(ctx, tenantID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	current := bill.Month(s.Now()).Start
	for start := bill.Month(before).Start; len(out) < limit && start.AddDate(0, 1, 0).After(t.CreatedAt); start = start.AddDate(0, -1, 0) {
		if !start.Before(before) || !start.Before(current) {
			continue
		}
		m, err := monthOf(ctx, tx, tenantID, bill.Month(start))
		if err != nil {
			return nil, err
		}
		d, err := m.draft(tenantID)
		if err != nil {
			return nil, err
		}
		out = append(out, listed{message: d})
	}
	return out, nil
}
