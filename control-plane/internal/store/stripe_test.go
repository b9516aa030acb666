package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func TestStripe_RecordsAreKept(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			none, err := tx.GetBillingContacts(ctx, "tn_a")
			wantEqual(t, "no contacts", none, store.BillingContacts{TenantID: "tn_a"})
			c := store.BillingContacts{TenantID: "tn_a", Emails: []string{"x@y"}, CreatedAt: at(1), UpdatedAt: at(1), Version: 1}
			err = errors.Join(err, tx.InsertBillingContacts(ctx, c))
			c.Emails = nil
			err = errors.Join(err, tx.UpdateBillingContacts(ctx, &c))
			got, getErr := tx.GetBillingContacts(ctx, "tn_a")
			wantEqual(t, "contacts", got, c)

			u := store.StripeCustomer{TenantID: "tn_a", Attempt: 1, AskedAt: at(1), CreatedAt: at(1), UpdatedAt: at(1), Version: 1}
			err = errors.Join(err, getErr, tx.InsertStripeCustomer(ctx, u))
			wantErr(t, "twice", tx.InsertStripeCustomer(ctx, u), store.ErrExists)
			_, missing := tx.FindStripeCustomer(ctx, "")
			wantErr(t, "by no id", missing, store.ErrNotFound)
			list, listErr := tx.ListStripeCustomers(ctx, store.Page{})
			wantEqual(t, "those that Stripe knows", list, nil)
			u.CustomerID, u.SubscriptionID, u.Status, u.Plan, u.PlanVersion, u.PaymentMethod, u.Owes, u.PushFrom, u.PushTo =
				"cus_1", "sub_1", "active", "team", 2, true, true, at(2), at(3)
			err = errors.Join(err, listErr, tx.UpdateStripeCustomer(ctx, &u))
			found, findErr := tx.FindStripeCustomer(ctx, "cus_1")
			wantEqual(t, "by id", found, u)
			stale := u
			stale.Version--
			wantErr(t, "stale", tx.UpdateStripeCustomer(ctx, &stale), store.ErrStale)

			ending := store.StripeEnding{TenantID: "tn_a", SubscriptionID: "sub_1", PushFrom: at(2), PushTo: at(3), DueAt: at(4), CreatedAt: at(3)}
			never := store.StripeEnding{TenantID: "tn_b", SubscriptionID: "sub_1", PushFrom: at(2), PushTo: at(3), CreatedAt: at(3)}
			err = errors.Join(err, tx.PutStripeEnding(ctx, ending), tx.PutStripeEnding(ctx, never), tx.PutStripeEnding(ctx, ending))
			early, earlyErr := tx.DueStripeEndings(ctx, at(3), 9)
			due, dueErr := tx.DueStripeEndings(ctx, at(4), 9)
			err = errors.Join(err, earlyErr, dueErr)
			wantEqual(t, "not due yet", early, nil)
			wantEqual(t, "due", due, []store.StripeEnding{ending})

			i := store.StripeInvoice{TenantID: "tn_a", ID: "in_1", Status: "open", Currency: "usd", Subtotal: 7, PeriodStart: at(1), PeriodEnd: at(5),
				Lines: []store.StripeInvoiceLine{{Item: "base", Title: "t", Quantity: 1, Amount: 7}}, URL: "https://pay.test/1", CreatedAt: at(1), UpdatedAt: at(1)}
			err = errors.Join(err, findErr, tx.PutStripeInvoice(ctx, i))
			i.Status = "paid"
			j := i
			j.ID, j.Status, j.PeriodStart, j.PeriodEnd = "in_2", "draft", at(10), at(20)
			err = errors.Join(err, tx.PutStripeInvoice(ctx, i), tx.PutStripeInvoice(ctx, j))
			invoices, invErr := tx.ListStripeInvoices(ctx, "tn_a", at(30), "", 10)
			wantEqual(t, "invoices", invoices, []store.StripeInvoice{j, i})
			for n, want := range map[int]bool{0: false, 1: true, 4: true, 5: false, 12: false} {
				is, coverErr := tx.StripeInvoiceCovers(ctx, "tn_a", at(n))
				wantEqual(t, "covered", is, want)
				err = errors.Join(err, coverErr)
			}

			e := store.StripeEvent{ID: "evt_1", Type: "x", Effect: "ignored", CreatedAt: at(1), ReceivedAt: at(2)}
			err = errors.Join(err, invErr, tx.InsertStripeEvent(ctx, e))
			wantErr(t, "an event twice", tx.InsertStripeEvent(ctx, e), store.ErrExists)
			n, delErr := tx.DeleteStripeEventsBefore(ctx, at(3))
			wantEqual(t, "forgotten", n, 1)
			has, hasErr := tx.HasStripeEvent(ctx, "evt_1")
			wantEqual(t, "still there", has, false)

			d := store.BillingDifference{TenantID: "tn_a", Meter: "executions", Day: at(1), Ledger: 1, Pushed: 2, Summed: 3, FoundAt: at(2)}
			err = errors.Join(err, delErr, hasErr, tx.PutBillingDifference(ctx, d), tx.PutBillingDifference(ctx, d))
			all, allErr := tx.ListBillingDifferences(ctx, 10)
			wantEqual(t, "differences", all, []store.BillingDifference{d})
			return errors.Join(err, allErr, tx.DeleteBillingDifference(ctx, "tn_a", "executions", at(1)))
		})
	})
}

