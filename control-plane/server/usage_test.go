package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/metering"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const usageService = "/corvo.cloud.v1.UsageService/"

// usageBuilders are the requests about what was counted.
func usageBuilders() map[string]builder {
	return map[string]builder{
		"UsageService/GetUsage":       plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.GetUsageRequest) }),
		"UsageService/ExportUsage":    plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.ExportUsageRequest) }),
		"UsageService/PreviewInvoice": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.PreviewInvoiceRequest) }),
		"UsageService/GetSpendLimit":  plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.GetSpendLimitRequest) }),
		"UsageService/SetSpendLimit": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.SetSpendLimitRequest{Limit: &cloudv1.SpendLimit{Amount: 100}}
		}),
	}
}

// BenchmarkBilling closes an hour of ten thousand tenants, and times previews of a tenant with
// a month of sixty namespaces beside them.
func BenchmarkBilling(b *testing.B) {
	const tenants = 10_000
	s := newStage(b)
	s.unlimited()
	p := s.newFixture(b, "acme")
	now := p.kit.Now()
	// The month of this tenant is closed up to now.
	month := bill.Month(now)
	hour := metering.Hour(now)
	p.in(b, func(ctx context.Context, tx *store.Tx) error {
		// Two plans in the month, the second from the middle of a day on.
		for at, plan := range map[time.Time]string{month.Start: "team", month.Start.Add(55 * time.Hour): "business"} {
			if err := tx.PutSubscriptionChange(ctx, store.SubscriptionChange{TenantID: p.TenantID, At: at, Plan: plan, PlanVersion: 1}); err != nil {
				return err
			}
		}
		for h := metering.Hour(month.Start); h < hour; h++ {
			var list []metering.Reading
			for n := range 60 {
				list = append(list, metering.Reading{UsageKey: store.UsageKey{TenantID: p.TenantID, NamespaceID: fmt.Sprintf("ns_%d", n), Hour: h}, Counts: store.Counts{JobsEnqueued: 5, Executions: 6}})
			}
			if _, err := metering.Take(ctx, tx, metering.Said{Cell: "cell-1", Source: "shard/1", Epoch: "e", Readings: list}, now); err != nil {
				return err
			}
		}
		return nil
	})
	closeTo := func(to int64) {
		for more := true; more; {
			p.in(b, func(ctx context.Context, tx *store.Tx) (err error) {
				more, err = metering.Close(ctx, tx, "cell-1", to, now)
				return err
			})
		}
	}
	closeTo(hour)
	var all []string
	p.in(b, func(ctx context.Context, tx *store.Tx) error {
		for i := range tenants {
			id := p.id(ids.Tenant)
			all = append(all, id)
			t := store.Tenant{ID: id, Name: fmt.Sprintf("tenant-%d-x", i), Plan: "free", Cell: "cell-1", CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1}
			if err := tx.InsertTenant(ctx, t); err != nil {
				return err
			}
		}
		return nil
	})
	// readings of an hour: every tenant has a shard's and two proxies'.
	readings := func(h int64) {
		for source, part := range map[string]int{"shard/1": 1, "proxy/a": 2, "proxy/b": 3} {
			for ids := range slices.Chunk(all, 500) {
				p.in(b, func(ctx context.Context, tx *store.Tx) error {
					var list []metering.Reading
					for _, id := range ids {
						list = append(list, metering.Reading{UsageKey: store.UsageKey{TenantID: id, NamespaceID: "ns_" + id, Hour: h}, Counts: store.Counts{JobsEnqueued: int64(part)}})
					}
					_, err := metering.Take(ctx, tx, metering.Said{Cell: "cell-1", Source: source, Epoch: "e", Readings: list}, now)
					return err
				})
			}
		}
	}
	b.Run("close an hour", func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			b.StopTimer()
			readings(hour)
			b.StartTimer()
			began := time.Now()
			hour++
			closeTo(hour)
			took = append(took, time.Since(began))
		}
		b.ReportMetric(slices.Max(took).Seconds(), "max-s")
	})
	for name, call := range map[string]string{"preview": "PreviewInvoice", "usage": "GetUsage", "spend limit": "GetSpendLimit"} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if r := s.call(b, usageService+call, "{}", bearer(p.manage)...); r.status != http.StatusOK {
					b.Fatalf("%d %s", r.status, r.body)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
