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

// ripe are drafts that can be adjusted, and ended subscriptions that can be settled: every hour
// until their ends is closed. One that can't be read is left out, and doesn't keep back the others.
func (s *Service) ripe(ctx context.Context) (drafts []store.StripeInvoice, ended []store.StripeEnding, _ error) {
	all, draftsErr := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.StripeInvoice, error) {
		return tx.DraftStripeInvoices(ctx, s.Now().Add(-adjustAfter), draftsMax)
	})
	var problems []error
	for _, d := range all {
		closed, err := s.isClosed(ctx, d.TenantID, func(tx *store.Tx) (owed, error) { return owing(ctx, tx, d, s.Now()) })
		if err != nil {
			problems = append(problems, fmt.Errorf("look at invoice %s of tenant %s: %w", d.ID, d.TenantID, err))
		}
		if closed {
			drafts = append(drafts, d)
		}
	}
	due, endedErr := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.StripeEnding, error) {
		return tx.DueStripeEndings(ctx, s.Now(), draftsMax)
	})
	for _, e := range due {
		closed, err := s.isClosed(ctx, e.TenantID, func(tx *store.Tx) (owed, error) { return left(ctx, tx, e, s.Now()) })
		if err != nil {
			problems = append(problems, fmt.Errorf("look at the ended subscription %s of tenant %s: %w", e.SubscriptionID, e.TenantID, err))
		}
		if closed {
			ended = append(ended, e)
		}
	}
	return drafts, ended, errors.Join(append(problems, draftsErr, endedErr)...)
}

// isClosed reports whether the ledger is final for all that is owed. It reads one tenant, for an error of
// one ends its transaction.
func (s *Service) isClosed(ctx context.Context, tenantID string, read func(*store.Tx) (owed, error)) (bool, error) {
	o, err := store.Get(ctx, s.tenantRead(tenantID), read)
	return err == nil && o.closed, err
}

// Adjust makes drafts what the ledger says, a tenant's one after the other: each invoice counts
// what the one before got. All drafts of a month are made in one hour.
func (s *Service) Adjust(ctx context.Context, drafts []store.StripeInvoice) error {
	return byTenant(drafts, func(d store.StripeInvoice) string { return d.TenantID }, func(d store.StripeInvoice) error {
		if err := s.adjust(ctx, d); err != nil {
			return fmt.Errorf("adjust invoice %s of tenant %s: %w", d.ID, d.TenantID, err)
		}
		return nil
	})
}

// byTenant does something for each of a list, for some tenants at a time.
func byTenant[T any](list []T, tenantOf func(T) string, do func(T) error) error {
	of := make(map[string][]int)
	for i, v := range list {
		of[tenantOf(v)] = append(of[tenantOf(v)], i)
	}
	problems := make([]error, len(list))
	var all errgroup.Group
	all.SetLimit(sendersMax)
	for _, some := range of {
		all.Go(func() error {
			for _, i := range some {
				problems[i] = do(list[i])
			}
			return nil
		})
	}
	return errors.Join(all.Wait(), errors.Join(problems...))
}

// adjust may be repeated, and two at once do no harm: what was added is seen by the next one.
func (s *Service) adjust(ctx context.Context, d store.StripeInvoice) error {
	o, err := store.Get(ctx, s.tenantRead(d.TenantID), func(tx *store.Tx) (owed, error) {
		o, err := owing(ctx, tx, d, s.Now())
		if err == nil && o.closed && o.sent {
			err = o.add(ctx, tx)
		}
		return o, err
	})
	if err != nil || !o.closed || !o.sent {
		return err // What is still to be sent would be on the invoice as well.
	}
	invoices, err := s.gateway.invoices(ctx, o.customerID, invoicesMax)
	if err != nil {
		return err
	}
	pending, err := s.gateway.pendingItems(ctx, o.customerID, o.subscriptionID)
	if err != nil {
		return err
	}
	i, is := draft(invoices, d.ID)
	if !is {
		s.Log.WarnContext(ctx, "an invoice was final before it could be adjusted; the next one makes up for it", "tenant", d.TenantID, "invoice", d.ID)
		return s.sync(ctx, d.TenantID, nil)
	}
	charged := pending + o.charged(invoices)
	s.tellGivenUp(ctx, o)
	if more := o.amount - charged; more != 0 && i.subscription == o.subscriptionID { // Others are settled.
		err := s.gateway.createItem(ctx, invoiceItem{
			customerID: o.customerID, subscriptionID: o.subscriptionID, invoiceID: d.ID, identifier: "adjustment of " + d.ID,
			title: o.title(), amount: more, currency: d.Currency,
			key: fmt.Sprintf("corvo-adjust-%s-%d-%d", d.ID, charged, s.Now().Unix()/60),
		})
		if err != nil {
			return err
		}
	}
	return s.Store.Tenant(ctx, d.TenantID, func(tx *store.Tx) error { return tx.NoteAdjustedInvoice(ctx, d.TenantID, d.ID, s.Now()) })
}

