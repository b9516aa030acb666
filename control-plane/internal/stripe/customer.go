package stripe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// repeatable is how long a call may be repeated with its idempotency key, or a meter event
	// with its identifier: Stripe promises 24 hours.
	repeatable = 23 * time.Hour
	// searchable is after how long Stripe's search surely finds a new customer; it promises a
	// minute.
	searchable = 10 * time.Minute
)

// errMeanwhile: another process has changed the record; the call can be made again.
var errMeanwhile = fault.New(fault.Unavailable, "TRY_AGAIN", "the payment provider is being asked about this tenant; try again")

// customer gives the tenant's customer, and makes it if there is none. A row is written
// before Stripe is called, so that a call whose answer was lost is repeated and not made anew.
func (s *Service) customer(ctx context.Context, tenantID string) (store.StripeCustomer, error) {
	c, err := s.begun(ctx, tenantID)
	if err != nil || c.CustomerID != "" {
		return c, err
	}
	name, email, err := s.payer(ctx, tenantID)
	if err != nil {
		return c, err
	}
	if age := s.Now().Sub(c.AskedAt); age > searchable {
		// An answer of 500 is repeated to the same key, and after a day the key is forgotten.
		found, err := s.gateway.findCustomer(ctx, tenantID)
		if err != nil {
			return c, unreachable(err)
		}
		if found != "" {
			return s.named(ctx, c, found)
		}
		c.Attempt, c.AskedAt = c.Attempt+1, s.Now()
		if err := s.save(ctx, &c); err != nil {
			return c, err
		}
	}
	id, err := s.gateway.createCustomer(ctx, tenantID, name, email, fmt.Sprintf("corvo-customer-%s-%d", tenantID, c.Attempt))
	if err != nil {
		return c, unreachable(err)
	}
	return s.named(ctx, c, id)
}

// begun is the row of a customer; a new one if there is none.
func (s *Service) begun(ctx context.Context, tenantID string) (store.StripeCustomer, error) {
	return store.Get(ctx, s.tenant(tenantID), func(tx *store.Tx) (store.StripeCustomer, error) {
		c, err := tx.GetStripeCustomer(ctx, tenantID)
		if !errors.Is(err, store.ErrNotFound) {
			return c, err
		}
		now := s.Now()
		c = store.StripeCustomer{TenantID: tenantID, Attempt: 1, AskedAt: now, CreatedAt: now, UpdatedAt: now, Version: 1}
		if err := tx.InsertStripeCustomer(ctx, c); !errors.Is(err, store.ErrExists) {
			return c, err
		}
		return tx.GetStripeCustomer(ctx, tenantID)
	})
}

// payer is how a customer is called, and who gets Stripe's emails: the first owner.
func (s *Service) payer(ctx context.Context, tenantID string) (name, email string, _ error) {
	err := s.Store.ReadTenant(ctx, tenantID, func(tx *store.Tx) error {
		t, err := tx.GetTenant(ctx, tenantID)
		if err != nil {
			return err
		}
		name = t.DisplayName
		if name == "" {
			name = t.Name
		}
		owners, err := tx.ReachableOwners(ctx, tenantID, 1)
		if len(owners) > 0 {
			email = owners[0].Email
		}
		return err
	})
	return name, email, err
}

// named writes down the customer's id. Another process that was faster got the same.
func (s *Service) named(ctx context.Context, c store.StripeCustomer, id string) (store.StripeCustomer, error) {
	c.CustomerID = id
	return c, s.save(ctx, &c)
}

func (s *Service) save(ctx context.Context, c *store.StripeCustomer) error {
	c.UpdatedAt = s.Now()
	version := c.Version
	err := s.Store.Tenant(ctx, c.TenantID, func(tx *store.Tx) error {
		c.Version = version
		return tx.UpdateStripeCustomer(ctx, c)
	})
	if errors.Is(err, store.ErrStale) {
		return errMeanwhile
	}
	return err
}

// tenant opens transactions of one tenant.
func (s *Service) tenant(tenantID string) func(context.Context, func(*store.Tx) error) error {
	return func(ctx context.Context, f func(*store.Tx) error) error { return s.Store.Tenant(ctx, tenantID, f) }
}

// unreachable is what a caller is told of a call to Stripe that failed.
func unreachable(err error) error {
	if errors.Is(err, ErrMode) {
		return err
	}
	return errors.Join(fault.New(fault.Unavailable, "PAYMENTS_UNAVAILABLE", "the payment provider isn't responding, so nothing was changed; try again in some minutes"), err)
}

// lives reports whether a subscription can still be paid.
func lives(status string) bool {
	return slices.Contains([]string{"active", "trialing", "past_due", "unpaid", "paused"}, status)
}
