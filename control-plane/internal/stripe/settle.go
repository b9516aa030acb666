package stripe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// A subscription that has ended has no next invoice that makes up for what its last one lacks,
// and one that ended in Stripe's portal may have no last one at all. So an invoice of its own is
// made: of an item with what all of its hours cost, less what was invoiced for them. If that is
// negative, as of a base that was paid ahead, Stripe adds it to the customer's balance. Whoever
// has subscribed anew by then has the item on the next invoice.

const (
	// settleAgain is how long a draft may still change.
	settleAgain = 10 * time.Minute
	// settledFor is how long after its end a subscription is looked at each day, for hours that
	// are corrected late.
	settledFor = 35 * day
)

// Settle charges what ended subscriptions owe beyond their invoices, or gives back what was too
// much.
func (s *Service) Settle(ctx context.Context, ended []store.StripeEnding) error {
	return byTenant(ended, func(e store.StripeEnding) string { return e.TenantID }, func(e store.StripeEnding) error {
		again, err := s.settleEnding(ctx, e)
		if err != nil {
			return fmt.Errorf("settle the ended subscription %s of tenant %s: %w", e.SubscriptionID, e.TenantID, err)
		}
		e.DueAt = again
		return s.Store.Tenant(ctx, e.TenantID, func(tx *store.Tx) error { return tx.PutStripeEnding(ctx, e) })
	})
}

// left is what is owed of an ended subscription, without the amount.
func left(ctx context.Context, tx *store.Tx, e store.StripeEnding, now time.Time) (owed, error) {
	c, err := tx.GetStripeCustomer(ctx, e.TenantID)
	if err != nil {
		return owed{}, err
	}
	o := owed{tenantID: e.TenantID, customerID: c.CustomerID, subscriptionID: e.SubscriptionID, from: e.PushFrom, to: e.PushTo, ended: true}
	return o, o.look(ctx, tx, now)
}

// settleEnding may be repeated: what was made is seen by the next one. It says when to look again.
func (s *Service) settleEnding(ctx context.Context, e store.StripeEnding) (again time.Time, _ error) {
	soon := s.Now().Add(settleAgain)
	o, err := store.Get(ctx, s.tenantRead(e.TenantID), func(tx *store.Tx) (owed, error) {
		o, err := left(ctx, tx, e, s.Now())
		if err == nil && o.closed && o.sent {
			err = o.add(ctx, tx)
		}
		return o, err
	})
	if err != nil || !o.closed || !o.sent {
		return soon, err
	}
	invoices, err := s.gateway.invoices(ctx, o.customerID, invoicesMax)
	if err != nil || slices.ContainsFunc(invoices, o.isOnDraft) {
		return soon, err
	}
	pending, err := s.gateway.pendingItems(ctx, o.customerID, o.subscriptionID)
	if err != nil {
		return soon, err
	}
	charged := pending + o.charged(invoices)
	if more := o.amount - charged; more != 0 {
		s.tellGivenUp(ctx, o)
		pending += more
		err := s.gateway.createItem(ctx, invoiceItem{
			customerID: o.customerID, subscriptionID: o.subscriptionID, identifier: "the rest of " + o.subscriptionID,
			title: o.title(), amount: more, currency: o.currency,
			key: fmt.Sprintf("corvo-rest-%s-%d-%d", o.subscriptionID, charged, s.Now().Unix()/60),
		})
		if err != nil {
			return soon, err
		}
	}
	if pending != 0 {
		return soon, s.invoiceRest(ctx, o)
	}
	if again = s.Now().Add(day); again.After(e.PushTo.Add(settledFor)) {
		again = time.Time{}
	}
	return again, nil
}

// isOnDraft reports whether an invoice of a subscription may still change.
func (o owed) isOnDraft(i invoiced) bool {
	return i.status == "draft" && (i.subscription == o.subscriptionID ||
		slices.ContainsFunc(i.lines, func(l invoicedLine) bool { return l.subscription == o.subscriptionID }))
}

// invoiceRest puts the items of an ended subscription on an invoice, unless the next one of
// another subscription will have them.
func (s *Service) invoiceRest(ctx context.Context, o owed) error {
	subscriptions, err := s.gateway.subscriptions(ctx, o.customerID)
	if err != nil {
		return err
	}
	var paidWith string
	for _, sub := range subscriptions {
		if lives(sub.status) {
			return nil
		}
		if sub.id == o.subscriptionID {
			paidWith = sub.paymentMethod
		}
	}
	return s.gateway.createInvoice(ctx, o.customerID, paidWith, o.currency, fmt.Sprintf("corvo-rest-invoice-%s-%d", o.subscriptionID, s.Now().Unix()/60))
}
