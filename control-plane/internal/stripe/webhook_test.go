package stripe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/stripe"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
)

func TestWebhook_APaidCheckoutChangesThePlanOnce(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, ctx := w.tenant(t, "acme")
		page, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Tenant: "acme", Plan: "team"})
		no(t, "checkout", err)
		want(t, "before it is paid", w.standing(t, tn.ID), "free/1 active")
		w.stripe.Pay(page.GetUrl())
		events := w.stripe.Events()
		for _, e := range slices.Concat(events, events) { // Each is sent twice.
			want(t, e.Type, w.stripe.Send(w.webhook, e, secret, w.Now()), 200)
		}
		want(t, "after", w.standing(t, tn.ID), "team/1 active")
		c := w.customer(t, tn.ID)
		want(t, "payment method", c.PaymentMethod, true)
		want(t, "first hour", c.PushFrom, w.hour(0))
		// The tenant chooses another plan later. An event of before must not take it back.
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return plans{w.Kit}.SetPlan(ctx, tx, tn.ID, "business", 1)
		})
		for _, e := range events {
			e.ID += "_late"
			e.Body = bytes.Replace(e.Body, []byte(`"id":"evt_`), []byte(`"id":"evt_late_`), 1)
			want(t, e.Type, w.stripe.Send(w.webhook, e, secret, w.Now()), 200)
		}
		want(t, "after events of before", w.standing(t, tn.ID), "business/1 active")
	})
}

func TestWebhook_TheOrderOfEventsDoesNotMatter(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w, random := newWorld(t), rand.New(rand.NewPCG(seed, 2))
			tn, ctx := w.tenant(t, "acme")
			page, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Tenant: "acme", Plan: "team"})
			no(t, "checkout", err)
			sub := w.stripe.Pay(page.GetUrl())
			unpaid := w.stripe.Renew(sub, w.Now(), w.Now().AddDate(0, 1, 0), false)
			w.stripe.PayInvoice(unpaid)
			w.stripe.Renew(sub, w.Now().AddDate(0, 1, 0), w.Now().AddDate(0, 2, 0), false)
			events := w.stripe.Events()
			events = append(events, events[:3]...)
			random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			for _, e := range events {
				want(t, e.Type, w.stripe.Send(w.webhook, e, secret, w.Now()), 200)
			}
			want(t, "in the end", w.standing(t, tn.ID), "team/1 past_due")
		})
	}
}

func TestWebhook_WhatWasReadBeforeAnotherWroteIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, sub := w.paying(t, "acme")
	invoice := w.stripe.Renew(sub, w.Now(), w.Now().AddDate(0, 1, 0), false)
	first := w.stripe.Events()[0]
	// The first event has read the invoice that is not paid, when it is paid and the event of
	// that is applied.
	reads := 0
	k := w.Kit
	k.Store = &between{Store: k.Store, do: func() {
		if reads++; reads == 1 {
			w.stripe.PayInvoice(invoice)
			w.deliver(t)
		}
	}}
	want(t, "failed", post(t, start(t, k, w.stripe.URL), first, w.Now()), 200)
	want(t, "reads", reads, 2)
	want(t, "then", w.standing(t, tn.ID), "team/1 active")
}

