package stripe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/billing/meter"
	"github.com/stripe/stripe-go/v76/billing/meterevent"
	"github.com/stripe/stripe-go/v76/billing/metereventsummary"
	portal "github.com/stripe/stripe-go/v76/billingportal/session"
	checkout "github.com/stripe/stripe-go/v76/checkout/session"
	"github.com/stripe/stripe-go/v76/customer"
	"github.com/stripe/stripe-go/v76/invoice"
	"github.com/stripe/stripe-go/v76/invoiceitem"
	"github.com/stripe/stripe-go/v76/price"
	"github.com/stripe/stripe-go/v76/product"
	"github.com/stripe/stripe-go/v76/subscription"
)

const (
	// callTimeout is for one call; Stripe answers in a second or not at all.
	callTimeout = 30 * time.Second
	// answerBytesMax is ample for a page of a hundred records.
	answerBytesMax = 8 << 20
	pageMax        = 100

	metaTenant, metaPlan, metaVersion, metaIdentifier, metaSubscription = "tenant_id", "plan", "plan_version", "corvo_identifier", "corvo_subscription"
)

// Mode is which of Stripe's two worlds a key is for.
type Mode string

// Modes.
const (
	Test Mode = "test"
	Live Mode = "live"
)

// ModeOf tells a key's mode from its form.
func ModeOf(key string) (Mode, error) {
	kind, rest, _ := strings.Cut(key, "_")
	mode, secret, _ := strings.Cut(rest, "_")
	if kind != "sk" && kind != "rk" || mode != string(Test) && mode != string(Live) || secret == "" {
		return "", errors.New("the Stripe key must start with sk_test_, sk_live_, rk_test_ or rk_live_")
	}
	return Mode(mode), nil
}

// gateway is the calls to Stripe that we make. None is repeated here: what may be repeated,
// and for how long, is decided where it is written down.
type gateway struct {
	key     string
	backend stripe.Backend
	live    bool
}

// newGateway makes one for Stripe, or for another address that speaks as it does.
func newGateway(key, base string, mode Mode) (*gateway, error) {
	if base == "" {
		base = stripe.APIURL
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("the address of Stripe isn't a URL") // The error would show a password in it.
	}
	if u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, errors.New("the address of Stripe must be https://HOST; plain http is for this machine only")
	}
	client := &http.Client{
		Transport:     only{host: u.Host, scheme: u.Scheme, next: &http.Transport{Proxy: nil, ForceAttemptHTTP2: true, ResponseHeaderTimeout: callTimeout, IdleConnTimeout: time.Minute}},
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errElsewhere },
	}
	return &gateway{key: key, live: mode == Live, backend: stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL: stripe.String(strings.TrimRight(base, "/")), HTTPClient: client, MaxNetworkRetries: stripe.Int64(0),
		EnableTelemetry: stripe.Bool(false), LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

var errElsewhere = errors.New("a call that leaves Stripe's address is refused")

// only is a transport to one address.
type only struct {
	host, scheme string
	next         http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o only) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != o.host || r.URL.Scheme != o.scheme {
		if r.Body != nil {
			return nil, errors.Join(errElsewhere, r.Body.Close())
		}
		return nil, errElsewhere
	}
	r = r.Clone(r.Context())
	r.GetBody = nil // Or net/http sends it again by itself when a connection is lost.
	res, err := o.next.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, answerBytesMax)
	}
	return res, err
}

// said is what Stripe answered to a call that failed; nil: nobody knows what became of it.
func said(err error) *stripe.Error {
	var e *stripe.Error
	if !errors.As(err, &e) || e.HTTPStatusCode == 0 {
		return nil
	}
	return e
}

// refused reports whether Stripe did not do a call and would not do it again: not for having
// too many, and not for a fault of its own.
func refused(err error) bool {
	e := said(err)
	return e != nil && e.HTTPStatusCode >= 400 && e.HTTPStatusCode < 500 && e.HTTPStatusCode != http.StatusTooManyRequests && e.HTTPStatusCode != http.StatusConflict
}

