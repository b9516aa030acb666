package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

func ctxFor(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func TestCell_JobsGoOnWhenANodeIsKilled(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	tenant := c.Tenant(0)
	ctx := ctxFor(t, time.Minute)
	before, err := tenant.Enqueue(ctx, "mail", map[string]any{"n": 1})
	if err != nil {
		t.Fatal(err)
	}

	leader := c.Leader(c.Shard, 10*time.Second)
	killed := time.Now()
	c.Nodes[leader].Kill()
	after := enqueueUntil(ctx, t, tenant)
	t.Logf("writes resumed after %s", time.Since(killed).Round(time.Millisecond))

	missing := map[string]bool{before: true, after: true}
	for len(missing) > 0 { // An enqueue without an answer may have put in more.
		job, ok, err := tenant.Fetch(ctx, "mail", "w", 5*time.Second)
		if err != nil || !ok {
			t.Fatalf("fetch: %v %v, missing %v", ok, err, missing)
		}
		if err := tenant.Ack(ctx, job); err != nil {
			t.Fatal(err)
		}
		delete(missing, job.JobID)
	}
	c.Nodes[leader].Start()
	c.Nodes[leader].WaitReady(30 * time.Second)
}

// enqueueUntil tries until one is acknowledged.
func enqueueUntil(ctx context.Context, t *testing.T, tenant rig.Tenant) string {
	t.Helper()
	for {
		id, err := tenant.Enqueue(ctx, "mail", map[string]any{"n": 2})
		if err == nil {
			return id
		}
		if ctx.Err() != nil {
			t.Fatalf("no enqueue was acknowledged: %v", err)
		}
	}
}
