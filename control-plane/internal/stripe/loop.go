package stripe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	leaseFor = 10 * time.Minute
	tick     = time.Minute
	// eventsKept is far longer than Stripe repeats an event.
	eventsKept = 60 * day
)

// Run pushes, reminds and compares until ctx ends. Of several processes, one does at a time.
func (s *Service) Run(ctx context.Context) {
	if s.Payments() {
		s.loop.Run(ctx)
	}
}

// Pass does all that is due, once.
func (s *Service) Pass(ctx context.Context) error { return s.loop.Pass(ctx) }

// pass does all that is due, each part whatever became of the others.
func (s *Service) pass(ctx context.Context, _ time.Time) error {
	err := errors.Join(s.Remind(ctx), s.Follow(ctx)) // Short, and not to wait for what may take all of the pass.
	drafts, ended, ripeErr := s.ripe(ctx)            // First: what is closed by now is sent before a draft is compared with it.
	err = errors.Join(err, ripeErr, s.Push(ctx), s.Adjust(ctx, drafts), s.Settle(ctx, ended), s.Daily(ctx))
	s.Wake() // For emails.
	return err
}

// Follow makes subscriptions at Stripe what tenants have chosen here, and ends those that are
// one too many.
func (s *Service) Follow(ctx context.Context) error {
	return s.eachOf(ctx, (*store.Tx).ListStripeCustomersElsewhere, func(c store.StripeCustomer) error {
		if !lives(c.Status) {
			return nil
		}
		type chosen struct {
			plan    store.PlanVersion
			deleted bool
		}
		now, err := store.Get(ctx, s.tenantRead(c.TenantID), func(tx *store.Tx) (chosen, error) {
			t, err := tx.FindTenant(ctx, c.TenantID)
			if err != nil {
				return chosen{}, err
			}
			sub, err := tx.GetSubscription(ctx, c.TenantID)
			if err != nil {
				return chosen{}, err
			}
			plan, err := tx.GetPlan(ctx, t.Plan, sub.PlanVersion)
			return chosen{plan, !t.DeletedAt.IsZero()}, err
		})
		if err != nil {
			return err
		}
		if !now.deleted && now.plan.Plan == c.Plan && now.plan.Version == c.PlanVersion {
			return nil
		}
		if err := s.carry(ctx, c, now.plan, now.deleted || !paid(now.plan)); err != nil {
			return fmt.Errorf("carry the plan of tenant %s to Stripe: %w", c.TenantID, err)
		}
		return s.sync(ctx, c.TenantID, nil)
	})
}

// carry changes or ends a subscription. It looks at it first, so that it can be repeated.
func (s *Service) carry(ctx context.Context, c store.StripeCustomer, plan store.PlanVersion, end bool) error {
	all, err := s.gateway.subscriptions(ctx, c.CustomerID)
	if err != nil {
		return err
	}
	v := seen{subscriptions: all}
	sub, ok := v.current()
	if !ok || !lives(sub.status) {
		return nil // It has ended meanwhile.
	}
	if end {
		return s.gateway.endSubscription(ctx, sub.id, false)
	}
	if sub.plan == plan.Plan && sub.version == plan.Version {
		return nil
	}
	prices, err := s.pricesFor(ctx, plan)
	if err != nil {
		return err
	}
	return s.gateway.changeSubscription(ctx, sub, plan.Plan, plan.Version, prices)
}
