package server

import (
	"context"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/stripe"
	"github.com/corvo-cloud/corvo/control-plane/internal/urls"
	"github.com/corvo-cloud/corvo/control-plane/internal/usage"
)

// Payments is how tenants pay: with Stripe, or not at all.
type Payments struct {
	// Key of Stripe's; empty: no payments.
	Key string
	// WebhookSecrets sign what Stripe sends: the one in use, and the one before it.
	WebhookSecrets []string
	// URL in place of Stripe's.
	URL string
	// Account tells one Stripe of test payments from another, and from the real one: a database
	// belongs to the one that it was first used with. Empty for the real one.
	Account string
}

func (p Payments) service(ctx context.Context, k kit.Kit) (*stripe.Service, error) {
	return stripe.New(ctx, k, stripe.Options{Key: p.Key, Secrets: p.WebhookSecrets, URL: p.URL, Account: p.Account, Plans: subscriptions{k}})
}

// payers tells whether a tenant pays; nil where payments are off.
func (p Payments) payers() plans.Payments {
	if p.Key == "" {
		return nil
	}
	return payers{}
}

type payers struct{}

// Pays implements plans.Payments.
func (payers) Pays(ctx context.Context, tx *store.Tx, tenantID string) (bool, error) {
	return stripe.Pays(ctx, tx, tenantID)
}

// used is what the ledger has counted of a tenant.
func used(ctx context.Context, tx *store.Tx, tenantID string, now time.Time) (plans.Used, error) {
	u, err := usage.UsedBy(ctx, tx, tenantID, now)
	return plans.Used(u), err
}

// Conflict is the action of a CatalogDifference that nothing puts right.
const Conflict = stripe.Conflict

// WebhookPath is where Stripe sends its events.
const WebhookPath = stripe.WebhookPath

// CatalogDifference is what Stripe's catalog lacks, or has otherwise.
type CatalogDifference = stripe.Difference

// SyncStripe brings Stripe's catalog up to date with the plans.
func SyncStripe(ctx context.Context, m Maintenance, p Payments, dryRun bool) (list []CatalogDifference, err error) {
	err = m.withStripe(ctx, p, func(s *stripe.Service) (err error) {
		list, err = s.Sync(ctx, dryRun)
		return err
	})
	return list, err
}

// SyncStripe brings Stripe's catalog up to date with the plans.
func (s *Server) SyncStripe(ctx context.Context) ([]CatalogDifference, error) {
	return s.stripe.Sync(ctx, false)
}

// UsageDifference is a day of which ledger, sent usage and Stripe's sums don't agree.
type UsageDifference struct {
	TenantID string    `json:"tenant_id"`
	Meter    string    `json:"meter"`
	Day      string    `json:"day"`
	Ledger   int64     `json:"ledger"`
	Sent     int64     `json:"sent"`
	Stripe   int64     `json:"stripe"`
	FoundAt  time.Time `json:"found_at"`
}

// ReconcileStripe tells the differences of the last comparison, or of one now.
func ReconcileStripe(ctx context.Context, m Maintenance, p Payments, now bool) ([]UsageDifference, error) {
	out := []UsageDifference{}
	err := m.withStripe(ctx, p, func(s *stripe.Service) error {
		look := s.Differences
		if now {
			look = s.Compare
		}
		found, err := look(ctx)
		for _, d := range found {
			out = append(out, UsageDifference{d.TenantID, d.Meter, d.Day.Format(time.DateOnly), d.Ledger, d.Pushed, d.Summed, d.FoundAt})
		}
		return err
	})
	return out, err
}

// withStripe opens the database beside running processes.
func (m Maintenance) withStripe(ctx context.Context, p Payments, do func(*stripe.Service) error) error {
	db, box, err := m.open(ctx)
	if err != nil {
		return err
	}
	// What is done here writes no email, so it needs no addresses.
	k := kit.Kit{Store: db, IDs: ids.NewMaker(), Now: time.Now, Log: m.Logger, Seal: box, URLs: urls.URLs{}, Wake: func() {}}
	s, err := p.service(ctx, k)
	if err == nil {
		err = do(s)
	}
	return errors.Join(err, db.Close())
}

// subscriptions changes a tenant's plan and state for what was paid, or was not.
type subscriptions struct{ kit.Kit }

// SetPlan implements stripe.Plans.
func (p subscriptions) SetPlan(ctx context.Context, tx *store.Tx, tenantID, plan string, version int64) error {
	t, err := tx.FindTenant(ctx, tenantID)
	if err != nil {
		return err
	}
	return plans.SetVersion(ctx, p.Kit, tx, &t, plan, version)
}

// SetState implements stripe.Plans.
func (p subscriptions) SetState(ctx context.Context, tx *store.Tx, tenantID string, state stripe.State, until time.Time) error {
	why := "an invoice isn't paid"
	if state == stripe.Active {
		why = "the invoice is paid"
	}
	return plans.SetState(ctx, p.Kit, tx, tenantID, string(state), why, until)
}
