package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
)

func counts(n int64) store.Counts {
	return store.Counts{JobsEnqueued: n, Executions: 2 * n, PayloadBytes: n << 12, StoredByteHours: n << 20, EgressBytes: n << 10, StreamsPeak: 3}
}

// agree demands that Stripe has of an hour what the ledger has.
func (w *world) agree(t testing.TB, tenantID string, hour time.Time, c store.Counts) {
	t.Helper()
	id := w.customer(t, tenantID).CustomerID
	for event, n := range map[string]int64{
		"corvo_jobs_enqueued": c.JobsEnqueued, "corvo_executions": c.Executions, "corvo_stored_byte_hours": c.StoredByteHours >> 20, "corvo_egress_bytes": c.EgressBytes >> 10,
		"corvo_payload_bytes": 0, "corvo_streams_peak": 0, // No plan has a price for these.
	} {
		want(t, event+" at "+hour.Format(time.RFC3339), w.stripe.Used(event, id, hour), n)
	}
}

// until runs the pushing, with time passing, until everything is done.
func (w *world) until(t testing.TB, push func() error, step time.Duration) {
	t.Helper()
	for range 400 {
		_ = push() // Some fail: that is what the test is about.
		var undone []store.PushCount
		w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
			undone, err = tx.CountBillingPushes(ctx)
			return err
		})
		if len(undone) == 0 {
			return
		}
		w.Advance(step)
	}
	t.Fatal("the pushes don't come to an end")
}

func pushes(t testing.TB, w *world, tenantID string, hour time.Time) (list []store.BillingPush) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = tx.ListBillingPushes(ctx, tenantID, hour, hour.Add(time.Hour))
		return err
	})
	return list
}

func TestPush_SendsClosedHoursAndCorrectionsOnce(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, _ := w.paying(t, "acme")
		hour := w.hour(1)
		w.Advance(2 * time.Hour)
		w.close(t, tn.ID, hour, 0, counts(100))
		no(t, "push", w.svc.Push(t.Context()))
		w.agree(t, tn.ID, hour, counts(100))
		w.stripe.Calls()
		no(t, "push again", w.svc.Push(t.Context()))
		want(t, "events sent again", strings.Count(fmt.Sprint(w.stripe.Calls()), "meter_events"), 0)
		w.close(t, tn.ID, hour, 1, counts(130))
		no(t, "push a correction", w.svc.Push(t.Context()))
		w.agree(t, tn.ID, hour, counts(130))
	})
}

func TestPush_OnlyHoursThatArePaidFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	free, _ := w.tenant(t, "free")
	w.close(t, free.ID, w.hour(-1), 0, counts(7))
	w.Advance(20 * time.Minute)
	tn, sub := w.paying(t, "acme")
	before, first := w.hour(0), w.hour(1)
	w.close(t, tn.ID, before, 0, counts(7))
	w.Advance(2 * time.Hour)
	w.close(t, tn.ID, first, 0, counts(8))
	w.stripe.End(sub)
	w.deliver(t)
	last, after := w.hour(0), w.hour(1)
	w.Advance(3 * time.Hour)
	w.close(t, tn.ID, last, 0, counts(9))
	w.close(t, tn.ID, after, 0, counts(10))
	// The operator gives a plan that has prices; nobody pays for it at Stripe.
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return plans{w.Kit}.SetPlan(ctx, tx, tn.ID, "business", 1)
	})
	given := w.hour(1)
	w.Advance(3 * time.Hour)
	w.close(t, tn.ID, given, 0, counts(11))
	no(t, "push", w.svc.Push(t.Context()))
	w.agree(t, tn.ID, before, counts(0))
	w.agree(t, tn.ID, first, counts(8))
	w.agree(t, tn.ID, last, counts(9))
	w.agree(t, tn.ID, after, counts(0))
	w.agree(t, tn.ID, given, counts(0))
	want(t, "pushes of a tenant that pays nothing", len(pushes(t, w, free.ID, w.hour(-6))), 0)
}