// told is an error without what Stripe repeats of the request, for logs and rows.
func told(doing string, err error) error {
	if err == nil {
		return nil
	}
	if e := said(err); e != nil {
		return fmt.Errorf("%s: Stripe answered %d %s %s (request %s): %w", doing, e.HTTPStatusCode, e.Type, e.Code, e.RequestID, sanitized{err})
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// sanitized keeps an error's kind and drops its text, which may have what was sent.
type sanitized struct{ err error }

// Error implements error.
func (s sanitized) Error() string {
	e := said(s.err)
	if e == nil {
		return "unknown"
	}
	text := e.Msg
	const shown = 200
	if len(text) > shown {
		text = text[:shown] + "…"
	}
	return hideKeys(text)
}

// Unwrap implements errors.Unwrap.
func (s sanitized) Unwrap() error { return s.err }

// hideKeys cuts what looks like a key of Stripe's: its refusals repeat a part of a bad one.
func hideKeys(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		for _, prefix := range [...]string{"sk_", "rk_", "whsec_"} {
			if at := strings.Index(w, prefix); at >= 0 {
				words[i] = w[:at+len(prefix)] + "…"
			}
		}
	}
	return strings.Join(words, " ")
}

func params(ctx context.Context, idempotencyKey string) stripe.Params {
	p := stripe.Params{Context: ctx}
	if idempotencyKey != "" {
		p.IdempotencyKey = stripe.String(idempotencyKey)
	}
	return p
}

func listParams(ctx context.Context) stripe.ListParams {
	return stripe.ListParams{Context: ctx, Limit: stripe.Int64(pageMax)}
}

// createCustomer makes the customer of a tenant.
func (g *gateway) createCustomer(ctx context.Context, tenantID, name, email, key string) (string, error) {
	p := &stripe.CustomerParams{Params: params(ctx, key), Name: stripe.String(name)}
	if email != "" {
		p.Email = stripe.String(email)
	}
	p.AddMetadata(metaTenant, tenantID)
	c, err := customer.Client{B: g.backend, Key: g.key}.New(p)
	if err != nil {
		return "", told("create customer", err)
	}
	return c.ID, g.sameMode(c.Livemode)
}

// findCustomer searches for the customer of a tenant; empty for none.
func (g *gateway) findCustomer(ctx context.Context, tenantID string) (string, error) {
	it := customer.Client{B: g.backend, Key: g.key}.Search(&stripe.CustomerSearchParams{SearchParams: stripe.SearchParams{
		Context: ctx, Query: fmt.Sprintf("metadata['%s']:'%s'", metaTenant, tenantID)}})
	var oldest *stripe.Customer
	for it.Next() {
		if c := it.Customer(); oldest == nil || c.Created < oldest.Created {
			oldest = c
		}
	}
	if it.Err() != nil || oldest == nil {
		return "", told("search customer", it.Err())
	}
	return oldest.ID, g.sameMode(oldest.Livemode)
}

// hasPaymentMethod reports whether a customer's invoices can be paid.
func (g *gateway) hasPaymentMethod(ctx context.Context, customerID string) (bool, error) {
	c, err := customer.Client{B: g.backend, Key: g.key}.Get(customerID, &stripe.CustomerParams{Params: params(ctx, "")})
	if err != nil {
		return false, told("read customer", err)
	}
	if err := g.sameMode(c.Livemode); err != nil {
		return false, err
	}
	return c.InvoiceSettings != nil && c.InvoiceSettings.DefaultPaymentMethod != nil, nil
}

// ErrMode: what Stripe sent is of its other mode.
var ErrMode = errors.New("payments of different modes don't mix")

func (g *gateway) sameMode(live bool) error {
	if live != g.live {
		return ErrMode
	}
	return nil
}

// checkoutOrder is what a checkout page is for.
type checkoutOrder struct {
	customerID, tenantID string
	plan                 string
	version              int64
	prices               []orderedPrice
	success, cancel      string
	// anchor is when the second period begins, and expires when the page is no longer good for
	// that; zero for periods that begin on the day it is paid.
	anchor, expires time.Time
	key             string
}

// orderedPrice is a price in a subscription.
type orderedPrice struct {
	id      string
	metered bool
}

func (o checkoutOrder) metadata() map[string]string {
	return map[string]string{metaTenant: o.tenantID, metaPlan: o.plan, metaVersion: strconv.FormatInt(o.version, 10)}
}

// createCheckout makes a page where a subscription is begun.
func (g *gateway) createCheckout(ctx context.Context, o checkoutOrder) (string, error) {
	p := &stripe.CheckoutSessionParams{
		Params: params(ctx, o.key), Mode: stripe.String(string(stripe.CheckoutSessionModeSubscription)), Customer: stripe.String(o.customerID),
		ClientReferenceID: stripe.String(o.tenantID), SuccessURL: stripe.String(o.success), CancelURL: stripe.String(o.cancel),
		// The address is for the tax.
		BillingAddressCollection: stripe.String("auto"),
		SubscriptionData:         &stripe.CheckoutSessionSubscriptionDataParams{Metadata: o.metadata()},
	}
	if !o.anchor.IsZero() {
		p.ExpiresAt = stripe.Int64(o.expires.Unix())
		p.SubscriptionData.BillingCycleAnchor = stripe.Int64(o.anchor.Unix())
		p.SubscriptionData.ProrationBehavior = stripe.String("create_prorations")
	}
	p.Metadata = o.metadata()
	for _, item := range o.prices {
		line := &stripe.CheckoutSessionLineItemParams{Price: stripe.String(item.id)}
		if !item.metered {
			line.Quantity = stripe.Int64(1)
		}
		p.LineItems = append(p.LineItems, line)
	}
	s, err := checkout.Client{B: g.backend, Key: g.key}.New(p)
	if err != nil {
		return "", told("create checkout", err)
	}
	return s.URL, g.sameMode(s.Livemode)
}

// createPortal makes an address of the page with payment methods and receipts.
func (g *gateway) createPortal(ctx context.Context, customerID, back string) (string, error) {
	s, err := portal.Client{B: g.backend, Key: g.key}.New(&stripe.BillingPortalSessionParams{
		Params: params(ctx, ""), Customer: stripe.String(customerID), ReturnURL: stripe.String(back)})
	if err != nil {
		return "", told("open the portal", err)
	}
	return s.URL, g.sameMode(s.Livemode)
}

// subscribed is a subscription as Stripe has it.
type subscribed struct {
	id, status, plan string
	version          int64
	paymentMethod    string // Its own; empty: the customer's.
	created, ended   time.Time
	items            []subscribedItem
}

type subscribedItem struct{ id, price string }

// subscriptions are all of a customer's that Stripe lists, the newest first.
func (g *gateway) subscriptions(ctx context.Context, customerID string) (out []subscribed, err error) {
	it := subscription.Client{B: g.backend, Key: g.key}.List(&stripe.SubscriptionListParams{
		ListParams: listParams(ctx), Customer: stripe.String(customerID), Status: stripe.String("all")})
	for it.Next() {
		s := it.Subscription()
		if err := g.sameMode(s.Livemode); err != nil {
			return nil, err
		}
		v := subscribed{id: s.ID, status: string(s.Status), plan: s.Metadata[metaPlan],
			created: time.Unix(s.Created, 0).UTC(), ended: second(s.EndedAt)}
		if s.DefaultPaymentMethod != nil {
			v.paymentMethod = s.DefaultPaymentMethod.ID
		}
		if v.version, err = strconv.ParseInt(s.Metadata[metaVersion], 10, 32); err != nil {
			v.plan, v.version = "", 0 // Not one that we began.
		}
		if s.Items != nil {
			for _, item := range s.Items.Data {
				v.items = append(v.items, subscribedItem{item.ID, item.Price.ID})
			}
		}
		out = append(out, v)
	}
	return out, told("list subscriptions", it.Err())
}

func second(unix int64) time.Time {
	if unix == 0 {
		return time.Time{}
	}
	return time.Unix(unix, 0).UTC()
}

// changeSubscription makes a subscription one for another plan.
func (g *gateway) changeSubscription(ctx context.Context, s subscribed, plan string, version int64, prices []orderedPrice) error {
	p := &stripe.SubscriptionParams{Params: params(ctx, ""), ProrationBehavior: stripe.String("create_prorations")}
	p.Metadata = map[string]string{metaPlan: plan, metaVersion: strconv.FormatInt(version, 10)}
	for _, old := range s.items {
		p.Items = append(p.Items, &stripe.SubscriptionItemsParams{ID: stripe.String(old.id), Deleted: stripe.Bool(true)})
	}
	for _, item := range prices {
		line := &stripe.SubscriptionItemsParams{Price: stripe.String(item.id)}
		if !item.metered {
			line.Quantity = stripe.Int64(1)
		}
		p.Items = append(p.Items, line)
	}
	_, err := subscription.Client{B: g.backend, Key: g.key}.Update(s.id, p)
	return told("change subscription", err)
}

// endSubscription ends one, with an invoice of what was used; prorate gives back what was paid
// ahead.
func (g *gateway) endSubscription(ctx context.Context, id string, prorate bool) error {
	_, err := subscription.Client{B: g.backend, Key: g.key}.Cancel(id, &stripe.SubscriptionCancelParams{
		Params: params(ctx, ""), InvoiceNow: stripe.Bool(true), Prorate: stripe.Bool(prorate)})
	return told("end subscription", err)
}

// invoiced is an invoice as Stripe has it.
type invoiced struct {
	id, status, currency string
	subscription         string // That it renews or ends; empty: none.
	url                  string // Of its page.
	subtotal             int64
	attempted            bool
	from, to, created    time.Time
	lines                []invoicedLine
}

type invoicedLine struct {
	title    string
	from, to time.Time
	quantity int64
	amount   int64
	// subscription it is of; item says that it is an invoice item of ours.
	subscription string
	item         bool
}

const (
	// invoicesShown is how many of a customer's invoices are looked at, the newest first.
	invoicesShown = 24
	// invoicesMax is far above what a customer has in a lifetime.
	invoicesMax = 5000
)

// invoices are a customer's, the newest first, with all of their lines.
func (g *gateway) invoices(ctx context.Context, customerID string, limit int) (out []invoiced, err error) {
	client := invoice.Client{B: g.backend, Key: g.key}
	it := client.List(&stripe.InvoiceListParams{ListParams: listParams(ctx), Customer: stripe.String(customerID)})
	for len(out) < limit && it.Next() {
		i := it.Invoice()
		if err := g.sameMode(i.Livemode); err != nil {
			return nil, err
		}
		v := invoiced{id: i.ID, status: string(i.Status), currency: string(i.Currency), url: i.HostedInvoiceURL, subtotal: i.Subtotal, attempted: i.Attempted,
			from: time.Unix(i.PeriodStart, 0).UTC(), to: time.Unix(i.PeriodEnd, 0).UTC(), created: time.Unix(i.Created, 0).UTC()}
		if i.Subscription != nil {
			v.subscription = i.Subscription.ID
		}
		lines := i.Lines
		if lines == nil {
			lines = new(stripe.InvoiceLineItemList)
		}
		for _, l := range lines.Data {
			v.lines = append(v.lines, lineOf(l))
		}
		if lines.HasMore { // A list of invoices shows the first ten of each.
			v.lines = nil
			all := client.ListLines(&stripe.InvoiceListLinesParams{ListParams: listParams(ctx), Invoice: stripe.String(i.ID)})
			for all.Next() {
				v.lines = append(v.lines, lineOf(all.InvoiceLineItem()))
			}
			if err := all.Err(); err != nil {
				return nil, told("list the lines of an invoice", err)
			}
		}
		out = append(out, v)
	}
	return out, told("list invoices", it.Err())
}

func lineOf(l *stripe.InvoiceLineItem) invoicedLine {
	v := invoicedLine{title: l.Description, quantity: l.Quantity, amount: l.Amount, subscription: l.Metadata[metaSubscription]}
	if v.item = v.subscription != ""; !v.item && l.Subscription != nil {
		v.subscription = l.Subscription.ID
	}
	if l.Period != nil {
		v.from, v.to = second(l.Period.Start), second(l.Period.End)
	}
	return v
}

// usageEvent is one meter event.
type usageEvent struct {
	name, identifier, customerID string
	value                        int64
	at                           time.Time
}

// sendEvent sends one. Its identifier is what Stripe knows it by; the idempotency key is
// another one each time, for Stripe repeats an answer of 500 to whoever shows the same key.
func (g *gateway) sendEvent(ctx context.Context, e usageEvent) error {
	_, err := meterevent.Client{B: g.backend, Key: g.key}.New(&stripe.BillingMeterEventParams{
		Params: params(ctx, ""), EventName: stripe.String(e.name), Identifier: stripe.String(e.identifier), Timestamp: stripe.Int64(e.at.Unix()),
		Payload: map[string]string{payloadCustomer: e.customerID, payloadValue: strconv.FormatInt(e.value, 10)},
	})
	return told("send meter event", err)
}

const payloadCustomer, payloadValue = "stripe_customer_id", "value"

// summary is what Stripe has counted of a meter for a customer in a span.
func (g *gateway) summary(ctx context.Context, meterID, customerID string, from, to time.Time) (int64, error) {
	var sum int64
	err := g.eachSummary(&stripe.BillingMeterEventSummaryListParams{
		ListParams: listParams(ctx), ID: stripe.String(meterID), Customer: stripe.String(customerID),
		StartTime: stripe.Int64(from.Unix()), EndTime: stripe.Int64(to.Unix())}, func(_ time.Time, n int64) { sum += n })
	return sum, err
}

// summaries is the same for each day of some.
func (g *gateway) summaries(ctx context.Context, meterID, customerID string, from, to time.Time) (map[time.Time]int64, error) {
	out := make(map[time.Time]int64)
	err := g.eachSummary(&stripe.BillingMeterEventSummaryListParams{
		ListParams: listParams(ctx), ID: stripe.String(meterID), Customer: stripe.String(customerID),
		StartTime: stripe.Int64(from.Unix()), EndTime: stripe.Int64(to.Unix()), ValueGroupingWindow: stripe.String("day")}, func(at time.Time, n int64) { out[at] += n })
	return out, err
}

func (g *gateway) eachSummary(p *stripe.BillingMeterEventSummaryListParams, f func(from time.Time, n int64)) error {
	it := metereventsummary.Client{B: g.backend, Key: g.key}.List(p)
	for it.Next() {
		s := it.BillingMeterEventSummary()
		// A float holds whole numbers up to here; above, they are not the ones that were sent.
		if v := s.AggregatedValue; v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return fmt.Errorf("read summary: Stripe's sum %v isn't a whole number that can be compared", v)
		}
		f(second(s.StartTime), int64(s.AggregatedValue))
	}
	return told("read summary", it.Err())
}

