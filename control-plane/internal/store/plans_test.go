package store_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func TestPlans_TheFiveAreThereTheSmallestFirst(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			list, err := tx.ListPlans(ctx)
			var names []string
			for _, p := range list {
				names = append(names, p.Plan)
			}
			wantEqual(t, "plans", names, []string{"free", "team", "business", "dedicated", "unlimited"})
			wantEqual(t, "namespaces of free", list[0].Entitlements["namespaces_max"], 60)
			team := list[1]
			wantEqual(t, "team", []int64{team.BaseAmount, int64(len(team.Prices))}, []int64{4900, 4})
			wantEqual(t, "its jobs", team.Prices[2], store.Price{Meter: "jobs_enqueued", Included: 5_000_000, Per: 1_000_000, Amount: 200})
			_, missing := tx.GetPlan(ctx, "gold", 0)
			wantErr(t, "another plan", missing, store.ErrNotFound)
			return err
		})
	})
}

func TestPlanVersions_AreAddedOneByOneAndTheOldOnesStay(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		want := store.PlanVersion{Plan: "team", Version: 2, Title: "Team", Rank: 20, Currency: "eur", BaseAmount: 5900, OverLimit: "reject_enqueues", SelfServe: true, Listed: true,
			CreatedAt: at(3), Entitlements: map[string]int64{"keys_max": 9}, Prices: []store.Price{{Meter: "executions", Included: 1, Per: 2, Amount: 3}}}
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			gold := want
			gold.Plan, gold.Version = "gold", 1
			if err := errors.Join(tx.InsertPlanVersion(ctx, want), tx.InsertPlanVersion(ctx, gold)); err != nil {
				return err
			}
			newest, err := tx.GetPlan(ctx, "team", 0)
			wantEqual(t, "the newest", newest, want)
			before, beforeErr := tx.GetPlan(ctx, "team", 1)
			wantEqual(t, "the one before", before.BaseAmount, 4900)
			list, listErr := tx.ListPlans(ctx)
			wantEqual(t, "each once", len(list), 6)
			return errors.Join(err, beforeErr, listErr)
		})
		err := s.Service(t.Context(), func(tx *store.Tx) error { return tx.InsertPlanVersion(t.Context(), want) })
		wantErr(t, "the same version again", err, store.ErrStale)
		want.Version = 4
		err = s.Service(t.Context(), func(tx *store.Tx) error { return tx.InsertPlanVersion(t.Context(), want) })
		wantErr(t, "a version that leaves one out", err, store.ErrStale)
	})
}

func TestSubscription_IsMadeWithTheTenantAtTheNewestVersion(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := errors.Join(tx.InsertPlanVersion(ctx, store.PlanVersion{Plan: "free", Version: 2, Entitlements: map[string]int64{"keys_max": 3}}), tx.InsertTenant(ctx, tenant("tn_a", "acme"))); err != nil {
				return err
			}
			v, err := tx.GetSubscription(ctx, "tn_a")
			wantEqual(t, "subscription", v, store.Subscription{TenantID: "tn_a", PlanVersion: 2, State: "active", StateSince: at(1), UpdatedAt: at(1), Version: 1})
			changes, changesErr := tx.SubscriptionChanges(ctx, "tn_a", at(5), at(6))
			wantEqual(t, "history", changes, []store.SubscriptionChange{{TenantID: "tn_a", At: at(1), Plan: "free", PlanVersion: 2}})
			return errors.Join(err, changesErr)
		})
		err := s.Service(t.Context(), func(tx *store.Tx) error {
			v := tenant("tn_b", "globex")
			v.Plan = "gold"
			return tx.InsertTenant(t.Context(), v)
		})
		wantErr(t, "a tenant of no plan", err, store.ErrNotFound)
	})
}

func TestSubscriptions_AreKeptAndFoundWhenDue(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			v := store.Subscription{TenantID: "tn_a", PlanVersion: 1, NextPlan: "team", NextVersion: 1, NextAt: at(5), State: "past_due", StateSince: at(2), StateUntil: at(9), UpdatedAt: at(3), Version: 1}
			stale := v
			if err := tx.UpdateSubscription(ctx, &v); err != nil {
				return err
			}
			wantErr(t, "an old version", tx.UpdateSubscription(ctx, &stale), store.ErrStale)
			got, err := tx.GetSubscription(ctx, "tn_a")
			wantEqual(t, "as written", got, v)
			early, earlyErr := tx.DueSubscriptions(ctx, at(4), 9)
			wantEqual(t, "not due yet", len(early), 0)
			due, dueErr := tx.DueSubscriptions(ctx, at(5), 9)
			wantEqual(t, "due", due, []store.Subscription{v})
			tn, tnErr := tx.GetTenant(ctx, "tn_a")
			tn.DeletedAt = at(6)
			if err := errors.Join(err, earlyErr, dueErr, tnErr, tx.UpdateTenant(ctx, &tn)); err != nil {
				return err
			}
			due, err = tx.DueSubscriptions(ctx, at(9), 9)
			wantEqual(t, "of a deleted tenant", len(due), 0)
			use, useErr := tx.ListTenantUse(ctx, store.TenantQuery{})
			wantEqual(t, "tenants with their use", use, []store.TenantUse{{Tenant: tenant("tn_b", "globex"), PlanVersion: 1, State: "active", Members: 1, Namespaces: 1, Figures: store.TenantFigures{TenantID: "tn_b"}}})
			return errors.Join(err, useErr)
		})
	})
}

