package store

import "context"

var tenants = table[Tenant]{
	name:    "tenants",
	columns: "tenant_id, name, display_name, plan, cell, created_at, updated_at, deleted_at, version, generation, observed",
	fields: func(v *Tenant) []any {
		return []any{&v.ID, &v.Name, &v.DisplayName, &v.Plan, &v.Cell, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, asTime{&v.DeletedAt},
			&v.Version, &v.Generation, &v.Observed}
	},
	key: "tenant_id", changes: "name, display_name, plan, cell, updated_at, deleted_at, generation",
}

// InsertTenant adds a tenant, subscribed to its plan's newest version.
func (t *Tx) InsertTenant(ctx context.Context, v Tenant) error {
	if err := tenants.insert(ctx, t.of(v.ID), v); err != nil {
		return err
	}
	return t.insertSubscription(ctx, v)
}

// GetTenant finds live ones only.
func (t *Tx) GetTenant(ctx context.Context, id string) (Tenant, error) {
	return tenants.get(ctx, t.of(id), "tenant_id = ? AND deleted_at = 0", id)
}

// GetTenantByName finds live ones only.
func (t *Tx) GetTenantByName(ctx context.Context, name string) (Tenant, error) {
	return tenants.get(ctx, t.across(), "name = ? AND deleted_at = 0", name)
}

// FindTenant finds deleted ones too.
func (t *Tx) FindTenant(ctx context.Context, id string) (Tenant, error) {
	return tenants.get(ctx, t.of(id), "tenant_id = ?", id)
}

// TenantsOf finds some tenants, deleted ones too.
func (t *Tx) TenantsOf(ctx context.Context, ids []string) ([]Tenant, error) {
	return tenants.list(ctx, t.across(), len(ids), "tenant_id IN ("+places(len(ids))+")", anys(ids)...)
}

// UpdateTenant changes a tenant at the version it was read at.
func (t *Tx) UpdateTenant(ctx context.Context, v *Tenant) error {
	return tenants.update(ctx, t.of(v.ID), v, &v.Version)
}

// ObserveTenant records that the cell has applied a generation.
func (t *Tx) ObserveTenant(ctx context.Context, id string, generation int64) error {
	_, err := t.of(id).exec(ctx, "observe tenant", "UPDATE tenants SET observed = ? WHERE tenant_id = ? AND observed < ?", generation, id, generation)
	return err
}

// ListTenants walks all tenants, deleted or not, by id, for the service's full scans.
func (t *Tx) ListTenants(ctx context.Context, p Page) ([]Tenant, error) {
	return tenants.list(ctx, t.across(), p.limit(), "tenant_id > ? ORDER BY tenant_id", p.After)
}

// UnobservedTenants are those, deleted or not, whose generation the cell has not applied
// yet, by id.
func (t *Tx) UnobservedTenants(ctx context.Context, p Page) ([]Tenant, error) {
	return tenants.list(ctx, t.across(), p.limit(), "observed < generation AND tenant_id > ? ORDER BY tenant_id", p.After)
}
