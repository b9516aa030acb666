package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	emailsMax = 10
	// portalLife is how long Stripe's address of the portal surely works.
	portalLife = 5 * time.Minute
)

var (
	errNoPayments = fault.New(fault.Conflict, "PAYMENTS_OFF", "this installation takes no payments: ask its operator to change the plan (corvo-cloud control set-plan), or to set up payments (docs/payments.md)")
	errLast       = fault.New(fault.Unavailable, "PAYMENTS_NOT_READY", "this plan can't be paid for yet: its prices aren't at the payment provider; try again later, or tell the operator")
)

// GetBilling tells who gets the invoices, and whether there is a payment method.
func (s *Service) GetBilling(ctx context.Context, _ *cloudv1.GetBillingRequest) (*cloudv1.GetBillingResponse, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.GetBillingResponse, error) {
		b, err := s.billing(ctx, tx)
		return &cloudv1.GetBillingResponse{Billing: b}, err
	})
}

func (s *Service) billing(ctx context.Context, tx *store.Tx) (*cloudv1.Billing, error) {
	tenantID := access.From(ctx).TenantID
	contacts, err := tx.GetBillingContacts(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	has, err := HasPaymentMethod(ctx, tx, tenantID)
	return &cloudv1.Billing{Payments: s.Payments(), HasPaymentMethod: has && s.Payments(), Emails: contacts.Emails, Etag: tag(contacts)}, err
}

func tag(c store.BillingContacts) string { return etag.Of(c.Version, c.TenantID) }

// UpdateBilling changes who gets emails.
func (s *Service) UpdateBilling(ctx context.Context, r *cloudv1.UpdateBillingRequest) (*cloudv1.UpdateBillingResponse, error) {
	emails, err := cleanEmails(r.GetEmails())
	if err != nil {
		return nil, err
	}
	res := new(cloudv1.UpdateBillingResponse)
	return res, s.Write(ctx, func(tx *store.Tx) error {
		c, err := tx.GetBillingContacts(ctx, access.From(ctx).TenantID)
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), tag(c), "who gets emails about billing"); err != nil {
			return err
		}
		before := c.Emails
		c.Emails = emails
		if err := change.Make(ctx, s.Kit, tx, "billing.update", change.BillingContacts(&c, access.From(ctx).Tenant), change.Fields{"emails": {Before: before, After: emails}}); err != nil {
			return err
		}
		res.Billing, err = s.billing(ctx, tx)
		return err
	})
}