func TestBillingPushes_OnlyTheFirstOpenRevisionOfAnHourIsDue(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			var err error
			for revision := range int64(3) {
				p := push("tn_a", "p"+string(rune('0'+revision)))
				p.Revision, p.DueAt = revision, at(5).Add(-time.Duration(revision))
				err = errors.Join(err, tx.InsertBillingPush(ctx, p))
				wantErr(t, "twice", tx.InsertBillingPush(ctx, p), store.ErrExists)
			}
			due := func() string {
				list, dueErr := tx.DueBillingPushes(ctx, at(6), 10)
				err = errors.Join(err, dueErr)
				out := ""
				for _, p := range list {
					out += p.Identifier
				}
				return out
			}
			wantEqual(t, "due", due(), "p0")
			list, listErr := tx.ListBillingPushes(ctx, "tn_a", at(1), at(2))
			first := list[0]
			first.State = "differs"
			err = errors.Join(err, listErr, tx.NoteBillingPush(ctx, first, 1))
			wantEqual(t, "due after one that differs", due(), "")
			first.State, first.Attempts = "done", 2
			err = errors.Join(err, tx.NoteBillingPush(ctx, first, 1))
			wantEqual(t, "due after one that is done", due(), "p1")
			wantErr(t, "one that is done", tx.NoteBillingPush(ctx, first, 2), store.ErrNotFound)
			wantErr(t, "after an attempt of another process", tx.NoteBillingPush(ctx, list[1], 7), store.ErrNotFound)
			open, openErr := tx.OpenBillingPushes(ctx, at(9))
			wantEqual(t, "open", open, 2)
			return errors.Join(err, openErr)
		})
	})
}

// A page of a long backlog costs what a page costs, and not what the backlog does.
func TestChangedHours_APageIsReadInTheOrderOfItsIndex(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			for i := range int64(3000) {
				h := store.UsageHour{UsageKey: store.UsageKey{TenantID: "tn_a", NamespaceID: "ns_1", Hour: i}, ClosedAt: at(int(i))}
				if err := tx.ReviseUsage(ctx, h, store.Counts{}); err != nil {
					return err
				}
			}
			plan, err := store.ExplainChangedHours(ctx, tx, store.ChangedHour{At: at(5), TenantHour: store.TenantHour{TenantID: "tn_a", Hour: 5}}, 200)
			if strings.Contains(plan, "Sort") || strings.Contains(plan, "TEMP B-TREE") || !strings.Contains(plan, "usage_hours_closed") {
				t.Errorf("all hours since are sorted for a page:\n%s", plan)
			}
			return err
		})
	})
}

