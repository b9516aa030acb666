package stripetest

import (
	"cmp"
	"fmt"
	"math/big"
	"time"
)

// The cards of the pages, by Stripe's names of its own test cards.
const (
	cardPays     = "pm_card_visa"
	cardDeclined = "pm_card_chargeCustomerFail"
)

// draftFor is how long a draft stays one: usage that comes meanwhile is still on it.
const draftFor = time.Hour

// begin starts the subscription of a checkout page that was paid.
func (s *Server) begin(page object) object {
	now := s.now()
	end := now.AddDate(0, 1, 0)
	if anchor, ok := page["the anchor"].(int64); ok {
		end = time.Unix(anchor, 0).UTC()
	}
	sub := s.add("subscription", "sub", object{"customer": page["customer"], "status": "active", "metadata": page["the metadata"], "items": listOf(page["the items"].([]object)),
		"default_payment_method": cardPays, "current_period_start": now.Unix(), "current_period_end": end.Unix(), "ended_at": nil})
	page["status"], page["payment_status"], page["subscription"] = "complete", "paid", sub.id()
	s.event("customer.subscription.created", sub)
	s.event("invoice.paid", s.invoiceOf(sub, now, now, "paid", s.base(sub, now, end)))
	s.event("checkout.session.completed", page)
	return sub
}

// draft ends a subscription's period at a time: it makes the invoice of what was used in it and
// of the next period's base.
func (s *Server) draft(sub object, to time.Time) object {
	from := time.Unix(sub["current_period_start"].(int64), 0).UTC()
	next := to.AddDate(0, 1, 0)
	i := s.invoiceOf(sub, from, to, "draft", append(s.base(sub, to, next), s.pendingItems(sub.text("customer"), to)...))
	i["the prices"] = prices(sub)
	s.count(i, s.SummaryLag)
	sub["current_period_start"], sub["current_period_end"] = to.Unix(), next.Unix()
	s.event("invoice.created", i)
	s.event("customer.subscription.updated", sub)
	return i
}

// last makes the invoice of what was used until now, without a next period.
func (s *Server) last(sub object) {
	to := s.now()
	i := s.invoiceOf(sub, time.Unix(sub["current_period_start"].(int64), 0).UTC(), to, "draft", s.pendingItems(sub.text("customer"), to))
	i["the prices"] = prices(sub)
	s.count(i, s.SummaryLag)
	s.event("invoice.created", i)
}

// finalize takes the money for a draft from the customer's card.
func (s *Server) finalize(i object) {
	s.count(i, 0)
	i["attempted"] = true
	sub := s.find("subscription", i.text("subscription"))
	if i["total"].(int64) > 0 && s.card(i, sub) == cardDeclined {
		i["status"] = "open"
		s.fail(sub, i)
		return
	}
	i["status"] = "paid"
	s.event("invoice.paid", i)
}

// renew ends a subscription's period now, without waiting for usage that may still come.
func (s *Server) renew(sub object) { s.finalize(s.draft(sub, s.now())) }

// renewDue makes drafts for subscriptions whose period is over, and takes the money for
// drafts that are old enough.
func (s *Server) renewDue() {
	now := s.now()
	for _, sub := range s.has.Objects["subscription"] {
		if end, ok := sub["current_period_end"].(int64); ok && sub.text("status") != "canceled" && now.Unix() >= end {
			s.draft(sub, time.Unix(end, 0).UTC())
		}
	}
	for _, i := range s.has.Objects["invoice"] {
		if i.text("status") == "draft" && now.Unix() >= i["created"].(int64)+int64(draftFor/time.Second) {
			s.finalize(i)
		}
	}
}

// count brings a draft's usage up to date: what was received so long ago.
func (s *Server) count(i object, ago time.Duration) {
	used, ok := i["the prices"].([]object)
	if i.text("status") != "draft" || !ok {
		return
	}
	var lines []object
	for _, l := range i["all lines"].([]object) {
		if l["metered"] == nil {
			lines = append(lines, l)
		}
	}
	from, to := time.Unix(i["period_start"].(int64), 0).UTC(), time.Unix(i["period_end"].(int64), 0).UTC()
	s.write(i, append(lines, s.metered(i, used, from, to, ago)...))
}

