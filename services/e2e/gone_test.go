package e2e

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// What a deleted tenant had in its namespaces is in no file of any node some minutes later:
// payloads, results, errors, names of queues, schedules, chains; logs and lists included.
// The cell's own record of the deletion stays for 35 days, so that it does not come back.
func TestDeleted_NoFileOfAnyNodeHasWhatWasATenants(t *testing.T) {
	if os.Getenv("CORVO_TEST_LONG") == "" {
		t.Skip("CORVO_TEST_LONG is not set: nodes erase once a minute")
	}
	const secret = "what-only-the-customer-may-know"
	c := rig.StartCell(t, rig.CellOptions{})
	leaver, remove := tenantOf(t, c, "leaver")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	call := func(method, path string, in any) {
		t.Helper()
		if _, err := leaver.Call(ctx, method, path, in, nil); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	for range 50 {
		call(http.MethodPost, "/api/v1/enqueue", map[string]any{"queue": secret, "payload": map[string]any{"name": secret}, "tags": map[string]any{"name": secret}})
	}
	for range 20 {
		job, ok, err := leaver.Fetch(ctx, secret, "w", time.Second)
		if err != nil || !ok {
			t.Fatalf("fetch: %v, %v", ok, err)
		}
		call(http.MethodPost, "/api/v1/ack/"+job.JobID, map[string]any{"result": map[string]any{"name": secret}, "lease_token": job.LeaseToken})
	}
	// Its name is in the audit log, which is kept.
	call(http.MethodPost, "/api/v1/schedules", map[string]any{"name": "nightly", "cron": "* * * * *", "queue": "nightly", "payload": map[string]any{"name": secret}})
	if found := filesWith(t, c, secret); len(found) == 0 {
		t.Fatal("no file had it before")
	}
	remove()
	if _, _, err := leaver.Fetch(ctx, secret, "w", 0); err == nil {
		t.Error("a deleted tenant is served")
	}
	// The files of write-ahead logs that are kept for reuse go with the process.
	restarted := time.Now()
	eventually.True(t, 6*time.Minute, "no file has it any more", func() bool {
		if time.Since(restarted) > 90*time.Second {
			restarted = time.Now()
			for _, n := range c.Nodes {
				n.Kill()
				n.Start()
				n.WaitReady(time.Minute)
			}
		}
		time.Sleep(5 * time.Second)
		left := filesWith(t, c, secret)
		t.Logf("it is in %v", left)
		return len(left) == 0
	})
}

// tenantOf makes a tenant of a cell with a key for everything in it, and deletes it again.
func tenantOf(t *testing.T, c *rig.Cell, name string) (_ rig.Tenant, remove func()) {
	t.Helper()
	of, err := c.Admin.CreateTenant(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := c.Admin.CreateKey(t.Context(), celladmin.NewKey{Tenant: name, Roles: []string{"admin"}, Kind: apikey.DataPlane})
	if err != nil {
		t.Fatal(err)
	}
	tenant := rig.NewTenant(c.Proxies[0].URL+"/t/"+name, key.Reveal())
	eventually.True(t, time.Minute, "the tenant is served", tenant.Serving)
	return tenant, func() {
		t.Helper()
		state, err := c.Admin.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		of.Deleted = true
		changes := []*cellv1.Change{celladmin.TenantChange(of)}
		for _, ns := range state.GetNamespaces() {
			if ns.GetTenantId() == of.GetId() {
				ns.Deleted = true
				changes = append(changes, celladmin.NamespaceChange(ns))
			}
		}
		if _, err := c.Admin.Apply(t.Context(), changes...); err != nil {
			t.Fatal(err)
		}
	}
}

// filesWith lists the files of the nodes that have some text.
func filesWith(t *testing.T, c *rig.Cell, text string) (out []string) {
	t.Helper()
	for _, n := range c.Nodes {
		err := filepath.WalkDir(n.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil
			}
			if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(text)) {
				rest, _ := filepath.Rel(filepath.Dir(n.Dir), path)
				out = append(out, rest)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
