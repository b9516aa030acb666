package stripetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/stripetest"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// shop is a Stripe that lives beside a program, as the program has it.
type shop struct {
	*stripetest.Server
	t     *testing.T
	state []byte
	end   func()
	mu    sync.Mutex
	told  []string     // Types of events. Guarded by mu.
	clock atomic.Int64 // Seconds.
}

const shopKey, shopSecret = "sk_test_shop", "whsec_shop"

// open starts a Stripe on a new address, with the state of the one before.
func open(t *testing.T, before *shop) *shop {
	t.Helper()
	v := &shop{t: t}
	v.clock.Store(time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC).Unix())
	if before != nil {
		before.end()
		v.state = before.state
		v.clock.Store(before.clock.Load())
	}
	var h http.Handler
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	hook := httptest.NewServer(http.HandlerFunc(v.webhook))
	var err error
	v.Server, err = stripetest.Open(stripetest.Options{URL: l.URL, Key: shopKey, State: v.state, Now: v.now,
		Save: func(state []byte) error { v.state = slices.Clone(state); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	h = v.Server
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { // Ends with ctx.
		v.Run(ctx, http.DefaultClient, stripetest.Webhook{URL: hook.URL, Secret: shopSecret}, func(err error) { t.Log(err) })
		close(ran)
	}()
	v.end = sync.OnceFunc(func() { cancel(); <-ran; l.Close(); hook.Close() })
	t.Cleanup(v.end)
	return v
}

func (v *shop) now() time.Time { return time.Unix(v.clock.Load(), 0) }

// later moves the clock.
func (v *shop) later(by time.Duration) { v.clock.Add(int64(by / time.Second)) }

func (v *shop) webhook(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // The test ended while it was sent.
	}
	var e struct{ Type string }
	if err := json.Unmarshal(body, &e); err != nil {
		v.t.Errorf("an event %s: %v", body, err)
	}
	at, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Stripe-Signature"), "t="), ",")
	var unix int64
	_, _ = fmt.Sscan(at, &unix) // A bad one is no signature.
	if got, want := r.Header.Get("Stripe-Signature"), stripetest.Sign(body, shopSecret, time.Unix(unix, 0)); got != want {
		v.t.Errorf("signature %q, want %q", got, want)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.told = append(v.told, e.Type)
	if len(v.told) == 1 {
		w.WriteHeader(http.StatusServiceUnavailable) // It is sent again.
	}
}

// call calls the API and gives the answer's fields.
func (v *shop) call(method, path string, fields ...string) map[string]any {
	v.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.URL+"/v1/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+shopKey)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Idempotency-Key", "the key of "+path+form.Encode())
	var out map[string]any
	if err := json.Unmarshal([]byte(v.do(r, http.StatusOK)), &out); err != nil {
		v.t.Fatal(err)
	}
	return out
}

func (v *shop) do(r *http.Request, status int) string {
	v.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := res.Body.Close(); err != nil {
		v.t.Error(err)
	}
	if err != nil || res.StatusCode != status {
		v.t.Fatalf("%s %s: %s, %v: %s", r.Method, r.URL, res.Status, err, body)
	}
	if to := res.Header.Get("Location"); to != "" {
		return to
	}
	return string(body)
}

// look gives a page, press what pressing a button of it leads to.
func (v *shop) look(page string) string {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, page, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.do(r, http.StatusOK)
}

func (v *shop) press(page, button string, status int) string {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, page, strings.NewReader(url.Values{"do": {button}}.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.do(r, status)
}

// checkout opens a page for a plan with a base of $49.00 and 100 jobs included.
func (v *shop) checkout() string {
	v.t.Helper()
	meter := v.call("POST", "billing/meters", "display_name", "Jobs", "event_name", "jobs", "default_aggregation[formula]", "sum")
	v.call("POST", "products", "id", "team", "name", "Team")
	base := v.call("POST", "prices", "currency", "usd", "product", "team", "lookup_key", "base", "unit_amount", "4900",
		"recurring[interval]", "month", "recurring[usage_type]", "licensed")
	jobs := v.call("POST", "prices", "currency", "usd", "product", "team", "lookup_key", "jobs", "recurring[interval]", "month", "recurring[usage_type]", "metered",
		"recurring[meter]", meter["id"].(string), "billing_scheme", "tiered", "tiers_mode", "graduated", "tiers[0][up_to]", "100", "tiers[0][unit_amount]", "0",
		"tiers[1][up_to]", "inf", "tiers[1][unit_amount_decimal]", "0.5")
	return v.call("POST", "checkout/sessions", "mode", "subscription", "customer", v.customer(), "success_url", "http://console.test/done", "cancel_url", "http://console.test/back",
		"line_items[0][price]", base["id"].(string), "line_items[0][quantity]", "1", "line_items[1][price]", jobs["id"].(string))["url"].(string)
}

// customer is made once, for the idempotency key is the same.
func (v *shop) customer() string {
	return v.call("POST", "customers", "name", "Acme", "email", "owner@acme.test")["id"].(string)
}

// first is the newest of a list.
func (v *shop) first(list string) map[string]any {
	v.t.Helper()
	all := v.call("GET", list)["data"].([]any)
	if len(all) == 0 {
		return map[string]any{}
	}
	return all[0].(map[string]any)
}

func (v *shop) says(what string, got any, want any) {
	v.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		v.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestPages_ACheckoutIsDeclinedThenPaidOnce(t *testing.T) {
	t.Parallel()
	v := open(t, nil)
	page := v.checkout()
	for _, part := range []string{"No money moves", "Subscribe to Team", "$49.00 a month", "100 included, then $5,000.00 for 1,000,000", "http://console.test/back"} {
		if got := v.look(page); !strings.Contains(got, part) {
			t.Errorf("the page lacks %q: %s", part, got)
		}
	}
	if got := v.press(page, "decline", http.StatusPaymentRequired); !strings.Contains(got, "The card was declined") {
		t.Errorf("a declined card: %s", got)
	}
	v.says("subscriptions after it", v.call("GET", "subscriptions")["data"], "[]")
	v.says("where paying leads", v.press(page, "pay", http.StatusSeeOther), "http://console.test/done")
	v.press(page, "pay", http.StatusOK) // Nothing is bought twice.
	v.says("subscriptions", len(v.call("GET", "subscriptions")["data"].([]any)), 1)
	v.says("what the first invoice costs", v.first("invoices")["total"], 4900)
	eventually.True(t, 10*time.Second, "every event is sent, the first one twice", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return fmt.Sprint(v.told) == "[customer.created customer.created customer.subscription.created invoice.paid checkout.session.completed]"
	})
}

func TestPages_TheNextInvoiceHasWhatWasUsedAndACardThatPaysPaysIt(t *testing.T) {
	t.Parallel()
	v := open(t, nil)
	v.press(v.checkout(), "pay", http.StatusSeeOther)
	v.later(time.Hour)
	v.call("POST", "billing/meter_events", "event_name", "jobs", "identifier", "1", "payload[stripe_customer_id]", v.customer(), "payload[value]", "250")
	v.call("POST", "invoiceitems", "customer", v.customer(), "amount", "7", "currency", "usd", "description", "counted later")
	v.later(time.Hour)
	portal := v.call("POST", "billing_portal/sessions", "customer", v.customer(), "return_url", "http://console.test/billing")["url"].(string)
	v.press(portal, "pm_card_chargeCustomerFail", http.StatusSeeOther)
	v.press(portal, "renew", http.StatusSeeOther)
	v.says("what the invoice costs", v.first("invoices")["total"], 4900+75+7)
	v.says("its state", v.first("invoices")["status"], "open")
	v.says("the subscription's", v.first("subscriptions")["status"], "past_due")
	if got := v.press(v.first("invoices")["hosted_invoice_url"].(string), "decline", http.StatusPaymentRequired); !strings.Contains(got, "The invoice isn") {
		t.Errorf("a declined card: %s", got)
	}
	v.press(portal, "pm_card_visa", http.StatusSeeOther)
	v.says("state once a card pays", v.first("invoices")["status"], "paid")
	v.says("the subscription's then", v.first("subscriptions")["status"], "active")
	v.press(portal, "renew", http.StatusSeeOther)
	v.says("an invoice after it", v.first("invoices")["total"], 4900) // What was charged is not charged again.
	v.press(portal, "end", http.StatusSeeOther)
	v.says("the subscription in the end", v.first("subscriptions")["status"], "canceled")
	v.press(portal, "renew", http.StatusSeeOther) // There is none.
	v.says("invoices", len(v.call("GET", "invoices")["data"].([]any)), 3)
}

func TestOpen_EverythingIsThereAfterARestartElsewhere(t *testing.T) {
	t.Parallel()
	before := open(t, nil)
	page := before.checkout()
	before.press(page, "pay", http.StatusSeeOther)
	invoice := before.first("invoices")["hosted_invoice_url"].(string)
	customer := before.customer()

	v := open(t, before)
	v.says("the account", v.Account(), before.Account())
	v.says("the customer", v.customer(), customer) // By its idempotency key.
	v.says("the invoice's page", v.first("invoices")["hosted_invoice_url"], strings.Replace(invoice, before.URL, v.URL, 1))
	if got := v.look(strings.Replace(page, before.URL, v.URL, 1)); !strings.Contains(got, "This page was paid") {
		t.Errorf("the checkout: %s", got)
	}
	portal := v.call("POST", "billing_portal/sessions", "customer", customer, "return_url", "http://console.test/billing")["url"].(string)
	v.press(portal, "renew", http.StatusSeeOther)
	v.says("the next invoice", v.first("invoices")["total"], 4900)
	eventually.True(t, 10*time.Second, "who knows the links to invoices looks at them again", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return slices.Contains(v.told, "customer.updated")
	})
	if other := open(t, nil); other.Account() == v.Account() {
		t.Error("two Stripes are the same account")
	}
}

func TestRun_RenewsWhatIsDue(t *testing.T) {
	t.Parallel()
	v := open(t, nil)
	v.press(v.checkout(), "pay", http.StatusSeeOther)
	v.later(29 * 24 * time.Hour)
	next := open(t, v)
	next.says("invoices before the day", len(next.call("GET", "invoices")["data"].([]any)), 1)
	next.later(2 * 24 * time.Hour)
	last := open(t, next)
	eventually.True(t, 10*time.Second, "the month is over", func() bool { return len(last.call("GET", "invoices")["data"].([]any)) == 2 })
}

func TestPages_NeedTheSecret(t *testing.T) {
	t.Parallel()
	v := open(t, nil)
	page := v.checkout()
	rest := strings.SplitN(strings.TrimPrefix(page, v.URL+"/"), "/", 2)[1]
	for _, path := range []string{"/", "/checkout/1", "/wrong/" + rest, "//" + rest, strings.TrimPrefix(page, v.URL) + "0"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		v.do(r, http.StatusNotFound)
	}
}
