package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// BenchmarkCalls times calls beside ten thousand tenants. Without a cell: what a call
// waits for after its own work is not counted.
func BenchmarkCalls(b *testing.B) {
	const tenants = 10_000
	s := newStage(b)
	s.unlimited()
	p := s.newFixture(b, "acme")
	p.in(b, func(ctx context.Context, tx *store.Tx) error {
		for i := range tenants {
			now := p.kit.Now()
			t := store.Tenant{ID: p.id(ids.Tenant), Name: fmt.Sprintf("tenant-%d-x", i), Plan: plans.First, Cell: "cell-1", CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1}
			if err := tx.InsertTenant(ctx, t); err != nil {
				return err
			}
		}
		for i := range 1000 {
			now := p.kit.Now()
			n := store.Namespace{TenantID: p.TenantID, ID: p.id(ids.Namespace), Name: fmt.Sprintf("listed-%d-x", i), CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1}
			if err := tx.InsertNamespace(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
	key, cookie := bearer(p.manage), browser(s.signIn(b, p.Email))
	n := 0
	for name, call := range map[string]func() reply{
		"read by key":     func() reply { return s.call(b, getTenant, "{}", key...) },
		"read by session": func() reply { return s.call(b, getTenant, "{}", cookie...) },
		"list 1000":       func() reply { return s.call(b, listNamespaces, `{"pageSize":1000}`, key...) },
		"write": func() reply {
			n++
			return s.call(b, "/corvo.cloud.v1.NamespaceService/CreateNamespace", fmt.Sprintf(`{"name":"made-%d-x"}`, n), key...)
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if r := call(); r.status != http.StatusOK {
					b.Fatalf("%d %s", r.status, r.body)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
