package stripetest

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/webhook"
)

// event records that something happened, with what it is now.
func (s *Server) event(kind string, about object) {
	s.has.Made++
	shown := make(object, len(about))
	for k, v := range about {
		shown[k] = v
	}
	s.has.Unsent = append(s.has.Unsent, object{"id": fmt.Sprintf("evt_%d", s.has.Made), "object": "event", "type": kind, "created": s.now().Unix(), "livemode": false,
		"api_version": stripe.APIVersion, "data": object{"object": shown}})
	select {
	case s.happened <- struct{}{}:
	default: // It is known already that there is something.
	}
}

// Event is an event as it is sent.
type Event struct {
	ID, Type string
	Body     []byte
}

// Events takes those that happened since it was asked last.
func (s *Server) Events() (out []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.has.Unsent {
		out = append(out, Event{e.id(), e.text("type"), encode(e)})
	}
	s.has.Unsent = nil
	return out
}

// Send sends an event, signed at a time with a secret, and gives the status of the answer.
func (s *Server) Send(to string, e Event, secret string, at time.Time) int {
	s.t.Helper()
	status, err := post(s.t.Context(), http.DefaultClient, Webhook{URL: to, Secret: secret}, e.Body, at)
	if err != nil {
		s.t.Fatal(err)
	}
	return status
}

// Sign is the header of a signed body.
func Sign(body []byte, secret string, at time.Time) string {
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(webhook.ComputeSignature(at, body, secret)))
}

// Pay pays a checkout page, and gives the subscription that it began.
func (s *Server) Pay(pageURL string) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	page := s.find("checkout.session", pageURL[strings.LastIndex(pageURL, "/")+1:])
	if page == nil || page.text("status") != "open" {
		s.t.Fatalf("no open page %s", pageURL)
	}
	return s.begin(page).id()
}

func (s *Server) invoice(sub object, from, to time.Time, status string, subtotal int64) object {
	return s.invoiceOf(sub, from, to, status, []object{line(sub, "Usage", 1, subtotal, from, to)})
}

// Renew makes the invoice of a period of a subscription, and pays it or fails to.
func (s *Server) Renew(subscription string, from, to time.Time, paid bool) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.find("subscription", subscription)
	if paid {
		i := s.invoice(sub, from, to, "paid", 4900)
		s.event("invoice.paid", i)
		return i.id()
	}
	i := s.invoice(sub, from, to, "open", 4900)
	s.fail(sub, i)
	return i.id()
}

// Pass does what is due: drafts for periods that are over, payment of drafts that are an hour
// old.
func (s *Server) Pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewDue()
}

// Invoiced is what invoices say of a subscription for the time before an instant: all but what
// is paid ahead for spans that end later. Once it has ended, all is.
func (s *Server) Invoiced(subscription string, before time.Time) (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.find("subscription", subscription).text("status") == "canceled"
	for _, i := range s.has.Objects["invoice"] {
		for _, l := range i["all lines"].([]object) {
			of := i.text("subscription")
			if ours := l["metadata"].(object).text("corvo_subscription"); ours != "" {
				of = ours
			}
			if of == subscription && (ended || l["period"].(object)["end"].(int64) <= before.Unix() || l.text("type") == "invoiceitem" && l["proration"] == false) {
				sum += l["amount"].(int64)
			}
		}
	}
	return sum
}

// PayInvoice pays an open invoice.
func (s *Server) PayInvoice(id string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(s.find("invoice", id))
}

// End ends a subscription, as a customer does in the portal.
func (s *Server) End(subscription string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, p := s.endSubscription(subscription, nil); p != nil {
		s.t.Fatal(p.text)
	}
}

// Stranger makes a customer that nobody of ours made.
func (s *Server) Stranger(tenantID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.add("customer", "cus", object{"metadata": object{"tenant_id": tenantID}, "invoice_settings": object{}})
	s.event("customer.updated", c)
	return c.id()
}

// Draft makes the invoice of a period of a subscription, which Bill makes final.
func (s *Server) Draft(subscription string, from, to time.Time) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.find("subscription", subscription)
	sub["current_period_start"] = from.Unix()
	return s.draft(sub, to).id()
}

// InvoiceOf is the invoice of a subscription's period that ended at a time; empty: there is none.
func (s *Server) InvoiceOf(subscription string, end time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.has.Objects["invoice"] {
		if i.text("subscription") == subscription && i["period_end"] == end.Unix() {
			return i.id()
		}
	}
	return ""
}

// Line is a line of an invoice.
type Line struct {
	Price            string // Its lookup key; empty for an item.
	Quantity, Amount int64
}

// Lines are those of an invoice.
func (s *Server) Lines(invoice string) (out []Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.find("invoice", invoice)["all lines"].([]object) {
		price, _ := l["price"].(object)
		out = append(out, Line{price.text("lookup_key"), l["quantity"].(int64), l["amount"].(int64)})
	}
	return out
}

// Used is what has been counted of a meter's events for a customer in an hour.
func (s *Server) Used(event, customer string, hour time.Time) (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used(event, customer, hour, hour.Add(time.Hour), 0)
}

// used is what was counted in a span, of what was received so long ago.
func (s *Server) used(event, customer string, from, to time.Time, ago time.Duration) (sum int64) {
	for _, u := range s.usageOf[customer] {
		if u.Event == event && !u.Cancelled && !u.At.Before(from) && u.At.Before(to) && s.now().Sub(u.Received) >= ago {
			sum += u.Value
		}
	}
	return sum
}

// Spoil adds usage that nobody sent.
func (s *Server) Spoil(event, customer string, hour time.Time, value int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepUsage(&usage{Event: event, Identifier: fmt.Sprintf("spoilt %d", len(s.has.Usage)), Customer: customer, Value: value, At: hour, Received: s.now()})
}

// Count is how many objects of a kind there are, such as customer or invoiceitem.
func (s *Server) Count(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.has.Objects[kind])
}

// Show gives the fields of the objects of a kind, oldest first.
func (s *Server) Show(kind, field string) (out []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.has.Objects[kind] {
		v := o[field]
		if inner, is := v.(object); is {
			v = map[string]any(inner)
		}
		out = append(out, v)
	}
	return out
}

// GiveUp makes all open invoices uncollectible and ends their subscriptions, as Stripe does
// after its last attempt if it is told to.
func (s *Server) GiveUp() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.has.Objects["invoice"] {
		if i.text("status") != "open" {
			continue
		}
		i["status"] = "uncollectible"
		s.event("invoice.marked_uncollectible", i)
		if _, p := s.endSubscription(i.text("subscription"), nil); p != nil {
			s.t.Fatal(p.text)
		}
	}
}

// Set changes a field of an object, by its id or lookup key, as somebody does on Stripe's pages.
func (s *Server) Set(kind, name, field string, value any) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.has.Objects[kind] {
		if o.id() == name || o.text("lookup_key") == name {
			o[field] = value
			return
		}
	}
	s.t.Fatalf("no %s %s", kind, name)
}