func TestPush_WhateverGetsLostStripeHasEveryHourOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w, random := newWorld(t), rand.New(rand.NewPCG(seed, 1))
			tn, _ := w.paying(t, "acme")
			var mu sync.Mutex
			w.stripe.Faults(func(string) stripetest.Fault {
				mu.Lock()
				defer mu.Unlock()
				if random.IntN(2) == 0 {
					return stripetest.None
				}
				return stripetest.Fault(random.IntN(5))
			})
			ledger := make(map[time.Time]store.Counts)
			for n := range 6 {
				hour := w.hour(n + 1)
				w.Advance(time.Duration(n) * time.Hour)
				ledger[hour] = counts(int64(n + 1))
				w.close(t, tn.ID, hour, 0, ledger[hour])
				_ = w.svc.Push(t.Context())
				ledger[hour] = counts(int64(n + 5))
				w.close(t, tn.ID, hour, 1, ledger[hour])
			}
			mu.Lock()
			step := []time.Duration{time.Minute, 5 * time.Hour, 25 * time.Hour}[random.IntN(3)]
			mu.Unlock()
			w.until(t, func() error { return w.svc.Push(t.Context()) }, step)
			for hour, c := range ledger {
				if !slices.ContainsFunc(pushes(t, w, tn.ID, hour), func(p store.BillingPush) bool { return p.Kind == "item" }) {
					w.agree(t, tn.ID, hour, c)
				}
			}
		})
	}
}

func TestPush_AfterADayStripeIsAskedAndNotCalledBlindly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.paying(t, "acme")
	hour := w.hour(1)
	w.Advance(2 * time.Hour)
	w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 5, Executions: 6})
	// The first arrives, the second doesn't; nobody learns either.
	w.stripe.Faults(func(call string) stripetest.Fault {
		if strings.HasSuffix(call, "meter_events") {
			return stripetest.LoseAnswer
		}
		return stripetest.None
	})
	if w.svc.Push(t.Context()) == nil {
		t.Fatal("a lost answer was no problem")
	}
	w.stripe.Away(w.Now().Add(48 * time.Hour))
	for range 47 {
		w.Advance(time.Hour)
		_ = w.svc.Push(t.Context())
	}
	w.stripe.Faults(nil)
	w.Advance(2 * time.Hour)
	w.stripe.Calls()
	no(t, "push", w.svc.Push(t.Context()))
	calls := fmt.Sprint(w.stripe.Calls())
	w.agree(t, tn.ID, hour, store.Counts{JobsEnqueued: 5, Executions: 6})
	want(t, "events sent: "+calls, strings.Count(calls, "POST /v1/billing/meter_events"), 1)
	if !strings.Contains(calls, "event_summaries") {
		t.Error("Stripe wasn't asked")
	}
}

func TestPush_WhatCantBeToldApartIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.paying(t, "acme")
	hour := w.hour(1)
	w.Advance(2 * time.Hour)
	w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 5})
	w.stripe.Faults(func(call string) stripetest.Fault {
		if strings.HasSuffix(call, "meter_events") {
			return stripetest.Drop
		}
		return stripetest.None
	})
	_ = w.svc.Push(t.Context())
	w.stripe.Faults(nil)
	id := w.customer(t, tn.ID).CustomerID
	w.stripe.Spoil("corvo_jobs_enqueued", id, hour, 3)
	w.Advance(24 * time.Hour)
	_ = w.svc.Push(t.Context())
	want(t, "sum", w.stripe.Used("corvo_jobs_enqueued", id, hour), 3)
	want(t, "state", pushes(t, w, tn.ID, hour)[0].State, "differs")
	w.close(t, tn.ID, hour, 1, store.Counts{JobsEnqueued: 9})
	_ = w.svc.Push(t.Context())
	want(t, "sum after a correction", w.stripe.Used("corvo_jobs_enqueued", id, hour), 3)
	// An operator takes the foreign usage away; the comparison of the day notices.
	w.stripe.Spoil("corvo_jobs_enqueued", id, hour, -3)
	w.Advance(time.Hour)
	_, err := w.svc.Compare(t.Context())
	no(t, "compare", err)
	no(t, "push", w.svc.Push(t.Context()))
	want(t, "sum in the end", w.stripe.Used("corvo_jobs_enqueued", id, hour), 9)
}

