package store

import "context"

var namespaces = table[Namespace]{
	name:    "namespaces",
	columns: "tenant_id, id, name, labels, delete_protection, region, retention, created_at, updated_at, deleted_at, version, generation, observed",
	fields: func(v *Namespace) []any {
		return []any{&v.TenantID, &v.ID, &v.Name, asJSON{&v.Labels}, asBool{&v.DeleteProtection}, &v.Region, asJSON{&v.Retention},
			asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, asTime{&v.DeletedAt}, &v.Version, &v.Generation, &v.Observed}
	},
	key: "tenant_id, id", changes: "name, labels, delete_protection, region, retention, updated_at, deleted_at, generation",
}

// InsertNamespace adds a namespace.
func (t *Tx) InsertNamespace(ctx context.Context, v Namespace) error {
	return namespaces.insert(ctx, t.of(v.TenantID), v)
}

// GetNamespace finds deleted ones too; see DeletedAt.
func (t *Tx) GetNamespace(ctx context.Context, tenantID, id string) (Namespace, error) {
	return namespaces.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// FindNamespace finds one of any tenant, for the service's own loops.
func (t *Tx) FindNamespace(ctx context.Context, id string) (Namespace, error) {
	return namespaces.get(ctx, t.across(), "id = ?", id)
}

// GetNamespaceByName finds live ones only.
func (t *Tx) GetNamespaceByName(ctx context.Context, tenantID, name string) (Namespace, error) {
	return namespaces.get(ctx, t.of(tenantID), "tenant_id = ? AND name = ? AND deleted_at = 0", tenantID, name)
}

// ListNamespaces lists live ones by name.
func (t *Tx) ListNamespaces(ctx context.Context, tenantID string, p Page) ([]Namespace, error) {
	return namespaces.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND deleted_at = 0 AND name > ? ORDER BY name", tenantID, p.After)
}

// CountNamespaces counts live ones.
func (t *Tx) CountNamespaces(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count namespaces", "SELECT COUNT(*) FROM namespaces WHERE tenant_id = ? AND deleted_at = 0", tenantID)
}

// UpdateNamespace changes a namespace at the version it was read at.
func (t *Tx) UpdateNamespace(ctx context.Context, v *Namespace) error {
	return namespaces.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// ObserveNamespace records that the cell has applied a generation.
func (t *Tx) ObserveNamespace(ctx context.Context, tenantID, id string, generation int64) error {
	_, err := t.of(tenantID).exec(ctx, "observe namespace", "UPDATE namespaces SET observed = ? WHERE tenant_id = ? AND id = ? AND observed < ?",
		generation, tenantID, id, generation)
	return err
}

// UnobservedNamespaces are those of all tenants, deleted or not, whose generation the
// cell has not applied yet, by id.
func (t *Tx) UnobservedNamespaces(ctx context.Context, p Page) ([]Namespace, error) {
	return namespaces.list(ctx, t.across(), p.limit(), "observed < generation AND id > ? ORDER BY id", p.After)
}

// UnobservedNamespacesOf are those of one tenant.
func (t *Tx) UnobservedNamespacesOf(ctx context.Context, tenantID string, p Page) ([]Namespace, error) {
	return namespaces.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND observed < generation AND id > ? ORDER BY id", tenantID, p.After)
}
