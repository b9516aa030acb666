package stripetest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/webhook"
)

// event records that something happened, with what it is now.
func (s *Server) event(kind string, about object) {
	s.made++
	shown := make(object, len(about))
	for k, v := range about {
		shown[k] = v
	}
	s.events = append(s.events, object{"id": fmt.Sprintf("evt_%d", s.made), "object": "event", "type": kind, "created": s.now().Unix(), "livemode": false,
		"api_version": stripe.APIVersion, "data": object{"object": shown}})
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
	for _, e := range s.events {
		out = append(out, Event{e.id(), e.text("type"), encode(e)})
	}
	s.events = nil
	return out
}

// Send sends an event, signed at a time with a secret, and gives the status of the answer.
func (s *Server) Send(to string, e Event, secret string, at time.Time) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, to, bytes.NewReader(e.Body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Stripe-Signature", Sign(e.Body, secret, at))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		s.t.Error(err)
	}
	return res.StatusCode
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
	sub := s.add("subscription", "sub", object{"customer": page["customer"], "status": "active", "metadata": page["the metadata"], "items": listOf(page["the items"].([]object)),
		"default_payment_method": "pm_card", "current_period_start": s.now().Unix(), "ended_at": nil})
	page["status"], page["payment_status"], page["subscription"] = "complete", "paid", sub.id()
	s.event("customer.subscription.created", sub)
	s.event("invoice.paid", s.invoice(sub, s.now(), s.now(), "paid", 0))
	s.event("checkout.session.completed", page)
	return sub.id()
}

func (s *Server) invoice(sub object, from, to time.Time, status string, subtotal int64) object {
	return s.add("invoice", "in", object{"customer": sub["customer"], "subscription": sub.id(), "status": status, "currency": "usd", "subtotal": subtotal, "total": subtotal,
		"attempted": status != "draft", "period_start": from.Unix(), "period_end": to.Unix(),
		"lines": listOf([]object{{"id": "il_1", "object": "line_item", "description": "Usage", "amount": subtotal, "quantity": 1, "period": object{"start": from.Unix(), "end": to.Unix()}}})})
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
	sub["status"] = "past_due"
	s.event("invoice.payment_failed", i)
	s.event("customer.subscription.updated", sub)
	return i.id()
}

// PayInvoice pays an open invoice.
func (s *Server) PayInvoice(id string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find("invoice", id)
	i["status"] = "paid"
	s.event("invoice.paid", i)
	if sub := s.find("subscription", i.text("subscription")); sub.text("status") == "past_due" {
		sub["status"] = "active"
		s.event("customer.subscription.updated", sub)
	}
}

// End ends a subscription, as a customer does in the portal.
func (s *Server) End(subscription string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, p := s.endSubscription(subscription); p != nil {
		s.t.Fatal(p.text)
	}
}

// Stranger makes a customer that nobody of ours made.
func (s *Server) Stranger(tenantID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.add("customer", "cus", object{"metadata": map[string]any{"tenant_id": tenantID}, "invoice_settings": object{}})
	s.event("customer.updated", c)
	return c.id()
}

// Draft makes the invoice of a period of a subscription, which Bill makes final.
func (s *Server) Draft(subscription string, from, to time.Time) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.invoice(s.find("subscription", subscription), from, to, "draft", 0)
	s.event("invoice.created", i)
	return i.id()
}

// Bill makes a draft final, and pays it: the base, and what was counted until now. Usage of its
// period that comes later is on no invoice, as with Stripe.
func (s *Server) Bill(draft string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find("invoice", draft)
	sub := s.find("subscription", i.text("subscription"))
	from, to := time.Unix(i["period_start"].(int64), 0), time.Unix(i["period_end"].(int64), 0)
	var lines []object
	var total int64
	for _, item := range sub["items"].(object)["data"].([]object) {
		line := s.line(sub.text("customer"), item["price"].(object), from, to)
		lines, total = append(lines, line), total+line["amount"].(int64)
	}
	i["status"], i["attempted"], i["lines"], i["subtotal"], i["total"] = "paid", true, listOf(lines), total, total
	s.event("invoice.paid", i)
}