func TestPush_OlderThan35DaysIsAnInvoiceItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.paying(t, "acme")
	hour := w.hour(1)
	w.Advance(2 * time.Hour)
	w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 5_000_000})
	no(t, "push", w.svc.Push(t.Context()))
	w.Advance(35 * 24 * time.Hour)
	w.close(t, tn.ID, hour, 1, store.Counts{JobsEnqueued: 7_500_000, Executions: 3})
	lost := 0
	w.stripe.Faults(func(call string) stripetest.Fault {
		if call == "POST /v1/invoiceitems" && lost < 3 {
			lost++
			return stripetest.LoseAnswer
		}
		return stripetest.None
	})
	w.until(t, func() error { return w.svc.Push(t.Context()) }, 12*time.Hour)
	// 5 million are included in a month, and a million costs $2.
	want(t, "items", fmt.Sprint(w.stripe.Show("invoiceitem", "amount")), "[500]")
	w.agree(t, tn.ID, hour, store.Counts{JobsEnqueued: 5_000_000})
	list := pushes(t, w, tn.ID, hour)
	want(t, "pushes", len(list), 3)
	for _, p := range list {
		want(t, p.Meter+" state", p.State, "done")
	}
}

func TestPush_WhatIsLateForItsInvoiceIsAnItemOfTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, sub := w.paying(t, "acme")
	hour := w.hour(1)
	w.Advance(2 * time.Hour)
	w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 5_000_000})
	no(t, "push", w.svc.Push(t.Context()))
	w.Advance(24 * time.Hour)
	w.stripe.Renew(sub, hour.Add(-time.Hour), w.Now(), true)
	w.deliver(t)
	w.close(t, tn.ID, hour, 1, store.Counts{JobsEnqueued: 6_000_000})
	no(t, "push", w.svc.Push(t.Context()))
	want(t, "items", fmt.Sprint(w.stripe.Show("invoiceitem", "amount")), "[200]")
	w.agree(t, tn.ID, hour, store.Counts{JobsEnqueued: 5_000_000})
}

// What is included in a month is used up by one of them, not by each.
func TestPush_LateItemsOfAMonthCostWhatTheMonthDoes(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, sub := w.paying(t, "acme")
		hour := w.hour(1)
		w.Advance(4 * time.Hour)
		w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 1_000_000})
		no(t, "push", w.svc.Push(t.Context()))
		w.Advance(24 * time.Hour)
		w.stripe.Renew(sub, hour.Add(-time.Hour), w.Now(), true)
		w.deliver(t)
		w.close(t, tn.ID, hour, 1, store.Counts{JobsEnqueued: 2_000_000})
		w.close(t, tn.ID, hour.Add(time.Hour), 0, store.Counts{JobsEnqueued: 1_000_000})
		w.close(t, tn.ID, hour.Add(2*time.Hour), 0, store.Counts{JobsEnqueued: 1_000_000})
		other := start(t, w.Kit, w.stripe.URL)
		var all sync.WaitGroup
		for _, push := range []func(context.Context) error{w.svc.Push, other.Push} {
			all.Go(func() { _ = push(t.Context()) }) // What one doesn't do is done below.
		}
		all.Wait()
		w.until(t, func() error { return w.svc.Push(t.Context()) }, time.Minute)
		// Of a month 5 million are included, of its last 231 of 720 hours 1,604,167; of 4 million
		// the rest costs $2 a million.
		var sum int64
		for _, amount := range w.stripe.Show("invoiceitem", "amount") {
			n, err := strconv.ParseInt(fmt.Sprint(amount), 10, 64)
			no(t, "amount", err)
			sum += n
		}
		want(t, "sum of the items", sum, 479)
	})
}

// A write that lost a race is run again, and what an item costs has changed since.
func TestPush_AnItemIsPricedAgainAfterALostRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.paying(t, "acme")
	hour := w.hour(1)
	w.Advance(40 * 24 * time.Hour)
	w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 1_600_000}) // 1,604,167 are included.
	k := w.Kit
	race := &racing{Store: k.Store}
	k.Store = race
	s := start(t, k, w.stripe.URL)
	race.winner = func() {
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			at := hour.Add(time.Hour)
			return tx.InsertBillingPush(ctx, store.BillingPush{TenantID: tn.ID, Meter: "jobs_enqueued", Hour: at, Identifier: "winner", Kind: "item", State: "done",
				Value: 1_600_000, Currency: "usd", FirstSentAt: w.Now(), DueAt: w.Now(), Attempts: 1, CreatedAt: w.Now(), DoneAt: w.Now()})
		})
	}
	no(t, "push", s.Push(t.Context()))
	want(t, "items", fmt.Sprint(w.stripe.Show("invoiceitem", "amount")), "[319]")
}

