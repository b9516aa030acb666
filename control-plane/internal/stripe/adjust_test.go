package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
)

// payer is a tenant that pays for some months, and what its ledger has.
type payer struct {
	*world
	t        *testing.T
	tenantID string
	sub      string
	from     time.Time // The first hour that is charged.
	hours    map[time.Time]store.Counts
	plans    []bill.Segment // Those that began, each without its end.
	unsent   []stripetest.Event
}

func newPayer(t *testing.T, w *world) *payer {
	tn, sub := w.paying(t, "acme")
	return payerOf(t, w, tn, sub)
}

func payerOf(t *testing.T, w *world, tn store.Tenant, sub string) *payer {
	p := &payer{world: w, t: t, tenantID: tn.ID, sub: sub, hours: make(map[time.Time]store.Counts)}
	p.from = p.customer(t, tn.ID).PushFrom
	p.plan("team", 1)
	return p
}

// plan notes which plan the hours from the next one on are paid by.
func (p *payer) plan(name string, version int64) {
	var v store.PlanVersion
	p.Service(p.t, func(ctx context.Context, tx *store.Tx) (err error) {
		v, err = tx.GetPlan(ctx, name, version)
		return err
	})
	b := bill.Plan{Name: v.Plan, Version: int32(v.Version), BaseAmount: v.BaseAmount}
	for _, r := range v.Prices {
		b.Prices = append(b.Prices, bill.Price{Meter: r.Meter, Included: r.Included, Per: r.Per, Amount: r.Amount})
	}
	p.plans = append(p.plans, bill.Segment{From: bill.Hourly(p.Now()), Plan: b})
}

// change makes the plan another one at once.
func (p *payer) change(name string, version int64) {
	p.t.Helper()
	p.Service(p.t, func(ctx context.Context, tx *store.Tx) error {
		return plans{p.Kit}.SetPlan(ctx, tx, p.tenantID, name, version)
	})
	p.plan(name, version)
}

// use writes what was counted in an hour, or corrects it.
func (p *payer) use(hour time.Time, revision int64, c store.Counts) {
	p.t.Helper()
	p.close(p.t, p.tenantID, hour, revision, c)
	p.hours[hour] = c
}

// closed says that all hours before one are final.
func (p *payer) closed(to time.Time) {
	p.t.Helper()
	p.Service(p.t, func(ctx context.Context, tx *store.Tx) error {
		return tx.PutUsageClosing(ctx, store.UsageClosing{Cell: "test", Hour: to.Unix() / 3600, ClosedAt: p.Now()})
	})
}

// pass lets an amount of time go by, minute by minute where it counts.
func (p *payer) pass(by time.Duration) {
	p.t.Helper()
	p.Advance(by)
	p.stripe.Pass()
	var again []stripetest.Event
	for _, e := range append(p.unsent, p.stripe.Events()...) {
		if p.stripe.Send(p.webhook, e, secret, p.Now()) != 200 {
			again = append(again, e)
		}
	}
	p.unsent = again
	_ = p.svc.Pass(p.t.Context()) // What fails, the next one makes up for.
}

// turn is the first hours of a month, in which the last one is closed and invoiced.
func (p *payer) turn() {
	p.t.Helper()
	month := bill.Month(p.Now()).End
	p.pass(month.Sub(p.Now()))
	p.Advance(2 * time.Minute)
	p.closed(month)
	for range 18 {
		p.pass(5 * time.Minute)
	}
}

// owed is what the months cost until a time, by what this test has written down.
func (p *payer) owed(to time.Time) (total int64) {
	p.t.Helper()
	for m := bill.Month(p.from); m.Start.Before(to); m = bill.Month(m.End) {
		var segments []bill.Segment
		for i, s := range p.plans {
			if s.To = to; i+1 < len(p.plans) {
				s.To = p.plans[i+1].From
			}
			for _, bound := range []time.Time{m.Start, p.from} {
				if s.From.Before(bound) {
					s.From = bound
				}
			}
			for _, bound := range []time.Time{m.End, to} {
				if s.To.After(bound) {
					s.To = bound
				}
			}
			if s.From.Before(s.To) {
				segments = append(segments, s)
			}
		}
		counts := make([]bill.Counts, len(segments))
		for hour, c := range p.hours {
			for i, s := range segments {
				if s.Holds(hour) {
					counts[i] = counts[i].Plus(bill.Counts(c))
				}
			}
		}
		made, err := bill.Make(m, segments, counts)
		if err != nil {
			p.t.Fatal(err)
		}
		total += made.Total
	}
	return total
}