// invoiceItem is a line that we add to an invoice.
type invoiceItem struct {
	customerID, subscriptionID string
	// invoiceID is empty for the customer's next one.
	invoiceID, identifier, title, currency string
	amount                                 int64
	key                                    string
}

func (g *gateway) createItem(ctx context.Context, i invoiceItem) error {
	p := &stripe.InvoiceItemParams{Params: params(ctx, i.key), Customer: stripe.String(i.customerID), Amount: stripe.Int64(i.amount),
		Currency: stripe.String(i.currency), Description: stripe.String(i.title)}
	if i.invoiceID != "" {
		p.Invoice = stripe.String(i.invoiceID)
	}
	p.Metadata = map[string]string{metaIdentifier: i.identifier, metaSubscription: i.subscriptionID}
	_, err := invoiceitem.Client{B: g.backend, Key: g.key}.New(p)
	return told("create invoice item", err)
}

// createInvoice makes an invoice of a customer's items that are on none yet, and lets Stripe
// take the money an hour later, by a payment method or by the customer's own.
func (g *gateway) createInvoice(ctx context.Context, customerID, paymentMethod, currency, key string) error {
	p := &stripe.InvoiceParams{Params: params(ctx, key), Customer: stripe.String(customerID), Currency: stripe.String(currency), AutoAdvance: stripe.Bool(true),
		PendingInvoiceItemsBehavior: stripe.String("include")}
	if paymentMethod != "" {
		p.DefaultPaymentMethod = stripe.String(paymentMethod)
	}
	_, err := invoice.Client{B: g.backend, Key: g.key}.New(p)
	return told("create invoice", err)
}