// Stripe takes an event for a month whose invoice is final, and puts it on no invoice. So what is
// late is sent only after Stripe was asked for invoices: the event that tells of one may be lost.
func TestPush_AnInvoiceOfWhichNobodyToldCountsToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, sub := w.paying(t, "acme")
	hour := w.hour(1)
	w.Advance(2 * time.Hour)
	w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 5_000_000})
	no(t, "push", w.svc.Push(t.Context()))
	w.stripe.Away(w.Now().Add(24 * time.Hour))
	w.close(t, tn.ID, hour, 1, store.Counts{JobsEnqueued: 6_000_000})
	if w.svc.Push(t.Context()) == nil {
		t.Fatal("Stripe is away, and something was sent")
	}
	w.Advance(25 * time.Hour)
	w.stripe.Renew(sub, hour.Add(-time.Hour), w.Now(), true)
	w.stripe.Events() // Lost.
	w.until(t, func() error { return w.svc.Push(t.Context()) }, time.Hour)
	want(t, "items", fmt.Sprint(w.stripe.Show("invoiceitem", "amount")), "[200]")
	w.agree(t, tn.ID, hour, store.Counts{JobsEnqueued: 5_000_000})
}

// An event whose answer was lost may be on the invoice that was made since, or not: it isn't
// sent again, Stripe is asked.
func TestPush_WhatWasOnItsWayWhenItsInvoiceWasMade(t *testing.T) {
	t.Parallel()
	for fault, items := range map[stripetest.Fault]string{stripetest.Drop: "[200]", stripetest.LoseAnswer: "[]"} {
		w := newWorld(t)
		tn, sub := w.paying(t, "acme")
		hour := w.hour(1)
		w.Advance(2 * time.Hour)
		w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 5_000_000})
		no(t, "push", w.svc.Push(t.Context()))
		w.close(t, tn.ID, hour, 1, store.Counts{JobsEnqueued: 6_000_000})
		w.stripe.Faults(func(call string) stripetest.Fault {
			if call == "POST /v1/billing/meter_events" {
				return fault
			}
			return stripetest.None
		})
		if w.svc.Push(t.Context()) == nil {
			t.Fatal("no answer, and no error")
		}
		w.stripe.Faults(nil)
		w.Advance(3 * time.Hour)
		w.stripe.Renew(sub, hour.Add(-time.Hour), w.Now(), true)
		w.stripe.Events() // Lost.
		w.stripe.Calls()
		no(t, "push", w.svc.Push(t.Context()))
		if calls := w.stripe.Calls(); slices.Contains(calls, "POST /v1/billing/meter_events") {
			t.Errorf("an event was sent for an invoice that is final: %v", calls)
		}
		w.until(t, func() error { return w.svc.Push(t.Context()) }, time.Hour)
		want(t, "items", fmt.Sprint(w.stripe.Show("invoiceitem", "amount")), items)
		sent := int64(5_000_000)
		if fault == stripetest.LoseAnswer {
			sent = 6_000_000
		}
		w.agree(t, tn.ID, hour, store.Counts{JobsEnqueued: sent})
	}
}

// A draft becomes final an hour after it was made, and nobody tells at that moment.
func TestPush_ADraftThatIsAboutToBeFinalCountsAsFinal(t *testing.T) {
	t.Parallel()
	for age, items := range map[time.Duration]string{30 * time.Minute: "[]", 55 * time.Minute: "[200]"} {
		w := newWorld(t)
		tn, sub := w.paying(t, "acme")
		hour := w.hour(1)
		w.Advance(5 * time.Hour)
		w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 5_000_000})
		no(t, "push", w.svc.Push(t.Context()))
		w.stripe.Draft(sub, hour.Add(-time.Hour), w.Now())
		w.Advance(age)
		w.close(t, tn.ID, hour, 1, store.Counts{JobsEnqueued: 6_000_000})
		no(t, "push", w.svc.Push(t.Context()))
		want(t, "items", fmt.Sprint(w.stripe.Show("invoiceitem", "amount")), items)
	}
}

// dueMax is how many pushes are read at a time.
const dueMax = 200

