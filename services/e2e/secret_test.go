package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// The cell's secret is replaced under load: no call is refused, and afterwards the old
// one opens nothing.
func TestSecret_IsReplacedUnderLoadAndNoCallIsRefused(t *testing.T) {
	t.Parallel()
	const next = "the secret that replaces it"
	c := rig.StartCell(t, rig.CellOptions{Proxies: 2})
	ctx := ctxFor(t, 2*time.Minute)
	calls, stop := callWithoutPause(ctx, t, c)
	settle := func(secrets ...string) {
		t.Helper()
		c.SetSecrets(secrets...)
		out, talk, exit := c.Command("secrets", "--wait")
		if exit != 0 {
			t.Fatalf("secrets %q: exit %d, %s", secrets, exit, talk)
		}
		if lines := strings.Count(out, "\n"); lines != 1+3+2+1 { // A title, nodes, proxies, the file.
			t.Errorf("%d lines:\n%s", lines, out)
		}
		for _, secret := range secrets {
			if strings.Contains(out, secret) {
				t.Errorf("a secret is shown:\n%s", out)
			}
		}
		from := calls.Load()
		eventually.True(t, 20*time.Second, "calls go on", func() bool { return calls.Load() > from+100 })
	}
	settle(rig.CellSecret, next)
	settle(next, rig.CellSecret)
	settle(next)
	// New connections to each node, with the new secret alone.
	c.Nodes[0].Signal(syscall.SIGTERM)
	c.Nodes[0].WaitExit(30 * time.Second)
	c.Nodes[0].Start()
	c.Nodes[0].WaitReady(30 * time.Second)
	settle(next)
	stop()
	// In a file of its own: the processes would follow theirs.
	old := filepath.Join(t.TempDir(), "old.secret")
	if err := os.WriteFile(old, []byte(rig.CellSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, talk, exit := rig.Run(t, time.Minute, "cell", "status", "--nodes", strings.Join(c.URLs(), ","), "--cell-secret-file", old); exit != 4 {
		t.Errorf("a command with the old secret: exit %d, %s", exit, talk)
	}
}

// callWithoutPause enqueues, fetches and acks through all proxies until stop is called, and
// fails the test when a call is refused.
func callWithoutPause(ctx context.Context, t *testing.T, c *rig.Cell) (calls *atomic.Int64, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	calls = new(atomic.Int64)
	var loops sync.WaitGroup
	for i := range c.Proxies {
		tenant := c.Tenant(i)
		loops.Go(func() {
			for ctx.Err() == nil {
				err := callOnce(ctx, tenant)
				if err != nil && ctx.Err() == nil {
					t.Errorf("after %d calls: %v", calls.Load(), err)
					return
				}
				calls.Add(3)
			}
		})
	}
	stop = func() { cancel(); loops.Wait() }
	t.Cleanup(stop)
	return calls, stop
}

func callOnce(ctx context.Context, tenant rig.Tenant) error {
	if _, err := tenant.Enqueue(ctx, "mail", map[string]any{"n": 1}); err != nil {
		return err
	}
	job, ok, err := tenant.Fetch(ctx, "mail", "w", 5*time.Second)
	if err != nil || !ok {
		return err
	}
	return tenant.Ack(ctx, job)
}