// hasItem reports whether an invoice item of an identifier was made since a time.
func (g *gateway) hasItem(ctx context.Context, customerID, identifier string, since time.Time) (bool, error) {
	it := invoiceitem.Client{B: g.backend, Key: g.key}.List(&stripe.InvoiceItemListParams{ListParams: listParams(ctx), Customer: stripe.String(customerID),
		CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: since.Unix()}})
	for it.Next() {
		if it.InvoiceItem().Metadata[metaIdentifier] == identifier {
			return true, nil
		}
	}
	return false, told("list invoice items", it.Err())
}

// pendingItems is the sum of a subscription's items of ours that are on no invoice yet.
func (g *gateway) pendingItems(ctx context.Context, customerID, subscriptionID string) (sum int64, _ error) {
	it := invoiceitem.Client{B: g.backend, Key: g.key}.List(&stripe.InvoiceItemListParams{ListParams: listParams(ctx), Customer: stripe.String(customerID), Pending: stripe.Bool(true)})
	for it.Next() {
		if i := it.InvoiceItem(); i.Metadata[metaSubscription] == subscriptionID {
			sum += i.Amount
		}
	}
	return sum, told("list pending invoice items", it.Err())
}

// meters are Stripe's ids of the active meters, by event name.
func (g *gateway) meters(ctx context.Context) (map[string]string, error) {
	out := make(map[string]string)
	it := meter.Client{B: g.backend, Key: g.key}.List(&stripe.BillingMeterListParams{ListParams: listParams(ctx), Status: stripe.String("active")})
	for it.Next() {
		out[it.BillingMeter().EventName] = it.BillingMeter().ID
	}
	return out, told("list meters", it.Err())
}

