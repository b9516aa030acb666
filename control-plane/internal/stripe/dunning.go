package stripe

import (
	"context"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const day = 24 * time.Hour

// stays is how long a state lasts before the next follows; Suspended lasts until it is paid.
var stays = map[State]time.Duration{PastDue: 7 * day, Restricted: 7 * day}

// KeptFor is how long the data of a suspended tenant is surely kept. Nothing of ours deletes
// it after that: that is an operator's decision.
const KeptFor = 30 * day

// follows is the state after one.
func follows(s State) State {
	switch s {
	case Active:
		return PastDue
	case PastDue:
		return Restricted
	}
	return Suspended
}

// applyDebt begins or ends what follows from a bill that is not paid.
func (s *Service) applyDebt(ctx context.Context, tx *store.Tx, c store.StripeCustomer) error {
	_, now, err := subscriptionOf(ctx, tx, c.TenantID)
	switch {
	case err != nil:
		return err
	case c.Owes && now.State == string(Active):
		return s.step(ctx, tx, c.TenantID, PastDue)
	case !c.Owes && now.State != string(Active):
		return s.step(ctx, tx, c.TenantID, Active)
	}
	return nil
}

// Remind takes tenants that still owe a step further when it is time. Stripe is asked first:
// the event that tells of a payment may have been lost.
func (s *Service) Remind(ctx context.Context) error {
	return s.eachCustomer(ctx, func(c store.StripeCustomer) error {
		if !c.Owes {
			return nil
		}
		due, err := store.Get(ctx, s.tenantRead(c.TenantID), func(tx *store.Tx) (bool, error) { return s.stepDue(ctx, tx, c.TenantID) })
		if err != nil || !due {
			return err
		}
		if err := s.sync(ctx, c.TenantID, nil); err != nil {
			return err
		}
		return s.Store.Service(ctx, func(tx *store.Tx) error {
			c, err := tx.GetStripeCustomer(ctx, c.TenantID)
			if err != nil || !c.Owes {
				return err
			}
			// Again in here, so that of two processes one takes the step.
			due, err := s.stepDue(ctx, tx, c.TenantID)
			if err != nil || !due {
				return err
			}
			_, now, err := subscriptionOf(ctx, tx, c.TenantID)
			if err != nil {
				return err
			}
			return s.step(ctx, tx, c.TenantID, follows(State(now.State)))
		})
	})
}

func (s *Service) stepDue(ctx context.Context, tx *store.Tx, tenantID string) (bool, error) {
	_, now, err := subscriptionOf(ctx, tx, tenantID)
	if err != nil {
		return false, err
	}
	life, ends := stays[State(now.State)]
	return ends && !s.Now().Before(now.StateSince.Add(life)), nil
}

// step changes the state and writes to those who pay, in one transaction.
func (s *Service) step(ctx context.Context, tx *store.Tx, tenantID string, to State) error {
	now := s.Now()
	var until time.Time
	if life, ends := stays[to]; ends {
		until = now.Add(life)
	}
	if err := s.options.Plans.SetState(ctx, tx, tenantID, to, until); err != nil {
		return err
	}
	t, err := tx.GetTenant(ctx, tenantID)
	if errors.Is(err, store.ErrNotFound) {
		return nil // It was deleted: nobody reads an email about it.
	}
	if err != nil {
		return err
	}
	addresses, err := mail.BillingReaders(ctx, tx, tenantID)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		m, err := mail.Dunning(address, t.Name, string(to), s.billingURL(t.Name), now, until)
		if err == nil {
			err = mail.Put(ctx, s.Kit, tx, tenantID, tenantID, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// billingURL is the console's page about a tenant's payments.
func (s *Service) billingURL(tenant string) string {
	return s.URLs.Console("/" + tenant + "/settings/billing")
}

// eachCustomer does something for every customer, and goes on after one that fails.
func (s *Service) eachCustomer(ctx context.Context, do func(store.StripeCustomer) error) error {
	return s.eachOf(ctx, (*store.Tx).ListStripeCustomers, do)
}

// eachOf does something for every customer of a list, and goes on after one that fails.
func (s *Service) eachOf(ctx context.Context, list func(*store.Tx, context.Context, store.Page) ([]store.StripeCustomer, error), do func(store.StripeCustomer) error) error {
	var problems []error
	const most = 500
	for after, more := "", true; more; {
		page, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.StripeCustomer, error) {
			return list(tx, ctx, store.Page{After: after, Limit: most})
		})
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		for _, c := range page {
			if ctx.Err() != nil {
				return errors.Join(append(problems, ctx.Err())...)
			}
			if err := do(c); err != nil {
				problems = append(problems, err)
			}
			after = c.TenantID
		}
		more = len(page) == most
	}
	return errors.Join(problems...)
}
