package stripetest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// usageAgeMax is how old a meter event may be, and usageAheadMax how far in the future.
	usageAgeMax   = 35 * 24 * time.Hour
	usageAheadMax = 5 * time.Minute
)

func (s *Server) newCustomer(f form) (object, *problem) {
	if p := f.takes("name email metadata expand"); p != nil {
		return nil, p
	}
	c := s.add("customer", "cus", object{"name": f.get("name"), "email": f.get("email"), "metadata": f.under("metadata").texts(),
		"invoice_settings": object{"default_payment_method": nil}})
	s.event("customer.created", c)
	return c, nil
}

func (s *Server) searchCustomers(f form) (object, *problem) {
	if p := f.takes("query limit page expand", "query"); p != nil {
		return nil, p
	}
	var found []object
	for _, c := range s.has.Objects["customer"] {
		// As the real one, it takes a while to find a new record.
		if s.now().Unix()-c["created"].(int64) < 60 {
			continue
		}
		for k, v := range c["metadata"].(object) {
			if f.get("query") == "metadata['"+k+"']:'"+v.(string)+"'" {
				found = append(found, c)
			}
		}
	}
	page := listOf(found)
	page["object"] = "search_result"
	return page, nil
}

func (s *Server) newCheckout(f form) (object, *problem) {
	p := f.takes("mode customer client_reference_id success_url cancel_url billing_address_collection subscription_data metadata line_items expires_at expand",
		"mode", "success_url")
	if p != nil {
		return nil, p
	}
	if s.find("customer", f.get("customer")) == nil {
		return nil, missing("customer", f.get("customer"))
	}
	items, p := s.items(f.each("line_items"))
	if p != nil {
		return nil, p
	}
	if f.get("mode") == "subscription" && len(items) == 0 {
		return nil, invalid("line_items", "You must provide one or more line items.")
	}
	o := s.add("checkout.session", "cs_test", object{"mode": f.get("mode"), "customer": f.get("customer"), "client_reference_id": f.get("client_reference_id"),
		"metadata": f.under("metadata").texts(), "status": "open", "payment_status": "unpaid", "subscription": nil,
		"success_url": f.get("success_url"), "cancel_url": f.get("cancel_url")})
	o["url"] = s.pageURL("checkout", o.id())
	o["the items"], o["the metadata"] = items, f.under("subscription_data").under("metadata").texts()
	if sub := f.under("subscription_data"); sub.get("billing_cycle_anchor") != "" {
		anchor, p := sub.integer("billing_cycle_anchor")
		if p != nil {
			return nil, p
		}
		if at := time.Unix(anchor, 0); !at.After(s.now()) || at.After(s.now().AddDate(0, 1, 0)) {
			return nil, invalid("subscription_data[billing_cycle_anchor]", "It must be in the future, and within the first period.")
		}
		o["the anchor"] = anchor
	}
	if f.get("expires_at") != "" {
		expires, p := f.integer("expires_at")
		if p != nil {
			return nil, p
		}
		if in := time.Unix(expires, 0).Sub(s.now()); in < 30*time.Minute || in > 24*time.Hour {
			return nil, invalid("expires_at", "The `expires_at` timestamp must be between 30 minutes and 24 hours from now.")
		}
		o["expires_at"] = expires
	}
	return o, nil
}

// items of a subscription.
func (s *Server) items(lines []form) ([]object, *problem) {
	var out []object
	for _, l := range lines {
		price := s.find("price", l.get("price"))
		if price == nil {
			return nil, missing("price", l.get("price"))
		}
		metered := price["recurring"].(object).text("usage_type") == "metered"
		if metered && l.get("quantity") != "" {
			return nil, invalid("line_items", "Quantity should not be specified where usage_type is `metered`.")
		}
		if !metered && l.get("quantity") == "" {
			return nil, invalid("line_items", "Quantity is required.")
		}
		s.has.Made++
		out = append(out, object{"id": "si_" + strconv.Itoa(s.has.Made), "object": "subscription_item", "price": price})
	}
	return out, nil
}

