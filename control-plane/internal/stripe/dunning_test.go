package stripe_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const week = 7 * 24 * time.Hour

// owing is a tenant whose invoice failed.
func (w *world) owing(t testing.TB) (tn store.Tenant, invoice string) {
	t.Helper()
	tn, sub := w.paying(t, "acme")
	invoice = w.stripe.Renew(sub, w.Now(), w.Now().AddDate(0, 1, 0), false)
	w.deliver(t)
	return tn, invoice
}

func (w *world) subjects(t testing.TB) string {
	t.Helper()
	var out []string
	for _, m := range w.Emails(t) {
		out = append(out, m.To+": "+m.Subject)
	}
	return strings.Join(out, "\n")
}

func TestDunning_StepsOfAWeekWithAnEmailEach(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, ctx := w.tenant(t, "acme")
		_, err := w.svc.UpdateBilling(ctx, &cloudv1.UpdateBillingRequest{Tenant: "acme", Emails: []string{"money@acme.test"}})
		no(t, "contacts", err)
		page, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Tenant: "acme", Plan: "team"})
		no(t, "checkout", err)
		sub := w.stripe.Pay(page.GetUrl())
		invoice := w.stripe.Renew(sub, w.Now(), w.Now().AddDate(0, 1, 0), false)
		w.deliver(t)
		step := func(after time.Duration, state, subject string) {
			t.Helper()
			w.Advance(after)
			for range 2 { // Once is enough, twice is no more.
				no(t, "remind", w.svc.Remind(t.Context()))
			}
			want(t, "state", w.standing(t, tn.ID), "team/1 "+state)
			if subject != "" {
				subject = "owner@acme.test: " + subject + "\nmoney@acme.test: " + subject
			}
			want(t, "emails", w.subjects(t), subject)
		}
		step(0, "past_due", "A payment for acme failed")
		step(week-time.Minute, "past_due", "")
		step(time.Minute, "restricted", "acme is restricted until its invoice is paid")
		step(week-time.Minute, "restricted", "")
		step(time.Minute, "suspended", "acme is suspended until its invoice is paid")
		step(3*week, "suspended", "")
		w.stripe.PayInvoice(invoice)
		w.deliver(t)
		step(0, "active", "The invoice of acme is paid")
	})
}

func TestDunning_APaymentWhoseEventWasLostIsNoticedBeforeTheNextStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, invoice := w.owing(t)
	w.stripe.PayInvoice(invoice)
	w.stripe.Events() // Nobody gets them.
	w.Advance(week)
	no(t, "remind", w.svc.Remind(t.Context()))
	want(t, "state", w.standing(t, tn.ID), "team/1 active")
}

func TestDunning_NoStepWhileStripeCantBeAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.owing(t)
	w.stripe.Away(w.Now().Add(2 * week))
	w.Advance(week)
	if w.svc.Remind(t.Context()) == nil {
		t.Error("no problem")
	}
	want(t, "state", w.standing(t, tn.ID), "team/1 past_due")
}

func TestDunning_TwoProcessesTakeOneStep(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, _ := w.owing(t)
		w.Emails(t)
		w.Advance(week)
		other := start(t, w.Kit, w.stripe.URL)
		var all sync.WaitGroup
		for _, remind := range []func(context.Context) error{w.svc.Remind, other.Remind, w.svc.Remind} {
			all.Go(func() { _ = remind(t.Context()) })
		}
		all.Wait()
		no(t, "remind", w.svc.Remind(t.Context()))
		want(t, "state", w.standing(t, tn.ID), "team/1 restricted")
		want(t, "emails", w.subjects(t), "owner@acme.test: acme is restricted until its invoice is paid")
	})
}

func TestDunning_ACrashAtAnyStepIsMadeUpFor(t *testing.T) {
	t.Parallel()
	for step := 1; ; step++ {
		w := newWorld(t)
		tn, _ := w.owing(t)
		w.Emails(t)
		w.Advance(week)
		k := w.Kit
		broken := &breaking{Store: k.Store, left: step + 1}
		k.Store = broken
		_ = start(t, k, w.stripe.URL).Remind(t.Context())
		no(t, "remind", w.svc.Remind(t.Context()))
		want(t, "state", w.standing(t, tn.ID), "team/1 restricted")
		want(t, "emails", len(w.Emails(t)), 1)
		if broken.left > 0 {
			break
		}
	}
}

func TestDunning_AnInvoiceGivenUpIsStillOwed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.owing(t)
	w.stripe.GiveUp()
	w.deliver(t)
	want(t, "state", w.standing(t, tn.ID), "free/1 past_due")
	w.Advance(week)
	no(t, "remind", w.svc.Remind(t.Context()))
	want(t, "state", w.standing(t, tn.ID), "free/1 restricted")
}

func TestFollow_CarriesThePlanThatWasChosenHere(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, _ := w.paying(t, "acme")
		choose := func(plan string) {
			t.Helper()
			w.Service(t, func(ctx context.Context, tx *store.Tx) error { return plans{w.Kit}.SetPlan(ctx, tx, tn.ID, plan, 1) })
		}
		choose("business")
		w.stripe.Faults(loseFirst("POST"))
		if w.svc.Follow(t.Context()) == nil {
			t.Error("a lost answer was no problem")
		}
		w.stripe.Faults(nil)
		no(t, "follow", w.svc.Follow(t.Context()))
		no(t, "follow again", w.svc.Follow(t.Context()))
		want(t, "metadata", fmt.Sprint(w.stripe.Show("subscription", "metadata")), "[map[plan:business plan_version:1 tenant_id:"+tn.ID+"]]")
		want(t, "the customer's plan", w.customer(t, tn.ID).Plan, "business")
		w.deliver(t)
		want(t, "standing", w.standing(t, tn.ID), "business/1 active")
		choose("free")
		no(t, "follow", w.svc.Follow(t.Context()))
		want(t, "status", fmt.Sprint(w.stripe.Show("subscription", "status")), "[canceled]")
		w.deliver(t)
		want(t, "standing", w.standing(t, tn.ID), "free/1 active")
	})
}
