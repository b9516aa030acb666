package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/stripe"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
)

func TestCustomer_IsOneWhateverGetsLost(t *testing.T) {
	t.Parallel()
	for _, fault := range []stripetest.Fault{stripetest.LoseAnswer, stripetest.Drop, stripetest.TooMany, stripetest.Broken} {
		for _, wait := range []time.Duration{time.Second, 11 * time.Minute, 30 * time.Hour} {
			t.Run(fmt.Sprint(fault, wait), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				_, ctx := w.tenant(t, "acme")
				w.stripe.Faults(func(call string) stripetest.Fault {
					if call == "POST /v1/customers" {
						return fault
					}
					return stripetest.None
				})
				_, err := w.svc.OpenPortal(ctx, &cloudv1.OpenPortalRequest{})
				cloudtest.Refused(t, err, "PAYMENTS_UNAVAILABLE")
				w.stripe.Faults(nil)
				w.Advance(wait)
				for range 2 {
					_, err := w.svc.OpenPortal(ctx, &cloudv1.OpenPortalRequest{})
					if fault == stripetest.Broken && wait == time.Second {
						cloudtest.Refused(t, err, "PAYMENTS_UNAVAILABLE") // Stripe repeats its answer of 500.
						continue
					}
					no(t, "portal", err)
				}
				if fault == stripetest.Broken && wait == time.Second {
					return
				}
				want(t, "customers", w.stripe.Count("customer"), 1)
			})
		}
	}
}

func TestCustomer_TwoProcessesMakeOne(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, ctx := w.tenant(t, "acme")
		other := start(t, w.Kit, w.stripe.URL)
		var all sync.WaitGroup
		for _, open := range []func(context.Context, *cloudv1.OpenPortalRequest) (*cloudv1.OpenPortalResponse, error){w.svc.OpenPortal, other.OpenPortal, w.svc.OpenPortal} {
			all.Go(func() { _, _ = open(ctx, &cloudv1.OpenPortalRequest{}) })
		}
		all.Wait()
		_, err := w.svc.OpenPortal(ctx, &cloudv1.OpenPortalRequest{})
		no(t, "portal", err)
		want(t, "customers", w.stripe.Count("customer"), 1)
		want(t, "metadata", fmt.Sprint(w.stripe.Show("customer", "metadata")), "[map[tenant_id:"+tn.ID+"]]")
	})
}

func TestCheckout_IsRefusedWhereItMakesNoSense(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, ctx := w.tenant(t, "acme")
	for _, plan := range []string{"", "free", "dedicated", "unlimited", "nonsense"} {
		_, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Plan: plan})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	}
	first, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Plan: "team"})
	no(t, "checkout", err)
	second, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Plan: "team"})
	no(t, "checkout again", err)
	want(t, "the page of whoever asks twice", second.GetUrl(), first.GetUrl())
	// It is paid, and its event has not come yet.
	w.stripe.Pay(first.GetUrl())
	_, err = w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Plan: "business"})
	cloudtest.Refused(t, err, "SUBSCRIBED")
	want(t, "subscriptions", w.stripe.Count("subscription"), 1)
}

// Stripe repeats an answer of 500 to whoever shows the same idempotency key again.
func TestCheckout_AFailureOfStripesIsNotRepeatedForAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, ctx := w.tenant(t, "acme")
	failures := 0
	w.stripe.Faults(func(call string) stripetest.Fault {
		if call == "POST /v1/checkout/sessions" && failures == 0 {
			failures++
			return stripetest.Broken
		}
		return stripetest.None
	})
	r := &cloudv1.StartCheckoutRequest{Tenant: "acme", Plan: "team"}
	first, err := w.svc.StartCheckout(ctx, r)
	no(t, "checkout after a failure", err)
	again, err := w.svc.StartCheckout(ctx, r)
	no(t, "checkout again", err)
	want(t, "page", again.GetUrl(), first.GetUrl())
	want(t, "pages", w.stripe.Count("checkout.session"), 1)
}

func TestCheckout_WithoutACatalogSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, ctx := w.tenant(t, "acme")
	empty := stripetest.New(t, w.Now)
	_, err := start(t, w.Kit, empty.URL).StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Plan: "team"})
	cloudtest.Refused(t, err, "PAYMENTS_NOT_READY")
}

func TestBilling_WithoutAKeyEverythingElseWorks(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		_, ctx := w.tenant(t, "acme")
		s, err := stripe.New(t.Context(), w.Kit, stripe.Options{Plans: plans{w.Kit}})
		no(t, "start", err)
		_, err = s.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Plan: "team"})
		cloudtest.Refused(t, err, "PAYMENTS_OFF")
		_, err = s.OpenPortal(ctx, &cloudv1.OpenPortalRequest{})
		cloudtest.Refused(t, err, "PAYMENTS_OFF")
		got, err := s.GetBilling(ctx, &cloudv1.GetBillingRequest{})
		no(t, "billing", err)
		want(t, "payments", got.GetBilling().GetPayments(), false)
		changed, err := s.UpdateBilling(ctx, &cloudv1.UpdateBillingRequest{Emails: []string{"b@acme.test", "b@acme.test", "a@acme.test"}, Etag: got.GetBilling().GetEtag()})
		no(t, "update", err)
		want(t, "emails", fmt.Sprint(changed.GetBilling().GetEmails()), "[b@acme.test a@acme.test]")
		_, err = s.UpdateBilling(ctx, &cloudv1.UpdateBillingRequest{Etag: got.GetBilling().GetEtag()})
		cloudtest.Refused(t, err, "ETAG_MISMATCH")
		_, err = s.UpdateBilling(ctx, &cloudv1.UpdateBillingRequest{Emails: []string{"nobody"}})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		_, err = s.UpdateBilling(ctx, &cloudv1.UpdateBillingRequest{Emails: make([]string, 11)})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		_, err = s.UpdateBilling(ctx, &cloudv1.UpdateBillingRequest{})
		no(t, "none", err)
	})
}