func (s *Server) newPortal(f form) (object, *problem) {
	if p := f.takes("customer return_url expand", "customer"); p != nil {
		return nil, p
	}
	if s.find("customer", f.get("customer")) == nil {
		return nil, missing("customer", f.get("customer"))
	}
	o := s.add("billing_portal.session", "bps", object{"customer": f.get("customer"), "return_url": f.get("return_url")})
	o["url"] = s.pageURL("portal", o.id())
	return o, nil
}

func (s *Server) changeSubscription(id string, f form) (object, *problem) {
	if p := f.takes("items metadata proration_behavior expand"); p != nil {
		return nil, p
	}
	sub := s.find("subscription", id)
	if sub == nil || sub.text("status") == "canceled" {
		return nil, missing("subscription", id)
	}
	items := sub["items"].(object)["data"].([]object)
	var kept []object
	gone := make(map[string]bool)
	var added []form
	for _, i := range f.each("items") {
		if i.get("deleted") == "true" {
			gone[i.get("id")] = true
			continue
		}
		added = append(added, i)
	}
	for _, i := range items {
		if !gone[i.id()] {
			kept = append(kept, i)
		}
	}
	fresh, p := s.items(added)
	if p != nil {
		return nil, p
	}
	for _, i := range fresh {
		for _, k := range kept {
			if k["price"].(object).id() == i["price"].(object).id() {
				return nil, invalid("items", "Cannot add multiple subscription items with the same plan")
			}
		}
	}
	before := prices(sub)
	sub["items"] = listOf(append(kept, fresh...))
	if f.get("proration_behavior") != "none" {
		s.prorate(sub, before, prices(sub))
	}
	for k, v := range f.under("metadata").texts() {
		sub["metadata"].(object)[k] = v
	}
	s.event("customer.subscription.updated", sub)
	return sub, nil
}

func (s *Server) endSubscription(id string, f form) (object, *problem) {
	if p := f.takes("invoice_now prorate expand"); p != nil {
		return nil, p
	}
	sub := s.find("subscription", id)
	if sub == nil || sub.text("status") == "canceled" {
		return nil, missing("subscription", id)
	}
	if f.get("prorate") == "true" {
		s.prorate(sub, prices(sub), nil)
	}
	if f.get("invoice_now") == "true" {
		s.last(sub)
	}
	sub["status"], sub["ended_at"] = "canceled", s.now().Unix()
	s.event("customer.subscription.deleted", sub)
	return sub, nil
}

func (s *Server) newProduct(f form) (object, *problem) {
	if p := f.takes("id name metadata expand", "name"); p != nil {
		return nil, p
	}
	if s.find("product", f.get("id")) != nil {
		return nil, &problem{status: http.StatusBadRequest, kind: "invalid_request_error", code: "resource_already_exists", text: "Product already exists."}
	}
	o := object{"name": f.get("name"), "active": true}
	if f.get("id") != "" {
		o["id"] = f.get("id")
	}
	return s.add("product", "prod", o), nil
}

func (s *Server) renameProduct(id string, f form) (object, *problem) {
	o := s.find("product", id)
	if o == nil {
		return nil, missing("product", id)
	}
	o["name"] = f.get("name")
	return o, nil
}

func (s *Server) newPrice(f form) (object, *problem) {
	p := f.takes("currency product lookup_key unit_amount unit_amount_decimal recurring billing_scheme tiers_mode tiers metadata nickname expand", "currency", "product")
	if p == nil {
		p = f.currency()
	}
	if p != nil {
		return nil, p
	}
	if s.find("product", f.get("product")) == nil {
		return nil, missing("product", f.get("product"))
	}
	for _, other := range s.has.Objects["price"] {
		if other.text("lookup_key") == f.get("lookup_key") {
			return nil, invalid("lookup_key", "A price (`%s`) already uses that lookup key.", other.id())
		}
	}
	r := f.under("recurring")
	if r.get("usage_type") == "metered" && s.find("billing.meter", r.get("meter")) == nil {
		return nil, missing("meter", r.get("meter"))
	}
	o := object{"currency": f.get("currency"), "product": f.get("product"), "lookup_key": f.get("lookup_key"), "active": true, "type": "recurring",
		"billing_scheme": "per_unit", "recurring": object{"interval": r.get("interval"), "usage_type": r.get("usage_type"), "meter": r.get("meter")}}
	if f.get("billing_scheme") == "tiered" {
		o["billing_scheme"], o["tiers_mode"] = "tiered", f.get("tiers_mode")
		var tiers []object
		for _, tier := range f.each("tiers") {
			one, p := priceOf(tier)
			if p != nil {
				return nil, p
			}
			one["up_to"] = nil
			if up := tier.get("up_to"); up != "inf" {
				n, p := tier.integer("up_to")
				if p != nil {
					return nil, p
				}
				one["up_to"] = n
			}
			tiers = append(tiers, one)
		}
		o["tiers"] = tiers
		return s.add("price", "price", o), nil
	}
	one, p := priceOf(f)
	if p != nil {
		return nil, p
	}
	for k, v := range one {
		o[k] = v
	}
	return s.add("price", "price", o), nil
}

