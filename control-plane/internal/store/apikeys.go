package store

import "context"

var apiKeys = table[Key]{
	name: "api_keys",
	columns: "tenant_id, id, name, kind, namespace_ids, roles, tenant_role, versions, expires_at, revoked_at, created_by, created_at, updated_at, " +
		"version, generation, observed",
	fields: func(v *Key) []any {
		return []any{&v.TenantID, &v.ID, &v.Name, &v.Kind, asJSON{&v.NamespaceIDs}, asJSON{&v.Roles}, &v.TenantRole, asJSON{&v.Versions},
			asTime{&v.ExpiresAt}, asTime{&v.RevokedAt}, &v.CreatedBy, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version, &v.Generation, &v.Observed}
	},
	key: "tenant_id, id", changes: "name, namespace_ids, roles, tenant_role, versions, expires_at, revoked_at, updated_at, generation",
}

// InsertKey adds an API key.
func (t *Tx) InsertKey(ctx context.Context, v Key) error {
	return apiKeys.insert(ctx, t.of(v.TenantID), v)
}

// GetKey finds revoked ones too.
func (t *Tx) GetKey(ctx context.Context, tenantID, id string) (Key, error) {
	return apiKeys.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// FindKey finds a key of any tenant: who calls?
func (t *Tx) FindKey(ctx context.Context, id string) (Key, error) {
	return apiKeys.get(ctx, t.across(), "id = ?", id)
}

// ListKeys lists by id; revoked ones only if asked.
func (t *Tx) ListKeys(ctx context.Context, tenantID string, revoked bool, p Page) ([]Key, error) {
	which := " AND revoked_at = 0"
	if revoked {
		which = ""
	}
	return apiKeys.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ?"+which+" AND id > ? ORDER BY id", tenantID, p.After)
}

// CountKeys counts those that have not been revoked.
func (t *Tx) CountKeys(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count keys", "SELECT COUNT(*) FROM api_keys WHERE tenant_id = ? AND revoked_at = 0", tenantID)
}

// UpdateKey changes a key at the version it was read at.
func (t *Tx) UpdateKey(ctx context.Context, v *Key) error {
	return apiKeys.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// ObserveKey records that the cell has applied a generation.
func (t *Tx) ObserveKey(ctx context.Context, tenantID, id string, generation int64) error {
	_, err := t.of(tenantID).exec(ctx, "observe key", "UPDATE api_keys SET observed = ? WHERE tenant_id = ? AND id = ? AND observed < ?",
		generation, tenantID, id, generation)
	return err
}

// UnobservedKeys are those of all tenants whose generation the cell has not applied yet, by id.
func (t *Tx) UnobservedKeys(ctx context.Context, p Page) ([]Key, error) {
	return apiKeys.list(ctx, t.across(), p.limit(), "observed < generation AND id > ? ORDER BY id", p.After)
}

// KeysOfUser lists the live keys that a user made, directly or through keys of theirs.
func (t *Tx) KeysOfUser(ctx context.Context, tenantID, userID string, p Page) ([]Key, error) {
	return query(ctx, t.of(tenantID), "list keys of a user", apiKeys.fields,
		`WITH RECURSIVE made (id) AS (
		   SELECT id FROM api_keys WHERE tenant_id = ? AND created_by = ?
		   UNION SELECT k.id FROM api_keys k JOIN made ON k.created_by = made.id WHERE k.tenant_id = ?)
		 SELECT `+apiKeys.columns+` FROM api_keys WHERE tenant_id = ? AND revoked_at = 0 AND id > ? AND id IN (SELECT id FROM made) ORDER BY id LIMIT ?`,
		tenantID, userID, tenantID, tenantID, p.After, p.limit())
}