func TestWebhook_WhatIsNotStripesIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, sub := w.paying(t, "acme")
	w.stripe.Renew(sub, w.Now(), w.Now().AddDate(0, 1, 0), false)
	e := w.stripe.Events()[0]
	send := func(e stripetest.Event, header string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.webhook, bytes.NewReader(e.Body))
		no(t, "request", err)
		if header != "" {
			r.Header.Set("Stripe-Signature", header)
		}
		res, err := http.DefaultClient.Do(r)
		no(t, "send", err)
		no(t, "close", res.Body.Close())
		return res.StatusCode
	}
	now := w.Now()
	signed := stripetest.Sign(e.Body, secret, now)
	changed, live, huge := e, e, e
	changed.Body = bytes.Replace(e.Body, []byte("payment_failed"), []byte("payment_failee"), 1)
	live.Body = bytes.Replace(e.Body, []byte(`"livemode":false,"object":"event"`), []byte(`"livemode":true,"object":"event"`), 1)
	if bytes.Equal(live.Body, e.Body) {
		t.Fatal("the event has no mode")
	}
	huge.Body = append(slices.Clone(e.Body), bytes.Repeat([]byte(" "), 300<<10)...)
	for what, c := range map[string]struct {
		event  stripetest.Event
		header string
		status int
	}{
		"no signature":              {e, "", 400},
		"another secret":            {e, stripetest.Sign(e.Body, "whsec_guess", now), 400},
		"an empty secret":           {e, stripetest.Sign(e.Body, "", now), 400},
		"no time":                   {e, signed[strings.Index(signed, "v1="):], 400},
		"another time":              {e, strings.Replace(signed, "t=", "t=1", 1), 400},
		"two times":                 {e, signed + ",t=1", 400},
		"an old one":                {e, stripetest.Sign(e.Body, secret, now.Add(-301*time.Second)), 400},
		"one of the future":         {e, stripetest.Sign(e.Body, secret, now.Add(301*time.Second)), 400},
		"another body":              {changed, signed, 400},
		"the other mode":            {live, stripetest.Sign(live.Body, secret, now), 400},
		"a huge body":               {huge, stripetest.Sign(huge.Body, secret, now), 413},
		"a signature of version 0":  {e, strings.Replace(signed, "v1=", "v0=", 1), 400},
		"many signatures before it": {e, strings.Replace(signed, "v1=", strings.Repeat("v1=00,", 20)+"v1=", 1), 400},
	} {
		want(t, what, send(c.event, c.header), c.status)
	}
	want(t, "standing", w.standing(t, tn.ID), "team/1 active")
	res, err := http.Get(w.webhook)
	no(t, "get", err)
	no(t, "close", res.Body.Close())
	want(t, "GET", res.StatusCode, http.StatusMethodNotAllowed)
	want(t, "the secret of before", send(e, stripetest.Sign(e.Body, oldSecret, now.Add(-299*time.Second))), 200)
	want(t, "standing", w.standing(t, tn.ID), "team/1 past_due")
}

func TestWebhook_AReplayAndAStrangerChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, sub := w.paying(t, "acme")
	invoice := w.stripe.Renew(sub, w.Now(), w.Now().AddDate(0, 1, 0), false)
	failed := w.stripe.Events()
	for _, e := range failed {
		w.stripe.Send(w.webhook, e, secret, w.Now())
	}
	w.stripe.PayInvoice(invoice)
	w.deliver(t)
	w.stripe.Calls()
	for _, e := range failed {
		want(t, "replay", w.stripe.Send(w.webhook, e, secret, w.Now()), 200)
	}
	want(t, "calls upon replays", len(w.stripe.Calls()), 0)
	// A customer of the account that says it is our tenant.
	w.stripe.Stranger(tn.ID)
	w.deliver(t)
	want(t, "calls upon a stranger", len(w.stripe.Calls()), 0)
	want(t, "standing", w.standing(t, tn.ID), "team/1 active")
}

func TestWebhook_WhatFailsIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, sub := w.paying(t, "acme")
	w.stripe.Renew(sub, w.Now(), w.Now().AddDate(0, 1, 0), false)
	e := w.stripe.Events()[0]
	w.stripe.Away(w.Now().Add(time.Minute))
	want(t, "while Stripe is away", w.stripe.Send(w.webhook, e, secret, w.Now()), http.StatusServiceUnavailable)
	w.Advance(time.Hour)
	want(t, "again", w.stripe.Send(w.webhook, e, secret, w.Now()), 200)
	want(t, "standing", w.standing(t, tn.ID), "team/1 past_due")
}

func TestWebhook_ACrashAtAnyStepLosesNoEvent(t *testing.T) {
	t.Parallel()
	for step := 1; ; step++ {
		w := newWorld(t)
		tn, sub := w.paying(t, "acme")
		w.stripe.Renew(sub, w.Now(), w.Now().AddDate(0, 1, 0), false)
		e := w.stripe.Events()[0]
		k := w.Kit
		broken := &breaking{Store: k.Store, left: step + 1}
		k.Store = broken
		s := start(t, k, w.stripe.URL)
		status := post(t, s, e, w.Now())
		if broken.left > 0 {
			want(t, "whole", status, 200)
			break
		}
		want(t, "broken", status, http.StatusServiceUnavailable)
		want(t, "again", w.stripe.Send(w.webhook, e, secret, w.Now()), 200)
		want(t, "standing", w.standing(t, tn.ID), "team/1 past_due")
		want(t, "emails", len(w.Emails(t)), 1)
	}
}

