package month_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
)

// size of a simulation.
type size struct {
	tenants, hours int
	// active is how many tenants of a hundred work in an hour.
	active int
	start  time.Time // On the hour.
	// percent of the calls to Stripe go wrong.
	percent int
	// kills of a control plane at each step.
	kills int
	// away is how long Stripe is, twice: in the middle, and over the end of the month.
	away time.Duration
	// must are the calls at which a control plane must have died, before and after.
	must []string
	// idle is how far time goes at once while nobody works.
	idle time.Duration
	// turns are how many months' ends follow; a control plane dies at all but the last.
	turns int
	// suspends: an invoice is unpaid for long enough.
	suspends bool
}

// TestMonth_TwoDaysAndTheEndOfAMonth is the short form.
func TestMonth_TwoDaysAndTheEndOfAMonth(t *testing.T) {
	if os.Getenv("CORVO_TEST_LONG") != "" {
		t.Skip("the long form has all of it")
	}
	const hours = 48
	simulate(t, size{tenants: 8, hours: hours, active: 60, start: bill.Month(bill.Month(time.Now()).End).End.Add(-hours / 2 * time.Hour), percent: 6, kills: 1, away: 6 * time.Hour, idle: 5 * 24 * time.Hour, turns: 1,
		must: []string{"GET customers/ID", "GET invoices", "GET subscriptions", "POST billing/meter_events", "POST checkout/sessions", "POST customers"}})
}

// TestMonth_EveryProcessDiesAndNothingIsBilledTwice is the long form. CORVO_MONTH_TENANTS and
// CORVO_MONTH_HOURS make it smaller, CORVO_MONTH_SEED repeats its draws.
func TestMonth_EveryProcessDiesAndNothingIsBilledTwice(t *testing.T) {
	if os.Getenv("CORVO_TEST_LONG") == "" {
		t.Skip("CORVO_TEST_LONG is not set: a month takes half an hour")
	}
	hours := number(t, "CORVO_MONTH_HOURS", 30*24) // Up to the end of the month.
	simulate(t, size{tenants: number(t, "CORVO_MONTH_TENANTS", 1000), hours: hours, active: number(t, "CORVO_MONTH_ACTIVE", 4),
		start: nextMonthOf30Days().Add(-time.Duration(hours) * time.Hour), percent: 2, kills: 2, away: 48 * time.Hour, idle: 24 * time.Hour, turns: 2, must: callSteps, suspends: hours >= 20*24})
}

// nextMonthOf30Days is the end of one.
func nextMonthOf30Days() time.Time {
	month := bill.Month(time.Now())
	for month = bill.Month(month.End); month.Hours() != 30*24; {
		month = bill.Month(month.End)
	}
	return month.End
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func parse[T any](text []byte) (v T, err error) { return v, json.Unmarshal(text, &v) }

// run is a simulation at work.
type run struct {
	*world
	size
	rng       *rand.Rand
	shards    []uint32
	tenants   []*tenant
	payers    []*tenant
	free      []*tenant // Those that may still subscribe.
	post      *postman
	month     bill.Period // The one that ends in the simulation, or with it.
	states    map[string]bool
	took      map[string]time.Duration // Real time of a day.
	unpaid    string                   // The invoice that the first tenant doesn't pay.
	awayUntil time.Time
}

// beforeStart is for sign-ups and the first payments.
const beforeStart = 3 * time.Hour

func simulate(t *testing.T, s size) {
	began := time.Now()
	seed := uint64(number(t, "CORVO_MONTH_SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("CORVO_MONTH_SEED=%d: %d tenants, %d hours from %s", seed, s.tenants, s.hours, s.start.Format(time.RFC3339))
	w := newWorld(t, seed, s.start.Add(-beforeStart+10*time.Minute))
	r := &run{world: w, size: s, rng: w.rng(ofTenants), month: bill.Month(s.start), states: make(map[string]bool), took: make(map[string]time.Duration)}
	r.shards = w.shards()
	w.faults.set(s.percent)
	w.prices("team", "business")
	r.tenants = w.makeTenants(s.tenants)
	r.post = startPostman(w)
	t.Logf("%d tenants after %s", s.tenants, time.Since(began).Round(time.Second))
	w.steps.killEach(s.kills)
	r.subscribe()
	t.Logf("%d of them pay after %s", len(r.payers), time.Since(began).Round(time.Second))
	reaper := startReaper(w)
	for h := range s.hours {
		r.hour(h)
		if (h+1)%24 == 0 {
			r.keepUp()
			t.Logf("day %d is over after %s; %d kills; %v", (h+1)/24, time.Since(began).Round(time.Second), reaper.total(), r.took)
			clear(r.took)
		}
	}
	c := r.settle(reaper)
	last := r.month
	for n := range s.turns {
		last = bill.Month(last.End)
		kills := s.kills
		if n == s.turns-1 {
			kills = 0
		}
		r.turn(last.End, kills)
	}
	r.cents(c, last.End)
	c.report()
	r.judge(reaper)
	t.Logf("took %s", time.Since(began).Round(time.Second))
}

// hour is one hour of the world.
func (r *run) hour(h int) {
	r.t.Helper()
	defer r.clock("all", time.Now())
	r.next(r.start.Add(time.Duration(h) * time.Hour))
	began := time.Now()
	r.acts(h)
	r.clock("acts", began)
	var some []*tenant
	for _, t := range r.tenants {
		if r.rng.IntN(100) < r.active {
			some = append(some, t)
		}
	}
	began = time.Now()
	r.work(some, (*tenant).works)
	r.clock("work", began)
}

// clock adds up what takes the time.
func (r *run) clock(what string, began time.Time) { r.took[what] += time.Since(began) }

// next makes it some minutes after an hour has begun. Nobody calls at that moment, so that each
// call has one hour; but processes die while the hour before closes.
func (r *run) next(hour time.Time) {
	r.t.Helper()
	r.moveTo(hour.Add(time.Minute + time.Duration(r.rng.Int64N(int64(20*time.Minute)))))
	if all := r.all(); r.steps.dying() && r.rng.IntN(6) == 0 {
		if p := all[r.rng.IntN(len(all))]; p.kind != "node" || r.nodesUp() == len(r.nodes) {
			p.kill()
		}
	}
	began := time.Now()
	r.follow(r.shards)
	r.clock("follow", began)
}

// judge fails the test for what should have happened and did not.
func (r *run) judge(reaper *reaper) {
	r.t.Helper()
	r.steps.report(r.t, r.must)
	r.faults.report(r.t)
	r.post.report(r.t)
	for kind, n := range reaper.kills() {
		if r.t.Logf("kills of %s: %d", kind, n); n == 0 {
			r.t.Errorf("no %s was killed", kind)
		}
	}
	lost := 0
	for _, t := range r.tenants {
		lost += t.lost
	}
	r.t.Logf("leases of which no answer told: %d", lost)
	want := []string{"active", "past_due"}
	if r.suspends {
		want = append(want, "restricted", "suspended")
	}
	for _, state := range want {
		if !r.states[state] {
			r.t.Errorf("the tenant that didn't pay was never %s", state)
		}
	}
}
