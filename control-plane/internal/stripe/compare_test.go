package stripe_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/stripe"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
)

func differences(list []store.BillingDifference) string {
	var out []string
	for _, d := range list {
		out = append(out, fmt.Sprint(d.Meter, " ", d.Day.Format(time.DateOnly), " ", d.Ledger, " ", d.Pushed, " ", d.Summed))
	}
	return strings.Join(out, "\n")
}

func TestCompare_FindsWhatDoesntAgreeUntilItDoes(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		var logged strings.Builder
		k := w.Kit
		k.Log = slog.New(slog.NewTextHandler(&logged, nil))
		s := start(t, k, w.stripe.URL)
		tn, _ := w.paying(t, "acme")
		hour := w.hour(1)
		w.Advance(3 * time.Hour)
		w.close(t, tn.ID, hour, 0, counts(10))
		w.close(t, tn.ID, hour.Add(time.Hour), 0, counts(20))
		no(t, "push", s.Push(t.Context()))
		w.Advance(24 * time.Hour)
		found, err := s.Compare(t.Context())
		no(t, "compare", err)
		want(t, "differences", differences(found), "")
		id := w.customer(t, tn.ID).CustomerID
		w.stripe.Spoil("corvo_executions", id, hour, 5)
		w.Advance(time.Hour)
		found, err = s.Compare(t.Context())
		no(t, "compare", err)
		want(t, "differences", differences(found), "executions 2026-11-21 60 60 65")
		if !strings.Contains(logged.String(), "level=ERROR") || !strings.Contains(logged.String(), "don't agree") {
			t.Errorf("logged %s", logged.String())
		}
		w.stripe.Spoil("corvo_executions", id, hour, -5)
		w.Advance(time.Hour)
		found, err = s.Compare(t.Context())
		no(t, "compare", err)
		want(t, "differences", differences(found), "")
	})
}

func TestCompare_NoticesWhatStripeNeverCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.paying(t, "acme")
	hour := w.hour(1)
	w.Advance(3 * time.Hour)
	w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 7})
	no(t, "push", w.svc.Push(t.Context()))
	w.stripe.Spoil("corvo_jobs_enqueued", w.customer(t, tn.ID).CustomerID, hour, -7)
	w.Advance(24 * time.Hour)
	found, err := w.svc.Compare(t.Context())
	no(t, "compare", err)
	want(t, "differences", differences(found), "jobs_enqueued 2026-11-21 7 7 0")
}

func TestCompare_SendsHoursThatWerePassedBy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.paying(t, "acme")
	hour := w.hour(1)
	w.Advance(3 * time.Hour)
	w.close(t, tn.ID, hour, 0, counts(4))
	w.Advance(time.Hour)
	// The position has moved on without the hour.
	no(t, "push", start(t, w.Kit, w.stripe.URL).Push(t.Context()))
	w.close(t, tn.ID, hour, 1, counts(9))
	w.Advance(24 * time.Hour)
	other, _ := w.tenant(t, "other")
	w.close(t, other.ID, hour, 0, counts(1))
	_, err := w.svc.Compare(t.Context())
	no(t, "compare", err)
	no(t, "push", w.svc.Push(t.Context()))
	w.agree(t, tn.ID, hour, counts(9))
}

func TestDaily_APaymentWhoseEventWasLostIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, invoice := w.owing(t)
	w.stripe.PayInvoice(invoice)
	w.stripe.Events()
	no(t, "daily", w.svc.Daily(t.Context()))
	want(t, "state", w.standing(t, tn.ID), "team/1 active")
}

func TestDaily_OneTenantsProblemIsNotTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, _ := w.paying(t, "one")
	two, invoice := w.owing(t)
	w.stripe.PayInvoice(invoice)
	w.stripe.Events()
	bad := w.customer(t, one.ID).CustomerID
	w.stripe.Faults(func(call string) stripetest.Fault {
		if call == "GET /v1/customers/"+bad {
			return stripetest.Broken
		}
		return stripetest.None
	})
	if err := w.svc.Daily(t.Context()); err == nil {
		t.Error("no problem")
	}
	want(t, "state", w.standing(t, two.ID), "team/1 active")
}

// An operator who asks needn't wait for tomorrow; who asks twice gets one comparison.
func TestDaily_ComparesAgainWhenSomebodyAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	compared := func() stripe.Comparison {
		var c stripe.Comparison
		w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
			c, err = stripe.Compared(ctx, tx)
			return err
		})
		return c
	}
	want(t, "before", compared(), stripe.Comparison{})
	daily := func() time.Time {
		w.Advance(time.Minute)
		no(t, "daily", w.svc.Daily(t.Context()))
		return compared().At
	}
	ask := func() {
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return stripe.AskToCompare(ctx, tx, w.Now()) })
	}
	first := daily()
	want(t, "once a day", daily(), first)
	w.Advance(time.Second)
	ask()
	ask()
	want(t, "somebody waits", compared().Asked.IsZero(), false)
	second := daily()
	want(t, "again", second.After(first), true)
	want(t, "nobody waits", compared().Asked.IsZero(), true)
	want(t, "once", daily(), second)
}

// A round that is cut off goes on with the customer after the last one, and comes to its end.
func TestDaily_GoesOnWhereItWasCutOff(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const tenants = 7
		for i := range tenants {
			w.paying(t, fmt.Sprintf("tenant-%d", i))
		}
		w.stripe.Calls()
		looks, away := 0, false
		w.stripe.Faults(func(call string) stripetest.Fault {
			if call != "GET /v1/subscriptions" {
				return stripetest.None
			}
			if looks++; away {
				return stripetest.Drop
			}
			away = looks == 4
			return stripetest.None
		})
		if err := w.svc.Daily(t.Context()); err == nil {
			t.Error("Stripe was away, and there was no problem")
		}
		want(t, "looks until it was clear that Stripe is away", looks, 4+3)
		looks, away = 0, false
		w.stripe.Faults(func(call string) stripetest.Fault {
			if call == "GET /v1/subscriptions" {
				looks++
			}
			return stripetest.None
		})
		no(t, "daily", w.svc.Daily(t.Context()))
		want(t, "looks after it", looks, tenants-4)
		no(t, "daily", w.svc.Daily(t.Context()))
		want(t, "looks at the end", looks, tenants-4)
	})
}
