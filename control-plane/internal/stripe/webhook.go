package stripe

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// WebhookPath is where Stripe sends events.
	WebhookPath = "/stripe/webhook"
	// bodyBytesMax is some times the largest event that Stripe sends of what we look at.
	bodyBytesMax = 256 << 10
	// tolerance is how old a signature may be, and how far ahead of this clock.
	tolerance = 300 * time.Second
	// signaturesMax bounds what is compared: Stripe sends one for each of its two secrets.
	signaturesMax = 8
)

// event is what is read of an event: the rest of it is asked from Stripe.
type event struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Type     string `json:"type"`
	Created  int64  `json:"created"`
	Livemode bool   `json:"livemode"`
	Data     struct {
		Object struct {
			Object   string          `json:"object"`
			ID       string          `json:"id"`
			Customer json.RawMessage `json:"customer"`
		} `json:"object"`
	} `json:"data"`
}

// customer that the event is about; empty for none.
func (e event) customer() string {
	if e.Data.Object.Object == "customer" {
		return e.Data.Object.ID
	}
	var id string
	if json.Unmarshal(e.Data.Object.Customer, &id) == nil {
		return id
	}
	var whole struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(e.Data.Object.Customer, &whole) != nil {
		return ""
	}
	return whole.ID
}

// heeded are the types of events upon which Stripe is asked about their customer.
var heeded = map[string]bool{
	"checkout.session.completed": true, "customer.updated": true,
	"customer.subscription.created": true, "customer.subscription.updated": true, "customer.subscription.deleted": true,
	"customer.subscription.paused": true, "customer.subscription.resumed": true,
	"invoice.created": true, "invoice.finalized": true, "invoice.paid": true, "invoice.payment_failed": true,
	"invoice.payment_action_required": true, "invoice.voided": true, "invoice.marked_uncollectible": true, "invoice.updated": true,
	"payment_method.attached": true, "payment_method.detached": true,
}

// Errors of a webhook that is not Stripe's, or not for us.
var (
	errSignature = errors.New("the signature isn't Stripe's")
	errOld       = errors.New("the signature is too old, or the clock of this server is wrong")
	errEvent     = errors.New("the body isn't an event")
)

// Webhook answers WebhookPath.
func (s *Service) Webhook() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.Payments() {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "only POST", http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytesMax))
		var over *http.MaxBytesError
		switch {
		case errors.As(err, &over):
			http.Error(w, "the event is too large", http.StatusRequestEntityTooLarge)
			return
		case err != nil:
			http.Error(w, "the event didn't arrive whole", http.StatusBadRequest)
			return
		}
		e, err := s.read(body, r.Header.Get("Stripe-Signature"))
		if err != nil {
			s.Log.WarnContext(r.Context(), "refused a webhook of Stripe", "error", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := s.take(r.Context(), e); err != nil {
			// Stripe sends it again, for three days.
			s.Log.ErrorContext(r.Context(), "couldn't apply an event of Stripe; it is sent again", "event", e.ID, "type", e.Type, "error", err)
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
}

// read gives a body that Stripe has signed as an event of our mode.
func (s *Service) read(body []byte, signature string) (event, error) {
	if err := verify(body, signature, s.options.Secrets, s.Now()); err != nil {
		return event{}, err
	}
	return parse(body, s.mode)
}

// parse reads an event.
func parse(body []byte, mode Mode) (event, error) {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return event{}, errEvent
	}
	const idMax = 255
	if e.Object != "event" || e.ID == "" || len(e.ID) > idMax || e.Type == "" || len(e.Type) > idMax || e.Created < 0 || e.Created > 1<<40 {
		return event{}, errEvent
	}
	if e.Livemode != (mode == Live) {
		return event{}, ErrMode
	}
	return e, nil
}

// verify checks the header t=UNIX,v1=HEX,v1=HEX of a body.
func verify(body []byte, header string, secrets []string, now time.Time) error {
	var at time.Time
	var signatures [][]byte
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || !at.IsZero() {
				return errSignature
			}
			at = time.Unix(n, 0)
		case "v1":
			if raw, err := hex.DecodeString(value); err == nil && len(signatures) < signaturesMax {
				signatures = append(signatures, raw)
			}
		}
	}
	if !signed(body, at, signatures, secrets) {
		return errSignature
	}
	if age := now.Sub(at); age > tolerance || age < -tolerance {
		return errOld
	}
	return nil
}

