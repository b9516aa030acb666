package metering_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// hour is one that has ended; see cloudtest.World.
var hour = metering.Hour(time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC))

type world struct {
	*cloudtest.World
	t  testing.TB
	tn store.Tenant
	ns store.Namespace
}

func each(t *testing.T, test func(*testing.T, world)) {
	t.Helper()
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		tn, _ := w.Tenant(t, "acme", "ada@acme.test")
		ns := store.Namespace{TenantID: tn.ID, ID: "ns_1", Name: "prod", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertNamespace(ctx, ns) })
		test(t, world{w, t, tn, ns})
	})
}

func (w world) reading(at int64, seq int64, c store.Counts) metering.Reading {
	return metering.Reading{UsageKey: store.UsageKey{TenantID: w.tn.ID, NamespaceID: w.ns.ID, Hour: at}, Seq: seq, Counts: c, OpenJobs: seq}
}

func jobs(n int64) store.Counts { return store.Counts{JobsEnqueued: n} }

func (w world) take(source, epoch string, readings ...metering.Reading) (taken metering.Taken) {
	w.t.Helper()
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) (err error) {
		taken, err = metering.Take(ctx, tx, metering.Said{Cell: "test", Source: source, Epoch: epoch, Readings: readings}, w.Now())
		return err
	})
	return taken
}

func (w world) close(before int64) {
	w.t.Helper()
	for more := true; more; {
		w.Service(w.t, func(ctx context.Context, tx *store.Tx) (err error) {
			more, err = metering.Close(ctx, tx, "test", before, w.Now())
			return err
		})
	}
}

// ledger is what the rows of an hour say of jobs and peaks, by revision.
func (w world) ledger() (rows [][3]int64) {
	w.t.Helper()
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		list, err := tx.ListUsageHours(ctx, w.tn.ID, store.UsageAfter{}, 1<<40, 100)
		for _, r := range list {
			rows = append(rows, [3]int64{r.Hour - hour, r.Revision, r.JobsEnqueued + r.StreamsPeak})
		}
		return err
	})
	return rows
}

func (w world) wantLedger(want ...[3]int64) {
	w.t.Helper()
	if got := w.ledger(); !slices.Equal(got, want) {
		w.t.Errorf("ledger (hour, revision, count) %v, want %v", got, want)
	}
}

// day is what the sums of the day say of jobs and peaks.
func (w world) wantDay(want int64) {
	w.t.Helper()
	w.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		days, err := tx.UsageByDay(ctx, w.tn.ID, 0, 1<<40, false)
		var got int64
		for _, d := range days {
			got += d.JobsEnqueued + d.StreamsPeak
		}
		if got != want {
			w.t.Errorf("the days say %d, want %d", got, want)
		}
		return err
	})
}

func TestTake_TheLargestOfWhatASourceSaidCounts(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		five, nine := w.reading(hour, 5, jobs(5)), w.reading(hour, 9, jobs(9))
		for _, r := range []metering.Reading{five, nine, five, nine} {
			if taken := w.take("shard/1", "e", r); len(taken.Alarms) > 0 {
				t.Errorf("alarms %v", taken.Alarms)
			}
		}
		w.take("shard/1", "e", five, w.reading(hour, 10, jobs(12)), nine)
		if taken := w.take("shard/1", "e", five, nine); taken.Changed != 0 {
			t.Errorf("what is known changed %d readings", taken.Changed)
		}
		w.close(hour + 1)
		w.wantLedger([3]int64{0, 0, 12})
		w.wantDay(12)
	})
}

func TestTake_ADecreaseIsAnAlarmAndNeverACredit(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.take("shard/1", "e", w.reading(hour, 5, jobs(5)))
		for _, tc := range []struct {
			r    metering.Reading
			want string
		}{
			{w.reading(hour, 6, jobs(4)), metering.Decrease}, {w.reading(hour, 3, jobs(7)), metering.Decrease},
			{w.reading(hour, 7, jobs(-1)), metering.Impossible}, {w.reading(hour, 8, jobs(1<<50+1)), metering.Impossible},
		} {
			if taken := w.take("shard/1", "e", tc.r); len(taken.Alarms) != 1 || taken.Alarms[0].Problem != tc.want {
				t.Errorf("%+v: alarms %v, want %s", tc.r, taken.Alarms, tc.want)
			}
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			alarms, err := tx.ListUsageAlarms(ctx, w.Now(), 10)
			if len(alarms) != 2 || alarms[0].Times+alarms[1].Times != 4 {
				t.Errorf("alarms %+v", alarms)
			}
			return err
		})
		w.close(hour + 1)
		w.wantLedger([3]int64{0, 0, 7})
	})
}

