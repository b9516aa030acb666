package operators_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// BenchmarkListTenants walks the pages of ten thousand tenants as the console does, a page per
// operation, by each order and filter.
//
//	go test ./internal/operators -run xxx -bench ListTenants -benchtime 300x
func BenchmarkListTenants(b *testing.B) {
	cloudtest.EachBench(b, func(b *testing.B, cw *cloudtest.World) {
		w := newWorld(b, cw)
		w.fill(10_000)
		for name, r := range map[string]*cloudv1.ListTenantsRequest{
			"revenue": {Sort: "revenue"}, "jobs in an hour": {Sort: "jobs_hour"}, "stored bytes": {Sort: "stored_bytes"}, "name": {Sort: "name"},
			"revenue of a plan": {Sort: "revenue", Plan: "business"}, "search": {Sort: "revenue", Search: "nant-77"}, "nothing found": {Sort: "revenue", Search: "nobody"},
		} {
			b.Run(name, func(b *testing.B) { w.walk(b, r) })
		}
	})
}

func (w *world) walk(b *testing.B, r *cloudv1.ListTenantsRequest) {
	var took []time.Duration
	r.PageSize = 100
	for b.Loop() {
		began := time.Now()
		res, err := w.ListTenants(w.ctx, r)
		took = append(took, time.Since(began))
		if err != nil {
			b.Fatal(err)
		}
		r.PageToken = res.GetNextPageToken()
	}
	slices.Sort(took)
	for _, percent := range []int{50, 99} {
		b.ReportMetric(float64(took[len(took)*percent/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", percent))
	}
}

// fill makes tenants with two members, three namespaces and figures. Four of five pay nothing,
// as most do.
func (w *world) fill(tenants int) {
	w.t.Helper()
	now, random := w.World.Now(), rand.New(rand.NewPCG(1, 2))
	member := store.User{ID: w.IDs.New(ids.User, now), Email: "many@corvo.test", CreatedAt: now}
	other := store.User{ID: w.IDs.New(ids.User, now), Email: "others@corvo.test", CreatedAt: now}
	w.World.Service(w.t, func(ctx context.Context, tx *store.Tx) error {
		for _, u := range []store.User{member, other} {
			if err := tx.InsertUser(ctx, u); err != nil {
				return err
			}
		}
		for i := range tenants {
			t := store.Tenant{ID: w.IDs.New(ids.Tenant, now), Name: fmt.Sprintf("tenant-%05d", i), Plan: "free", Cell: "test", CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1}
			f := store.TenantFigures{TenantID: t.ID, At: now, Month: bill.Month(now).Start, Currency: "usd", JobsDay: random.Int64N(1e6), JobsHour: random.Int64N(1e5), OpenJobs: random.Int64N(1e4), StoredBytes: random.Int64N(1e9)}
			if i%5 == 0 {
				t.Plan, f.Revenue, f.RevenueLastMonth = "business", random.Int64N(1e6), random.Int64N(1e6)
			}
			if err := tx.InsertTenant(ctx, t); err != nil {
				return err
			}
			if err := tx.PutTenantFigures(ctx, f); err != nil {
				return err
			}
			for _, u := range []store.User{member, other} {
				if err := tx.InsertMembership(ctx, store.Membership{TenantID: t.ID, UserID: u.ID, CreatedAt: now, Version: 1}); err != nil {
					return err
				}
			}
			for n := range 3 {
				ns := store.Namespace{TenantID: t.ID, ID: w.IDs.New(ids.Namespace, now), Name: fmt.Sprintf("ns-%d", n), CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1}
				if err := tx.InsertNamespace(ctx, ns); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
