package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

const (
	idleNamespaces = 1000
	idleSettles    = 100 * time.Second // Unused lists are closed after a minute.
	idleLasts      = 30 * time.Second
)

// What a thousand namespaces cost a node once nothing happens in them any more: each has had
// a job, and somebody has looked at its list.
func BenchmarkIdleNamespaces(b *testing.B) {
	for range b.N {
		c := rig.StartCell(b, rig.CellOptions{Nodes: 1})
		before := idleUsage(b, c)
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
		defer cancel()
		use := errgroup.Group{}
		use.SetLimit(8)
		for i := range idleNamespaces {
			use.Go(func() error { return useNamespace(ctx, c, fmt.Sprintf("tenant-%d", i)) })
		}
		if err := use.Wait(); err != nil {
			b.Fatal(err)
		}
		after := idleUsage(b, c)
		b.ReportMetric(before.core, "%core-without")
		b.ReportMetric(after.core-before.core, "%core-more")
		b.ReportMetric(before.mb, "MB-without")
		b.ReportMetric(after.mb-before.mb, "MB-more")
		b.ReportMetric(0, "ns/op")
	}
}

// idle is what a node uses while nothing happens: of a core in percent, and of memory.
type idle struct{ core, mb float64 }

func idleUsage(b *testing.B, c *rig.Cell) idle {
	b.Helper()
	time.Sleep(idleSettles)
	cpu, _ := c.Nodes[0].Usage(b)
	time.Sleep(idleLasts)
	now, resident := c.Nodes[0].Usage(b)
	return idle{100 * float64(now-cpu) / float64(idleLasts), float64(resident) / (1 << 20)}
}

// useNamespace makes a tenant with a namespace, a key, and a job that is done.
func useNamespace(ctx context.Context, c *rig.Cell, name string) error {
	if _, err := c.Admin.CreateTenant(ctx, name, nil); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	key, err := c.Admin.CreateKey(ctx, celladmin.NewKey{Tenant: name, Roles: []string{"admin"}, Kind: apikey.DataPlane})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	tenant := rig.NewTenant(c.Proxies[0].URL+"/t/"+name, key.Reveal())
	for !tenant.Serving() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond) // The proxy learns of the tenant.
	}
	if _, err := tenant.Enqueue(ctx, "work", map[string]string{"of": name}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	job, ok, err := tenant.FetchLease(ctx, "work", "worker", 5*time.Second, time.Minute)
	if err != nil || !ok {
		return fmt.Errorf("%s: fetched %v: %w", name, ok, err)
	}
	if err := tenant.Ack(ctx, job); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if status, err := tenant.Call(ctx, "GET", "/api/v1/jobs", nil, nil); err != nil || status != 200 {
		return fmt.Errorf("%s: list answers %d: %w", name, status, err)
	}
	return nil
}