// closeMany closes so many hours of a tenant, the last of which is over for an hour.
func (w *world) closeMany(t testing.TB, tenantID string) {
	t.Helper()
	first := w.hour(1)
	w.Advance((dueMax + 2) * time.Hour)
	for n := range dueMax {
		w.close(t, tenantID, first.Add(time.Duration(n)*time.Hour), 0, store.Counts{JobsEnqueued: 1})
	}
}

// What can't be sent for one customer is put off, however much it is: the others' is sent.
func TestPush_ATenantWhoseInvoicesAreRefusedIsNotTheOthersProblem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad, _ := w.paying(t, "bad")
	good, _ := w.paying(t, "good")
	w.closeMany(t, bad.ID)
	w.stripe.Faults(func(call string) stripetest.Fault {
		if call == "GET /v1/invoices" {
			return stripetest.Broken
		}
		return stripetest.None
	})
	w.stripe.Calls()
	if w.svc.Push(t.Context()) == nil {
		t.Error("invoices were refused, and there was no problem")
	}
	looks := strings.Count(fmt.Sprint(w.stripe.Calls()), "GET /v1/invoices")
	if looks > 10 { // The client repeats what failed at Stripe.
		t.Errorf("Stripe was asked %d times for the invoices that it refuses", looks)
	}
	w.Advance(time.Minute)
	hour := w.hour(-1) // On time, so that nobody looks at invoices.
	w.close(t, good.ID, hour, 0, store.Counts{JobsEnqueued: 7})
	_ = w.svc.Push(t.Context()) // The first tenant's may fail.
	w.agree(t, good.ID, hour, store.Counts{JobsEnqueued: 7})
}

// A row of ours that is missing or broken is one tenant's problem as well.
func TestPush_ATenantThatCantBePricedIsNotTheOthersProblem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad, _ := w.paying(t, "bad")
	good, _ := w.paying(t, "good")
	w.closeMany(t, bad.ID)
	w.stripe.Away(w.Now().Add(time.Minute))
	_ = w.svc.Push(t.Context()) // Written down, and not sent.
	w.Advance(40 * 24 * time.Hour)
	w.Service(t, func(ctx context.Context, tx *store.Tx) error { // A plan that isn't there, in a month that is past.
		return tx.PutSubscriptionChange(ctx, store.SubscriptionChange{TenantID: bad.ID, At: w.Now().Add(-39 * 24 * time.Hour), Plan: "gone", PlanVersion: 7})
	})
	if w.svc.Push(t.Context()) == nil {
		t.Error("nothing could be priced, and there was no problem")
	}
	w.Advance(time.Minute)
	hour := w.hour(-1)
	w.close(t, good.ID, hour, 0, store.Counts{JobsEnqueued: 7})
	_ = w.svc.Push(t.Context())
	w.agree(t, good.ID, hour, store.Counts{JobsEnqueued: 7})
}

func TestPush_ATenantWithoutACustomerIsNotTheOthersProblem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad, _ := w.tenant(t, "bad")
	good, _ := w.paying(t, "good")
	w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
		for n := range dueMax {
			p := store.BillingPush{TenantID: bad.ID, Meter: "jobs_enqueued", Hour: w.hour(-n), Identifier: fmt.Sprint(n), Kind: "event", State: "open", Value: 1, DueAt: w.Now(), CreatedAt: w.Now()}
			err = errors.Join(err, tx.InsertBillingPush(ctx, p))
		}
		return err
	})
	hour := w.hour(1)
	w.Advance(2 * time.Hour)
	w.close(t, good.ID, hour, 0, store.Counts{JobsEnqueued: 7})
	if w.svc.Push(t.Context()) == nil {
		t.Error("there is no customer, and no problem")
	}
	w.agree(t, good.ID, hour, store.Counts{JobsEnqueued: 7})
}

// Stripe repeats an answer of 500 to whoever shows the same key.
func TestPush_AnItemThatStripeFailedAtHasANewKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.paying(t, "acme")
	hour := w.hour(1)
	w.Advance(40 * 24 * time.Hour)
	w.close(t, tn.ID, hour, 0, store.Counts{JobsEnqueued: 6_000_000})
	failed := 0
	w.stripe.Faults(func(call string) stripetest.Fault {
		if call != "POST /v1/invoiceitems" || failed == 2 {
			return stripetest.None
		}
		failed++
		return stripetest.Broken
	})
	for range 4 {
		_ = w.svc.Push(t.Context()) // It fails twice.
		w.Advance(30 * time.Minute)
	}
	want(t, "failures", failed, 2)
	want(t, "items", w.stripe.Count("invoiceitem"), 1)
}