func signed(body []byte, at time.Time, signatures [][]byte, secrets []string) bool {
	if at.IsZero() {
		return false
	}
	ok := false
	for _, secret := range secrets {
		want := webhook.ComputeSignature(at, body, secret)
		for _, got := range signatures {
			ok = hmac.Equal(want, got) || ok
		}
	}
	return ok
}

// take applies an event, once.
func (s *Service) take(ctx context.Context, e event) error {
	record := store.StripeEvent{ID: e.ID, Type: e.Type, Effect: "ignored", CreatedAt: time.Unix(e.Created, 0).UTC(), ReceivedAt: s.Now()}
	customerID := e.customer()
	if !heeded[e.Type] || customerID == "" {
		return s.ignore(ctx, record)
	}
	c, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) (store.StripeCustomer, error) {
		// Again: it was applied, and the answer was lost.
		if is, err := tx.HasStripeEvent(ctx, e.ID); err != nil || is {
			return store.StripeCustomer{}, errors.Join(err, store.ErrExists)
		}
		return tx.FindStripeCustomer(ctx, customerID)
	})
	switch {
	case errors.Is(err, store.ErrExists):
		return nil
	case errors.Is(err, store.ErrNotFound):
		return s.ignore(ctx, record) // The account has customers that are not ours.
	case err != nil:
		return err
	}
	record.Effect = "applied"
	err = s.sync(ctx, c.TenantID, &record)
	if errors.Is(err, store.ErrExists) {
		return nil // Another process has applied it meanwhile.
	}
	if err == nil {
		s.Wake()
	}
	return err
}

