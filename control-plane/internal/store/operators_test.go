package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func TestOperators_AreNamedChangedAndRemoved(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			for id, email := range map[string]string{"usr_x": "zoe@corvo.test", "usr_y": "ann@corvo.test"} {
				if err := errors.Join(tx.InsertUser(ctx, user(id, email)), tx.PutOperator(ctx, store.Operator{UserID: id, Role: "viewer", AddedAt: at(1), AddedBy: "root on host"})); err != nil {
					return err
				}
			}
			want := store.Operator{UserID: "usr_x", Email: "zoe@corvo.test", Role: "admin", AddedAt: at(2), AddedBy: "root on host"}
			putErr := tx.PutOperator(ctx, want)
			got, err := tx.GetOperator(ctx, "usr_x")
			wantEqual(t, "with another role", got, want)
			list, listErr := tx.ListOperators(ctx)
			wantEqual(t, "how many", len(list), 2)
			wantEqual(t, "by address", list[0].Email, "ann@corvo.test")
			delErr := tx.DeleteOperator(ctx, "usr_x")
			_, gone := tx.GetOperator(ctx, "usr_x")
			wantErr(t, "one that was removed", gone, store.ErrNotFound)
			wantErr(t, "removed again", tx.DeleteOperator(ctx, "usr_x"), store.ErrNotFound)
			return errors.Join(putErr, err, listErr, delErr)
		})
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.GetOperator(ctx, "usr_y")
			return err
		})
		if err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("a transaction of a tenant asks for operators: %v", err)
		}
	})
}

func TestOperatorLog_IsListedNewestFirst(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			var want []store.OperatorEntry
			for n := range 3 {
				e := store.OperatorEntry{ID: fmt.Sprint("aud_", n), At: at(n), Actor: "ann@corvo.test", Action: "plan.apply", Target: "team 2", Detail: "new prices"}
				if err := tx.InsertOperatorEntry(ctx, e); err != nil {
					return err
				}
				want = append([]store.OperatorEntry{e}, want...)
			}
			list, err := tx.ListOperatorEntries(ctx, 2)
			wantEqual(t, "the newest", list, want[:2])
			return err
		})
	})
}

// Tenants t0 to t9 have figures that grow, but t9, which has none.
func manyTenants(ctx context.Context, tx *store.Tx) error {
	for n := range 10 {
		v := tenant(fmt.Sprint("tn_", n), fmt.Sprintf("t%d-shop", 9-n))
		if n%2 == 1 {
			v.Plan = "team"
		}
		if err := tx.InsertTenant(ctx, v); err != nil {
			return err
		}
		if n == 9 {
			continue
		}
		f := store.TenantFigures{TenantID: v.ID, At: at(5), Month: at(0), Currency: "usd", Revenue: int64(n / 2), JobsDay: int64(n), OpenJobs: int64(-n)}
		if err := tx.PutTenantFigures(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func TestTenantUse_IsListedInEveryOrderPageByPage(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, manyTenants)
		list := func(q store.TenantQuery) (out []string) {
			service(t, s, func(ctx context.Context, tx *store.Tx) error {
				for q.Limit = 3; ; {
					page, err := tx.ListTenantUse(ctx, q)
					for _, v := range page {
						out = append(out, v.ID[3:])
						if q.After, q.AfterFigure = v.ID, q.Order.Figure(v); q.Order == store.ByName {
							q.After = v.Name
						}
					}
					if err != nil || len(page) < q.Limit {
						return err
					}
				}
			})
			return out
		}
		for order, want := range map[store.TenantOrder]string{
			store.ByCreated: "[0 1 2 3 4 5 6 7 8 9]", store.ByName: "[9 8 7 6 5 4 3 2 1 0]",
			// Equal revenues are in the order of the ids; without figures at the end.
			store.ByRevenue: "[8 6 7 4 5 2 3 0 1 9]", store.ByJobsDay: "[8 7 6 5 4 3 2 1 0 9]",
		} {
			wantEqual(t, string(order), fmt.Sprint(list(store.TenantQuery{Order: order})), want)
		}
		wantEqual(t, "of a plan", fmt.Sprint(list(store.TenantQuery{Plan: "team"})), "[1 3 5 7 9]")
		wantEqual(t, "in a state", fmt.Sprint(list(store.TenantQuery{State: "suspended"})), "[]")
		wantEqual(t, "by a part of the name", fmt.Sprint(list(store.TenantQuery{Search: "T3-"})), "[6]")
		wantEqual(t, "by the id", fmt.Sprint(list(store.TenantQuery{Search: "tn_4"})), "[4]")
		wantEqual(t, "a pattern is none", fmt.Sprint(list(store.TenantQuery{Search: "t_-"})), "[]")
		wantEqual(t, "a pattern is none", fmt.Sprint(list(store.TenantQuery{Search: `%`})), "[]")
	})
}

