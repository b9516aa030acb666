package usage

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// What a segment counts by the sums of days is what its hours add up to, wherever plans
// change, up to wherever hours are closed, and whatever was revised. Peaks are no sums: that
// of a day adds up each namespace's own.
func TestCounts_ByDaysAreThoseByHours(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		month := bill.Month(w.Now())
		first := metering.Hour(month.Start)
		const hours = 80 // Three days and a part.
		try := 0
		rapid.Check(t, func(r *rapid.T) {
			try++
			tn, _ := w.Tenant(t, fmt.Sprintf("acme-%d", try), fmt.Sprintf("ada-%d@acme.test", try))
			cell := fmt.Sprintf("cell-%d", try)
			take := func(hour int64) {
				n := rapid.Int64Range(1, 1000).Draw(r, "jobs")
				key := store.UsageKey{TenantID: tn.ID, NamespaceID: fmt.Sprintf("ns_%d", n%3), Hour: hour}
				list := []metering.Reading{{UsageKey: key, Seq: n, Counts: store.Counts{JobsEnqueued: n, StoredByteHours: 2 * n}}}
				w.Service(t, func(ctx context.Context, tx *store.Tx) error {
					_, err := metering.Take(ctx, tx, metering.Said{Cell: cell, Source: "shard/1", Epoch: "e", Readings: list}, w.Now())
					return err
				})
			}
			closed := first
			for range rapid.IntRange(1, 3).Draw(r, "closings") {
				for range rapid.IntRange(1, 12).Draw(r, "readings") { // Of closed hours too: they become revisions.
					take(first + rapid.Int64Range(0, hours-1).Draw(r, "hour"))
				}
				closed = max(closed, first+rapid.Int64Range(0, hours).Draw(r, "closed"))
				for more := true; more; {
					w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
						more, err = metering.Close(ctx, tx, cell, closed, w.Now())
						return err
					})
				}
			}
			p := priced{plans.Priced{Period: bill.Period{Start: month.Start, End: metering.Start(first + hours)}}}
			cuts := rapid.SliceOfNDistinct(rapid.Int64Range(1, hours-1), 0, 3, rapid.ID).Draw(r, "changes")
			slices.Sort(cuts)
			begin := p.Start
			for _, c := range append(cuts, hours) {
				end := metering.Start(first + c)
				p.Segments = append(p.Segments, bill.Segment{From: begin, To: end})
				begin = end
			}
			if rapid.Bool().Draw(r, "up to what is closed") && closed > metering.Hour(p.Segments[len(p.Segments)-1].From) {
				p.Segments[len(p.Segments)-1].To = metering.Start(closed) // As the forecast's week ends.
				p.End = metering.Start(closed)
			}
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				got, err := p.counts(ctx, tx, tn.ID, closed)
				if err != nil {
					return err
				}
				list, err := tx.UsageByHour(ctx, tn.ID, first, first+hours, false)
				want := make([]bill.Counts, len(p.Segments))
				p.addHours(want, list)
				if !slices.Equal(got, want) {
					r.Errorf("closed to %d, changes %v: %+v, by hours %+v", closed-first, cuts, got, want)
				}
				return err
			})
		})
	})
}