func (s *Service) ignore(ctx context.Context, record store.StripeEvent) error {
	err := s.Store.Service(ctx, func(tx *store.Tx) error { return tx.InsertStripeEvent(ctx, record) })
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// syncTries is how often the state of a customer is read again because another process has
// written it meanwhile.
const syncTries = 5

// sync applies what Stripe has of a tenant's customer now. What was read from Stripe is
// written only if nobody has written since before it was read; so the last one to write has
// read last, in whatever order events come.
func (s *Service) sync(ctx context.Context, tenantID string, record *store.StripeEvent) error {
	var err error
	for range syncTries {
		if err = s.syncOnce(ctx, tenantID, record); !errors.Is(err, store.ErrStale) {
			return err
		}
	}
	return fmt.Errorf("apply what Stripe has of tenant %s: %w", tenantID, err)
}

func (s *Service) syncOnce(ctx context.Context, tenantID string, record *store.StripeEvent) error {
	c, err := store.Get(ctx, s.tenantRead(tenantID), func(tx *store.Tx) (store.StripeCustomer, error) { return tx.GetStripeCustomer(ctx, tenantID) })
	if err != nil {
		return err
	}
	seen, err := s.look(ctx, c.CustomerID)
	if err != nil {
		return err
	}
	version := c.Version
	return s.Store.Service(ctx, func(tx *store.Tx) error {
		c := c // The transaction may be run again.
		c.Version = version
		if record != nil {
			if err := tx.InsertStripeEvent(ctx, *record); err != nil {
				return err
			}
		}
		return s.apply(ctx, tx, c, seen)
	})
}

// seen is what Stripe has of a customer.
type seen struct {
	paymentMethod bool
	subscriptions []subscribed
	invoices      []invoiced
}

func (s *Service) look(ctx context.Context, customerID string) (v seen, err error) {
	if v.subscriptions, err = s.gateway.subscriptions(ctx, customerID); err != nil {
		return v, err
	}
	if v.invoices, err = s.gateway.invoices(ctx, customerID, invoicesShown); err != nil {
		return v, err
	}
	v.paymentMethod, err = s.gateway.hasPaymentMethod(ctx, customerID)
	return v, err
}

// current is the subscription that counts: the newest that can still be paid, or else the
// newest. One whose first payment was never made is none.
func (v seen) current() (subscribed, bool) {
	var best subscribed
	found := false
	for _, sub := range v.subscriptions {
		if sub.plan == "" || sub.status == "incomplete" || sub.status == "incomplete_expired" {
			continue
		}
		if better := lives(sub.status) && !lives(best.status) || lives(sub.status) == lives(best.status) && sub.created.After(best.created); !found || better {
			best, found = sub, true
		}
	}
	return best, found
}

// owes reports whether a payment was due and did not come.
func (v seen) owes() bool {
	for _, i := range v.invoices {
		if i.status == "uncollectible" || i.status == "open" && i.attempted {
			return true
		}
	}
	sub, ok := v.current()
	return ok && (sub.status == "past_due" || sub.status == "unpaid")
}

// apply writes down what Stripe has, and what follows from it.
func (s *Service) apply(ctx context.Context, tx *store.Tx, c store.StripeCustomer, v seen) error {
	before := c
	sub, has := v.current()
	c.PaymentMethod, c.Owes = v.paymentMethod || has && lives(sub.status) && sub.paymentMethod != "", v.owes()
	if has {
		if err := s.follow(ctx, tx, &c, sub); err != nil {
			return err
		}
	}
	c.UpdatedAt = s.Now()
	if err := tx.UpdateStripeCustomer(ctx, &c); err != nil {
		return err
	}
	for _, i := range v.invoices {
		if err := tx.PutStripeInvoice(ctx, s.invoice(c.TenantID, i)); err != nil {
			return err
		}
	}
	if err := s.applyPlan(ctx, tx, before, c); err != nil {
		return err
	}
	return s.applyDebt(ctx, tx, c)
}

// follow takes over a subscription: which hours it pays, from the next full one on.
func (s *Service) follow(ctx context.Context, tx *store.Tx, c *store.StripeCustomer, sub subscribed) error {
	next := bill.Hourly(s.Now())
	if c.SubscriptionID != sub.id {
		if err := s.end(ctx, tx, c, next); err != nil {
			return err
		}
		c.PushFrom, c.PushTo = next, time.Time{}
	}
	c.SubscriptionID, c.Status, c.Plan, c.PlanVersion = sub.id, sub.status, sub.plan, sub.version
	if lives(sub.status) {
		return nil
	}
	if !sub.ended.IsZero() {
		next = bill.Hourly(sub.ended)
	}
	return s.end(ctx, tx, c, next)
}

// end writes down that a customer's subscription has ended, if there is one and it hasn't.
func (s *Service) end(ctx context.Context, tx *store.Tx, c *store.StripeCustomer, at time.Time) error {
	if c.SubscriptionID == "" || !c.PushTo.IsZero() {
		return nil
	}
	c.PushTo = at
	return tx.PutStripeEnding(ctx, store.StripeEnding{TenantID: c.TenantID, SubscriptionID: c.SubscriptionID, PushFrom: c.PushFrom, PushTo: c.PushTo,
		DueAt: s.Now(), CreatedAt: s.Now()})
}

// applyPlan changes the tenant's plan once, when a subscription begins or ends. While it
// lives, the plan is chosen here and Stripe follows.
func (s *Service) applyPlan(ctx context.Context, tx *store.Tx, before, c store.StripeCustomer) error {
	plan, now, err := subscriptionOf(ctx, tx, c.TenantID)
	if err != nil {
		return err
	}
	began := c.SubscriptionID != before.SubscriptionID
	switch {
	case began && lives(c.Status) && (plan != c.Plan || now.PlanVersion != c.PlanVersion):
		return s.options.Plans.SetPlan(ctx, tx, c.TenantID, c.Plan, c.PlanVersion)
	case !began && lives(before.Status) && !lives(c.Status):
		return s.endPlan(ctx, tx, c, plan, now.PlanVersion)
	}
	return nil
}

// endPlan takes away the plan that an ended subscription paid for, or would have had to once
// Stripe had followed. What only operators give stays: they end subscriptions by giving it.
func (s *Service) endPlan(ctx context.Context, tx *store.Tx, c store.StripeCustomer, plan string, version int64) error {
	has, err := tx.GetPlan(ctx, plan, version)
	if err != nil || plan == FreePlan || plan != c.Plan && !(has.SelfServe && paid(has)) {
		return err
	}
	free, err := tx.GetPlan(ctx, FreePlan, 0)
	if err != nil {
		return err
	}
	return s.options.Plans.SetPlan(ctx, tx, c.TenantID, free.Plan, free.Version)
}

// FreePlan is the plan of those who pay nothing.
const FreePlan = "free"

func (s *Service) invoice(tenantID string, i invoiced) store.StripeInvoice {
	v := store.StripeInvoice{TenantID: tenantID, ID: i.id, Status: i.status, Currency: i.currency, URL: i.url, Subtotal: i.subtotal,
		PeriodStart: i.from, PeriodEnd: i.to, CreatedAt: i.created, UpdatedAt: s.Now()}
	for _, l := range i.lines {
		v.Lines = append(v.Lines, store.StripeInvoiceLine{Title: l.title, From: l.from, To: l.to, Quantity: l.quantity, Amount: l.amount})
	}
	return v
}
