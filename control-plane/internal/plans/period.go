package plans

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Priced is the part of a billing period in which a tenant had plans, and their prices.
type Priced struct {
	bill.Period
	Segments []bill.Segment
	Currency string
}

// PricesOf are those of a tenant's own plans, as of a time: later changes don't count.
// Whatever a tenant is shown or charged is made from these segments.
func PricesOf(ctx context.Context, tx *store.Tx, t store.Tenant, p bill.Period, asOf time.Time) (Priced, error) {
	out := Priced{Period: p}
	changes, err := tx.SubscriptionChanges(ctx, t.ID, p.Start, p.End)
	if err != nil {
		return out, err
	}
	for _, s := range Segments(known(changes, asOf), t.CreatedAt, p) {
		plan, err := tx.GetPlan(ctx, s.Name, int64(s.Version))
		if err != nil {
			return out, err
		}
		out.add(s.From, s.To, plan)
	}
	return out, nil
}

// With is as if a tenant had had a version of a plan for all of these segments.
func (p Priced) With(plan store.PlanVersion) Priced {
	out := Priced{Period: p.Period}
	if n := len(p.Segments); n > 0 {
		out.add(p.Segments[0].From, p.Segments[n-1].To, plan)
	}
	return out
}

func (p *Priced) add(from, to time.Time, plan store.PlanVersion) {
	b := bill.Plan{Name: plan.Plan, Version: int32(plan.Version), Title: plan.Title, BaseAmount: plan.BaseAmount, Prices: []bill.Price{}}
	for _, r := range plan.Prices {
		b.Prices = append(b.Prices, bill.Price{Meter: r.Meter, Included: r.Included, Per: r.Per, Amount: r.Amount})
	}
	p.Segments = append(p.Segments, bill.Segment{From: from, To: to, Plan: b})
	if p.Currency == "" || costs(plan) {
		p.Currency = plan.Currency // Of what the period costs, which is none of what is free.
	}
}

// At is the version of a plan that an hour is paid by; by changes as the store lists them, at
// least the one in force and those in the hour. It is empty before the tenant was made.
func At(changes []store.SubscriptionChange, made, hour time.Time) (v store.PlanRef, known bool) {
	for _, s := range Segments(changes, made, bill.Period{Start: hour, End: hour.Add(time.Hour)}) {
		return store.PlanRef{Plan: s.Name, Version: int64(s.Version)}, true
	}
	return v, false
}

// known are the changes that were made by a time.
func known(changes []store.SubscriptionChange, asOf time.Time) []store.SubscriptionChange {
	for i, c := range changes {
		if c.At.After(asOf) {
			return changes[:i]
		}
	}
	return changes
}

// Segments divides a period into runs of hours with one version of a plan, without prices; by
// changes as the store lists them. An hour belongs to the plan in force at its beginning, and
// that in which the tenant was made to the plan that it was made with. Hours before that
// belong to none.
func Segments(changes []store.SubscriptionChange, made time.Time, p bill.Period) []bill.Segment {
	inForce := func(c store.SubscriptionChange) time.Time {
		if !c.At.After(made) {
			return c.At.UTC().Truncate(time.Hour)
		}
		return bill.Hourly(c.At)
	}
	var all []bill.Segment
	for i, c := range changes {
		from, to := later(inForce(c), p.Start), p.End
		if i+1 < len(changes) {
			to = earlier(inForce(changes[i+1]), p.End)
		}
		all = append(all, bill.Segment{From: from, To: to, Plan: bill.Plan{Name: c.Plan, Version: int32(c.PlanVersion)}})
	}
	return bill.Joined(all)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
