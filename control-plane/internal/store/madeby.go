package store

import "context"

// madeBy lists by id those rows of a table that a user made, as which says by the ids in made;
// more are its values. In made are the keys that the user has, and the keys and trusts that the
// user, or any of these, made. Ended keys count: what they made goes on.
func madeBy[R any](ctx context.Context, t *Tx, what string, of table[R], tenantID, userID string, p Page, which string, more ...any) ([]R, error) {
	args := append([]any{tenantID, userID, userID, tenantID, userID, tenantID, tenantID, tenantID, p.After}, more...)
	return query(ctx, t.of(tenantID), what, of.fields,
		`WITH RECURSIVE made (id) AS (
		   SELECT id FROM api_keys WHERE tenant_id = ? AND (created_by = ? OR owner_id = ?)
		   UNION SELECT id FROM trusts WHERE tenant_id = ? AND created_by = ?
		   UNION SELECT theirs.id FROM made JOIN (
		     SELECT id, created_by FROM api_keys WHERE tenant_id = ?
		     UNION ALL SELECT id, created_by FROM trusts WHERE tenant_id = ?) theirs ON theirs.created_by = made.id)
		 SELECT `+of.columns+" FROM "+of.name+" WHERE tenant_id = ? AND id > ? AND "+which+" ORDER BY id LIMIT ?", append(args, p.limit())...)
}

// KeysMadeBy lists the lasting keys that a user made, directly or through keys and trusts of
// theirs, and that have not been revoked; those of the user's own too.
func (t *Tx) KeysMadeBy(ctx context.Context, tenantID, userID string, p Page) ([]Key, error) {
	return madeBy(ctx, t, "list keys of a user", apiKeys, tenantID, userID, p, "revoked_at = 0 AND "+lasting+" AND id IN (SELECT id FROM made)")
}

// TrustsMadeBy lists the trusts that a user made, directly or through keys and trusts of theirs.
func (t *Tx) TrustsMadeBy(ctx context.Context, tenantID, userID string, p Page) ([]Trust, error) {
	return madeBy(ctx, t, "list trusts of a user", trusts, tenantID, userID, p, "id IN (SELECT id FROM made)")
}

// ScimTokensMadeBy lists the tokens of directories that a user made, directly or through keys
// and trusts of theirs, and that have not been revoked.
func (t *Tx) ScimTokensMadeBy(ctx context.Context, tenantID, userID string, p Page) ([]ScimToken, error) {
	return madeBy(ctx, t, "list directory tokens of a user", scimTokens, tenantID, userID, p, "revoked_at = 0 AND (created_by = ? OR created_by IN (SELECT id FROM made))", userID)
}
