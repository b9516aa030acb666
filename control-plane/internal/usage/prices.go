package usage

import (
	"context"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// priced is the part of a billing period in which a tenant had plans, and their prices.
type priced struct{ plans.Priced }

// pricesOf are those of a tenant's own plans, as of a time.
func pricesOf(ctx context.Context, tx *store.Tx, t store.Tenant, p bill.Period, asOf time.Time) (priced, error) {
	own, err := plans.PricesOf(ctx, tx, t, p, asOf)
	return priced{own}, err
}

// pricesWith is as if a tenant had had another plan since it has one.
func pricesWith(ctx context.Context, tx *store.Tx, t store.Tenant, p bill.Period, asOf time.Time, plan string) (priced, error) {
	own, err := pricesOf(ctx, tx, t, p, asOf)
	if err != nil || len(own.Segments) == 0 {
		return own, err
	}
	other, err := tx.GetPlan(ctx, plan, 0)
	if errors.Is(err, store.ErrNotFound) || err == nil && !other.Listed && other.Plan != t.Plan {
		return own, fault.InvalidField("plan", "%q is no plan that you can choose", plan)
	}
	if err != nil {
		return own, err
	}
	return priced{own.With(other)}, nil
}

// undivided is a span of whole hours for which it doesn't matter which plans were in force.
func undivided(p bill.Period) priced {
	return priced{plans.Priced{Period: p, Segments: []bill.Segment{{From: p.Start, To: p.End}}}}
}

// counts is what the closed hours of each segment count: from the sums of days, and the hours
// of those that a segment has a part of. Hours from open on are not closed, so nothing of a
// day is beyond a segment that goes on to there.
func (p priced) counts(ctx context.Context, tx *store.Tx, tenantID string, open int64) ([]bill.Counts, error) {
	out := make([]bill.Counts, len(p.Segments))
	days, err := tx.UsageByDay(ctx, tenantID, metering.Hour(p.Start)/24, (metering.Hour(p.End)+23)/24, false)
	if err != nil {
		return nil, err
	}
	for _, d := range days {
		from, to := d.At*24, d.At*24+24
		for i, s := range p.Segments {
			begin, end := max(metering.Hour(s.From), from), min(metering.Hour(s.To), to)
			if begin >= end {
				continue
			}
			if begin == from && (end == to || from < open && open <= end) {
				out[i] = out[i].Then(bill.Counts(d.Counts))
				continue
			}
			hours, err := tx.UsageByHour(ctx, tenantID, begin, end, false) // The plan changed in this day, or the span ends.
			if err != nil {
				return nil, err
			}
			p.addHours(out, hours)
		}
	}
	return out, nil
}

func (p priced) addHours(to []bill.Counts, hours []store.UsageAt) {
	for _, h := range hours {
		for i, s := range p.Segments {
			if s.Holds(metering.Start(h.At)) {
				to[i] = to[i].Then(bill.Counts(h.Counts))
			}
		}
	}
}

// invoice of counts.
func (p priced) invoice(counts []bill.Counts) (bill.Invoice, error) {
	return bill.Make(p.Period, p.Segments, counts)
}

// openHours is what was counted in hours that are not closed, all namespaces together.
func openHours(ctx context.Context, tx *store.Tx, tenantID string, at store.UsageClosing) ([]store.UsageAt, error) {
	list, err := tx.OpenUsage(ctx, tenantID, firstOpen(at, tenantID))
	byHour := make(map[int64]bill.Counts)
	for _, o := range list {
		byHour[o.At] = byHour[o.At].Plus(bill.Counts(o.Counts))
	}
	var out []store.UsageAt
	for hour, c := range byHour {
		out = append(out, store.UsageAt{At: hour, Counts: store.Counts(c)})
	}
	return out, err
}

// firstOpen is the first hour of a tenant that is not closed.
func firstOpen(at store.UsageClosing, tenantID string) int64 {
	if at.Closed(tenantID, at.Hour) {
		return at.Hour + 1
	}
	return at.Hour
}

// closingOf is up to where the tenant's cell has closed hours; zero for a cell that counts
// nothing yet.
func closingOf(ctx context.Context, tx *store.Tx, t store.Tenant) (store.UsageClosing, error) {
	at, err := tx.GetUsageClosing(ctx, t.Cell)
	if errors.Is(err, store.ErrNotFound) {
		return store.UsageClosing{Cell: t.Cell}, nil
	}
	return at, err
}

// Used is what counts against limits: jobs in the billing period so far, open hours too, and
// the most open jobs and stored bytes of any one namespace.
type Used struct{ JobsThisMonth, OpenJobs, StoredBytes int64 }

// UsedBy reads it.
func UsedBy(ctx context.Context, tx *store.Tx, tenantID string, now time.Time) (u Used, _ error) {
	t, err := tx.GetTenant(ctx, tenantID)
	if err != nil {
		return u, err
	}
	counts, err := soFar(ctx, tx, t, undivided(bill.Month(now)))
	if err != nil {
		return u, err
	}
	u.JobsThisMonth = counts[0].JobsEnqueued
	levels, err := tx.ListUsageLevels(ctx, tenantID)
	for _, l := range levels {
		u.OpenJobs, u.StoredBytes = max(u.OpenJobs, l.OpenJobs), max(u.StoredBytes, l.StoredBytes)
	}
	return u, err
}

// soFar is what was counted in each segment up to now, in open hours too.
func soFar(ctx context.Context, tx *store.Tx, t store.Tenant, p priced) ([]bill.Counts, error) {
	at, err := closingOf(ctx, tx, t)
	if err != nil {
		return nil, err
	}
	counts, err := p.counts(ctx, tx, t.ID, firstOpen(at, t.ID))
	if err != nil {
		return nil, err
	}
	open, err := openHours(ctx, tx, t.ID, at)
	p.addHours(counts, open)
	return counts, err
}
