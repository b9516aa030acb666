// Package conformance_test runs the rules of jobs and queues as a tenant meets them:
// through the proxy, on three nodes, whatever number of shards the cell has.
package conformance_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/cli/conformance"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

func TestConformance_ThreeNodesBehindTheProxyOneShard(t *testing.T) {
	behindProxy(t, 1)
}

// A namespace lies in one shard, so that several of them are asked.
func TestConformance_ThreeNodesBehindTheProxyFourShards(t *testing.T) {
	behindProxy(t, 4, "second", "third")
}

func behindProxy(t *testing.T, shards int, more ...string) {
	t.Helper()
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{NodeArgs: []string{"--shards", fmt.Sprint(shards)}})
	for _, name := range append([]string{""}, more...) { // "" is the key's own.
		tenant := c.Tenant(0)
		tenant.Namespace = name
		if name != "" {
			makeNamespace(t, c, tenant)
		}
		t.Run("namespace "+name, func(t *testing.T) {
			t.Parallel() // A namespace knows nothing of another.
			conformance.Run(t, tenant.URL, c.Key, conformance.Options{Namespace: name, Whole: true})
		})
	}
}

// makeNamespace returns when the proxy knows the namespace.
func makeNamespace(t *testing.T, c *rig.Cell, tenant rig.Tenant) {
	t.Helper()
	if _, err := c.Admin.CreateNamespace(t.Context(), rig.CellTenant, tenant.Namespace, nil); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, 20*time.Second, "the proxy knows namespace "+tenant.Namespace, tenant.Serving)
}
