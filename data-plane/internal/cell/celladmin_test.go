package cell

import (
	"context"
	"errors"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
)

// admin is the client that the control plane uses, speaking to every node.
func (c *testCell) admin() *celladmin.Client {
	c.t.Helper()
	var urls []string
	for _, n := range c.nodes {
		urls = append(urls, n.record().GetApiUrl())
	}
	client, err := celladmin.New(cellsecret.Must([]byte(testSecret)), urls, celladmin.Options{Name: "test"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

func TestApplyAs_AnOldGenerationIsRefusedByName(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 1)
	c.leader()
	admin := c.admin()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	tenant := celladmin.NewTenant("first")
	if _, err := admin.ApplyAs(ctx, "tenant/1", 7, celladmin.TenantChange(tenant)); err != nil {
		t.Fatal(err)
	}
	tenant.Name = "late"
	for _, generation := range []uint64{7, 6, 0} {
		_, err := admin.ApplyAs(ctx, "tenant/1", generation, celladmin.TenantChange(tenant))
		var stale *celladmin.StaleError
		if !errors.As(err, &stale) || stale.Generation != generation || stale.Source != "tenant/1" {
			t.Errorf("generation %d: %v, want a StaleError", generation, err)
		}
	}
	if _, err := admin.ApplyAs(ctx, "tenant/2", 1, celladmin.TenantChange(celladmin.NewTenant("other"))); err != nil {
		t.Errorf("another source: %v", err)
	}
	s, err := admin.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := celladmin.FindTenant(s, "first"); err != nil {
		t.Errorf("a stale generation changed the tenant: %v", err)
	}
	if _, err := admin.ApplyAs(ctx, "tenant/2", 2, celladmin.TenantChange(celladmin.NewTenant("first"))); err == nil || errors.As(err, new(*celladmin.StaleError)) {
		t.Errorf("a taken name: %v, want another refusal", err)
	}
}
