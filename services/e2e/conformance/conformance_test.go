// Package conformance_test runs the rules of jobs and queues as a tenant meets them:
// through the proxy, on three nodes, whatever number of shards the cell has.
package conformance_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/cli/conformance"
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

func behindProxy(t *testing.T, shards int, namespaces ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("some ten seconds")
	}
	c := rig.StartCell(t, rig.CellOptions{NodeArgs: []string{"--shards", fmt.Sprint(shards)}})
	tenant := c.Tenant(0)
	conformance.Run(t, tenant.URL, c.Key, conformance.Options{Whole: true})
	for _, name := range namespaces {
		if _, err := c.Admin.CreateNamespace(t.Context(), rig.CellTenant, name); err != nil {
			t.Fatal(err)
		}
		tenant.Namespace = name
		for deadline := time.Now().Add(20 * time.Second); !tenant.Serving(); {
			if time.Now().After(deadline) {
				t.Fatalf("the proxy does not know namespace %s", name)
			}
		}
		conformance.Run(t, tenant.URL, c.Key, conformance.Options{Namespace: name, Whole: true})
	}
}
