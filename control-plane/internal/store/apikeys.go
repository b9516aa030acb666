package store

import (
	"context"
	"encoding/hex"
	"time"
)

var apiKeys = table[Key]{
	name: "api_keys",
	columns: "tenant_id, id, name, kind, owner_id, permissions, namespace_ids, queues, cidrs, grants, last_used_at, versions, expires_at, end_set_at, revoked_at, created_by, " +
		"created_at, updated_at, version, generation, observed",
	fields: func(v *Key) []any {
		return []any{&v.TenantID, &v.ID, &v.Name, &v.Kind, &v.OwnerID, asJSON{&v.Permissions}, asJSON{&v.NamespaceIDs}, asJSON{&v.Queues}, asJSON{&v.CIDRs}, &v.Grants,
			asTime{&v.LastUsedAt}, asJSON{&v.Versions},
			asTime{&v.ExpiresAt}, asTime{&v.EndSetAt}, asTime{&v.RevokedAt}, &v.CreatedBy, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version, &v.Generation, &v.Observed}
	},
	key: "tenant_id, id", changes: "name, permissions, namespace_ids, queues, cidrs, grants, versions, expires_at, end_set_at, revoked_at, updated_at, generation",
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

// ListKeysOf lists the keys of an owner that have not been revoked, by id.
func (t *Tx) ListKeysOf(ctx context.Context, tenantID, ownerID string, p Page) ([]Key, error) {
	return apiKeys.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND owner_id = ? AND revoked_at = 0 AND id > ? ORDER BY id", tenantID, ownerID, p.After)
}

// ListKeys lists by id; revoked ones only if asked.
func (t *Tx) ListKeys(ctx context.Context, tenantID string, revoked bool, p Page) ([]Key, error) {
	which := " AND revoked_at = 0"
	if revoked {
		which = ""
	}
	return apiKeys.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ?"+which+" AND id > ? ORDER BY id", tenantID, p.After)
}

// ListLastingKeys is ListKeys without temporary keys, and of one owner if that is given.
func (t *Tx) ListLastingKeys(ctx context.Context, tenantID, ownerID string, revoked bool, p Page) ([]Key, error) {
	which := " AND " + lasting
	if !revoked {
		which += " AND revoked_at = 0"
	}
	if ownerID != "" {
		return apiKeys.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND owner_id = ?"+which+" AND id > ? ORDER BY id", tenantID, ownerID, p.After)
	}
	return apiKeys.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ?"+which+" AND id > ? ORDER BY id", tenantID, p.After)
}

// CountKeys counts lasting ones that have not been revoked.
func (t *Tx) CountKeys(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count keys", "SELECT COUNT(*) FROM api_keys WHERE tenant_id = ? AND revoked_at = 0 AND "+lasting, tenantID)
}

// CountKeysOf counts the lasting keys of an owner that have not been revoked.
func (t *Tx) CountKeysOf(ctx context.Context, tenantID, ownerID string) (int, error) {
	return t.of(tenantID).count(ctx, "count keys of an owner", "SELECT COUNT(*) FROM api_keys WHERE tenant_id = ? AND owner_id = ? AND revoked_at = 0 AND "+lasting, tenantID, ownerID)
}

// TouchKey records when a secret of a key was last used; an earlier use than is known changes
// nothing. It is no change of the record that people made.
func (t *Tx) TouchKey(ctx context.Context, tenantID, id string, digest []byte, at time.Time) error {
	_, err := t.of(tenantID).exec(ctx, "note the use of a secret",
		`INSERT INTO key_uses (tenant_id, key_id, digest, last_used_at) SELECT tenant_id, id, ?, ? FROM api_keys WHERE tenant_id = ? AND id = ?
		 ON CONFLICT (tenant_id, key_id, digest) DO UPDATE SET last_used_at = excluded.last_used_at WHERE key_uses.last_used_at < excluded.last_used_at`,
		hex.EncodeToString(digest), at, tenantID, id)
	if err != nil {
		return err
	}
	_, err = t.of(tenantID).exec(ctx, "touch key", "UPDATE api_keys SET last_used_at = ? WHERE tenant_id = ? AND id = ? AND last_used_at < ?", at, tenantID, id, at)
	return err
}

// KeyUse names a secret of a key.
type KeyUse struct {
	KeyID  string
	Digest string // Hex.
}

// KeyUses is when each secret of the keys from one id to another was last used.
func (t *Tx) KeyUses(ctx context.Context, tenantID, from, to string) (map[KeyUse]time.Time, error) {
	type row struct {
		KeyUse
		at time.Time
	}
	rows, err := query(ctx, t.of(tenantID), "read the uses of keys", func(r *row) []any { return []any{&r.KeyID, &r.Digest, asTime{&r.at}} },
		"SELECT key_id, digest, last_used_at FROM key_uses WHERE tenant_id = ? AND key_id >= ? AND key_id <= ?", tenantID, from, to)
	uses := make(map[KeyUse]time.Time, len(rows))
	for _, r := range rows {
		uses[r.KeyUse] = r.at
	}
	return uses, err
}

// KeysLastUsed is when a key of each of some owners was last used, if one was.
func (t *Tx) KeysLastUsed(ctx context.Context, tenantID string, ownerIDs ...string) (map[string]time.Time, error) {
	if len(ownerIDs) == 0 {
		return nil, nil
	}
	type row struct {
		owner string
		at    time.Time
	}
	rows, err := query(ctx, t.of(tenantID), "read when keys of owners were used", func(r *row) []any { return []any{&r.owner, asTime{&r.at}} },
		"SELECT owner_id, MAX(last_used_at) FROM api_keys WHERE tenant_id = ? AND owner_id IN ("+places(len(ownerIDs))+") AND revoked_at = 0 GROUP BY owner_id",
		append([]any{tenantID}, anys(ownerIDs)...)...)
	used := make(map[string]time.Time, len(rows))
	for _, r := range rows {
		used[r.owner] = r.at
	}
	return used, err
}

// ToldKeyRights records what the cell was told that a key may do, by its digest. It is no
// change of the record that people made.
func (t *Tx) ToldKeyRights(ctx context.Context, tenantID, id, digest string) error {
	_, err := t.of(tenantID).exec(ctx, "note the rights of a key", "UPDATE api_keys SET grants = ? WHERE tenant_id = ? AND id = ? AND grants <> ?", digest, tenantID, id, digest)
	return err
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

// DueKeyNotices are lasting keys of all tenants that end after one time and not after another,
// whose end was set at least life before it, and that have had no notice of span, or of a
// shorter one, for this end. The first to end comes first.
func (t *Tx) DueKeyNotices(ctx context.Context, after, till time.Time, span, life time.Duration, limit int) ([]Key, error) {
	return apiKeys.list(ctx, t.across(), limit, lasting+` AND revoked_at = 0 AND expires_at > 0 AND expires_at > ? AND expires_at <= ?
		AND expires_at - CASE WHEN end_set_at > 0 THEN end_set_at ELSE created_at END >= ? AND NOT (noticed_end = expires_at AND noticed_span_ns <= ?)
		AND tenant_id IN (SELECT tenant_id FROM tenants WHERE deleted_at = 0) ORDER BY expires_at, id`, after, till, int64(life), int64(span))
}

// NoteKeyNotice records that the notice of span was written for the end that v has.
// ErrNotFound: it was before, or v is revoked or ends at another time now.
func (t *Tx) NoteKeyNotice(ctx context.Context, v Key, span time.Duration) error {
	return t.of(v.TenantID).change(ctx, "note the notice of a key", `UPDATE api_keys SET noticed_end = expires_at, noticed_span_ns = ?
		WHERE tenant_id = ? AND id = ? AND revoked_at = 0 AND expires_at = ? AND NOT (noticed_end = expires_at AND noticed_span_ns <= ?)`,
		int64(span), v.TenantID, v.ID, v.ExpiresAt, int64(span))
}
