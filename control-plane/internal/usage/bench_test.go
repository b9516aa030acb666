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
)

// BenchmarkPreviewInvoice previews the month of a tenant with sixty namespaces, as many as the
// plan free allows, that all count in each of 240 hours: the forecast has a whole week.
//
// It also reports the processor time of this process, which other load hardly changes; that
// of PostgreSQL is the server's.
//
//	go test ./internal/usage -run xxx -bench PreviewInvoice -benchtime 60x
func BenchmarkPreviewInvoice(b *testing.B) {
	cloudtest.EachBench(b, benchPreview)
}

func benchPreview(b *testing.B, cw *cloudtest.World) {
	w := newWorld(b, cw)
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
	var took []time.Duration
	before := processorTime(b)
	for b.Loop() {
		began := time.Now()
		if _, err := w.s.PreviewInvoice(w.ctx, &cloudv1.PreviewInvoiceRequest{}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(len(took)), "processor-ms")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
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