func (g *gateway) createMeter(ctx context.Context, eventName, title string) error {
	_, err := meter.Client{B: g.backend, Key: g.key}.New(&stripe.BillingMeterParams{
		Params: params(ctx, ""), DisplayName: stripe.String(title), EventName: stripe.String(eventName),
		DefaultAggregation: &stripe.BillingMeterDefaultAggregationParams{Formula: stripe.String("sum")},
		CustomerMapping:    &stripe.BillingMeterCustomerMappingParams{EventPayloadKey: stripe.String(payloadCustomer), Type: stripe.String("by_id")},
		ValueSettings:      &stripe.BillingMeterValueSettingsParams{EventPayloadKey: stripe.String(payloadValue)},
	})
	return told("create meter "+eventName, err)
}

// productName is a product's name at Stripe; found is false if it is not there.
func (g *gateway) productName(ctx context.Context, id string) (name string, found bool, err error) {
	p, err := product.Client{B: g.backend, Key: g.key}.Get(id, &stripe.ProductParams{Params: params(ctx, "")})
	if e := said(err); e != nil && e.HTTPStatusCode == http.StatusNotFound {
		return "", false, nil
	}
	if err != nil {
		return "", false, told("read product "+id, err)
	}
	return p.Name, true, nil
}

func (g *gateway) createProduct(ctx context.Context, id, name string) error {
	_, err := product.Client{B: g.backend, Key: g.key}.New(&stripe.ProductParams{
		Params: params(ctx, ""), ID: stripe.String(id), Name: stripe.String(name)})
	return told("create product "+id, err)
}

