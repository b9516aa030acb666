package store

import "context"

const (
	namespaceColumns = "tenant_id, id, name, labels, delete_protection, region, created_at, updated_at, deleted_at, version, generation, observed"
	namespaceExists  = "SELECT 1 FROM namespaces WHERE tenant_id = ? AND id = ?"
)

func scanNamespace(s scanner) (v Namespace, err error) {
	return v, s.Scan(&v.TenantID, &v.ID, &v.Name, asJSON{&v.Labels}, toBool{&v.DeleteProtection}, &v.Region,
		toTime{&v.CreatedAt}, toTime{&v.UpdatedAt}, toTime{&v.DeletedAt}, &v.Version, &v.Generation, &v.Observed)
}

func (t *tx) InsertNamespace(ctx context.Context, v Namespace) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.insert(ctx, "namespaces", namespaceColumns, v.TenantID, v.ID, v.Name, asJSON{v.Labels}, v.DeleteProtection, v.Region,
		v.CreatedAt, v.UpdatedAt, v.DeletedAt, v.Version, v.Generation, v.Observed)
}

func (t *tx) GetNamespace(ctx context.Context, tenantID, id string) (Namespace, error) {
	if !t.sees(tenantID) {
		return Namespace{}, ErrNotFound
	}
	return one(ctx, t, "get namespace", scanNamespace, "SELECT "+namespaceColumns+" FROM namespaces WHERE tenant_id = ? AND id = ?", tenantID, id)
}

func (t *tx) FindNamespace(ctx context.Context, id string) (Namespace, error) {
	if err := t.service(); err != nil {
		return Namespace{}, err
	}
	return one(ctx, t, "find namespace", scanNamespace, "SELECT "+namespaceColumns+" FROM namespaces WHERE id = ?", id)
}

func (t *tx) GetNamespaceByName(ctx context.Context, tenantID, name string) (Namespace, error) {
	if !t.sees(tenantID) {
		return Namespace{}, ErrNotFound
	}
	return one(ctx, t, "get namespace by name", scanNamespace,
		"SELECT "+namespaceColumns+" FROM namespaces WHERE tenant_id = ? AND name = ? AND deleted_at = 0", tenantID, name)
}

func (t *tx) ListNamespaces(ctx context.Context, tenantID string, p Page) ([]Namespace, error) {
	if !t.sees(tenantID) {
		return nil, nil
	}
	return many(ctx, t, "list namespaces", scanNamespace,
		"SELECT "+namespaceColumns+" FROM namespaces WHERE tenant_id = ? AND deleted_at = 0 AND name > ? ORDER BY name LIMIT ?", tenantID, p.After, p.limit())
}

func (t *tx) CountNamespaces(ctx context.Context, tenantID string) (int, error) {
	if !t.sees(tenantID) {
		return 0, nil
	}
	n, err := one(ctx, t, "count namespaces", number, "SELECT COUNT(*) FROM namespaces WHERE tenant_id = ? AND deleted_at = 0", tenantID)
	return int(n), err
}

func (t *tx) UpdateNamespace(ctx context.Context, v *Namespace) error {
	if !t.sees(v.TenantID) {
		return ErrNotFound
	}
	err := t.update(ctx, "update namespace",
		`UPDATE namespaces SET name = ?, labels = ?, delete_protection = ?, region = ?, updated_at = ?, deleted_at = ?, generation = ?, version = version + 1
		 WHERE tenant_id = ? AND id = ? AND version = ?`,
		[]any{v.Name, asJSON{v.Labels}, v.DeleteProtection, v.Region, v.UpdatedAt, v.DeletedAt, v.Generation, v.TenantID, v.ID, v.Version},
		namespaceExists, v.TenantID, v.ID)
	if err == nil {
		v.Version++
	}
	return err
}

func (t *tx) ObserveNamespace(ctx context.Context, tenantID, id string, generation int64) error {
	if err := t.in(tenantID); err != nil {
		return err
	}
	_, err := t.exec(ctx, "observe namespace", "UPDATE namespaces SET observed = ? WHERE tenant_id = ? AND id = ? AND observed < ?",
		generation, tenantID, id, generation)
	return err
}

func (t *tx) UnobservedNamespaces(ctx context.Context, p Page) ([]Namespace, error) {
	if err := t.service(); err != nil {
		return nil, err
	}
	return many(ctx, t, "list unobserved namespaces", scanNamespace,
		"SELECT "+namespaceColumns+" FROM namespaces WHERE observed < generation AND id > ? ORDER BY id LIMIT ?", p.After, p.limit())
}

func (t *tx) UnobservedNamespacesOf(ctx context.Context, tenantID string, p Page) ([]Namespace, error) {
	if !t.sees(tenantID) {
		return nil, nil
	}
	return many(ctx, t, "list unobserved namespaces of a tenant", scanNamespace,
		"SELECT "+namespaceColumns+" FROM namespaces WHERE tenant_id = ? AND observed < generation AND id > ? ORDER BY id LIMIT ?", tenantID, p.After, p.limit())
}
