package stripe

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// mock is Stripe's own mock, which knows the parameters of every call. make setup installs it.
const mock = "../../../.bin/stripe-mock"

func startMock(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(mock); err != nil {
		t.Skip("stripe-mock isn't installed: run make setup")
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := exec.CommandContext(ctx, mock, "-http-addr", "127.0.0.1:0")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // It was killed.
	})
	listening := regexp.MustCompile(`127\.0\.0\.1:[1-9]\d*`)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at := listening.FindString(lines.Text()); at != "" {
			go func() { _, _ = io.Copy(io.Discard, out) }() // Until it ends.
			return "http://" + at
		}
	}
	t.Fatalf("stripe-mock didn't say where it listens (%v)", lines.Err())
	return ""
}

// Every call has the parameters that Stripe's own description of its API has.
func TestGateway_EveryCallHasTheShapeThatStripeDescribes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a program")
	}
	g, err := newGateway("sk_test_123", startMock(t), Test)
	if err != nil {
		t.Fatal(err)
	}
	ctx, now := t.Context(), time.Now().UTC().Truncate(time.Hour)
	prices := []orderedPrice{{"price_1", false}, {"price_2", true}}
	wants, err := wantedPrices(store.PlanVersion{Plan: "team", Version: 1, Currency: "usd", BaseAmount: 4900,
		Prices: []store.Price{{Meter: "executions", Per: 1000, Amount: 1}, {Meter: "jobs_enqueued", Included: 5, Per: 1000, Amount: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"create customer": func() error { _, err := g.createCustomer(ctx, "tn_1", "Acme", "a@acme.test", "key-1"); return err },
		"find customer":   func() error { _, err := g.findCustomer(ctx, "tn_1"); return err },
		"payment method":  func() error { _, err := g.hasPaymentMethod(ctx, "cus_1"); return err },
		"checkout": func() error {
			_, err := g.createCheckout(ctx, checkoutOrder{customerID: "cus_1", tenantID: "tn_1", plan: "team", version: 1, prices: prices,
				success: "https://corvo.test/done", cancel: "https://corvo.test/", anchor: now.AddDate(0, 0, 5), expires: now.Add(time.Hour), key: "key-2"})
			return err
		},
		"create invoice": func() error { return g.createInvoice(ctx, "cus_1", "pm_1", "usd", "key-9") },
		"portal":         func() error { _, err := g.createPortal(ctx, "cus_1", "https://corvo.test/"); return err },
		"subscriptions":  func() error { _, err := g.subscriptions(ctx, "cus_1"); return err },
		"change subscription": func() error {
			return g.changeSubscription(ctx, subscribed{id: "sub_1", items: []subscribedItem{{"si_1", "price_0"}}}, "team", 2, prices)
		},
		"end subscription": func() error { return g.endSubscription(ctx, "sub_1", false) },
		"invoices":         func() error { _, err := g.invoices(ctx, "cus_1", invoicesShown); return err },
		"meter event": func() error {
			return g.sendEvent(ctx, usageEvent{name: "corvo_executions", identifier: "i", customerID: "cus_1", value: 3, at: now})
		},
		"summary": func() error { _, err := g.summary(ctx, "mtr_1", "cus_1", now.Add(-time.Hour), now); return err },
		"invoice item": func() error {
			return g.createItem(ctx, invoiceItem{customerID: "cus_1", subscriptionID: "sub_1", invoiceID: "in_1", identifier: "i", title: "t", currency: "usd", amount: -5, key: "key-3"})
		},
		"summaries": func() error {
			_, err := g.summaries(ctx, "mtr_1", "cus_1", now.Truncate(day), now.Truncate(day).Add(day))
			return err
		},
		"pending items":  func() error { _, err := g.pendingItems(ctx, "cus_1", "sub_1"); return err },
		"invoice items":  func() error { _, err := g.hasItem(ctx, "cus_1", "i", now); return err },
		"meters":         func() error { _, err := g.meters(ctx); return err },
		"create meter":   func() error { return g.createMeter(ctx, "corvo_executions", "Executions") },
		"product":        func() error { _, _, err := g.productName(ctx, "corvo_team"); return err },
		"create product": func() error { return g.createProduct(ctx, "corvo_team", "Corvo Team") },
		"rename product": func() error { return g.renameProduct(ctx, "corvo_team", "Corvo Team") },
		"prices":         func() error { _, err := g.pricesOf(ctx, []string{"corvo_team_1_base"}); return err },
		"create base":    func() error { return g.createPrice(ctx, wants[0].params) },
		"create metered": func() error { return g.createPrice(ctx, wants[1].params) },
		"create tiered":  func() error { return g.createPrice(ctx, wants[2].params) },
	}
	for what, call := range calls {
		// What the mock answers is made up, and some of it is of the live mode.
		if err := call(); err != nil && !errors.Is(err, ErrMode) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// And it does look: a price without its currency is refused.
	if err := g.createPrice(ctx, &stripe.PriceParams{LookupKey: stripe.String("k")}); !refused(err) {
		t.Errorf("the mock is blind: %v", err)
	}
}
