package stripe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// comparedDays are those before today that are compared each day: what comes later than
	// that has been compared while it was new, and is compared again when it is corrected.
	comparedDays = 40
	// differsFor is after how long a push that differs is surely asked about no more; the day is for
	// a comparison that began before.
	differsFor     = (comparedDays + 1) * day
	differencesMax = 1000
)

// Compare compares, per tenant, meter and day, what the ledger has, what was sent, and what
// Stripe has counted. Differences are stored and logged; what was found is returned.
func (s *Service) Compare(ctx context.Context) ([]store.BillingDifference, error) {
	if !s.Payments() {
		return nil, errNoPayments
	}
	began := s.Now()
	meters, err := s.gateway.meters(ctx)
	if err != nil {
		return nil, err
	}
	err = s.eachCustomer(ctx, func(c store.StripeCustomer) error { return s.compareOne(ctx, c, meters) })
	if err == nil {
		err = s.Store.Service(ctx, func(tx *store.Tx) error { return putCompared(ctx, tx, began) })
	}
	found, listErr := s.Differences(ctx)
	return found, errors.Join(err, listErr)
}

func (s *Service) compareOne(ctx context.Context, c store.StripeCustomer, meters map[string]string) error {
	err := s.settle(ctx, c, meters)
	if err == nil {
		err = s.compareCustomer(ctx, c, meters)
	}
	if err != nil {
		return fmt.Errorf("compare tenant %s: %w", c.TenantID, err)
	}
	return nil
}

// Differences are those found by the last comparison of each day.
func (s *Service) Differences(ctx context.Context) ([]store.BillingDifference, error) {
	return store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.BillingDifference, error) {
		return tx.ListBillingDifferences(ctx, differencesMax)
	})
}

// settle asks again about pushes that differed: somebody may have put Stripe right.
func (s *Service) settle(ctx context.Context, c store.StripeCustomer, meters map[string]string) error {
	to := s.Now()
	all, err := s.pushes(ctx, c.TenantID, to.Add(-comparedDays*day), to)
	if err != nil {
		return err
	}
	for _, p := range all {
		m, known := meterNamed(p.Meter)
		if p.State != stateDiffers || !known {
			continue
		}
		is, err := s.arrived(ctx, p, c, meters[m.eventName()])
		switch {
		case err != nil:
			return err
		case is == yes:
			err = s.done(ctx, p)
		case is == no:
			attempts := p.Attempts
			p.State, p.FirstSentAt, p.DueAt = stateOpen, time.Time{}, s.Now()
			err = meanwhile(s.note(ctx, p, attempts))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) pushes(ctx context.Context, tenantID string, from, to time.Time) ([]store.BillingPush, error) {
	var all []store.BillingPush
	for ; from.Before(to); from = from.Add(day) {
		one, err := store.Get(ctx, s.tenantRead(tenantID), func(tx *store.Tx) ([]store.BillingPush, error) {
			return tx.ListBillingPushes(ctx, tenantID, from, from.Add(day))
		})
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

// sums are what a meter has on a day.
type sums struct {
	ledger, pushed int64
	// events were taken by Stripe as meter events, items as invoice items; recent is what was
	// sent so shortly ago that its summary needn't have it.
	events, items, recent int64
	open                  bool
}

// dayOf is a meter on a day.
type dayOf struct {
	day   time.Time
	meter Meter
}

func (s *Service) compareCustomer(ctx context.Context, c store.StripeCustomer, meters map[string]string) error {
	to := s.Now().UTC().Truncate(day)
	from := to.Add(-comparedDays * day)
	if c.PushFrom.IsZero() {
		return nil
	}
	if first := c.PushFrom.UTC().Truncate(day); first.After(from) {
		from = first
	}
	if last := c.PushTo.UTC().Truncate(day).Add(day); !c.PushTo.IsZero() && last.Before(to) {
		to = last
	}
	if !from.Before(to) {
		return nil
	}
	all, err := s.sumsOf(ctx, c, from, to)
	if err != nil {
		return err
	}
	for m := range metersCount {
		summed := make(map[time.Time]int64)
		if meterID := meters[m.eventName()]; meterID != "" {
			if summed, err = s.gateway.summaries(ctx, meterID, c.CustomerID, from, to); err != nil {
				return err
			}
		}
		for d := from; d.Before(to); d = d.Add(day) {
			if err := s.compareDay(ctx, c, dayOf{d, m}, all[dayOf{d, m}], summed[d]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Service) compareDay(ctx context.Context, c store.StripeCustomer, at dayOf, v sums, summed int64) error {
	agrees := v.ledger == v.pushed && summed >= v.events-v.recent && summed <= v.events
	// What is on its way is no difference; it will be one if it does not arrive.
	if !agrees && v.open && v.ledger == v.pushed && summed >= v.events-v.recent {
		return nil
	}
	return s.keep(ctx, store.BillingDifference{TenantID: c.TenantID, Meter: at.meter.String(), Day: at.day, Ledger: v.ledger, Pushed: v.pushed, Summed: summed + v.items, FoundAt: s.Now()}, agrees)
}

// sumsOf adds up ledger and pushes of each day. It also writes down pushes for hours that were
// passed by.
func (s *Service) sumsOf(ctx context.Context, c store.StripeCustomer, from, to time.Time) (map[dayOf]sums, error) {
	out := make(map[dayOf]sums)
	err := s.Store.Service(ctx, func(tx *store.Tx) error {
		clear(out)
		if err := s.planMissing(ctx, tx, c, from, to, out); err != nil {
			return err
		}
		pushes, err := tx.ListBillingPushes(ctx, c.TenantID, from, to)
		for _, p := range pushes {
			if m, known := meterNamed(p.Meter); known {
				at := dayOf{p.Hour.UTC().Truncate(day), m}
				out[at] = out[at].with(p, s.Now())
			}
		}
		return err
	})
	return out, err
}

// planMissing adds up the ledger, and writes down pushes where it has more than was.
func (s *Service) planMissing(ctx context.Context, tx *store.Tx, c store.StripeCustomer, from, to time.Time, out map[dayOf]sums) error {
	t, err := tx.FindTenant(ctx, c.TenantID)
	if err != nil {
		return err
	}
	prices, err := plans.PricesOf(ctx, tx, t, bill.Period{Start: from, End: to}, to)
	if err != nil {
		return err
	}
	hours, err := tx.UsageByHour(ctx, c.TenantID, hourNumber(from), hourNumber(to), false)
	if err != nil {
		return err
	}
	written, err := tx.ListBillingPushes(ctx, c.TenantID, from, to)
	if err != nil {
		return err
	}
	pushedOf := make(map[dayOf]int64) // By hour.
	for _, p := range written {
		m, _ := meterNamed(p.Meter)
		pushedOf[dayOf{p.Hour, m}] += p.Value
	}
	var again []store.TenantHour
	for _, h := range hours {
		hour, missing := hourTime(h.At), false
		if !pushed(c, hour) {
			continue
		}
		for _, m := range pricedAt(prices.Segments, hour) {
			at := dayOf{hour.Truncate(day), m}
			v, n := out[at], m.of(h.Counts)
			v.ledger += n
			out[at], missing = v, missing || pushedOf[dayOf{hour, m}] < n
		}
		if missing {
			again = append(again, store.TenantHour{TenantID: c.TenantID, Hour: h.At})
		}
	}
	return s.planHours(ctx, tx, again)
}

// pricedAt are the meters that have a price in an hour.
func pricedAt(segments []bill.Segment, hour time.Time) (out []Meter) {
	for _, seg := range segments {
		if !seg.Holds(hour) {
			continue
		}
		for _, p := range seg.Prices {
			if m, known := meterNamed(p.Meter); known {
				out = append(out, m)
			}
		}
	}
	return out
}

func (v sums) with(p store.BillingPush, now time.Time) sums {
	v.pushed += p.Value
	switch {
	case p.State != stateDone:
		v.open = v.open || p.State == stateOpen
	case p.Kind == kindItem:
		v.items += p.Value
	default:
		v.events += p.Value
		if now.Sub(p.DoneAt) < settled {
			v.recent += p.Value
		}
	}
	return v
}

// keep records a difference, or that there is none any more.
func (s *Service) keep(ctx context.Context, d store.BillingDifference, agrees bool) error {
	if !agrees {
		s.Log.ErrorContext(ctx, "ledger, pushes and Stripe don't agree", "tenant", d.TenantID, "meter", d.Meter, "day", d.Day.Format(time.DateOnly),
			"ledger", d.Ledger, "pushed", d.Pushed, "stripe", d.Summed)
	}
	return s.Store.Tenant(ctx, d.TenantID, func(tx *store.Tx) error {
		if agrees {
			return tx.DeleteBillingDifference(ctx, d.TenantID, d.Meter, d.Day)
		}
		return tx.PutBillingDifference(ctx, d)
	})
}
