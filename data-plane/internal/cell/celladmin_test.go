package cell

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
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

func TestChange_KeepsWhatItDoesNotNameAndLeavesAControlledCellAlone(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 1)
	c.leader()
	admin := c.admin()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := admin.CreateTenant(ctx, "acme", &cellv1.Limits{Weight: 2, StreamsMax: 7}); err != nil {
		t.Fatal(err)
	}
	heavier := func(t *cellv1.Tenant) error {
		t.Limits.Weight++
		return nil
	}
	keepsADay := func(_ *cellv1.Tenant, n *cellv1.Namespace) error {
		n.Retention = &cellv1.Retention{DeadNs: int64(24 * time.Hour)}
		return nil
	}
	// Twice: the second one reads what the first one wrote.
	for range 2 {
		if _, err := admin.ChangeTenant(ctx, "acme", heavier); err != nil {
			t.Fatal(err)
		}
	}
	before, err := admin.ChangeNamespace(ctx, "acme", celladmin.DefaultNamespace, keepsADay)
	if err != nil {
		t.Fatal(err)
	}
	stored := func() (*cellv1.Tenant, *cellv1.Namespace) {
		t.Helper()
		s, err := admin.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		tenant, err := celladmin.FindTenant(s, "acme")
		if err != nil {
			t.Fatal(err)
		}
		ns, err := celladmin.FindNamespace(s, tenant.GetId(), celladmin.DefaultNamespace)
		if err != nil {
			t.Fatal(err)
		}
		return tenant, ns
	}
	tenant, ns := stored()
	if tenant.GetLimits().GetWeight() != 4 || tenant.GetLimits().GetStreamsMax() != 7 {
		t.Errorf("the tenant's limits are %v", tenant.GetLimits())
	}
	if ns.GetRetention().GetDeadNs() != int64(24*time.Hour) || ns.GetShard() == 0 || ns.GetShard() != before.GetShard() {
		t.Errorf("the namespace is %v", ns)
	}
	refusal := errors.New("no")
	if _, err := admin.ChangeTenant(ctx, "acme", func(*cellv1.Tenant) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("a change that its caller gave up: %v", err)
	}
	if _, err := admin.ChangeTenant(ctx, "nobody", heavier); !errors.Is(err, celladmin.ErrNotFound) {
		t.Errorf("a tenant that isn't there: %v", err)
	}

	if _, err := admin.ApplyFor(ctx, celladmin.Writer{Source: "tenant/1", Generation: 1, Incarnation: "first"}, celladmin.TenantChange(celladmin.NewTenant("other"))); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.ChangeTenant(ctx, "acme", heavier); !errors.Is(err, celladmin.ErrControlled) {
		t.Errorf("the tenant of a cell with a control plane: %v", err)
	}
	if _, err := admin.ChangeNamespace(ctx, "acme", celladmin.DefaultNamespace, keepsADay); !errors.Is(err, celladmin.ErrControlled) {
		t.Errorf("the namespace of a cell with a control plane: %v", err)
	}
	if tenant, _ := stored(); tenant.GetLimits().GetWeight() != 4 {
		t.Errorf("the tenant's weight is %d", tenant.GetLimits().GetWeight())
	}
}
