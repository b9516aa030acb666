package month_test

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

const (
	// settleHours is how long after the last hour everything must agree: Stripe is away for
	// two days, and what was on its way before is asked for after another one.
	settleHours = 120
	// compareEvery so many hours.
	compareEvery = 6
)

// settle lets hours pass until everything has been sent, and compares.
func (r *run) settle(reaper *reaper) (c *comparison) {
	r.t.Helper()
	months := []bill.Period{r.month}
	if next := bill.Month(r.month.End); r.start.Add(time.Duration(r.hours) * time.Hour).After(next.Start) {
		months = append(months, next)
	}
	back := int(r.away/time.Hour)/2 + 2 // Stripe answers again.
	for h := range settleHours {
		at := r.hours + h
		r.next(r.start.Add(time.Duration(at) * time.Hour))
		r.acts(at)
		since := int(r.now().Sub(r.month.End) / time.Hour)
		switch {
		case since == back-1:
			r.faults.lose("POST /v1/invoiceitems", 40)
		case since == back:
			r.goAway(24 * time.Hour) // Longer than an idempotency key is known.
		case since == back+1:
			r.faults.lose("POST /v1/invoiceitems", 0)
		}
		if since > back+28 {
			reaper.stop()
			r.steps.killEach(0)
			r.faults.set(0)
			r.post.setFair(true)
		}
		r.keepUp()
		if !r.steps.dying() {
			r.quiet()
		}
		if since < back+30 || h%compareEvery != 0 {
			continue
		}
		var err error
		if c, err = r.compare(r.tenants, months); err != nil {
			r.t.Fatal(err)
		}
		r.t.Logf("%d hours after the last one: %d differences", h, len(c.differences))
		if len(c.differences) == 0 {
			return c
		}
	}
	return c
}

// quiet waits until Stripe is called no more, for real seconds: time goes faster than calls.
func (r *run) quiet() {
	r.t.Helper()
	first := r.steps.made()
	last, since := first, time.Now()
	eventually.NoError(r.t, backlogPatience, "Stripe is called no more", func() error {
		switch now := r.steps.made(); {
		case !maps.Equal(now, last):
			last, since = now, time.Now()
		case time.Since(since) > quietFor:
			return nil
		}
		return fmt.Errorf("calls were %v, and are %v", first, last)
	})
}

const (
	quietFor = time.Second
	// backlogPatience is for all that an outage of two days has left to be sent.
	backlogPatience = 15 * time.Minute
)

// keepUp waits until the ledger is not far behind.
func (r *run) keepUp() {
	r.t.Helper()
	defer r.clock("close", time.Now())
	r.closes(func() time.Time { return r.now().Add(-2 * time.Hour) })
}

// closes waits until all hours before one are closed.
func (r *run) closes(before func() time.Time) {
	r.t.Helper()
	eventually.NoError(r.t, patience, "hours close", func() error {
		var out struct {
			ClosedTo time.Time `json:"closedTo"`
		}
		if err := r.asks(r.tenants[0], "UsageService/GetUsage", map[string]any{}, &out); err != nil {
			return err
		}
		if !out.ClosedTo.Before(before()) {
			return nil
		}
		// A proxy that died holds hours for ten minutes.
		if now := r.now(); now.Minute() < 50 {
			r.moveTo(now.Add(2 * time.Second))
		}
		return errors.New("they are closed to " + out.ClosedTo.Format(time.RFC3339))
	})
}