func TestWebhook_WithoutPaymentsThereIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, err := stripe.New(t.Context(), w.Kit, stripe.Options{Plans: plans{w.Kit}})
	no(t, "start", err)
	want(t, "status", post(t, s, stripetest.Event{Body: []byte("{}")}, w.Now()), http.StatusNotFound)
}

func TestWebhook_AnEndedSubscriptionIsThePlanFree(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, sub := w.paying(t, "acme")
		w.Advance(50 * time.Minute)
		w.stripe.End(sub)
		w.deliver(t)
		want(t, "standing", w.standing(t, tn.ID), "free/1 active")
		want(t, "last hour", w.customer(t, tn.ID).PushTo, w.hour(1))
		// And it can be paid for again.
		_, ctx := w.again(t, tn)
		page, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Tenant: "acme", Plan: "business"})
		no(t, "checkout", err)
		w.stripe.Pay(page.GetUrl())
		w.deliver(t)
		want(t, "standing", w.standing(t, tn.ID), "business/1 active")
	})
}

// give makes a plan the tenant's, which Stripe learns at the next pass.
func (w *world) give(t testing.TB, tenantID, plan string) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) error { return plans{w.Kit}.SetPlan(ctx, tx, tenantID, plan, 1) })
}

// The plan was changed here, and the subscription ended before Stripe learned of it.
func TestWebhook_AnEndedSubscriptionIsThePlanFreeWhateverWasChosen(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, sub := w.paying(t, "acme")
		w.give(t, tn.ID, "business")
		w.stripe.End(sub)
		w.deliver(t)
		want(t, "standing", w.standing(t, tn.ID), "free/1 active")
	})
}

func TestWebhook_AnEndedSubscriptionLeavesWhatOnlyOperatorsGive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.paying(t, "acme")
	w.give(t, tn.ID, "dedicated")
	no(t, "follow", w.svc.Follow(t.Context()))
	w.deliver(t)
	want(t, "subscription", w.customer(t, tn.ID).Status, "canceled")
	want(t, "standing", w.standing(t, tn.ID), "dedicated/1 active")
}

// pays is what the change of a plan asks, and whether a payment method is shown.
func (w *world) pays(t testing.TB, tenantID string) (out string) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		pays, err := stripe.Pays(ctx, tx, tenantID)
		has, hasErr := stripe.HasPaymentMethod(ctx, tx, tenantID)
		out = fmt.Sprintf("pays %v, has a payment method %v", pays, has)
		return errors.Join(err, hasErr)
	})
	return out
}

// addCard adds a payment method in the portal.
func (w *world) addCard(t testing.TB, ctx context.Context) {
	t.Helper()
	page, err := w.svc.OpenPortal(ctx, &cloudv1.OpenPortalRequest{Tenant: "acme"})
	no(t, "portal", err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page.GetUrl(), strings.NewReader("do=pm_card_visa"))
	no(t, "request", err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultTransport.RoundTrip(r)
	no(t, "add a card", err)
	no(t, "close", res.Body.Close())
	w.deliver(t)
}

func TestPays_APaymentMethodWithoutASubscriptionPaysNothing(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, ctx := w.tenant(t, "acme")
		want(t, "a stranger", w.pays(t, tn.ID), "pays false, has a payment method false")
		w.addCard(t, ctx)
		want(t, "with a card alone", w.pays(t, tn.ID), "pays false, has a payment method true")
		page, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Tenant: "acme", Plan: "team"})
		no(t, "checkout", err)
		sub := w.stripe.Pay(page.GetUrl())
		w.deliver(t)
		want(t, "subscribed", w.pays(t, tn.ID), "pays true, has a payment method true")
		w.stripe.End(sub)
		w.deliver(t)
		want(t, "ended", w.pays(t, tn.ID), "pays false, has a payment method true")
	})
}