func (g *gateway) renameProduct(ctx context.Context, id, name string) error {
	_, err := product.Client{B: g.backend, Key: g.key}.Update(id, &stripe.ProductParams{Params: params(ctx, ""), Name: stripe.String(name)})
	return told("rename product "+id, err)
}

// pricesOf are Stripe's prices by lookup key.
func (g *gateway) pricesOf(ctx context.Context, keys []string) (map[string]*stripe.Price, error) {
	out := make(map[string]*stripe.Price)
	const each = 10 // So many keys Stripe takes at a time.
	for len(keys) > 0 {
		n := min(each, len(keys))
		p := &stripe.PriceListParams{ListParams: listParams(ctx), LookupKeys: stripe.StringSlice(keys[:n])}
		p.AddExpand("data.tiers")
		it := price.Client{B: g.backend, Key: g.key}.List(p)
		for it.Next() {
			out[it.Price().LookupKey] = it.Price()
		}
		if it.Err() != nil {
			return nil, told("list prices", it.Err())
		}
		keys = keys[n:]
	}
	return out, nil
}

func (g *gateway) createPrice(ctx context.Context, p *stripe.PriceParams) error {
	p.Context = ctx
	_, err := price.Client{B: g.backend, Key: g.key}.New(p)
	return told("create price "+*p.LookupKey, err)
}