func TestInvoices_PagesOfStripes(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, sub := w.paying(t, "acme")
		first := w.Now()
		for n := range 5 {
			w.stripe.Renew(sub, first.AddDate(0, n/2, 0), first.AddDate(0, n/2+1, 0), true) // Two begin at the same time.
		}
		w.deliver(t)
		w.Advance(1000 * time.Hour)
		w.Advance(4000 * time.Hour)
		_, ctx := w.again(t, tn)
		var seen []string
		for token := ""; ; {
			res, err := w.svc.ListInvoices(ctx, &cloudv1.ListInvoicesRequest{PageSize: 2, PageToken: token})
			no(t, "list", err)
			for _, i := range res.GetInvoices() {
				seen = append(seen, fmt.Sprint(i.GetPeriodStart().AsTime().Format("2006-01"), " ", i.GetTotal(), " ", i.GetState(), " ", i.GetLines()[0].GetAmount()))
			}
			if token = res.GetNextPageToken(); token == "" {
				break
			}
		}
		want(t, "invoices", strings.Join(seen, ", "), "2027-01 4900 paid 4900, 2026-12 4900 paid 4900, 2026-12 4900 paid 4900, 2026-11 4900 paid 4900, 2026-11 4900 paid 4900, 2026-11 1572 paid 1572")
	})
}

func TestNew_TestAndLiveNeverMix(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // Claimed by a key of the test mode.
	o := options(w.Kit, w.stripe.URL)
	o.Key = "sk_live_other"
	_, err := stripe.New(t.Context(), w.Kit, o)
	if !errors.Is(err, stripe.ErrMode) || !strings.Contains(err.Error(), "first used with a key of the test mode") {
		t.Errorf("got %v", err)
	}
	o = options(w.Kit, w.stripe.URL)
	o.Account = "acct_other"
	if _, err = stripe.New(t.Context(), w.Kit, o); !errors.Is(err, stripe.ErrMode) || !strings.Contains(err.Error(), "now it is used with the test payments acct_other") {
		t.Errorf("the key of another account: got %v", err)
	}
	for what, o := range map[string]stripe.Options{
		"a bad key":           {Key: "pk_test_x", Secrets: []string{secret}},
		"a key alone":         {Key: stripetest.Key},
		"a secret alone":      {Secrets: []string{secret}},
		"plain http":          {Key: stripetest.Key, Secrets: []string{secret}, URL: "http://stripe.example"},
		"a user in the URL":   {Key: stripetest.Key, Secrets: []string{secret}, URL: "https://a:b@stripe.example"},
		"no host":             {Key: stripetest.Key, Secrets: []string{secret}, URL: "https://"},
		"another kind of key": {Key: "whsec_test_x", Secrets: []string{secret}},
	} {
		if _, err := stripe.New(t.Context(), w.Kit, o); err == nil {
			t.Errorf("%s was taken", what)
		} else if strings.Contains(err.Error(), "a:b@") {
			t.Errorf("%s: shows a password: %v", what, err)
		}
	}
}

func TestErrors_NeverShowKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var logged strings.Builder
	k := w.Kit
	k.Log = slog.New(slog.NewTextHandler(&logged, nil))
	o := options(k, w.stripe.URL)
	o.Key = "sk_test_verysecretvalue"
	s, err := stripe.New(t.Context(), k, o)
	no(t, "start", err)
	tn, sub := w.paying(t, "acme")
	w.stripe.Renew(sub, w.Now(), w.Now().AddDate(0, 1, 0), false)
	want(t, "status", post(t, s, w.stripe.Events()[0], w.Now()), 503)
	w.Advance(3 * time.Hour)
	w.close(t, tn.ID, w.hour(-1), 0, store.Counts{JobsEnqueued: 1})
	err = s.Push(t.Context())
	if err == nil || strings.Contains(err.Error()+logged.String(), "verysecretvalue") || logged.Len() == 0 {
		t.Errorf("got %v, logged %s", err, logged.String())
	}
}

func TestInvoices_WithoutPaymentsAreDraftsOfTheLedger(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		s, err := stripe.New(t.Context(), w.Kit, stripe.Options{Plans: plans{w.Kit}})
		no(t, "start", err)
		tn, ctx := w.tenant(t, "acme") // On November 21.
		w.Advance(15 * 24 * time.Hour)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return plans{w.Kit}.SetPlan(ctx, tx, tn.ID, "team", 1) })
		w.close(t, tn.ID, time.Date(2027, 1, 9, 5, 0, 0, 0, time.UTC), 0, store.Counts{JobsEnqueued: 7_500_000})
		w.Advance(70 * 24 * time.Hour) // To February.
		var seen []string
		for token := ""; ; {
			res, err := s.ListInvoices(ctx, &cloudv1.ListInvoicesRequest{PageSize: 2, PageToken: token})
			no(t, "list", err)
			for _, i := range res.GetInvoices() {
				seen = append(seen, fmt.Sprint(i.GetPeriodStart().AsTime().Format("2006-01"), " ", i.GetTotal(), " ", i.GetState(), " ", len(i.GetLines())))
			}
			if token = res.GetNextPageToken(); token == "" {
				break
			}
		}
		// 4900 and 2.5 million jobs at 200 a million; in December 4900 for 615 of 744 hours.
		want(t, "drafts", strings.Join(seen, ", "), "2027-01 5400 draft 5, 2026-12 4050 draft 6, 2026-11 0 draft 1")
	})
}
