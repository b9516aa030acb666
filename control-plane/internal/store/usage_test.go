package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func reading(tenantID, namespaceID string, hour int64, source, epoch string, n int64) store.UsageReading {
	return store.UsageReading{
		UsageKey: store.UsageKey{TenantID: tenantID, NamespaceID: namespaceID, Hour: hour}, Cell: "main", Source: source, Epoch: epoch, Seq: n,
		Counts: store.Counts{JobsEnqueued: n, Executions: 2 * n, PayloadBytes: 3 * n, StoredByteHours: 4 * n, EgressBytes: 5 * n, StreamsPeak: 6 * n},
	}
}

// usageOf gives a tenant a row of each kind of usage, and hour 5 closed.
func usageOf(ctx context.Context, tx *store.Tx, tenantID, namespaceID string) error {
	r := reading(tenantID, namespaceID, 5, "shard/1", "e", 1)
	err := errors.Join(
		tx.PutUsageReadings(ctx, []store.UsageReading{r}), tx.PutUsageLevels(ctx, []store.UsageLevel{{TenantID: tenantID, NamespaceID: namespaceID, OpenJobs: 1}}),
		tx.NoteUsageAlarm(ctx, store.UsageAlarm{UsageKey: r.UsageKey, Problem: "p"}, at(1)), tx.TouchUsage(ctx, []string{tenantID}, at(1)),
	)
	if err == nil {
		_, err = tx.CloseUsage(ctx, "main", 5, tenantID[:len(tenantID)-1]+string(tenantID[len(tenantID)-1]-1), tenantID, at(1))
	}
	return err
}

func TestUsage_ReadingsAreOverwrittenAndFoundByTheirHour(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			a, b, other := reading("tn_a", "ns_1", 7, "shard/1", "e", 3), reading("tn_a", "ns_1", 7, "proxy/x", "r", 4), reading("tn_b", "ns_2", 7, "shard/1", "e", 5)
			a.Base = store.Counts{JobsEnqueued: 1}
			err := errors.Join(tx.PutUsageReadings(ctx, []store.UsageReading{a, b, other, reading("tn_a", "ns_1", 8, "shard/1", "e", 9)}), tx.PutUsageReadings(ctx, nil))
			if err != nil {
				return err
			}
			b.Counts, b.Seq = store.Counts{EgressBytes: 9}, 8
			if err := tx.PutUsageReadings(ctx, []store.UsageReading{b}); err != nil {
				return err
			}
			got, err := tx.UsageReadings(ctx, []store.UsageKey{a.UsageKey, {TenantID: "tn_b", NamespaceID: "ns_2", Hour: 9}})
			if err != nil {
				return err
			}
			byEpoch := make(map[string]store.UsageReading)
			for _, r := range got {
				byEpoch[r.Epoch] = r
			}
			wantEqual(t, "readings", byEpoch, map[string]store.UsageReading{"e": a, "r": b})
			hour, err := tx.FirstUsageHour(ctx, "main")
			wantEqual(t, "first hour", hour, 7)
			tenants, listErr := tx.UsageTenantsOf(ctx, "main", 7, "tn_a", 9)
			wantEqual(t, "tenants after tn_a", tenants, []string{"tn_b"})
			open, openErr := tx.OpenUsage(ctx, "tn_a", 7)
			wantEqual(t, "what counts", open, []store.UsageAt{
				{At: 7, NamespaceID: "ns_1", Counts: store.Counts{JobsEnqueued: 2, Executions: 6, PayloadBytes: 9, StoredByteHours: 12, EgressBytes: 24, StreamsPeak: 18}},
				{At: 8, NamespaceID: "ns_1", Counts: reading("", "", 0, "", "", 9).Counts},
			})
			n, deleteErr := tx.DeleteUsageReadings(ctx, "main", 8, 2)
			wantEqual(t, "deleted", n, 2)
			return errors.Join(err, listErr, openErr, deleteErr)
		})
	})
}

