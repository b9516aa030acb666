package month_test

import (
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// turn lets the time until a month's end pass without work, and its invoices be made: they
// make up for what those before them lack. At so many of each call a control plane dies; then
// some drafts become final before they are adjusted, for its lease is of ten minutes.
func (r *run) turn(end time.Time, kills int) {
	r.t.Helper()
	began := time.Now()
	for at := r.now().Truncate(time.Hour).Add(time.Hour); at.Before(end); at = at.Add(r.idle) {
		r.next(at)
		r.stripe.Pass()
		r.keepUp()
	}
	r.next(end)
	r.quiet()
	r.stripe.Pass() // Drafts, which are adjusted half an hour later.
	r.closes(func() time.Time { return end })
	r.steps.killEach(kills)
	looked := r.steps.made()["GET invoiceitems"]
	for drafted := r.now(); r.now().Before(drafted.Add(50 * time.Minute)); {
		r.moveTo(r.now().Add(5 * time.Minute))
		r.quiet()
	}
	r.steps.killEach(0)
	adjusted := func() int { return r.steps.made()["GET invoiceitems"] - looked }
	if drafts := r.living(); kills == 0 { // Ten minutes are left, which is long for calls.
		eventually.NoError(r.t, backlogPatience, "drafts are adjusted", func() error {
			if n := adjusted(); n < drafts {
				return fmt.Errorf("%d of %d", n, drafts)
			}
			return nil
		})
		r.quiet()
	}
	r.t.Logf("invoices until %s: %d drafts adjusted after %s", end.Format(time.DateOnly), adjusted(), time.Since(began).Round(time.Second))
	r.next(end.Add(2 * time.Hour))
	r.stripe.Pass()
}

// living are the subscriptions that have not ended.
func (r *run) living() (n int) {
	ended := r.endings()
	for _, t := range r.payers {
		if _, has := ended[t.subscription]; !has {
			n++
		}
	}
	return n
}

// cents compares what all invoices say of the time before a month's end with what the ledger
// does, to the smallest unit of money. Of a subscription that ended it is no more than that:
// hours until Stripe has told are the old plan's, and aren't charged.
func (r *run) cents(c *comparison, end time.Time) {
	r.t.Helper()
	ended := r.endings()
	tenants, total := 0, int64(0)
	for _, t := range r.payers {
		var owed int64
		for m := bill.Month(r.start.Add(-beforeStart)); m.Start.Before(end); m = bill.Month(m.End) {
			l, err := r.ledgerOf(t, m)
			if err != nil {
				r.t.Fatal(err)
			}
			for _, line := range l.Lines {
				owed += line.Amount
			}
		}
		got := r.stripe.Invoiced(t.subscription, end)
		if _, has := ended[t.subscription]; has && got <= owed {
			continue
		}
		tenants, total = tenants+1, total+owed
		if got != owed {
			c.differs("%s owes %d cents by the ledger for all time before %s, and was invoiced %d", t.name, owed, end.Format(time.DateOnly), got)
		}
	}
	r.t.Logf("%d tenants owe %d cents for all time before %s; %d differences", tenants, total, end.Format(time.DateOnly), len(c.differences))
}
