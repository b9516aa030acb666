package stripe_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// BenchmarkPush_Backlog reads the ledger of 100 payers and 60 hours after an outage, in which
// an hour of twenty has something to send, and sends that.
//
//	go test ./internal/stripe -run xxx -bench Backlog -benchtime 1x
func BenchmarkPush_Backlog(b *testing.B) {
	cloudtest.EachBench(b, func(b *testing.B, cw *cloudtest.World) {
		const payers, hours = 100, 60
		w := around(b, cw)
		var ids []string
		for n := range payers {
			tn, _ := w.paying(b, fmt.Sprintf("acme-%d", n))
			ids = append(ids, tn.ID)
		}
		for b.Loop() {
			b.StopTimer()
			first := w.hour(1)
			w.Advance((hours + 2) * time.Hour)
			for n := range hours {
				w.Service(b, func(ctx context.Context, tx *store.Tx) error {
					for i, id := range ids {
						c := store.Counts{StoredByteHours: 5}
						if (i+n)%20 == 0 {
							c = counts(7)
						}
						h := store.UsageHour{UsageKey: store.UsageKey{TenantID: id, NamespaceID: "ns_1", Hour: hourOf(first) + int64(n)}, Counts: c, ClosedAt: w.Now()}
						if err := tx.ReviseUsage(ctx, h, c); err != nil {
							return err
						}
					}
					return nil
				})
				w.Advance(time.Second) // Each hour is closed at a time of its own.
			}
			b.StartTimer()
			no(b, "push", w.svc.Push(b.Context()))
		}
		b.ReportMetric(payers*hours*float64(b.N)/b.Elapsed().Seconds(), "hours/s")
	})
}

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }
