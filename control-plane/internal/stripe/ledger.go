package stripe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	settingPosition = "stripe_ledger_position"
	settingReading  = "stripe_ledger_reading"

	// pagesMax are read before what they have is sent, so that processes that do not live long
	// send too.
	pagesMax = 20
	// overlap is how far back the ledger is read again: a row says when it was made, and is seen
	// when its transaction ends.
	overlap = 10 * time.Minute
	// changedMax bounds a transaction.
	changedMax = 500
)

// plan writes down pushes for hours that were closed or corrected since it last came to an
// end: some pages of them, and whether there is more. What it writes down again is written
// once. Of several processes, one goes on where another one is: how far they are is read and
// written in the transaction of each page.
func (s *Service) plan(ctx context.Context) (more bool, _ error) {
	more = true
	for page := 0; more && page < pagesMax; page++ {
		err := s.Store.Follow(ctx, func(tx *store.Tx) error {
			at, reads, err := s.reading(ctx, tx)
			if err != nil {
				return err
			}
			if more = reads || page == 0; !more {
				return nil // Another process has come to the end.
			}
			changed, err := tx.ChangedHours(ctx, store.ChangedHour{At: at.Since, TenantHour: at.After}, changedMax)
			if err != nil {
				return err
			}
			if err := s.planHours(ctx, tx, hoursOf(changed)); err != nil {
				return err
			}
			if more = len(changed) == changedMax; more {
				last := changed[len(changed)-1]
				at.Since, at.After = last.At, last.TenantHour
			}
			return at.keep(ctx, tx, more, s.Now())
		})
		if err != nil {
			return false, err
		}
	}
	return more, nil
}

// reading is how far what changed in the ledger was read: all that was closed before Since,
// and of what was closed then, all up to After. After an outage there is more than a pass gets
// through, so that the next one goes on.
type reading struct {
	Began time.Time        `json:"began"`
	Since time.Time        `json:"since"`
	After store.TenantHour `json:"after"`
}

// reading goes on where the last page ended, if somebody reads, or begins where the last one came
// to an end.
func (s *Service) reading(ctx context.Context, tx *store.Tx) (at reading, reads bool, _ error) {
	text, err := setting(ctx, tx, settingReading)
	if err != nil {
		return at, false, err
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			return at, false, fmt.Errorf("read setting %s: %w", settingReading, err)
		}
		return at, true, nil
	}
	at.Began = s.Now()
	if at.Since, err = settingTime(ctx, tx, settingPosition); err == nil && !at.Since.IsZero() {
		at.Since = at.Since.Add(-overlap)
	}
	return at, false, err
}

func (at reading) keep(ctx context.Context, tx *store.Tx, more bool, now time.Time) error {
	if !more {
		if err := tx.PutSetting(ctx, settingReading, "", now); err != nil {
			return err
		}
		return tx.PutSetting(ctx, settingPosition, at.Began.UTC().Format(time.RFC3339Nano), at.Began)
	}
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	return tx.PutSetting(ctx, settingReading, string(text), now)
}

// hoursOf are hours, each once.
func hoursOf(changed []store.ChangedHour) (hours []store.TenantHour) {
	for _, c := range changed {
		if !slices.Contains(hours, c.TenantHour) {
			hours = append(hours, c.TenantHour)
		}
	}
	return hours
}

// planHours writes down what hours have beyond what was written down before.
func (s *Service) planHours(ctx context.Context, tx *store.Tx, hours []store.TenantHour) error {
	hours, err := charged(ctx, tx, hours)
	if err != nil {
		return err
	}
	counted, err := tx.UsageOf(ctx, hours)
	if err != nil {
		return err
	}
	before, err := pushesOf(ctx, tx, hours)
	if err != nil {
		return err
	}
	prices, err := pricesOf(ctx, tx, hours)
	if err != nil {
		return err
	}
	for _, u := range counted {
		for _, m := range prices[u.TenantHour] {
			if err := s.planMeter(ctx, tx, u.TenantHour, m, m.of(u.Counts), before[u.TenantHour]); err != nil {
				return err
			}
		}
	}
	return nil
}

// charged are those of some hours that are sent to Stripe.
func charged(ctx context.Context, tx *store.Tx, hours []store.TenantHour) ([]store.TenantHour, error) {
	if len(hours) == 0 {
		return nil, nil
	}
	customers, err := tx.StripeCustomersOf(ctx, tenantsOf(hours))
	if err != nil {
		return nil, err
	}
	of := make(map[string]store.StripeCustomer)
	for _, c := range customers {
		of[c.TenantID] = c
	}
	return slices.DeleteFunc(slices.Clone(hours), func(h store.TenantHour) bool { return !pushed(of[h.TenantID], hourTime(h.Hour)) }), nil
}

// pushed reports whether an hour of a customer is sent.
func pushed(c store.StripeCustomer, hour time.Time) bool {
	return c.CustomerID != "" && !c.PushFrom.IsZero() && !hour.Before(c.PushFrom) && (c.PushTo.IsZero() || hour.Before(c.PushTo))
}

func tenantsOf(hours []store.TenantHour) (ids []string) {
	for _, h := range hours {
		ids = append(ids, h.TenantID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func pushesOf(ctx context.Context, tx *store.Tx, hours []store.TenantHour) (map[store.TenantHour][]store.BillingPush, error) {
	list, err := tx.BillingPushesOf(ctx, hours)
	of := make(map[store.TenantHour][]store.BillingPush)
	for _, p := range list {
		at := store.TenantHour{TenantID: p.TenantID, Hour: hourNumber(p.Hour)}
		of[at] = append(of[at], p)
	}
	return of, err
}

// pricesOf are the meters that have a price in the plan that an hour is paid by, also of
// tenants that were deleted.
func pricesOf(ctx context.Context, tx *store.Tx, hours []store.TenantHour) (map[store.TenantHour][]Meter, error) {
	ids, last := tenantsOf(hours), int64(0)
	for _, h := range hours {
		last = max(last, h.Hour)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	tenants, err := tx.TenantsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	changes, err := tx.SubscriptionChangesOf(ctx, ids, hourTime(last+1))
	if err != nil {
		return nil, err
	}
	made, changesOf := make(map[string]time.Time), make(map[string][]store.SubscriptionChange)
	for _, t := range tenants {
		made[t.ID] = t.CreatedAt
	}
	for _, c := range changes {
		changesOf[c.TenantID] = append(changesOf[c.TenantID], c)
	}
	out, meters := make(map[store.TenantHour][]Meter), make(map[store.PlanRef][]Meter)
	for _, h := range hours {
		plan, known := plans.At(changesOf[h.TenantID], made[h.TenantID], hourTime(h.Hour))
		if !known {
			return nil, fmt.Errorf("tenant %s had no plan at %s", h.TenantID, hourTime(h.Hour).Format(time.RFC3339))
		}
		if meters[plan] == nil {
			if meters[plan], err = metersOf(ctx, tx, plan); err != nil {
				return nil, err
			}
		}
		out[h] = meters[plan]
	}
	return out, nil
}

// metersOf are those that a version of a plan has prices of.
func metersOf(ctx context.Context, tx *store.Tx, of store.PlanRef) ([]Meter, error) {
	plan, err := tx.GetPlan(ctx, of.Plan, of.Version)
	if err != nil {
		return nil, err
	}
	out := []Meter{}
	for _, p := range plan.Prices {
		m, known := meterNamed(p.Meter)
		if !known {
			return nil, fmt.Errorf("plan %s version %d has a price of an unknown meter %q", plan.Plan, plan.Version, p.Meter)
		}
		out = append(out, m)
	}
	return out, nil
}

// planMeter writes down one push, if there is anything to send. The ledger never counts down;
// if it did, nothing is sent, and the comparison of every day says so.
func (s *Service) planMeter(ctx context.Context, tx *store.Tx, h store.TenantHour, m Meter, total int64, before []store.BillingPush) error {
	var sum, revision int64
	for _, p := range before {
		if p.Meter == m.String() {
			sum, revision = sum+p.Value, max(revision, p.Revision+1)
		}
	}
	if total <= sum {
		return nil
	}
	now, hour := s.Now(), hourTime(h.Hour)
	return tx.InsertBillingPush(ctx, store.BillingPush{
		TenantID: h.TenantID, Meter: m.String(), Hour: hour, Revision: revision, Identifier: identifier(h.TenantID, m, hour, revision),
		Kind: kindEvent, State: stateOpen, Value: total - sum, DueAt: now, CreatedAt: now,
	})
}
