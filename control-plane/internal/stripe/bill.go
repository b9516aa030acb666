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
	m, err := pricedMonth(ctx, tx, tenantID, p)
	if err != nil {
		return m, err
	}
	return m, m.count(ctx, tx, tenantID)
}

// count reads what was counted in the hours of the segments.
func (m month) count(ctx context.Context, tx *store.Tx, tenantID string) error {
	hours, err := tx.UsageByHour(ctx, tenantID, hourNumber(m.period.Start), hourNumber(m.period.End), false)
	for _, h := range hours {
		for i, s := range m.segments {
			if s.Holds(hourTime(h.At)) {
				m.counts[i] = m.counts[i].Then(bill.Counts(h.Counts))
			}
		}
	}
	return err
}

// within is a month in which nothing was counted, cut to a span of time.
func (m month) within(from, to time.Time) month {
	var segments []bill.Segment
	for _, s := range m.segments {
		if s.From.Before(from) {
			s.From = from
		}
		if s.To.After(to) {
			s.To = to
		}
		if s.From.Before(s.To) {
			segments = append(segments, s)
		}
	}
	m.segments, m.counts = segments, make([]bill.Counts, len(segments))
	return m
}

// pricedMonth is a month in which nothing was counted.
func pricedMonth(ctx context.Context, tx *store.Tx, tenantID string, p bill.Period) (month, error) {
	t, err := tx.FindTenant(ctx, tenantID)
	if err != nil {
		return month{}, err
	}
	prices, err := plans.PricesOf(ctx, tx, t, p, p.End)
	return month{period: p, currency: prices.Currency, segments: prices.Segments, counts: make([]bill.Counts, len(prices.Segments))}, err
}

// add counts what Stripe was told, or is about to be.
func (m month) add(p store.BillingPush) {
	of, _ := meterNamed(p.Meter) // It was named when the push was written.
	for i, s := range m.segments {
		if s.Holds(p.Hour) {
			*field(&m.counts[i], of) += p.Value * units[of].of
		}
	}
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