// failing is a store whose third write behind the ledger fails, every time.
type failing struct {
	store.Store
	writes int
}

func (f *failing) Follow(ctx context.Context, do func(*store.Tx) error) error {
	if f.writes++; f.writes%3 == 0 {
		return errCrash
	}
	return f.Store.Follow(ctx, do)
}

// After an outage there is more in the ledger than one pass gets through.
func TestPush_GoesOnInTheLedgerWhereItWasCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.paying(t, "acme")
	const hours = 180
	first := w.hour(1)
	for n := range hours {
		w.close(t, tn.ID, first.Add(time.Duration(n)*time.Hour), 0, counts(1))
	}
	w.Advance((hours + 2) * time.Hour)
	k := w.Kit
	k.Store = &failing{Store: k.Store}
	s := start(t, k, w.stripe.URL)
	for range 6 {
		_ = s.Push(t.Context()) // Cut off.
	}
	w.agree(t, tn.ID, first, counts(1))
	w.agree(t, tn.ID, first.Add((hours-1)*time.Hour), counts(1))
}

func TestPush_TwoProcessesSendOnce(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		tn, _ := w.paying(t, "acme")
		hour := w.hour(1)
		w.Advance(3 * time.Hour)
		w.close(t, tn.ID, hour, 0, counts(11))
		w.close(t, tn.ID, hour.Add(time.Hour), 0, counts(12))
		other := start(t, w.Kit, w.stripe.URL)
		var all sync.WaitGroup
		for _, push := range []func(context.Context) error{w.svc.Push, other.Push, w.svc.Push, other.Push} {
			all.Go(func() { _ = push(t.Context()) })
		}
		all.Wait()
		w.until(t, func() error { return w.svc.Push(t.Context()) }, time.Minute)
		w.agree(t, tn.ID, hour, counts(11))
		w.agree(t, tn.ID, hour.Add(time.Hour), counts(12))
	})
}

func TestPush_AProcessThatCrashesAtAnyStepBillsTheSame(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for _, wait := range []time.Duration{time.Minute, 25 * time.Hour} {
			t.Run(fmt.Sprintf("kept %v, back after %v", after, wait), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				tn, _ := w.paying(t, "acme")
				ledger := make(map[time.Time]store.Counts)
				for step := 1; ; step++ {
					hour := w.hour(1)
					w.Advance(3 * time.Hour)
					w.close(t, tn.ID, hour, 0, counts(int64(step)))
					k := w.Kit
					broken := &breaking{Store: k.Store, left: step + 1, after: after} // The first is of New.
					k.Store = broken
					err := start(t, k, w.stripe.URL).Push(t.Context())
					if broken.left > 0 {
						no(t, "a whole push", err)
						break
					}
					if step > 20 {
						t.Fatal("the steps don't come to an end")
					}
					w.Advance(wait)
					ledger[hour] = counts(int64(step + 3))
					w.close(t, tn.ID, hour, 1, ledger[hour])
					w.until(t, func() error { return start(t, w.Kit, w.stripe.URL).Push(t.Context()) }, wait)
				}
				if len(ledger) < 9 {
					t.Fatalf("only %d steps", len(ledger))
				}
				for hour, c := range ledger {
					w.agree(t, tn.ID, hour, c)
				}
			})
		}
	}
}

func TestPush_AMeterThatStripeLacksIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, _ := w.paying(t, "acme")
	// Another account of Stripe's, whose catalog nobody has made.
	empty := stripetest.New(t, w.Now)
	w.Advance(3 * time.Hour)
	w.close(t, tn.ID, w.hour(-1), 0, counts(1))
	err := start(t, w.Kit, empty.URL).Push(t.Context())
	if err == nil || !strings.Contains(err.Error(), "run corvo-cloud control stripe sync") {
		t.Errorf("got %v", err)
	}
	if errors.Is(err, errCrash) {
		t.Error("crashed")
	}
}