// agrees checks that the invoices say what the ledger does.
func (p *payer) agrees(what string) {
	p.t.Helper()
	month := bill.Month(p.Now()).Start
	want(p.t, what+": invoiced before "+month.Format(time.DateOnly), p.stripe.Invoiced(p.sub, month), p.owed(month))
}

func TestAdjust_InvoicesSayWhatTheLedgerDoes(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		p := newPayer(t, w)
		p.use(w.hour(30), 0, store.Counts{JobsEnqueued: 4_000_000, EgressBytes: 1_000_123, StoredByteHours: 77 << 30})
		p.turn()
		p.agrees("the month that began in its middle")
		p.use(w.hour(30), 0, store.Counts{JobsEnqueued: 9_000_000, Executions: 12_345_678, EgressBytes: 200 << 30})
		p.turn()
		p.agrees("a whole month")
	})
}

func TestAdjust_APlanChangedInTheMiddleOfAnHour(t *testing.T) {
	t.Parallel()
	p := newPayer(t, newWorld(t))
	p.use(p.hour(30), 0, store.Counts{JobsEnqueued: 4_000_000})
	p.pass(51*time.Hour + 17*time.Minute)
	p.change("business", 1)
	p.pass(time.Minute)
	p.use(p.hour(30), 0, store.Counts{JobsEnqueued: 40_000_000})
	p.turn()
	p.agrees("after the change")
	p.turn()
	p.agrees("a month later")
}

// From the last hour of a month on, periods begin in the middle of an hour and of the month.
func TestAdjust_PeriodsThatBeginInTheMiddleOfAnHour(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		month := bill.Month(w.Now()).End
		w.Advance(month.Add(-40 * time.Minute).Sub(w.Now()))
		p := newPayer(t, w)
		for n := range 3 {
			end := month.Add(-40*time.Minute).AddDate(0, n+1, 0)
			p.use(p.hour(30), 0, store.Counts{JobsEnqueued: 9_000_000})
			p.pass(end.Sub(p.Now()))
			p.Advance(2 * time.Minute)
			p.closed(end.Truncate(time.Hour))
			for range 18 {
				p.pass(5 * time.Minute)
			}
			want(t, fmt.Sprintf("invoiced before %s", end), p.stripe.Invoiced(p.sub, end), p.owed(end.Truncate(time.Hour)))
		}
	})
}

// Whatever invoice was final without it: the next one has it.
func TestAdjust_WhatAnInvoiceLacksIsOnTheNext(t *testing.T) {
	t.Parallel()
	p := newPayer(t, newWorld(t))
	hour := p.hour(30)
	p.use(hour, 0, store.Counts{JobsEnqueued: 4_000_000})
	month := bill.Month(p.Now()).End
	p.pass(month.Sub(p.Now()))
	for range 20 {
		p.pass(5 * time.Minute) // The last hour isn't closed: nothing is adjusted.
	}
	if p.stripe.Invoiced(p.sub, month) == p.owed(month) {
		t.Fatal("the invoice agreed without being adjusted: the test shows nothing")
	}
	p.closed(month)
	p.use(hour, 1, store.Counts{JobsEnqueued: 5_000_000}) // Later than the invoice: an item.
	p.pass(time.Hour)
	p.turn()
	p.agrees("the month after")
}

// It is invoiced once: not as a part of what the draft lacks, and again as itself.
func TestAdjust_AnItemThatWaitsIsOnTheNextInvoice(t *testing.T) {
	t.Parallel()
	p := newPayer(t, newWorld(t))
	hour := p.hour(30)
	p.use(hour, 0, store.Counts{JobsEnqueued: 4_000_000})
	p.turn()
	p.agrees("the first month")
	month := bill.Month(p.Now()).End
	p.pass(month.Sub(p.Now()))
	p.Advance(2 * time.Minute)
	p.closed(month)
	p.use(hour, 1, store.Counts{JobsEnqueued: 5_000_000}) // A million costs $2.
	for range 18 {
		p.pass(5 * time.Minute)
	}
	want(t, "invoiced, without the item", p.stripe.Invoiced(p.sub, month), p.owed(month)-200)
	p.turn()
	p.agrees("a month later")
}

// Hours with a plan that an operator gave, before it was paid for, are not charged.
func TestAdjust_HoursBeforeTheSubscriptionAreNotOwed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, ctx := w.tenant(t, "acme")
	w.Service(t, func(ctx context.Context, tx *store.Tx) error { return plans{w.Kit}.SetPlan(ctx, tx, tn.ID, "team", 1) })
	w.close(t, tn.ID, w.hour(3), 0, store.Counts{JobsEnqueued: 40_000_000})
	w.Advance(30 * time.Hour)
	page, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Tenant: "acme", Plan: "team"})
	no(t, "checkout", err)
	sub := w.stripe.Pay(page.GetUrl())
	w.deliver(t)
	p := payerOf(t, w, tn, sub)
	p.use(p.hour(30), 0, store.Counts{JobsEnqueued: 4_000_000})
	p.turn()
	p.agrees("the first month")
}

// withoutCustomer is a tenant that Stripe doesn't know, with a draft and an ended subscription.
func (p *payer) withoutCustomer() {
	p.t.Helper()
	tn, _ := p.tenant(p.t, "stranger")
	p.Service(p.t, func(ctx context.Context, tx *store.Tx) error {
		at := p.Now()
		draft := store.StripeInvoice{TenantID: tn.ID, ID: "in_stranger", Status: "draft", Currency: "usd", PeriodStart: at, PeriodEnd: at, CreatedAt: at, UpdatedAt: at}
		ending := store.StripeEnding{TenantID: tn.ID, SubscriptionID: "sub_stranger", PushFrom: at, PushTo: at, DueAt: at, CreatedAt: at}
		return errors.Join(tx.PutStripeInvoice(ctx, draft), tx.PutStripeEnding(ctx, ending))
	})
}

func TestAdjust_ADraftThatCantBeReadIsNotTheOthersProblem(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		p := newPayer(t, w)
		p.withoutCustomer()
		p.use(w.hour(30), 0, store.Counts{JobsEnqueued: 4_000_000})
		p.turn()
		p.agrees("beside a draft that can't be read")
		if err := p.svc.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "in_stranger") || !strings.Contains(err.Error(), "sub_stranger") {
			t.Errorf("the problem is %v", err)
		}
	})
}

func TestSettle_AnEndThatCantBeReadIsNotTheOthersProblem(t *testing.T) {
	t.Parallel()
	p := newPayer(t, newWorld(t))
	p.withoutCustomer()
	p.use(p.hour(1), 0, store.Counts{JobsEnqueued: 9_000_000})
	p.pass(26 * time.Hour)
	p.stripe.End(p.sub)
	p.ended("beside an end that can't be read", p.Now())
}

func TestAdjust_WhateverGoesWrong(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 14))
			p := newPayer(t, newWorld(t))
			of := rand.New(rand.NewPCG(seed, 15)) // Of the calls, which are made beside the test.
			p.stripe.Faults(func(string) stripetest.Fault {
				if of.IntN(4) > 0 {
					return stripetest.None
				}
				return stripetest.Fault(of.IntN(5))
			})
			for range 3 {
				for range 3 {
					p.Advance(time.Hour) // No hour twice.
					p.use(p.hour(1), 0, store.Counts{JobsEnqueued: random.Int64N(6_000_000), Executions: random.Int64N(9_000_000), StoredByteHours: random.Int64N(1 << 43), EgressBytes: random.Int64N(1 << 38)})
					p.pass(time.Duration(random.Int64N(int64(120 * time.Hour))))
					if random.IntN(3) == 0 {
						p.change(map[string]string{"team": "business", "business": "team"}[p.plans[len(p.plans)-1].Name], 1)
					}
				}
				p.turn()
			}
			p.stripe.Faults(nil)
			p.turn()
			p.agrees("after the faults")
			want(t, "customers", p.stripe.Count("customer"), 1)
		})
	}
}

