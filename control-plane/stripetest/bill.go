package stripetest

import (
	"fmt"
	"math/big"
	"time"
)

// The cards of the pages, by Stripe's names of its own test cards.
const (
	cardPays     = "pm_card_visa"
	cardDeclined = "pm_card_chargeCustomerFail"
)

// begin starts the subscription of a checkout page that was paid.
func (s *Server) begin(page object) object {
	now := s.now()
	sub := s.add("subscription", "sub", object{"customer": page["customer"], "status": "active", "metadata": page["the metadata"], "items": listOf(page["the items"].([]object)),
		"default_payment_method": cardPays, "current_period_start": now.Unix(), "current_period_end": now.AddDate(0, 1, 0).Unix(), "ended_at": nil})
	page["status"], page["payment_status"], page["subscription"] = "complete", "paid", sub.id()
	s.event("customer.subscription.created", sub)
	s.event("invoice.paid", s.invoiceOf(sub, now, now, "paid", s.base(sub, now)))
	s.event("checkout.session.completed", page)
	return sub
}

// renew ends a subscription's period now: it makes the invoice of what was used in it and of
// the next period's base, and takes the money from the customer's card.
func (s *Server) renew(sub object) {
	from, to := time.Unix(sub["current_period_start"].(int64), 0), s.now()
	lines := append(s.base(sub, to), s.metered(sub, from, to)...)
	lines = append(lines, s.pendingItems(sub, to)...)
	sub["current_period_start"], sub["current_period_end"] = to.Unix(), to.AddDate(0, 1, 0).Unix()
	if s.card(sub) == cardDeclined {
		s.fail(sub, s.invoiceOf(sub, from, to, "open", lines))
		return
	}
	s.event("invoice.paid", s.invoiceOf(sub, from, to, "paid", lines))
	s.event("customer.subscription.updated", sub)
}

// renewDue renews the subscriptions whose period is over.
func (s *Server) renewDue() {
	for _, sub := range s.has.Objects["subscription"] {
		if end, ok := sub["current_period_end"].(int64); ok && sub.text("status") != "canceled" && s.now().Unix() >= end {
			s.renew(sub)
		}
	}
}

// card is the one that a subscription is paid with.
func (s *Server) card(sub object) string {
	if card := s.find("customer", sub.text("customer"))["invoice_settings"].(object).text("default_payment_method"); card != "" {
		return card
	}
	return sub.text("default_payment_method")
}

// changeCard makes a card the customer's, and tries to pay what is open with it.
func (s *Server) changeCard(customer object, card string) {
	customer["invoice_settings"] = object{"default_payment_method": card}
	s.event("customer.updated", customer)
	if card == cardDeclined {
		return
	}
	for _, i := range s.has.Objects["invoice"] {
		if i.text("customer") == customer.id() && i.text("status") == "open" {
			s.settle(i)
		}
	}
}

// fail notes that an invoice could not be paid.
func (s *Server) fail(sub, invoice object) {
	sub["status"] = "past_due"
	s.event("invoice.payment_failed", invoice)
	s.event("customer.subscription.updated", sub)
}

// settle pays an open invoice.
func (s *Server) settle(invoice object) {
	invoice["status"] = "paid"
	s.event("invoice.paid", invoice)
	if sub := s.find("subscription", invoice.text("subscription")); sub.text("status") == "past_due" {
		sub["status"] = "active"
		s.event("customer.subscription.updated", sub)
	}
}

func line(title string, quantity, amount int64, from, to time.Time) object {
	return object{"id": "il_1", "object": "line_item", "description": title, "amount": amount, "quantity": quantity, "period": object{"start": from.Unix(), "end": to.Unix()}}
}

func (s *Server) invoiceOf(sub object, from, to time.Time, status string, lines []object) object {
	var subtotal int64
	for _, l := range lines {
		subtotal += l["amount"].(int64)
	}
	i := s.add("invoice", "in", object{"customer": sub["customer"], "subscription": sub.id(), "status": status, "currency": "usd", "subtotal": subtotal, "total": subtotal,
		"attempted": status != "draft", "period_start": from.Unix(), "period_end": to.Unix(), "lines": listOf(lines)})
	i["hosted_invoice_url"] = s.pageURL("invoice", i.id())
	return i
}

// base is the lines of what a subscription costs however much is used.
func (s *Server) base(sub object, from time.Time) (lines []object) {
	for _, price := range prices(sub) {
		if price["recurring"].(object).text("usage_type") != "metered" {
			lines = append(lines, line(s.title(price), 1, price["unit_amount"].(int64), from, from.AddDate(0, 1, 0)))
		}
	}
	return lines
}

// metered is the lines of what a subscription's customer has used.
func (s *Server) metered(sub object, from, to time.Time) (lines []object) {
	for _, price := range prices(sub) {
		meter := s.find("billing.meter", price["recurring"].(object).text("meter"))
		if meter == nil {
			continue
		}
		var n int64
		for _, u := range s.has.Usage {
			if u.Event == meter.text("event_name") && u.Customer == sub.text("customer") && !u.Cancelled && !u.At.Before(from) && u.At.Before(to) {
				n += u.Value
			}
		}
		lines = append(lines, line(s.title(price)+": "+meter.text("display_name"), n, costs(price, n), from, to))
	}
	return lines
}

// pendingItems is the lines of a customer's items that are on no invoice yet.
func (s *Server) pendingItems(sub object, at time.Time) (lines []object) {
	for _, item := range s.has.Objects["invoiceitem"] {
		if item.text("customer") == sub.text("customer") && item["invoiced"] == nil {
			item["invoiced"] = at.Unix()
			lines = append(lines, line(item.text("description"), 1, item["amount"].(int64), at, at))
		}
	}
	return lines
}

func prices(sub object) (out []object) {
	for _, item := range sub["items"].(object)["data"].([]object) {
		out = append(out, item["price"].(object))
	}
	return out
}

func (s *Server) title(price object) string {
	return s.find("product", price.text("product")).text("name")
}

// costs is what so many units of a price cost, rounded to the smallest unit of money.
func costs(price object, n int64) int64 {
	tiers, tiered := price["tiers"].([]object)
	if !tiered {
		tiers = []object{price}
	}
	sum, below := new(big.Rat), int64(0)
	for _, tier := range tiers {
		up, bounded := tier["up_to"].(int64)
		if !bounded {
			up = n
		}
		if in := min(n, up) - below; in > 0 {
			each, ok := new(big.Rat).SetString(tier.text("unit_amount_decimal"))
			if !ok {
				panic(fmt.Sprintf("a price of %q", tier.text("unit_amount_decimal"))) // newPrice takes none.
			}
			sum.Add(sum, each.Mul(each, new(big.Rat).SetInt64(in)))
		}
		below = max(below, up)
	}
	sum.Add(sum, big.NewRat(1, 2))
	return new(big.Int).Quo(sum.Num(), sum.Denom()).Int64()
}
