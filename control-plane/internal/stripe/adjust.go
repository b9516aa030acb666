package stripe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Stripe computes invoices in its own way: the base amount ahead and to the second, all of what
// is included even in a part of a month, and its own rounding. What a tenant pays is what the
// ledger says (package bill), so a draft of Stripe's gets one more line: what all hours up to
// its end cost, less what was invoiced for them. Whatever an invoice lacked, because it was
// final before an hour was closed or nobody was there to adjust it, is on the next one.

const (
	// adjustAfter is when Stripe surely has counted what was sent before it made the draft; after
	// an hour it makes it final.
	adjustAfter = 30 * time.Minute
	draftsMax   = 1000
	// pageLife is how long a page can be paid, if its month doesn't end before.
	pageLife = 24 * time.Hour
)

// periods is when a subscription that begins now has its second period, and until when it must
// be paid for that: bills are of calendar months. Both are zero in the last hour of a month, for
// Stripe's pages live for half an hour at least.
func periods(now time.Time) (anchor, expires time.Time) {
	hour, next := now.UTC().Truncate(time.Hour), bill.Month(now).End
	if !hour.Add(time.Hour).Before(next) {
		return time.Time{}, time.Time{}
	}
	if expires = hour.Add(pageLife); expires.After(next) {
		expires = next
	}
	return next, expires
}

// ripe are drafts that can be adjusted: every hour until their ends is closed.
func (s *Service) ripe(ctx context.Context) (ripe []store.StripeInvoice, _ error) {
	return ripe, s.Store.ReadService(ctx, func(tx *store.Tx) error {
		ripe = nil
		drafts, err := tx.DraftStripeInvoices(ctx, s.Now().Add(-adjustAfter), draftsMax)
		if err != nil {
			return err
		}
		for _, d := range drafts {
			o, err := owing(ctx, tx, d)
			if err != nil {
				return err
			}
			if o.closed {
				ripe = append(ripe, d)
			}
		}
		return nil
	})
}

// Adjust makes drafts what the ledger says, a tenant's one after the other: each invoice counts
// what the one before got. All drafts of a month are made in one hour.
func (s *Service) Adjust(ctx context.Context, drafts []store.StripeInvoice) error {
	of := make(map[string][]int)
	for i, d := range drafts {
		of[d.TenantID] = append(of[d.TenantID], i)
	}
	problems := make([]error, len(drafts))
	var all errgroup.Group
	all.SetLimit(sendersMax)
	for _, some := range of {
		all.Go(func() error {
			for _, i := range some {
				if err := s.adjust(ctx, drafts[i]); err != nil {
					problems[i] = fmt.Errorf("adjust invoice %s of tenant %s: %w", drafts[i].ID, drafts[i].TenantID, err)
				}
			}
			return nil
		})
	}
	return errors.Join(all.Wait(), errors.Join(problems...))
}

// adjust may be repeated, and two at once do no harm: what was added is seen by the next one.
func (s *Service) adjust(ctx context.Context, d store.StripeInvoice) error {
	o, err := store.Get(ctx, s.tenantRead(d.TenantID), func(tx *store.Tx) (owed, error) {
		o, err := owing(ctx, tx, d)
		if err == nil && o.closed && o.sent {
			err = o.add(ctx, tx)
		}
		return o, err
	})
	if err != nil || !o.closed || !o.sent {
		return err // What is still to be sent would be on the invoice as well.
	}
	invoices, err := s.gateway.invoices(ctx, o.customer.CustomerID, invoicesMax)
	if err != nil {
		return err
	}
	pending, err := s.gateway.pendingItems(ctx, o.customer.CustomerID, o.customer.SubscriptionID)
	if err != nil {
		return err
	}
	if !isDraft(invoices, d.ID) {
		s.Log.WarnContext(ctx, "an invoice was final before it could be adjusted; the next one makes up for it", "tenant", d.TenantID, "invoice", d.ID)
		return s.sync(ctx, d.TenantID, nil)
	}
	charged := pending + o.charged(invoices)
	if more := o.amount - charged; more != 0 {
		err := s.gateway.createItem(ctx, invoiceItem{
			customerID: o.customer.CustomerID, subscriptionID: o.customer.SubscriptionID, invoiceID: d.ID, identifier: "adjustment of " + d.ID,
			title:  fmt.Sprintf("What your usage before %s costs, less what was invoiced for it", o.to.Format(time.DateOnly)),
			amount: more, currency: d.Currency,
			key: fmt.Sprintf("corvo-adjust-%s-%d-%d", d.ID, charged, s.Now().Unix()/60),
		})
		if err != nil {
			return err
		}
	}
	return s.Store.Tenant(ctx, d.TenantID, func(tx *store.Tx) error { return tx.NoteAdjustedInvoice(ctx, d.TenantID, d.ID, s.Now()) })
}

func isDraft(invoices []invoiced, id string) bool {
	for _, i := range invoices {
		if i.id == id {
			return i.status == "draft"
		}
	}
	return false
}

// owed is what a subscription costs by the ledger, for all of its hours before a time.
type owed struct {
	customer store.StripeCustomer
	to       time.Time
	// closed: the ledger is final up to then. sent: Stripe has all of it.
	closed, sent bool
	amount       int64
}

// owing is what is owed with a draft, without the amount.
func owing(ctx context.Context, tx *store.Tx, d store.StripeInvoice) (o owed, err error) {
	if o.customer, err = tx.GetStripeCustomer(ctx, d.TenantID); err != nil {
		return o, err
	}
	if o.to = d.PeriodEnd.UTC().Truncate(time.Hour); !o.customer.PushTo.IsZero() {
		o.to = o.customer.PushTo
	}
	t, err := tx.FindTenant(ctx, d.TenantID)
	if err != nil {
		return o, err
	}
	closing, err := tx.GetUsageClosing(ctx, t.Cell)
	if errors.Is(err, store.ErrNotFound) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	o.closed = closing.Closed(d.TenantID, hourNumber(o.to)-1)
	open, err := tx.HasOpenBillingPush(ctx, d.TenantID)
	o.sent = !open
	return o, err
}

// add computes the amount.
func (o *owed) add(ctx context.Context, tx *store.Tx) error {
	from := o.customer.PushFrom
	for p := bill.Month(from); p.Start.Before(o.to); p = bill.Month(p.End) {
		m, err := pricedMonth(ctx, tx, o.customer.TenantID, p)
		if err != nil {
			return err
		}
		m = m.within(from, o.to)
		if err := m.count(ctx, tx, o.customer.TenantID); err != nil {
			return err
		}
		made, err := bill.Make(m.period, m.segments, m.counts)
		if err != nil {
			return err
		}
		o.amount += made.Total
	}
	return nil
}

// charged is what was invoiced for those hours. The base amount of a period that goes on is
// none of it; once a subscription has ended, everything is.
func (o owed) charged(invoices []invoiced) (sum int64) {
	ended := !o.customer.PushTo.IsZero()
	for _, i := range invoices {
		for _, l := range i.lines {
			if l.subscription == o.customer.SubscriptionID && (l.item || ended || !l.to.After(o.to)) {
				sum += l.amount
			}
		}
	}
	return sum
}