func TestUsage_ClosingWritesHoursAndDaysOfSomeTenants(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			a1, a2 := reading("tn_a", "ns_1", 25, "proxy/x", "r1", 3), reading("tn_a", "ns_1", 25, "proxy/x", "r2", 2)
			zero := reading("tn_a", "ns_1", 26, "shard/1", "e", 0)
			err := tx.PutUsageReadings(ctx, []store.UsageReading{a1, a2, reading("tn_a", "ns_1", 25, "proxy/y", "r", 1), reading("tn_b", "ns_2", 25, "shard/1", "e", 1), zero})
			if err != nil {
				return err
			}
			n, err := tx.CloseUsage(ctx, "main", 25, "", "tn_a", at(5))
			none, noneErr := tx.CloseUsage(ctx, "main", 26, "", "tn_z", at(5))
			wantEqual(t, "rows", []int{n, none}, []int{1, 0})
			// Epochs of a proxy add up; of streams_peak the largest counts.
			counts := store.Counts{JobsEnqueued: 6, Executions: 12, PayloadBytes: 18, StoredByteHours: 24, EgressBytes: 30, StreamsPeak: 24}
			row := store.UsageHour{UsageKey: a1.UsageKey, Counts: counts, ClosedAt: at(5)}
			listed, listErr := tx.ListUsageHours(ctx, "tn_a", store.UsageAfter{}, 99, 9)
			wantEqual(t, "ledger", listed, []store.UsageHour{row})
			foreign, foreignErr := tx.ListUsageHours(ctx, "tn_b", store.UsageAfter{}, 99, 9)
			wantEqual(t, "not closed yet", len(foreign), 0)

			later := row
			later.Revision, later.JobsEnqueued = 1, 10
			reviseErr := tx.ReviseUsage(ctx, later, store.Counts{JobsEnqueued: 4})
			revisions, revisionsErr := tx.UsageRevisions(ctx, []store.UsageKey{a1.UsageKey})
			wantEqual(t, "revisions", revisions, []store.UsageHour{row, later})
			rest, restErr := tx.ListUsageHours(ctx, "tn_a", store.UsageAfter{Hour: 25, NamespaceID: "ns_1"}, 99, 9)
			wantEqual(t, "after the first", rest, []store.UsageHour{later})
			for _, by := range []bool{true, false} {
				want := []store.UsageAt{{At: 25, Counts: later.Counts}}
				if by {
					want[0].NamespaceID = "ns_1"
				}
				hours, err := tx.UsageByHour(ctx, "tn_a", 24, 26, by)
				wantEqual(t, "by hour", hours, want)
				want[0].At = 1
				days, daysErr := tx.UsageByDay(ctx, "tn_a", 1, 2, by)
				wantEqual(t, "by day", days, want)
				if err := errors.Join(err, daysErr); err != nil {
					return err
				}
			}
			return errors.Join(err, noneErr, listErr, foreignErr, reviseErr, revisionsErr, restErr)
		})
	})
}

func TestUsage_PositionsNeverGoBack(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.GetUsageClosing(ctx, "main")
			wantErr(t, "nothing closed", err, store.ErrNotFound)
			c := store.UsageClosing{Cell: "main", Hour: 7, TenantsTo: "tn_a", ClosedAt: at(1)}
			wantEqual(t, "closed", []bool{c.Closed("tn_z", 6), c.Closed("tn_a", 7), c.Closed("tn_b", 7)}, []bool{true, true, false})
			one := store.UsageSource{Cell: "main", Source: "shard/1", Epoch: "e1", Seq: 5, CompleteTo: at(10), HeardAt: at(11)}
			older := store.UsageSource{Cell: "main", Source: "shard/1", Epoch: "e1", Seq: 4, CompleteTo: at(9), HeardAt: at(12)}
			two := store.UsageSource{Cell: "main", Source: "shard/1", Epoch: "e2", CompleteTo: at(10), HeardAt: at(11)}
			proxy := store.UsageSource{Cell: "main", Source: "proxy/x", Epoch: "r", CompleteTo: at(1), HeardAt: at(1)}
			if err := errors.Join(tx.PutUsageClosing(ctx, c), tx.PutUsageSource(ctx, one), tx.PutUsageSource(ctx, older), tx.PutUsageSource(ctx, two), tx.PutUsageSource(ctx, proxy)); err != nil {
				return err
			}
			stored, err := tx.GetUsageClosing(ctx, "main")
			wantEqual(t, "closing", stored, c)
			n, endErr := tx.EndUsageEpochs(ctx, "main", "shard/1", "e2")
			again, againErr := tx.EndUsageEpochs(ctx, "main", "shard/1", "e2")
			wantEqual(t, "ended", []int{n, again}, []int{1, 0})
			one.Ended = true
			sources, listErr := tx.UsageSources(ctx, "main", at(5))
			wantEqual(t, "sources", sources, []store.UsageSource{one, two})
			gone, goneErr := tx.DeleteUsageSources(ctx, at(50))
			wantEqual(t, "forgotten", gone, 1)
			return errors.Join(err, endErr, againErr, listErr, goneErr)
		})
	})
}