// A recovered cell may have lost what it told before, or know more than was heard.
func TestTake_AnotherEpochOfAShardIsNeverBilledTwice(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.take("shard/1", "e1", w.reading(hour, 50, jobs(100)), w.reading(hour+1, 60, jobs(10)))
		w.take("shard/1", "e2", w.reading(hour, 7, jobs(95)))   // Behind: nothing counts until it exceeds 100.
		w.take("shard/1", "e2", w.reading(hour+1, 8, jobs(15))) // Ahead: what was there already doesn't count.
		w.take("shard/1", "e2", w.reading(hour, 9, jobs(98)))
		w.take("shard/1", "e2", w.reading(hour, 10, jobs(103)), w.reading(hour+1, 11, jobs(16)), w.reading(hour+2, 12, jobs(4)))
		if taken := w.take("shard/1", "e1", w.reading(hour, 70, jobs(999))); !taken.Ended || taken.Changed != 0 {
			t.Errorf("a late answer of the cell that was replaced: %+v", taken)
		}
		w.take("shard/1", "e3", w.reading(hour, 1, jobs(90)), w.reading(hour, 2, jobs(104)))
		w.close(hour + 3)
		w.wantLedger([3]int64{0, 0, 104}, [3]int64{1, 0, 11}, [3]int64{2, 0, 4})
		w.wantDay(104 + 11 + 4)
	})
}

func TestTake_RunsOfAProxyAddUpAndItsLargestPeakCounts(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.take("proxy/a", "r1", w.reading(hour, 1, store.Counts{JobsEnqueued: 3, StreamsPeak: 100}))
		w.take("proxy/a", "r2", w.reading(hour, 1, store.Counts{JobsEnqueued: 2, StreamsPeak: 200}))
		w.take("proxy/b", "r1", w.reading(hour, 1, store.Counts{StreamsPeak: 1000}))
		w.take("proxy/a", "r1", w.reading(hour, 2, store.Counts{JobsEnqueued: 4, StreamsPeak: 100}))
		w.close(hour + 1)
		w.wantLedger([3]int64{0, 0, 4 + 2 + 200 + 1000})
		w.take("proxy/b", "r2", w.reading(hour, 2, store.Counts{JobsEnqueued: 5, StreamsPeak: 1100}))
		w.wantLedger([3]int64{0, 0, 1206}, [3]int64{0, 1, 1311})
		w.wantDay(1311)
	})
}

func TestTake_LateDataMakesARevision(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.take("shard/1", "e", w.reading(hour, 5, jobs(5)))
		w.close(hour + 2)
		w.take("shard/1", "e", w.reading(hour, 5, jobs(5)))
		w.take("shard/1", "e", w.reading(hour, 6, jobs(5)))                                                                // The same in other words.
		w.take("shard/1", "e", w.reading(hour, 7, jobs(6)), w.reading(hour+1, 8, jobs(2)), w.reading(hour+2, 9, jobs(40))) // The last one is open.
		w.take("shard/1", "e", w.reading(hour, 10, jobs(9)))
		w.wantLedger([3]int64{0, 0, 5}, [3]int64{0, 1, 6}, [3]int64{0, 2, 9}, [3]int64{1, 0, 2})
		w.wantDay(11)
		w.close(hour + 3)
		w.wantDay(51)
	})
}

// Several processes take what shards tell of one closed hour: each revision has all that was told
// when it was written, and none is written twice.
func TestTake_LateDataTakenTwiceAtOnceIsCountedOnce(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.take("shard/0", "e", w.reading(hour, 1, jobs(1)))
		w.close(hour + 1)
		const sources, rounds = 4, 5
		for round := range int64(rounds) {
			errs := make([]error, sources)
			var all sync.WaitGroup
			for n := range sources {
				all.Go(func() {
					r := w.reading(hour, 2+round, jobs(10*(1+round)))
					errs[n] = w.Store.Service(t.Context(), func(tx *store.Tx) error {
						_, err := metering.Take(t.Context(), tx, metering.Said{Cell: "test", Source: fmt.Sprint("shard/", n+1), Epoch: "e", Readings: []metering.Reading{r}}, w.Now())
						return err
					})
				})
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		rows := w.ledger()
		for n, row := range rows {
			if row[1] != int64(n) {
				t.Errorf("revisions %v", rows)
			}
		}
		if last := rows[len(rows)-1]; last[2] != 1+sources*rounds*10 {
			t.Errorf("the last revision has %d, want %d", last[2], 1+sources*rounds*10)
		}
		w.wantDay(1 + sources*rounds*10)
	})
}

