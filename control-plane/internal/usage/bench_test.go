package usage_test

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/usage"
)

// BenchmarkPreviewInvoice previews the month of a tenant with sixty namespaces, as many as the
// plan free allows, that all count in each of 240 hours: the forecast has a whole week.
//
// It also reports the processor time of this process, which other load hardly changes; that
// of PostgreSQL is the server's.
//
//	go test ./internal/usage -run xxx -bench PreviewInvoice -benchtime 60x
func BenchmarkPreviewInvoice(b *testing.B) {
	benchMonth(b, func(*world) {}, func(w *world) error {
		_, err := w.s.PreviewInvoice(w.ctx, &cloudv1.PreviewInvoiceRequest{})
		return err
	})
}

// BenchmarkSpendLimit compares the same month with a spend limit that is far, as the loop does
// every ten seconds for a tenant that is being used.
//
//	go test ./internal/usage -run xxx -bench SpendLimit -benchtime 60x
func BenchmarkSpendLimit(b *testing.B) {
	benchMonth(b, func(w *world) {
		w.Advance(time.Second)
		w.Service(b, func(ctx context.Context, tx *store.Tx) error { return tx.TouchUsage(ctx, []string{w.tn.ID}, w.Now()) })
	}, func(w *world) error { return w.s.Compare(w.ctx) })
}

// benchMonth times what is done with the month of sixty namespaces, without what comes before
// each time.
func benchMonth(b *testing.B, before func(*world), do func(*world) error) {
	cloudtest.EachBench(b, func(b *testing.B, cw *cloudtest.World) {
		w := newWorld(b, cw)
		w.countMonth(b)
		if _, err := w.s.SetSpendLimit(w.ctx, &cloudv1.SetSpendLimitRequest{Limit: &cloudv1.SpendLimit{Amount: 1e9, Action: usage.ActionHold}}); err != nil {
			b.Fatal(err)
		}
		var took []time.Duration
		var used time.Duration
		for b.Loop() {
			b.StopTimer()
			before(w)
			b.StartTimer()
			processor, began := processorTime(b), time.Now()
			if err := do(w); err != nil {
				b.Fatal(err)
			}
			took, used = append(took, time.Since(began)), used+processorTime(b)-processor
		}
		b.ReportMetric(float64(used.Microseconds())/1000/float64(len(took)), "processor-ms")
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	})
}

func (w *world) countMonth(b *testing.B) {
	from, to := w.Now().Add(-240*time.Hour), w.Now()
	for hour := from; hour.Before(to); hour = hour.Add(time.Hour) {
		var list []metering.Reading
		for n := range 60 {
			list = append(list, metering.Reading{UsageKey: store.UsageKey{TenantID: w.tn.ID, NamespaceID: fmt.Sprintf("ns_%d", n), Hour: metering.Hour(hour)}, Counts: jobs(5)})
		}
		w.Service(b, func(ctx context.Context, tx *store.Tx) error {
			_, err := metering.Take(ctx, tx, metering.Said{Cell: w.tn.Cell, Source: "shard/1", Epoch: "e", Readings: list}, w.Now())
			return err
		})
	}
	w.close(to)
}

// processorTime is what this process used of the processors.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
