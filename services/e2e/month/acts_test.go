package month_test

import (
	"slices"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// Tenants with a part of their own, by their place among those that pay.
const (
	owes = iota
	upgrades
	leavesAtTheEnd
	overridden
	leavesInThePortal
	partsCount
)

// subscribe makes nine of ten tenants pay for a plan before the first hour.
func (r *run) subscribe() {
	r.t.Helper()
	r.post.setFair(true)
	for i, t := range r.tenants {
		if i > partsCount && i%10 == 7 {
			r.free = append(r.free, t)
			continue
		}
		r.payers = append(r.payers, t)
	}
	// Of some customers, Stripe is asked whether they are there already.
	r.goAway(10 * time.Minute)
	for _, t := range r.payers[:min(4, len(r.payers))] {
		if err := r.asksOnce(t, "BillingService/StartCheckout", map[string]any{"plan": "team"}, nil); err == nil {
			r.t.Fatal("a checkout began without Stripe")
		}
	}
	r.moveTo(r.now().Add(25 * time.Minute))
	r.follow(r.shards)
	for some := range slices.Chunk(r.payers, signUps) {
		var all sync.WaitGroup
		for _, t := range some {
			all.Go(func() { r.pay(t, "team") })
		}
		all.Wait()
		if r.t.Failed() {
			r.t.FailNow()
		}
	}
	for _, t := range r.payers {
		eventually.True(r.t, patience, t.name+" has the plan that it paid", func() bool {
			plan, _ := r.subscriptionOf(t)
			if plan != "team" {
				r.moveTo(r.now().Add(10 * time.Second)) // An event that wasn't taken comes again after some minutes.
			}
			return plan == "team"
		})
	}
	r.post.setFair(false)
}

// pay opens a checkout page for a plan, and pays there. Time goes on while nobody answers: what
// Stripe answered to an idempotency key, a failure too, it repeats for a day.
func (r *run) pay(t *tenant, plan string) {
	r.t.Helper()
	var page struct {
		URL string `json:"url"`
	}
	began := time.Now()
	for {
		err := r.asksOnce(t, "BillingService/StartCheckout", map[string]any{"plan": plan}, &page)
		if err == nil {
			break
		}
		if time.Since(began) > patience {
			r.t.Errorf("checkout of %s: %v", t.name, err)
			return
		}
		time.Sleep(50 * time.Millisecond)
		r.moveTo(r.now().Add(2 * time.Second))
	}
	t.subscription = r.stripe.Pay(page.URL)
	t.customer = r.customerOf(t)
}

// acts are what tenants, Stripe and the operator do in an hour, beside work.
func (r *run) acts(h int) {
	r.t.Helper()
	at := func(percent int) bool { return h == r.hours*percent/100 }
	first := r.payers[owes]
	_, state := r.subscriptionOf(first)
	r.states[state] = true
	switch {
	case at(10):
		before := bill.Month(r.month.Start.Add(-time.Hour))
		r.unpaid = r.stripe.Renew(first.subscription, before.Start, before.End, false)
	case at(75):
		r.stripe.PayInvoice(r.unpaid)
	case at(20):
		r.change(r.payers[upgrades], "business")
	case at(25):
		r.change(r.payers[leavesAtTheEnd], "free")
	case at(30):
		r.operator("override", "set", r.payers[overridden].name, "weight", "7", "--reason", "the test says so", "--wait", "0s")
	case at(35):
		r.stripe.End(r.payers[leavesInThePortal].subscription)
	case at(40):
		r.goAway(r.away)
	}
	if h < r.hours {
		r.everyDay(h)
	}
	if end := int(r.month.End.Sub(r.start) / time.Hour); h == end-int(r.away/time.Hour)/2 {
		r.goAway(r.away)
	}
	r.stripe.Pass() // At the end of the month drafts, which are final two hours later.
}

// everyDay somebody opens the portal, upgrades, subscribes, and is sent away.
func (r *run) everyDay(h int) {
	r.t.Helper()
	switch day, hour := h/24, h%24; {
	case hour == 3:
		for range 3 { // It may be refused: Stripe is away, or the control plane dies.
			if r.asksOnce(r.payers[r.rng.IntN(len(r.payers))], "BillingService/OpenPortal", map[string]any{}, nil) == nil {
				break
			}
		}
	case hour == 9 && partsCount+day < len(r.payers):
		if t := r.payers[partsCount+day]; day%3 == 2 {
			r.operator("set-plan", t.name, "free", "--wait", "0s")
		} else {
			r.change(t, "business")
		}
	case hour == 15 && len(r.free) > 0 && !r.isAway():
		t := r.free[0]
		r.free = r.free[1:]
		r.pay(t, "team")
		r.payers = append(r.payers, t)
	}
}

// endings are when subscriptions have ended, by their ids.
func (w *world) endings() map[string]time.Time {
	out := make(map[string]time.Time)
	ids := w.stripe.Show("subscription", "id")
	for i, at := range w.stripe.Show("subscription", "ended_at") {
		if unix, ended := at.(int64); ended {
			out[ids[i].(string)] = time.Unix(unix, 0)
		}
	}
	return out
}

// goAway takes Stripe away.
func (r *run) goAway(d time.Duration) {
	r.awayUntil = r.now().Add(d)
	r.stripe.Away(r.awayUntil)
}

func (r *run) isAway() bool { return r.now().Before(r.awayUntil) }

// change chooses another plan. A repeated call may be told that it is chosen already.
func (r *run) change(t *tenant, plan string) {
	r.t.Helper()
	var changed struct {
		Subscription struct {
			NextPlan string `json:"nextPlan"`
		} `json:"subscription"`
	}
	err := r.asks(t, "PlanService/ChangePlan", map[string]any{"plan": plan}, &changed)
	if now, _ := r.subscriptionOf(t); err != nil && now != plan && changed.Subscription.NextPlan != plan {
		r.t.Fatalf("%s changes to %s: %v", t.name, plan, err)
	}
}