func TestTake_AnHourTakesNoCorrectionsForEver(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.take("shard/1", "e", w.reading(hour-40*24-1, 1, jobs(1)), w.reading(hour, 5, jobs(5)))
		w.close(hour + 1)
		if taken := w.take("shard/1", "e", w.reading(hour-40*24, 6, jobs(7))); len(taken.Alarms) != 1 || taken.Alarms[0].Problem != metering.TooLate {
			t.Errorf("alarms %v", taken.Alarms)
		}
		w.wantLedger([3]int64{-40*24 - 1, 0, 1}, [3]int64{0, 0, 5})
		count := func() (n int) {
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				more, err := metering.Forget(ctx, tx, "test")
				if more {
					t.Error("more to forget")
				}
				known, readErr := tx.UsageReadings(ctx, []store.UsageKey{w.reading(hour-40*24-1, 0, jobs(0)).UsageKey})
				n = len(known)
				if err == nil {
					err = readErr
				}
				return err
			})
			return n
		}
		if n := count(); n != 1 {
			t.Errorf("%d readings of the old hour are left, want 1: it may be corrected", n)
		}
		w.close(hour + 5*24 + 1)
		if n := count(); n != 0 {
			t.Errorf("%d readings of the old hour are left, want none", n)
		}
	})
}

func TestTake_KeepsTheLastLevelsAndPositions(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			said := metering.Said{Cell: "test", Source: "shard/1", Epoch: "e", Readings: []metering.Reading{w.reading(hour, 9, jobs(2)), w.reading(hour-1, 4, jobs(1))},
				Position: &metering.Position{Seq: 9, CompleteTo: w.Now()}}
			if _, err := metering.Take(ctx, tx, said, w.Now()); err != nil {
				return err
			}
			levels, err := tx.ListUsageLevels(ctx, w.tn.ID)
			if len(levels) != 1 || levels[0].OpenJobs != 9 {
				t.Errorf("levels %+v", levels)
			}
			changed, changedErr := tx.ChangedUsage(ctx, store.UsageChange{ChangedAt: w.Now()}, 9)
			if len(changed) != 1 || changed[0].TenantID != w.tn.ID {
				t.Errorf("changed %+v", changed)
			}
			source, sourceErr := tx.GetUsageSource(ctx, "test", "shard/1", "e")
			if source.Seq != 9 || !source.CompleteTo.Equal(w.Now()) {
				t.Errorf("source %+v", source)
			}
			for _, e := range []error{changedErr, sourceErr} {
				if err == nil {
					err = e
				}
			}
			return err
		})
	})
}

func TestComplete_ShardsHoldEveryHourAndSilentProxiesNone(t *testing.T) {
	t.Parallel()
	now := metering.Start(hour).Add(3*time.Hour + 30*time.Minute)
	at := func(source string, hours int, heard time.Duration) store.UsageSource {
		return store.UsageSource{Source: source, CompleteTo: metering.Start(hour).Add(time.Duration(hours) * time.Hour), HeardAt: now.Add(-heard)}
	}
	one, two := at("shard/1", 3, time.Hour), at("shard/2", 2, 0)
	ended := at("shard/2", 9, 0)
	ended.Ended = true
	unknown := store.UsageSource{Source: "shard/2", HeardAt: now}
	for what, tc := range map[string]struct {
		sources []store.UsageSource
		want    int64
	}{
		"the slowest shard":       {[]store.UsageSource{one, two}, hour + 2},
		"a shard never heard":     {[]store.UsageSource{one}, 0},
		"a shard's epoch ended":   {[]store.UsageSource{one, ended}, 0},
		"a shard just heard of":   {[]store.UsageSource{one, unknown}, 0},
		"a slow proxy":            {[]store.UsageSource{one, two, at("proxy/a", 1, 9*time.Minute)}, hour + 1},
		"a silent proxy":          {[]store.UsageSource{one, two, at("proxy/a", 1, 10*time.Minute)}, hour + 2},
		"nothing from the future": {[]store.UsageSource{at("shard/1", 99, 0), at("shard/2", 99, 0)}, hour + 3},
	} {
		if got := metering.Complete(tc.sources, []uint32{1, 2}, now); got != tc.want {
			t.Errorf("%s: hour %d, want %d", what, got-hour, tc.want-hour)
		}
	}
	if got := metering.Complete(nil, nil, now); got != 0 {
		t.Errorf("a cell without shards: %d", got)
	}
}

// Between two transactions of one hour, a tenant may be closed and another not.
func TestClose_GoesOnAfterTheLastTenant(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.take("shard/1", "e", w.reading(hour, 1, jobs(1)))
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			if _, err := tx.CloseUsage(ctx, "test", hour, "", w.tn.ID, w.Now()); err != nil {
				return err
			}
			return tx.PutUsageClosing(ctx, store.UsageClosing{Cell: "test", Hour: hour, TenantsTo: w.tn.ID})
		})
		w.take("shard/1", "e", w.reading(hour, 2, jobs(3)))
		w.wantLedger([3]int64{0, 0, 1}, [3]int64{0, 1, 3})
		w.close(hour + 1)
		w.wantLedger([3]int64{0, 0, 1}, [3]int64{0, 1, 3})
		w.wantDay(3)
	})
}