func TestSubscriptionChanges_BeginWithTheOneInForce(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s) // Free from 1 on.
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			change := func(n int, plan string) store.SubscriptionChange {
				return store.SubscriptionChange{TenantID: "tn_a", At: at(n), Plan: plan, PlanVersion: 1}
			}
			if err := errors.Join(tx.PutSubscriptionChange(ctx, change(4, "team")), tx.PutSubscriptionChange(ctx, change(7, "team")), tx.PutSubscriptionChange(ctx, change(7, "business"))); err != nil {
				return err
			}
			for _, c := range []struct {
				from, to int
				want     []string
			}{{0, 1, nil}, {1, 2, []string{"free"}}, {2, 4, []string{"free"}}, {2, 5, []string{"free", "team"}}, {4, 7, []string{"team"}}, {5, 9, []string{"team", "business"}}, {8, 9, []string{"business"}}} {
				list, err := tx.SubscriptionChanges(ctx, "tn_a", at(c.from), at(c.to))
				if err != nil {
					return err
				}
				var got []string
				for _, v := range list {
					got = append(got, v.Plan)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("from %d to %d: %v, want %v", c.from, c.to, got, c.want)
				}
			}
			return nil
		})
	})
}

func TestEntitlements_AreThePlansWithTheOverridesThatCount(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			free, err := tx.GetPlan(ctx, "free", 0)
			plain, plainErr := tx.Entitlements(ctx, "tn_a", at(5))
			wantEqual(t, "without overrides", plain, store.Entitled{Plan: "free", Version: 1, Title: "Free", OverLimit: "hold_dispatch", State: "active", Values: free.Entitlements})
			keys := store.Override{TenantID: "tn_a", Name: "keys_max", Value: 9, Reason: "trial", EndsAt: at(5), CreatedAt: at(1)}
			weight := store.Override{TenantID: "tn_a", Name: "enqueue_burst", Value: 4, CreatedAt: at(1)}
			members := store.Override{TenantID: "tn_a", Name: "members_max", Unlimited: true, CreatedAt: at(1)}
			if err := errors.Join(err, plainErr, tx.PutOverride(ctx, store.Override{TenantID: "tn_a", Name: "keys_max", Value: 1}), tx.PutOverride(ctx, keys), tx.PutOverride(ctx, weight), tx.PutOverride(ctx, members)); err != nil {
				return err
			}
			want := maps.Clone(free.Entitlements)
			want["enqueue_burst"] = 4
			delete(want, "members_max")
			ended, endedErr := tx.Entitlements(ctx, "tn_a", at(5))
			wantEqual(t, "at the end of one", ended.Values, want)
			want["keys_max"] = 9
			during, duringErr := tx.Entitlements(ctx, "tn_a", at(4))
			wantEqual(t, "before it", during.Values, want)
			list, listErr := tx.ListOverrides(ctx, "tn_a")
			wantEqual(t, "overrides", list, []store.Override{weight, keys, members})
			return errors.Join(endedErr, duringErr, listErr)
		})
		wantErr(t, "in the tenant", err, nil)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			early, earlyErr := tx.EndedOverrides(ctx, at(4), 9)
			wantEqual(t, "ended before", len(early), 0)
			ended, err := tx.EndedOverrides(ctx, at(5), 9)
			wantEqual(t, "ended", len(ended), 1)
			err = errors.Join(err, earlyErr, tx.DeleteOverride(ctx, "tn_a", "keys_max"))
			wantErr(t, "again", tx.DeleteOverride(ctx, "tn_a", "keys_max"), store.ErrNotFound)
			_, missing := tx.Entitlements(ctx, "tn_x", at(1))
			wantErr(t, "of no tenant", missing, store.ErrNotFound)
			return err
		})
	})
}

func TestHolds_AreKeptOnePerLimit(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			v := store.Hold{TenantID: "tn_a", Limit: "spend", Dispatch: true, Enqueue: true, Value: 5, Until: at(9), CreatedAt: at(1)}
			if err := errors.Join(tx.PutHold(ctx, store.Hold{TenantID: "tn_a", Limit: "spend"}), tx.PutHold(ctx, v), tx.PutHold(ctx, store.Hold{TenantID: "tn_a", Limit: "jobs_per_month"})); err != nil {
				return err
			}
			got, err := tx.GetHold(ctx, "tn_a", "spend")
			wantEqual(t, "as written", got, v)
			list, listErr := tx.ListHolds(ctx, "tn_a")
			wantEqual(t, "by limit", len(list), 2)
			err = errors.Join(err, listErr, tx.DeleteHold(ctx, "tn_a", "spend"))
			wantErr(t, "again", tx.DeleteHold(ctx, "tn_a", "spend"), store.ErrNotFound)
			return err
		})
		wantErr(t, "in the tenant", err, nil)
	})
}