func TestUsage_LevelsAlarmsChangesAndLimitsAreKept(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			level := store.UsageLevel{TenantID: "tn_a", NamespaceID: "ns_1", Hour: 5, Seq: 9, OpenJobs: 3, StoredBytes: 4}
			older := store.UsageLevel{TenantID: "tn_a", NamespaceID: "ns_1", Hour: 4, Seq: 10, OpenJobs: 7}
			alarm := store.UsageAlarm{UsageKey: store.UsageKey{TenantID: "tn_a", NamespaceID: "ns_1", Hour: 5}, Cell: "main", Source: "shard/1", Epoch: "e", Problem: "p"}
			err := errors.Join(
				tx.PutUsageLevels(ctx, []store.UsageLevel{level}), tx.PutUsageLevels(ctx, []store.UsageLevel{older}), tx.PutUsageLevels(ctx, nil),
				tx.NoteUsageAlarm(ctx, alarm, at(1)), tx.NoteUsageAlarm(ctx, alarm, at(2)),
				tx.TouchUsage(ctx, []string{"tn_a", "tn_b"}, at(1)), tx.TouchUsageOf(ctx, "tn_a", at(3)), tx.TouchUsage(ctx, nil, at(9)),
			)
			levels, levelsErr := tx.ListUsageLevels(ctx, "tn_a")
			wantEqual(t, "levels", levels, []store.UsageLevel{level})
			alarms, alarmsErr := tx.ListUsageAlarms(ctx, at(2), 9)
			alarm.FirstAt, alarm.LastAt, alarm.Times = at(1), at(2), 2
			wantEqual(t, "alarms", alarms, []store.UsageAlarm{alarm})
			changed, changedErr := tx.ChangedUsage(ctx, store.UsageChange{ChangedAt: at(2)}, 9)
			wantEqual(t, "changed", changed, []store.UsageChange{{TenantID: "tn_a", ChangedAt: at(3)}})
			owners, ownersErr := tx.TenantsOfNamespaces(ctx, []string{"ns_1", "ns_2", "ns_3"})
			wantEqual(t, "tenants", owners, map[string]string{"ns_1": "tn_a", "ns_2": "tn_b"})

			_, missing := tx.GetSpendLimit(ctx, "tn_a")
			wantErr(t, "no limit", missing, store.ErrNotFound)
			limit := store.SpendLimit{TenantID: "tn_a", Amount: 500, Currency: "usd", Action: "hold", Alerts: []int{50, 90}, CreatedAt: at(1), UpdatedAt: at(1), Version: 1}
			insertErr := tx.InsertSpendLimit(ctx, limit)
			limit.Amount = 0
			updateErr := tx.UpdateSpendLimit(ctx, &limit)
			stored, getErr := tx.GetSpendLimit(ctx, "tn_a")
			wantEqual(t, "limit", stored, limit)
			wantErr(t, "first notice", tx.NoteLimitNotice(ctx, "tn_a", at(1), "spend/80", at(2)), nil)
			wantErr(t, "second notice", tx.NoteLimitNotice(ctx, "tn_a", at(1), "spend/80", at(2)), store.ErrExists)
			n, forgetErr := tx.DeleteLimitNoticesBefore(ctx, at(2))
			wantEqual(t, "forgotten", n, 1)
			return errors.Join(err, levelsErr, alarmsErr, changedErr, ownersErr, insertErr, updateErr, getErr, forgetErr)
		})
	})
}