// card is the one that an invoice is paid with.
func (s *Server) card(i, sub object) string {
	if card := s.find("customer", i.text("customer"))["invoice_settings"].(object).text("default_payment_method"); card != "" {
		return card
	}
	return cmp.Or(i.text("default_payment_method"), sub.text("default_payment_method"))
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
	s.event("invoice.payment_failed", invoice)
	if sub == nil || sub.text("status") == "canceled" {
		return
	}
	sub["status"] = "past_due"
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

// line is one of an invoice, of a subscription.
func line(sub object, title string, quantity, amount int64, from, to time.Time) object {
	return object{"object": "line_item", "type": "subscription", "subscription": sub.id(), "metadata": sub["metadata"], "description": title,
		"amount": amount, "quantity": quantity, "period": object{"start": from.Unix(), "end": to.Unix()}}
}

func (s *Server) invoiceOf(sub object, from, to time.Time, status string, lines []object) object {
	i := s.add("invoice", "in", object{"customer": sub["customer"], "subscription": sub.id(), "status": status, "currency": "usd",
		"attempted": status != "draft", "period_start": from.Unix(), "period_end": to.Unix()})
	s.write(i, lines)
	i["hosted_invoice_url"] = s.pageURL("invoice", i.id())
	return i
}

// shownLines is how many lines an invoice shows; more are on a list of their own.
const shownLines = 10

// write makes lines an invoice's.
func (s *Server) write(i object, lines []object) {
	var subtotal int64
	for n, l := range lines {
		l["id"] = fmt.Sprintf("il_%s_%d", i.id(), n)
		subtotal += l["amount"].(int64)
	}
	shown := listOf(lines[:min(len(lines), shownLines)])
	shown["has_more"] = len(lines) > shownLines
	i["all lines"], i["lines"], i["subtotal"], i["total"] = lines, shown, subtotal, subtotal
}

// base is the lines of what a subscription costs for a span that ends with a month of it,
// however much is used.
func (s *Server) base(sub object, from, to time.Time) (lines []object) {
	for _, price := range prices(sub) {
		if price["recurring"].(object).text("usage_type") != "metered" {
			l := line(sub, s.title(price), 1, part(price["unit_amount"].(int64), from, to), from, to)
			l["price"] = price
			lines = append(lines, l)
		}
	}
	return lines
}

// part of an amount of a month, by the second, rounded to the smallest unit of money.
func part(amount int64, from, to time.Time) int64 {
	seconds, month := to.Unix()-from.Unix(), to.Unix()-to.AddDate(0, -1, 0).Unix()
	if !from.After(to.AddDate(0, -1, 0)) {
		return amount
	}
	return (amount*seconds*2 + month) / (2 * month)
}

// prorate makes items of what a change of prices gives back and takes for the rest of the period.
func (s *Server) prorate(sub object, before, after []object) {
	from, to := s.now(), time.Unix(sub["current_period_end"].(int64), 0).UTC()
	item := func(price object, sign int64) {
		if price["recurring"].(object).text("usage_type") == "metered" {
			return
		}
		s.add("invoiceitem", "ii", object{"customer": sub["customer"], "subscription": sub.id(), "proration": true, "currency": "usd",
			"amount": sign * part(price["unit_amount"].(int64), from, to), "description": s.title(price), "metadata": object{},
			"period": object{"start": from.Unix(), "end": to.Unix()}})
	}
	for _, price := range before {
		item(price, -1)
	}
	for _, price := range after {
		item(price, 1)
	}
}

// metered is the lines of what a customer has used of prices.
func (s *Server) metered(i object, used []object, from, to time.Time, ago time.Duration) (lines []object) {
	sub := s.find("subscription", i.text("subscription"))
	for _, price := range used {
		meter := s.find("billing.meter", price["recurring"].(object).text("meter"))
		if meter == nil {
			continue
		}
		n := s.used(meter.text("event_name"), i.text("customer"), from, to, ago)
		l := line(sub, s.title(price)+": "+meter.text("display_name"), n, costs(price, n), from, to)
		l["metered"], l["price"] = true, price
		lines = append(lines, l)
	}
	return lines
}

// pendingItems is the lines of a customer's items that are on no invoice yet.
func (s *Server) pendingItems(customer string, at time.Time) (lines []object) {
	for _, item := range s.has.Objects["invoiceitem"] {
		if item.text("customer") == customer && item["invoice"] == nil {
			item["invoice"] = "one at " + at.Format(time.RFC3339)
			lines = append(lines, itemLine(item, at))
		}
	}
	return lines
}

func itemLine(item object, at time.Time) object {
	period, ok := item["period"].(object)
	if !ok {
		period = object{"start": at.Unix(), "end": at.Unix()}
	}
	return object{"object": "line_item", "type": "invoiceitem", "subscription": item["subscription"], "proration": item["proration"] != nil, "metadata": item["metadata"],
		"description": item["description"], "amount": item["amount"], "quantity": int64(1), "period": period}
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
