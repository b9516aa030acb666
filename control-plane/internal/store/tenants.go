package store

import "context"

const (
	tenantColumns = "tenant_id, name, display_name, plan, cell, created_at, updated_at, deleted_at, version, generation, observed"
	tenantExists  = "SELECT 1 FROM tenants WHERE tenant_id = ?"
)

func scanTenant(s scanner) (v Tenant, err error) {
	return v, s.Scan(&v.ID, &v.Name, &v.DisplayName, &v.Plan, &v.Cell, toTime{&v.CreatedAt}, toTime{&v.UpdatedAt}, toTime{&v.DeletedAt},
		&v.Version, &v.Generation, &v.Observed)
}

func (t *tx) InsertTenant(ctx context.Context, v Tenant) error {
	if err := t.in(v.ID); err != nil {
		return err
	}
	return t.insert(ctx, "tenants", tenantColumns, v.ID, v.Name, v.DisplayName, v.Plan, v.Cell, v.CreatedAt, v.UpdatedAt, v.DeletedAt,
		v.Version, v.Generation, v.Observed)
}

func (t *tx) GetTenant(ctx context.Context, id string) (Tenant, error) {
	if !t.sees(id) {
		return Tenant{}, ErrNotFound
	}
	return one(ctx, t, "get tenant", scanTenant, "SELECT "+tenantColumns+" FROM tenants WHERE tenant_id = ? AND deleted_at = 0", id)
}

func (t *tx) GetTenantByName(ctx context.Context, name string) (Tenant, error) {
	if err := t.service(); err != nil {
		return Tenant{}, err
	}
	return one(ctx, t, "get tenant by name", scanTenant, "SELECT "+tenantColumns+" FROM tenants WHERE name = ? AND deleted_at = 0", name)
}

func (t *tx) FindTenant(ctx context.Context, id string) (Tenant, error) {
	if !t.sees(id) {
		return Tenant{}, ErrNotFound
	}
	return one(ctx, t, "find tenant", scanTenant, "SELECT "+tenantColumns+" FROM tenants WHERE tenant_id = ?", id)
}

func (t *tx) UpdateTenant(ctx context.Context, v *Tenant) error {
	if !t.sees(v.ID) {
		return ErrNotFound
	}
	err := t.update(ctx, "update tenant",
		`UPDATE tenants SET name = ?, display_name = ?, plan = ?, cell = ?, updated_at = ?, deleted_at = ?, generation = ?, version = version + 1
		 WHERE tenant_id = ? AND version = ?`,
		[]any{v.Name, v.DisplayName, v.Plan, v.Cell, v.UpdatedAt, v.DeletedAt, v.Generation, v.ID, v.Version}, tenantExists, v.ID)
	if err == nil {
		v.Version++
	}
	return err
}

func (t *tx) ObserveTenant(ctx context.Context, id string, generation int64) error {
	if err := t.in(id); err != nil {
		return err
	}
	_, err := t.exec(ctx, "observe tenant", "UPDATE tenants SET observed = ? WHERE tenant_id = ? AND observed < ?", generation, id, generation)
	return err
}

func (t *tx) ListTenants(ctx context.Context, p Page) ([]Tenant, error) {
	if err := t.service(); err != nil {
		return nil, err
	}
	return many(ctx, t, "list tenants", scanTenant, "SELECT "+tenantColumns+" FROM tenants WHERE tenant_id > ? ORDER BY tenant_id LIMIT ?", p.After, p.limit())
}

func (t *tx) UnobservedTenants(ctx context.Context, p Page) ([]Tenant, error) {
	if err := t.service(); err != nil {
		return nil, err
	}
	return many(ctx, t, "list unobserved tenants", scanTenant,
		"SELECT "+tenantColumns+" FROM tenants WHERE observed < generation AND tenant_id > ? ORDER BY tenant_id LIMIT ?", p.After, p.limit())
}