// cleanEmails are addresses, each once.
func cleanEmails(emails []string) ([]string, error) {
	if len(emails) > emailsMax {
		return nil, fault.InvalidField("emails", "can be at most %d", emailsMax)
	}
	var out []string
	for _, text := range emails {
		address, err := mail.Address(text)
		if err != nil {
			return nil, fault.InvalidField("emails", "%q isn't an email address", text)
		}
		if !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	return out, nil
}

// StartCheckout makes a page where a plan is paid for. The plan changes once Stripe says so.
func (s *Service) StartCheckout(ctx context.Context, r *cloudv1.StartCheckoutRequest) (*cloudv1.StartCheckoutResponse, error) {
	if !s.Payments() {
		return nil, errNoPayments
	}
	who := access.From(ctx)
	plan, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (store.PlanVersion, error) { return tx.GetPlan(ctx, r.GetPlan(), 0) })
	if errors.Is(err, store.ErrNotFound) || err == nil && !(plan.SelfServe && paid(plan)) {
		return nil, fault.InvalidField("plan", "%q isn't a plan that can be paid for; list them with: corvo plan list", r.GetPlan())
	}
	if err != nil {
		return nil, err
	}
	c, err := s.customer(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	// The event of a page that was just paid may still be on its way.
	if err := s.sync(ctx, who.TenantID, nil); err != nil {
		return nil, unreachable(err)
	}
	if c, err = kit.Read(ctx, s.Kit, func(tx *store.Tx) (store.StripeCustomer, error) { return tx.GetStripeCustomer(ctx, who.TenantID) }); err != nil {
		return nil, err
	}
	if lives(c.Status) {
		return nil, fault.New(fault.Conflict, "SUBSCRIBED", "the plan %s is being paid for already: change to another plan with corvo plan change %s, or the card with corvo billing portal", c.Plan, plan.Plan)
	}
	prices, err := s.pricesFor(ctx, plan)
	if err != nil {
		if said(err) != nil || away(err) {
			return nil, unreachable(err)
		}
		return nil, errors.Join(errLast, err)
	}
	order := checkoutOrder{customerID: c.CustomerID, tenantID: who.TenantID, plan: plan.Plan, version: plan.Version, prices: prices,
		success: s.billingURL(who.Tenant) + "?checkout=done", cancel: s.billingURL(who.Tenant)}
	order.anchor, order.expires = periods(s.Now())
	// Whoever asks again within the hour gets the same page: two could both be paid.
	order.key = fmt.Sprintf("corvo-checkout-%s-%s-%d-%s-%d", c.CustomerID, plan.Plan, plan.Version, c.SubscriptionID, s.Now().Unix()/int64(time.Hour/time.Second))
	page, err := s.page(ctx, order)
	if err != nil {
		return nil, unreachable(err)
	}
	return &cloudv1.StartCheckoutResponse{Url: page}, s.Write(ctx, func(tx *store.Tx) error {
		return change.Make(ctx, s.Kit, tx, "billing.checkout", s.target(who), change.Fields{"plan": {After: plan.Plan}})
	})
}

// pageTries is how often a page is asked for where Stripe fails.
const pageTries = 3

// page makes a checkout page. Stripe repeats a failure to whoever shows the same key, so the next
// try has another one: a page of the one before would be known to nobody.
func (s *Service) page(ctx context.Context, order checkoutOrder) (url string, err error) {
	key := order.key
	for try := range pageTries {
		if try > 0 {
			order.key = fmt.Sprintf("%s-%d", key, try)
		}
		url, err = s.gateway.createCheckout(ctx, order)
		if e := said(err); e == nil || e.HTTPStatusCode < http.StatusInternalServerError {
			break
		}
	}
	return url, err
}

func (s *Service) target(who access.Caller) change.Record {
	return change.AuditOnly(change.Target{Type: "tenant", ID: who.TenantID, Name: who.Tenant, TenantID: who.TenantID})
}

// OpenPortal makes an address of Stripe's page with payment methods and receipts.
func (s *Service) OpenPortal(ctx context.Context, _ *cloudv1.OpenPortalRequest) (*cloudv1.OpenPortalResponse, error) {
	if !s.Payments() {
		return nil, errNoPayments
	}
	who := access.From(ctx)
	c, err := s.customer(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	page, err := s.gateway.createPortal(ctx, c.CustomerID, s.billingURL(who.Tenant))
	if err != nil {
		return nil, unreachable(err)
	}
	until := s.Now().Add(portalLife)
	return &cloudv1.OpenPortalResponse{Url: page, ExpiresAt: timestamppb.New(until)}, s.Write(ctx, func(tx *store.Tx) error {
		return change.Make(ctx, s.Kit, tx, "billing.portal", s.target(who), nil)
	})
}

// ListInvoices lists Stripe's, or drafts of our ledger where there are no payments.
func (s *Service) ListInvoices(ctx context.Context, r *cloudv1.ListInvoicesRequest) (*cloudv1.ListInvoicesResponse, error) {
	shown, next, err := listing.Of[listed, *cloudv1.Invoice]{
		Method: "ListInvoices", Filter: []any{s.Payments()}, Key: listed.key,
		Page: func(tx *store.Tx, tenantID string, p store.Page) ([]listed, error) {
			return s.invoicesAfter(ctx, tx, tenantID, p)
		},
		Show: func(v listed) *cloudv1.Invoice { return v.message },
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListInvoicesResponse{Invoices: shown, NextPageToken: next}, err
}

// listed is an invoice and its place in the list: two can begin at the same time.
type listed struct {
	message *cloudv1.Invoice
	id      string
}

func (v listed) key() string {
	return v.message.GetPeriodStart().AsTime().Format(time.RFC3339Nano) + " " + v.id
}

// invoicesAfter are those after the last one seen, the newest first.
func (s *Service) invoicesAfter(ctx context.Context, tx *store.Tx, tenantID string, p store.Page) (out []listed, _ error) {
	before, id := s.Now(), ""
	if p.After != "" {
		text, last, _ := strings.Cut(p.After, " ")
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, err
		}
		before, id = at, last
	}
	if !s.Payments() {
		return s.drafts(ctx, tx, tenantID, before, p.Limit)
	}
	all, err := tx.ListStripeInvoices(ctx, tenantID, before, id, p.Limit)
	for _, v := range all {
		out = append(out, listed{invoiceMessage(v), v.ID})
	}
	return out, err
}

// invoiceMessage is an invoice of Stripe's in our words.
func invoiceMessage(v store.StripeInvoice) *cloudv1.Invoice {
	m := &cloudv1.Invoice{TenantId: v.TenantID, PeriodStart: timestamppb.New(v.PeriodStart), PeriodEnd: timestamppb.New(v.PeriodEnd), Currency: v.Currency, Total: v.Subtotal, Url: v.URL}
	switch v.Status {
	case "paid":
		m.State = "paid"
	case "draft":
		m.State = "draft"
	default:
		m.State = "final"
	}
	for _, l := range v.Lines {
		line := &cloudv1.InvoiceLine{Item: l.Item, Title: l.Title, Quantity: l.Quantity, Amount: l.Amount}
		if !l.From.IsZero() {
			line.From, line.To = timestamppb.New(l.From), timestamppb.New(l.To)
		}
		m.Lines = append(m.Lines, line)
	}
	return m
}