// differs makes Stripe have a number of an hour that nobody sent, beside an event that was lost.
func (p *payer) differs(hour time.Time) {
	p.t.Helper()
	p.use(hour, 0, store.Counts{JobsEnqueued: 2_000_000})
	p.stripe.Faults(func(call string) stripetest.Fault {
		if strings.HasSuffix(call, "meter_events") {
			return stripetest.Drop
		}
		return stripetest.None
	})
	p.pass(2 * time.Hour)
	p.stripe.Faults(nil)
	p.stripe.Spoil("corvo_jobs_enqueued", p.customer(p.t, p.tenantID).CustomerID, hour, 3_000_000)
	p.pass(24 * time.Hour)
	want(p.t, "state", pushes(p.t, p.world, p.tenantID, hour)[0].State, "differs")
}

// As long as Stripe may be put right, its sum may still change. After that, nobody looks at it again.
func TestAdjust_WhatDiffersHoldsInvoicesBackWhileItIsAskedAbout(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		var logged strings.Builder
		k := w.Kit
		k.Log = slog.New(slog.NewTextHandler(&logged, nil))
		w.svc = start(t, k, w.stripe.URL)
		p := newPayer(t, w)
		hour := p.hour(1)
		p.differs(hour)
		p.use(hour, 1, store.Counts{JobsEnqueued: 2_500_000}) // It waits for the revision before.
		for range 2 {                                         // The second is 40 days and some hours after the hour.
			p.turn()
			if month := bill.Month(p.Now()).Start; p.stripe.Invoiced(p.sub, month) == p.owed(month) {
				t.Errorf("the invoices before %s agree", month)
			}
		}
		const told = "invoices are made what the ledger says"
		want(t, "told early", strings.Contains(logged.String(), told), false)
		p.turn()
		p.agrees("the third month")
		want(t, "told", strings.Contains(logged.String(), told), true)
		p.use(hour, 2, store.Counts{JobsEnqueued: 4_000_000})
		p.turn()
		p.agrees("after another correction")
		p.turn()
		p.agrees("a month later")
		want(t, "state", pushes(t, w, p.tenantID, hour)[0].State, "differs")
	})
}

func TestSettle_WhatDiffersDoesntHoldAnEndBackForEver(t *testing.T) {
	t.Parallel()
	p := newPayer(t, newWorld(t))
	p.differs(p.hour(1))
	end := p.Now()
	p.stripe.End(p.sub)
	p.closed(p.hour(2))
	for range 38 {
		p.pass(24 * time.Hour)
	}
	if p.stripe.Invoiced(p.sub, p.Now()) == p.owed(bill.Hourly(end)) {
		t.Error("it was settled while Stripe may be put right")
	}
	p.pass(4 * 24 * time.Hour)
	p.ended("six weeks later", end)
	invoices := p.stripe.Count("invoice")
	for range 3 {
		p.pass(24 * time.Hour)
	}
	want(t, "invoices after some days", p.stripe.Count("invoice"), invoices)
}

// ended lets a subscription's end be settled, and checks that what was invoiced for it is what
// its hours cost.
func (p *payer) ended(what string, at time.Time) {
	p.t.Helper()
	p.closed(p.hour(2))
	for range 30 {
		p.pass(10 * time.Minute)
		p.closed(p.hour(1))
	}
	p.stripe.Pass()
	want(p.t, what+": invoiced for the subscription", p.stripe.Invoiced(p.sub, p.Now()), p.owed(bill.Hourly(at)))
}

func TestSettle_AnEndInThePortalWithoutALastInvoice(t *testing.T) {
	t.Parallel()
	p := newPayer(t, newWorld(t))
	p.use(p.hour(1), 0, store.Counts{JobsEnqueued: 9_000_000})
	p.turn()
	p.use(p.hour(1), 0, store.Counts{JobsEnqueued: 30_000_000})
	p.pass(26 * time.Hour)
	p.stripe.End(p.sub)
	p.ended("ended", p.Now())
	invoices := p.stripe.Count("invoice")
	p.pass(24 * time.Hour)
	p.pass(24 * time.Hour)
	want(t, "invoices after some days", p.stripe.Count("invoice"), invoices)
}

