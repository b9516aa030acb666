package store

import "context"

const (
	keyColumns = `tenant_id, id, name, kind, namespace_ids, roles, tenant_role, versions, expires_at, revoked_at, created_by,
		created_at, updated_at, version, generation, observed`
	keyExists = "SELECT 1 FROM api_keys WHERE tenant_id = ? AND id = ?"
)

func scanKey(s scanner) (v Key, err error) {
	return v, s.Scan(&v.TenantID, &v.ID, &v.Name, &v.Kind, asJSON{&v.NamespaceIDs}, asJSON{&v.Roles}, &v.TenantRole, asJSON{&v.Versions},
		toTime{&v.ExpiresAt}, toTime{&v.RevokedAt}, &v.CreatedBy, toTime{&v.CreatedAt}, toTime{&v.UpdatedAt}, &v.Version, &v.Generation, &v.Observed)
}

func (t *tx) InsertKey(ctx context.Context, v Key) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.insert(ctx, "api_keys", keyColumns, v.TenantID, v.ID, v.Name, v.Kind, asJSON{v.NamespaceIDs}, asJSON{v.Roles}, v.TenantRole, asJSON{v.Versions},
		v.ExpiresAt, v.RevokedAt, v.CreatedBy, v.CreatedAt, v.UpdatedAt, v.Version, v.Generation, v.Observed)
}

func (t *tx) GetKey(ctx context.Context, tenantID, id string) (Key, error) {
	if !t.sees(tenantID) {
		return Key{}, ErrNotFound
	}
	return one(ctx, t, "get key", scanKey, "SELECT "+keyColumns+" FROM api_keys WHERE tenant_id = ? AND id = ?", tenantID, id)
}

func (t *tx) FindKey(ctx context.Context, id string) (Key, error) {
	if err := t.service(); err != nil {
		return Key{}, err
	}
	return one(ctx, t, "find key", scanKey, "SELECT "+keyColumns+" FROM api_keys WHERE id = ?", id)
}

func (t *tx) ListKeys(ctx context.Context, tenantID string, revoked bool, p Page) ([]Key, error) {
	if !t.sees(tenantID) {
		return nil, nil
	}
	which := " AND revoked_at = 0"
	if revoked {
		which = ""
	}
	return many(ctx, t, "list keys", scanKey,
		"SELECT "+keyColumns+" FROM api_keys WHERE tenant_id = ?"+which+" AND id > ? ORDER BY id LIMIT ?", tenantID, p.After, p.limit())
}

func (t *tx) CountKeys(ctx context.Context, tenantID string) (int, error) {
	if !t.sees(tenantID) {
		return 0, nil
	}
	n, err := one(ctx, t, "count keys", number, "SELECT COUNT(*) FROM api_keys WHERE tenant_id = ? AND revoked_at = 0", tenantID)
	return int(n), err
}

func (t *tx) UpdateKey(ctx context.Context, v *Key) error {
	if !t.sees(v.TenantID) {
		return ErrNotFound
	}
	err := t.update(ctx, "update key",
		`UPDATE api_keys SET name = ?, namespace_ids = ?, roles = ?, tenant_role = ?, versions = ?, expires_at = ?, revoked_at = ?, updated_at = ?,
		 generation = ?, version = version + 1 WHERE tenant_id = ? AND id = ? AND version = ?`,
		[]any{v.Name, asJSON{v.NamespaceIDs}, asJSON{v.Roles}, v.TenantRole, asJSON{v.Versions}, v.ExpiresAt, v.RevokedAt, v.UpdatedAt,
			v.Generation, v.TenantID, v.ID, v.Version}, keyExists, v.TenantID, v.ID)
	if err == nil {
		v.Version++
	}
	return err
}

func (t *tx) ObserveKey(ctx context.Context, tenantID, id string, generation int64) error {
	if err := t.in(tenantID); err != nil {
		return err
	}
	_, err := t.exec(ctx, "observe key", "UPDATE api_keys SET observed = ? WHERE tenant_id = ? AND id = ? AND observed < ?", generation, tenantID, id, generation)
	return err
}

func (t *tx) UnobservedKeys(ctx context.Context, p Page) ([]Key, error) {
	if err := t.service(); err != nil {
		return nil, err
	}
	return many(ctx, t, "list unobserved keys", scanKey,
		"SELECT "+keyColumns+" FROM api_keys WHERE observed < generation AND id > ? ORDER BY id LIMIT ?", p.After, p.limit())
}

func (t *tx) KeysOfUser(ctx context.Context, tenantID, userID string, p Page) ([]Key, error) {
	if !t.sees(tenantID) {
		return nil, nil
	}
	return many(ctx, t, "list keys of a user", scanKey,
		`WITH RECURSIVE made (id) AS (
		   SELECT id FROM api_keys WHERE tenant_id = ? AND created_by = ?
		   UNION SELECT k.id FROM api_keys k JOIN made ON k.created_by = made.id WHERE k.tenant_id = ?)
		 SELECT `+keyColumns+` FROM api_keys WHERE tenant_id = ? AND revoked_at = 0 AND id > ? AND id IN (SELECT id FROM made) ORDER BY id LIMIT ?`,
		tenantID, userID, tenantID, tenantID, p.After, p.limit())
}