func TestFigures_AreStaleWhenTheyAreOldAndSomethingChanged(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, manyTenants) // Figures of 5, tenants of 1.
		stale := func(changed, any int, month time.Time) (out []string) {
			service(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
				out, err = tx.StaleFigures(ctx, store.FiguresAge{Month: month, Changed: at(changed), Any: at(any)}, "tn_1", 3)
				return err
			})
			return out
		}
		month := at(0)
		wantEqual(t, "none but those that were never computed", fmt.Sprint(stale(4, 4, month)), "[tn_9]")
		wantEqual(t, "all after one", fmt.Sprint(stale(4, 6, month)), "[tn_2 tn_3 tn_4]")
		wantEqual(t, "of another month", len(stale(4, 4, at(1))), 3)
		service(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.TouchUsage(ctx, []string{"tn_3"}, at(6)) })
		wantEqual(t, "of one that was used, but not long ago", fmt.Sprint(stale(4, 4, month)), "[tn_9]")
		wantEqual(t, "of one that was used", fmt.Sprint(stale(6, 4, month)), "[tn_3 tn_9]")
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			v, err := tx.GetTenant(ctx, "tn_7")
			v.UpdatedAt = at(6)
			return errors.Join(err, tx.UpdateTenant(ctx, &v))
		})
		wantEqual(t, "of one whose record changed", fmt.Sprint(stale(4, 4, month)), "[tn_7 tn_9]")
	})
}

func TestPlanVersions_AreAllListedAndCounted(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, manyTenants)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			next := store.PlanVersion{Plan: "team", Version: 2, Title: "Team", Rank: 99, Currency: "usd", OverLimit: "hold_dispatch", CreatedAt: at(3), Entitlements: map[string]int64{"keys_max": 9}}
			if err := tx.InsertPlanVersion(ctx, next); err != nil {
				return err
			}
			list, err := tx.ListPlanVersions(ctx, "")
			var got []string
			for _, v := range list {
				got = append(got, fmt.Sprint(v.Plan, v.Version))
			}
			wantEqual(t, "all, by the rank of the newest", fmt.Sprint(got), "[free1 business1 dedicated1 unlimited1 team2 team1]")
			one, oneErr := tx.ListPlanVersions(ctx, "team")
			wantEqual(t, "of one", []int64{int64(len(one)), one[0].Version, one[0].Entitlements["keys_max"]}, []int64{2, 2, 9})
			counts, countErr := tx.CountTenantsByPlan(ctx)
			wantEqual(t, "tenants", counts[store.PlanRef{Plan: "team", Version: 1}], 5)
			wantEqual(t, "tenants of the new one", counts[store.PlanRef{Plan: "team", Version: 2}], 0)
			return errors.Join(err, oneErr, countErr)
		})
	})
}

func TestUndonePushes_AreListedAndCounted(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			for n, p := range []store.BillingPush{{State: "open"}, {State: "open", FirstSentAt: at(1)}, {State: "done"}, {State: "differs", FirstSentAt: at(1)}} {
				p.TenantID, p.Meter, p.Hour, p.Identifier, p.Kind = "tn_a", "executions", at(9-n), fmt.Sprint("id", n), "event"
				if err := tx.InsertBillingPush(ctx, p); err != nil {
					return err
				}
			}
			list, err := tx.ListUndoneBillingPushes(ctx, 9)
			var got []string
			for _, p := range list {
				got = append(got, p.Identifier)
			}
			wantEqual(t, "the oldest hour first", fmt.Sprint(got), "[id3 id1 id0]")
			counts, countErr := tx.CountBillingPushes(ctx)
			n := map[string]int64{}
			for _, c := range counts {
				n[fmt.Sprint(c.State, c.Sent)] = c.N
			}
			wantEqual(t, "counts", fmt.Sprint(n), "map[differstrue:1 openfalse:1 opentrue:1]")
			return errors.Join(err, countErr)
		})
	})
}