// What is due, and what was pushed of an hour, costs no walk over all pushes.
func TestBillingPushes_AreFoundByTheirIndexes(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			for i := range 3000 {
				p := push("tn_a", fmt.Sprint("p", i))
				p.Hour, p.DueAt = time.Unix(int64(i)*3600, 0), at(i)
				if err := tx.InsertBillingPush(ctx, p); err != nil {
					return err
				}
			}
			due, dueErr := store.ExplainDuePushes(ctx, tx, at(5000), 200)
			if !strings.Contains(due, "billing_pushes_due") || strings.Contains(due, "Scan on billing_pushes ") { // A whole one, or by a bitmap.
				t.Errorf("what is due:\n%s", due)
			}
			of, ofErr := store.ExplainPushesOf(ctx, tx, store.TenantHour{TenantID: "tn_a", Hour: 7})
			if !strings.Contains(of, "billing_pushes_by_hour") {
				t.Errorf("what was pushed of an hour:\n%s", of)
			}
			return errors.Join(dueErr, ofErr)
		})
	})
}

// What is read of some hours is of these pairs of a tenant and an hour, and of no others.
func TestChangedHours_AreReadInTheOrderTheyWereClosedIn(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			var err error
			for _, id := range []string{"tn_a", "tn_b"} {
				err = errors.Join(err, tx.InsertStripeCustomer(ctx, store.StripeCustomer{TenantID: id, CustomerID: "cus_" + id, PushFrom: at(1), CreatedAt: at(1), UpdatedAt: at(1), Version: 1}))
			}
			row := func(tenantID, namespaceID string, hour, revision, jobs int64, closed int) {
				h := store.UsageHour{UsageKey: store.UsageKey{TenantID: tenantID, NamespaceID: namespaceID, Hour: hour}, Revision: revision, Counts: store.Counts{JobsEnqueued: jobs}, ClosedAt: at(closed)}
				err = errors.Join(err, tx.ReviseUsage(ctx, h, store.Counts{}))
			}
			row("tn_b", "ns_2", 7, 0, 1, 1)
			row("tn_a", "ns_1", 7, 0, 2, 2)
			row("tn_a", "ns_3", 7, 0, 3, 2) // Of the same hour.
			row("tn_b", "ns_2", 8, 0, 4, 2)
			row("tn_a", "ns_1", 7, 1, 5, 3) // Corrected.
			hour := func(closed int, tenantID string, hour int64) store.ChangedHour {
				return store.ChangedHour{At: at(closed), TenantHour: store.TenantHour{TenantID: tenantID, Hour: hour}}
			}
			first, firstErr := tx.ChangedHours(ctx, store.ChangedHour{}, 2)
			wantEqual(t, "first page", first, []store.ChangedHour{hour(1, "tn_b", 7), hour(2, "tn_a", 7)})
			second, secondErr := tx.ChangedHours(ctx, first[1], 9)
			wantEqual(t, "second page", second, []store.ChangedHour{hour(2, "tn_b", 8), hour(3, "tn_a", 7)})

			pairs := []store.TenantHour{{TenantID: "tn_a", Hour: 7}, {TenantID: "tn_b", Hour: 8}}
			usage, usageErr := tx.UsageOf(ctx, pairs)
			of := make(map[store.TenantHour]int64)
			for _, u := range usage {
				of[u.TenantHour] = u.JobsEnqueued
			}
			wantEqual(t, "usage", of, map[store.TenantHour]int64{pairs[0]: 8, pairs[1]: 4})

			p, q := push("tn_a", "p1"), push("tn_b", "p2")
			p.Hour, q.Hour = time.Unix(7*3600, 0).UTC(), time.Unix(7*3600, 0).UTC()
			err = errors.Join(err, firstErr, secondErr, usageErr, tx.InsertBillingPush(ctx, p), tx.InsertBillingPush(ctx, q))
			pushes, pushErr := tx.BillingPushesOf(ctx, pairs)
			wantEqual(t, "pushes", pushes, []store.BillingPush{p})
			customers, customerErr := tx.StripeCustomersOf(ctx, []string{"tn_b"})
			wantEqual(t, "customers", len(customers) == 1 && customers[0].CustomerID == "cus_tn_b", true)
			return errors.Join(err, pushErr, customerErr)
		})
	})
}