// line of an invoice: what a price makes of a period's usage. Its id is the price's lookup key.
func (s *Server) line(customer string, price object, from, to time.Time) object {
	quantity, metered := int64(1), price["recurring"].(object).text("usage_type") == "metered"
	if metered {
		event := s.find("billing.meter", price["recurring"].(object).text("meter")).text("event_name")
		quantity = s.used(event, customer, from, to)
	}
	tiers, tiered := price["tiers"].([]object)
	if !tiered {
		tiers = []object{{"up_to": nil, "unit_amount_decimal": price["unit_amount_decimal"]}}
	}
	return object{"id": price.text("lookup_key"), "object": "line_item", "description": price.text("product"), "quantity": quantity, "amount": graduated(quantity, tiers),
		"period": object{"start": from.Unix(), "end": to.Unix()}}
}

// graduated is what a quantity costs, each part of it by its tier, rounded to the nearest cent.
func graduated(quantity int64, tiers []object) int64 {
	sum, below := new(big.Rat), int64(0)
	for _, tier := range tiers {
		to, ends := tier["up_to"].(int64)
		if !ends {
			to = quantity
		}
		price, _ := new(big.Rat).SetString(tier["unit_amount_decimal"].(string)) // It was checked when it was made.
		in := max(0, min(quantity, to)-below)
		sum.Add(sum, price.Mul(price, new(big.Rat).SetInt64(in)))
		below = max(below, to)
	}
	twice := new(big.Int).Quo(new(big.Int).Add(new(big.Int).Mul(sum.Num(), big.NewInt(2)), sum.Denom()), new(big.Int).Mul(sum.Denom(), big.NewInt(2)))
	return twice.Int64()
}

// Line is a line of an invoice of Bill's.
type Line struct {
	Price            string // Its lookup key.
	Quantity, Amount int64
}

// Lines are those of an invoice.
func (s *Server) Lines(invoice string) (out []Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.find("invoice", invoice)["lines"].(object)["data"].([]object) {
		out = append(out, Line{l.id(), l["quantity"].(int64), l["amount"].(int64)})
	}
	return out
}

// Used is what has been counted of a meter's events for a customer in an hour.
func (s *Server) Used(event, customer string, hour time.Time) (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used(event, customer, hour, hour.Add(time.Hour))
}

func (s *Server) used(event, customer string, from, to time.Time) (sum int64) {
	for _, u := range s.usageOf[customer] {
		if u.event == event && !u.cancelled && !u.at.Before(from) && u.at.Before(to) {
			sum += u.value
		}
	}
	return sum
}

// Spoil adds usage that nobody sent.
func (s *Server) Spoil(event, customer string, hour time.Time, value int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(&usage{event: event, identifier: fmt.Sprintf("spoilt %d", len(s.identified)), customer: customer, value: value, at: hour, received: s.now()})
}

// Count is how many objects of a kind there are, such as customer or invoiceitem.
func (s *Server) Count(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects[kind])
}

// Show gives the fields of the objects of a kind, oldest first.
func (s *Server) Show(kind, field string) (out []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects[kind] {
		out = append(out, o[field])
	}
	return out
}

// GiveUp makes all open invoices uncollectible and ends their subscriptions, as Stripe does
// after its last attempt if it is told to.
func (s *Server) GiveUp() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.objects["invoice"] {
		if i.text("status") != "open" {
			continue
		}
		i["status"] = "uncollectible"
		s.event("invoice.marked_uncollectible", i)
		if _, p := s.endSubscription(i.text("subscription")); p != nil {
			s.t.Fatal(p.text)
		}
	}
}

// Set changes a field of an object, by its id or lookup key, as somebody does on Stripe's pages.
func (s *Server) Set(kind, name, field string, value any) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects[kind] {
		if o.id() == name || o.text("lookup_key") == name {
			o[field] = value
			return
		}
	}
	s.t.Fatalf("no %s %s", kind, name)
}