// The last draft counts usage that was sent just before it only when it is final.
func TestSettle_WaitsForTheLastDraft(t *testing.T) {
	t.Parallel()
	p := newPayer(t, newWorld(t))
	p.use(p.hour(1), 0, store.Counts{JobsEnqueued: 9_000_000})
	p.pass(26 * time.Hour)
	p.closed(p.hour(1))
	end := p.Now()
	p.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return plans{p.Kit}.SetPlan(ctx, tx, p.tenantID, "free", 1)
	})
	p.stripe.SummaryLag = 25 * time.Minute
	p.ended("ended here", end)
	items := p.stripe.Show("invoiceitem", "invoice")
	if len(items) != 1 || !strings.HasPrefix(items[0].(string), "in_") {
		t.Errorf("items are on %v, want one on the draft", items)
	}
}

func TestSettle_WhatIsTooMuchGoesToTheCustomersBalance(t *testing.T) {
	t.Parallel()
	p := newPayer(t, newWorld(t))
	p.turn()
	p.pass(26 * time.Hour)
	p.stripe.End(p.sub)
	p.ended("a base that was paid ahead", p.Now())
	totals := p.stripe.Show("invoice", "total")
	if last := totals[len(totals)-1].(int64); last >= 0 {
		t.Errorf("the last invoice is of %d cents", last)
	}
}

func TestSettle_AHourThatIsCorrectedDaysLater(t *testing.T) {
	t.Parallel()
	p := newPayer(t, newWorld(t))
	hour := p.hour(3)
	p.pass(26 * time.Hour)
	end := p.Now()
	p.stripe.End(p.sub)
	p.ended("ended", end)
	p.pass(5 * 24 * time.Hour)
	p.use(hour, 0, store.Counts{JobsEnqueued: 40_000_000})
	p.pass(24 * time.Hour)
	p.ended("corrected", end)
}

func TestSettle_WhoSubscribesAnewHasTheRestOnTheNextInvoice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, ctx := w.tenant(t, "acme")
	subscribe := func() *payer {
		page, err := w.svc.StartCheckout(ctx, &cloudv1.StartCheckoutRequest{Tenant: "acme", Plan: "team"})
		no(t, "checkout", err)
		sub := w.stripe.Pay(page.GetUrl())
		w.deliver(t)
		return payerOf(t, w, tn, sub)
	}
	p := subscribe()
	p.use(p.hour(1), 0, store.Counts{JobsEnqueued: 30_000_000})
	p.pass(26 * time.Hour)
	end := p.Now()
	p.stripe.End(p.sub)
	p.pass(time.Minute)
	again := subscribe()
	again.use(again.hour(2), 0, store.Counts{JobsEnqueued: 20_000_000})
	invoices := p.stripe.Count("invoice")
	p.closed(p.hour(1))
	for range 3 {
		p.pass(10 * time.Minute)
	}
	again.turn()
	want(t, "invoices of the next month", p.stripe.Count("invoice"), invoices+1)
	again.agrees("the next one")
	p.ended("the one that ended", end)
}

func TestSettle_WhateverGoesWrong(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random, of := rand.New(rand.NewPCG(seed, 16)), rand.New(rand.NewPCG(seed, 17))
			p := newPayer(t, newWorld(t))
			p.stripe.Faults(func(string) stripetest.Fault {
				if of.IntN(4) > 0 {
					return stripetest.None
				}
				return stripetest.Fault(of.IntN(5))
			})
			if random.IntN(2) == 0 {
				p.turn()
			}
			for range 3 {
				p.Advance(time.Hour)
				p.use(p.hour(1), 0, store.Counts{JobsEnqueued: random.Int64N(20_000_000), Executions: random.Int64N(30_000_000), EgressBytes: random.Int64N(1 << 40)})
				p.pass(time.Duration(random.Int64N(int64(60 * time.Hour))))
			}
			if random.IntN(2) == 0 {
				p.stripe.Away(p.Now().Add(time.Duration(random.Int64N(int64(40 * time.Hour)))))
			}
			end := p.Now()
			p.stripe.End(p.sub)
			for range 12 {
				p.pass(time.Duration(random.Int64N(int64(8 * time.Hour))))
			}
			p.stripe.Faults(nil)
			p.pass(time.Hour)
			p.pass(26 * time.Hour)
			p.ended("after the faults", end)
		})
	}
}
