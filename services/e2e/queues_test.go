package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

type queueRow struct {
	Pending        int  `json:"pending"`
	Active         int  `json:"active"`
	Completed      int  `json:"completed"`
	Paused         bool `json:"paused"`
	MaxConcurrency int  `json:"max_concurrency"`
	RateLimit      int  `json:"rate_limit"`
	RateWindowMS   int  `json:"rate_window_ms"`
}

// A management key sets up a queue of a named namespace at the tenant's address before
// any job is there, and a key for jobs may not change it.
func TestQueues_AreSetUpByAManagementKeyAtTheTenantsAddress(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	ctx := ctxFor(t, time.Minute)
	if _, err := c.Admin.CreateNamespace(ctx, rig.CellTenant, "staging", nil); err != nil {
		t.Fatal(err)
	}
	as := func(kind apikey.Kind, role string) rig.Tenant {
		key, err := c.Admin.CreateKey(ctx, celladmin.NewKey{Tenant: rig.CellTenant, Name: role, Roles: []string{role}, Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		return rig.NewTenant(c.Proxies[0].URL+"/t/"+rig.CellTenant, key.Reveal())
	}
	call := func(who rig.Tenant, method, path string, in any, out any) int {
		t.Helper()
		who.Namespace = "staging"
		var refused *rig.Refusal
		status, err := who.Call(ctx, method, path, in, out)
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return status
	}
	management := as(apikey.Management, "operator")
	want := map[string]any{"max_concurrency": 2, "throttle": map[string]any{"limit": 100, "window_ms": 60000}, "paused": true}
	var q queueRow
	eventually.True(t, 20*time.Second, "the proxy knows key and namespace, and the management key sets up a queue", func() bool {
		return call(management, http.MethodPut, "/api/v1/queues/mail", want, &q) == http.StatusOK
	})
	if q.MaxConcurrency != 2 || q.RateLimit != 100 || q.RateWindowMS != 60000 || !q.Paused {
		t.Fatalf("set up %+v", q)
	}
	for _, role := range []string{"worker", "producer", "viewer"} {
		who := as(apikey.DataPlane, role)
		eventually.True(t, 20*time.Second, "the "+role+"'s key is known", func() bool {
			return call(who, http.MethodGet, "/api/v1/queues/mail", nil, nil) != http.StatusUnauthorized
		})
		for _, change := range [][2]string{
			{http.MethodPut, ""}, {http.MethodDelete, "?confirm=true"}, {http.MethodPost, "/concurrency"}, {http.MethodPost, "/throttle"}, {http.MethodDelete, "/throttle"},
		} {
			if status := call(who, change[0], "/api/v1/queues/mail"+change[1], map[string]any{}, nil); status != http.StatusForbidden {
				t.Errorf("%s %s as %s: %d", change[0], change[1], role, status)
			}
		}
	}
	if status := call(management, http.MethodDelete, "/api/v1/queues/mail?confirm=true", nil, nil); status != http.StatusOK {
		t.Fatalf("delete: %d", status)
	}
	if status := call(management, http.MethodGet, "/api/v1/queues/mail", nil, nil); status != http.StatusNotFound {
		t.Fatalf("after the delete: %d", status)
	}
}

// A limit of three holds over all workers, proxies and nodes, even while the leader of
// the queue's shard is killed, and the work goes on.
func TestQueues_ALimitHoldsOverAChangeOfLeader(t *testing.T) {
	t.Parallel()
	const slots, jobs = 3, 60
	c := rig.StartCell(t, rig.CellOptions{})
	ctx := ctxFor(t, 2*time.Minute)
	tenant := c.Tenant(0)
	if _, err := tenant.Call(ctx, http.MethodPost, "/api/v1/queues/mail/concurrency", map[string]int{"max": slots}, nil); err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if _, err := tenant.Enqueue(ctx, "mail", map[string]any{"n": i}); err != nil {
			t.Fatal(err)
		}
	}
	var held, most, done atomic.Int64
	var wg sync.WaitGroup
	working, stop := context.WithCancel(ctx)
	for i := range 8 {
		at := c.Tenant(i % len(c.Proxies))
		wg.Go(func() {
			for working.Err() == nil {
				job, ok, err := at.FetchLease(working, "mail", "w", 2*time.Second, 3*time.Second)
				if err != nil || !ok {
					continue // An election; or no slot in time.
				}
				if n := held.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(20 * time.Millisecond) // The work.
				held.Add(-1)                      // Before the ack: afterwards the slot is another's.
				for working.Err() == nil {
					var refused *rig.Refusal
					err := at.Ack(working, job)
					if err == nil {
						done.Add(1)
					}
					if err == nil || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
						break
					}
				}
			}
		})
	}
	until := func(n int64) {
		t.Helper()
		for done.Load() < n {
			if ctx.Err() != nil {
				t.Fatalf("%d of %d jobs are done", done.Load(), n)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	until(jobs / 4)
	leader := c.Leader(c.Shard, 10*time.Second)
	c.Nodes[leader].Kill()
	until(jobs)
	stop()
	wg.Wait()
	if most.Load() > slots {
		t.Errorf("%d jobs were held at a time, %d may be", most.Load(), slots)
	}
}