// priceOf is an amount in whole units or with at most twelve decimals.
func priceOf(f form) (object, *problem) {
	if d := f.get("unit_amount_decimal"); d != "" {
		_, decimals, _ := strings.Cut(d, ".")
		if len(decimals) > 12 || strings.ContainsAny(d, "eE") {
			return nil, invalid("unit_amount_decimal", "Invalid decimal: %s; must have at most 12 decimal places", d)
		}
		return object{"unit_amount_decimal": d}, nil
	}
	n, p := f.integer("unit_amount")
	if p != nil {
		return nil, p
	}
	return object{"unit_amount": n, "unit_amount_decimal": strconv.FormatInt(n, 10)}, nil
}

func (s *Server) listPrices(f form) (object, *problem) {
	if p := f.takes("lookup_keys limit expand active starting_after"); p != nil {
		return nil, p
	}
	var out []object
	for _, k := range f.each("lookup_keys") {
		for _, o := range s.has.Objects["price"] {
			if o.text("lookup_key") == k.get("") {
				out = append(out, o)
			}
		}
	}
	return listOf(out), nil
}

func (s *Server) newMeter(f form) (object, *problem) {
	p := f.takes("display_name event_name default_aggregation customer_mapping value_settings expand", "display_name", "event_name", "default_aggregation")
	if p != nil {
		return nil, p
	}
	for _, m := range s.has.Objects["billing.meter"] {
		if m.text("event_name") == f.get("event_name") {
			return nil, invalid("event_name", "A meter with event name %s already exists", f.get("event_name"))
		}
	}
	return s.add("billing.meter", "mtr", object{"display_name": f.get("display_name"), "event_name": f.get("event_name"), "status": "active"}), nil
}

func (s *Server) newUsage(f form) (object, *problem) {
	if p := f.takes("event_name identifier payload timestamp expand", "event_name", "payload"); p != nil {
		return nil, p
	}
	known := false
	for _, m := range s.has.Objects["billing.meter"] {
		known = known || m.text("event_name") == f.get("event_name")
	}
	if !known {
		return nil, invalid("event_name", "No active meter found for event name %s", f.get("event_name"))
	}
	u := &usage{Event: f.get("event_name"), Identifier: f.get("identifier"), Customer: f.get("payload[stripe_customer_id]"), Received: s.now(), At: s.now()}
	var p *problem
	if u.Value, p = f.integer("payload[value]"); p != nil {
		return nil, p
	}
	if s.find("customer", u.Customer) == nil {
		return nil, missing("customer", u.Customer)
	}
	if f.get("timestamp") != "" {
		n, p := f.integer("timestamp")
		if p != nil {
			return nil, p
		}
		u.At = time.Unix(n, 0)
	}
	switch age := s.now().Sub(u.At); {
	case age > usageAgeMax:
		return nil, invalid("timestamp", "The timestamp is too far in the past")
	case age < -usageAheadMax:
		return nil, invalid("timestamp", "The timestamp is too far in the future")
	}
	for _, other := range s.identified[u.Identifier] {
		if s.now().Sub(other.Received) < keyLife {
			return nil, invalid("identifier", "An event already exists with identifier %s.", u.Identifier)
		}
	}
	s.keepUsage(u)
	return object{"object": "billing.meter_event", "event_name": u.Event, "identifier": u.Identifier, "payload": f.under("payload").texts(),
		"timestamp": u.At.Unix(), "created": s.now().Unix(), "livemode": false}, nil
}