// draft finds one among a customer's invoices.
func draft(invoices []invoiced, id string) (invoiced, bool) {
	for _, i := range invoices {
		if i.id == id {
			return i, i.status == "draft"
		}
	}
	return invoiced{}, false
}

// owed is what a subscription costs by the ledger, for its hours from one on and before another.
type owed struct {
	tenantID, customerID, subscriptionID string
	from, to                             time.Time
	// until is when the period of the draft ends, to the second. Of a subscription that was begun in
	// the last hour of a month, that is later than the last hour before it.
	until time.Time
	// ended: it has no hours after those.
	ended bool
	// closed: the ledger is final up to then. sent: Stripe has all of it that it will ever get.
	closed, sent bool
	// givenUp is how many pushes of it differ, of which Stripe isn't asked any more.
	givenUp  int
	amount   int64
	currency string
}

// owing is what is owed with a draft, without the amount.
func owing(ctx context.Context, tx *store.Tx, d store.StripeInvoice, now time.Time) (owed, error) {
	c, err := tx.GetStripeCustomer(ctx, d.TenantID)
	if err != nil {
		return owed{}, err
	}
	o := owed{tenantID: d.TenantID, customerID: c.CustomerID, subscriptionID: c.SubscriptionID, from: c.PushFrom,
		to: d.PeriodEnd.UTC().Truncate(time.Hour), until: d.PeriodEnd}
	if o.ended = !c.PushTo.IsZero(); o.ended {
		o.to = c.PushTo
	}
	return o, o.look(ctx, tx, now)
}

// look reads how far the ledger and what is sent are.
func (o *owed) look(ctx context.Context, tx *store.Tx, now time.Time) error {
	t, err := tx.FindTenant(ctx, o.tenantID)
	if err != nil {
		return err
	}
	closing, err := tx.GetUsageClosing(ctx, t.Cell)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	o.closed = closing.Closed(o.tenantID, hourNumber(o.to)-1)
	return o.lookAtPushes(ctx, tx, now.Add(-differsFor))
}

// lookAtPushes reads whether all is sent. What differs of hours before one is given up: it is never
// sent, nor what waits for it, so that whatever Stripe has of these hours is all that it will have.
func (o *owed) lookAtPushes(ctx context.Context, tx *store.Tx, before time.Time) error {
	open, err := tx.HasOpenBillingPush(ctx, o.tenantID, o.to, before)
	if err != nil {
		return err
	}
	o.sent = !open
	if o.to.Before(before) {
		before = o.to
	}
	o.givenUp, err = tx.DifferingBillingPushes(ctx, o.tenantID, before)
	return err
}

// tellGivenUp says that invoices make up for what Stripe took differently.
func (s *Service) tellGivenUp(ctx context.Context, o owed) {
	if o.givenUp > 0 {
		s.Log.ErrorContext(ctx, "usage at Stripe was never put right; invoices are made what the ledger says", "tenant", o.tenantID, "subscription", o.subscriptionID, "pushes", o.givenUp)
	}
}

// title is the line that makes up for what invoices lack.
func (o owed) title() string {
	return fmt.Sprintf("What your usage before %s costs, less what was invoiced for it", o.to.Format(time.DateOnly))
}

// add computes the amount.
func (o *owed) add(ctx context.Context, tx *store.Tx) error {
	for p := bill.Month(o.from); p.Start.Before(o.to); p = bill.Month(p.End) {
		m, err := pricedMonth(ctx, tx, o.tenantID, p)
		if err != nil {
			return err
		}
		m = m.within(o.from, o.to)
		if err := m.count(ctx, tx, o.tenantID); err != nil {
			return err
		}
		made, err := bill.Make(m.period, m.segments, m.counts)
		if err != nil {
			return err
		}
		o.amount, o.currency = o.amount+made.Total, m.currency
	}
	return nil
}

// charged is what was invoiced for those hours, by Stripe's own periods. The base amount of a period that goes on is
// none of it; once a subscription has ended, everything is.
func (o owed) charged(invoices []invoiced) (sum int64) {
	for _, i := range invoices {
		for _, l := range i.lines {
			if l.subscription == o.subscriptionID && (l.item || o.ended || !l.to.After(o.until)) {
				sum += l.amount
			}
		}
	}
	return sum
}