func (s *Server) cancelUsage(f form) (object, *problem) {
	if p := f.takes("event_name type cancel expand", "event_name", "type"); p != nil {
		return nil, p
	}
	id := f.get("cancel[identifier]")
	for _, u := range s.identified[id] {
		if !u.Cancelled && s.now().Sub(u.Received) < keyLife {
			u.Cancelled = true
			return object{"object": "billing.meter_event_adjustment", "event_name": u.Event, "type": "cancel", "status": "pending", "livemode": false}, nil
		}
	}
	return nil, invalid("cancel", "No event found with identifier %s in the last 24 hours", id)
}

func (s *Server) summary(meterID string, f form) (object, *problem) {
	if p := f.takes("customer start_time end_time value_grouping_window limit starting_after expand", "customer", "start_time", "end_time"); p != nil {
		return nil, p
	}
	m := s.find("billing.meter", meterID)
	if m == nil {
		return nil, missing("meter", meterID)
	}
	from, p := f.integer("start_time")
	if p != nil {
		return nil, p
	}
	to, p := f.integer("end_time")
	if p != nil {
		return nil, p
	}
	if from%60 != 0 || to%60 != 0 || to <= from {
		return nil, invalid("start_time", "Timestamps must be aligned with minute boundaries")
	}
	window, known := map[string]int64{"": to - from, "hour": 3600, "day": 86400}[f.get("value_grouping_window")]
	if grouped := f.get("value_grouping_window") != ""; !known || grouped && (from%window != 0 || to%window != 0) {
		return nil, invalid("value_grouping_window", "Must be hour or day, and the timestamps aligned with it")
	}
	sums := make(map[int64]int64)
	for _, u := range s.usageOf[f.get("customer")] {
		if u.Event == m.text("event_name") && u.At.Unix() >= from && u.At.Unix() < to && !u.Cancelled && s.now().Sub(u.Received) >= s.SummaryLag {
			sums[from+(u.At.Unix()-from)/window*window] += u.Value
		}
	}
	var out []object
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(sums))) {
		out = append(out, object{"id": fmt.Sprintf("mtrusg_%d", at), "object": "billing.meter_event_summary", "aggregated_value": float64(sums[at]), "start_time": at, "end_time": at + window, "meter": meterID, "livemode": false})
	}
	return page(out, f)
}

// newInvoice makes a draft of the items that are on no invoice yet.
func (s *Server) newInvoice(f form) (object, *problem) {
	p := f.takes("customer auto_advance pending_invoice_items_behavior default_payment_method currency metadata expand", "customer", "auto_advance", "pending_invoice_items_behavior", "currency")
	if p == nil {
		p = f.currency()
	}
	if p != nil {
		return nil, p
	}
	now := s.now()
	lines := s.pendingItems(f.get("customer"), now)
	if len(lines) == 0 {
		return nil, invalid("customer", "Nothing to invoice for customer")
	}
	i := s.invoiceOf(object{"customer": f.get("customer"), "id": ""}, now, now, "draft", lines)
	i["subscription"], i["default_payment_method"] = nil, f.get("default_payment_method")
	s.event("invoice.created", i)
	return i, nil
}

func (s *Server) newItem(f form) (object, *problem) {
	p := f.takes("customer amount currency description metadata invoice expand", "customer", "amount", "currency")
	if p == nil {
		p = f.currency()
	}
	if p != nil {
		return nil, p
	}
	if s.find("customer", f.get("customer")) == nil {
		return nil, missing("customer", f.get("customer"))
	}
	amount, p := f.integer("amount")
	if p != nil {
		return nil, p
	}
	item := object{"customer": f.get("customer"), "amount": amount, "currency": f.get("currency"),
		"description": f.get("description"), "metadata": f.under("metadata").texts()}
	if f.get("invoice") == "" {
		return s.add("invoiceitem", "ii", item), nil
	}
	i := s.find("invoice", f.get("invoice"))
	if i == nil {
		return nil, missing("invoice", f.get("invoice"))
	}
	if i.text("status") != "draft" {
		return nil, invalid("invoice", "This invoice is no longer editable")
	}
	item["invoice"] = i.id()
	s.write(i, append(i["all lines"].([]object), itemLine(item, s.now())))
	return s.add("invoiceitem", "ii", item), nil
}
