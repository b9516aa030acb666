package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// temporary are the keys that a trust gave: they end by themselves and soon.
var (
	temporary = fmt.Sprintf("kind = %d", cloudv1.KeyKind_KEY_KIND_TEMPORARY)
	lasting   = fmt.Sprintf("kind <> %d", cloudv1.KeyKind_KEY_KIND_TEMPORARY)
)

var trusts = table[Trust]{
	name: "trusts",
	columns: "tenant_id, id, name, account_id, provider, issuer, jwks, audience, conditions, permissions, namespace_ids, queues, cidrs, key_life_ns, allow_reuse, " +
		"created_by, created_at, updated_at, last_used_at, version",
	fields: func(v *Trust) []any {
		return []any{&v.TenantID, &v.ID, &v.Name, &v.AccountID, &v.Provider, &v.Issuer, &v.JWKS, &v.Audience, asJSON{&v.Conditions}, asJSON{&v.Permissions},
			asJSON{&v.NamespaceIDs}, asJSON{&v.Queues}, asJSON{&v.CIDRs}, &v.KeyLife, asBool{&v.AllowReuse},
			&v.CreatedBy, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, asTime{&v.LastUsedAt}, &v.Version}
	},
	key: "tenant_id, id", changes: "name, jwks, audience, conditions, permissions, namespace_ids, queues, cidrs, key_life_ns, allow_reuse, updated_at",
}

// InsertTrust adds a trust; ErrExists if its name is taken.
func (t *Tx) InsertTrust(ctx context.Context, v Trust) error {
	return trusts.insert(ctx, t.of(v.TenantID), v)
}

// GetTrust finds a trust.
func (t *Tx) GetTrust(ctx context.Context, tenantID, id string) (Trust, error) {
	return trusts.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// GetTrustByName finds a trust.
func (t *Tx) GetTrustByName(ctx context.Context, tenantID, name string) (Trust, error) {
	return trusts.get(ctx, t.of(tenantID), "tenant_id = ? AND name = ?", tenantID, name)
}

// ListTrusts lists by id; of one service account if that is given.
func (t *Tx) ListTrusts(ctx context.Context, tenantID, accountID string, p Page) ([]Trust, error) {
	if accountID != "" {
		return trusts.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND account_id = ? AND id > ? ORDER BY id", tenantID, accountID, p.After)
	}
	return trusts.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND id > ? ORDER BY id", tenantID, p.After)
}

// CountTrusts counts a tenant's.
func (t *Tx) CountTrusts(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count trusts", "SELECT COUNT(*) FROM trusts WHERE tenant_id = ?", tenantID)
}

// UpdateTrust writes what people set, at the version that was read.
func (t *Tx) UpdateTrust(ctx context.Context, v *Trust) error {
	return trusts.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// TouchTrust records that a token was exchanged; it is no change of the record that people
// made.
func (t *Tx) TouchTrust(ctx context.Context, tenantID, id string, at time.Time) error {
	return t.of(tenantID).change(ctx, "touch trust", "UPDATE trusts SET last_used_at = ? WHERE tenant_id = ? AND id = ?", at, tenantID, id)
}

// DeleteTrust deletes a trust. The tokens that it took could be used again if it were made
// again, under another id; its keys are somebody else's to end.
func (t *Tx) DeleteTrust(ctx context.Context, tenantID, id string) error {
	if _, err := t.of(tenantID).exec(ctx, "forget a trust's tokens", "DELETE FROM trust_tokens WHERE tenant_id = ? AND trust_id = ?", tenantID, id); err != nil && !errors.Is(err, errForeign) {
		return err
	}
	return t.of(tenantID).change(ctx, "delete trust", "DELETE FROM trusts WHERE tenant_id = ? AND id = ?", tenantID, id)
}

// deleteTrustsOf deletes those of a service account.
func (t *Tx) deleteTrustsOf(ctx context.Context, tenantID, accountID string) error {
	_, err := t.of(tenantID).exec(ctx, "forget tokens of trusts", `DELETE FROM trust_tokens WHERE tenant_id = ? AND trust_id IN
		(SELECT id FROM trusts WHERE tenant_id = ? AND account_id = ?)`, tenantID, tenantID, accountID)
	if err == nil {
		_, err = t.of(tenantID).exec(ctx, "delete trusts", "DELETE FROM trusts WHERE tenant_id = ? AND account_id = ?", tenantID, accountID)
	}
	return err
}

// UseTrustToken records that a token was exchanged, until it ends: ErrExists if it was.
func (t *Tx) UseTrustToken(ctx context.Context, tenantID, trustID, digest string, until time.Time) error {
	return t.of(tenantID).insert(ctx, "trust_tokens", "tenant_id, trust_id, digest, expires_at", tenantID, trustID, digest, until)
}

// DeleteTrustTokensBefore forgets tokens that have ended, and counts them.
func (t *Tx) DeleteTrustTokensBefore(ctx context.Context, ended time.Time) (int, error) {
	return t.across().exec(ctx, "forget exchanged tokens", "DELETE FROM trust_tokens WHERE expires_at < ?", ended)
}

// KeysOfTrust lists the keys that a trust gave and that have not been revoked, by id.
func (t *Tx) KeysOfTrust(ctx context.Context, tenantID, trustID string, p Page) ([]Key, error) {
	return apiKeys.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND created_by = ? AND revoked_at = 0 AND id > ? ORDER BY id", tenantID, trustID, p.After)
}

// CountTemporaryKeys counts those that have not been revoked.
func (t *Tx) CountTemporaryKeys(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count temporary keys", "SELECT COUNT(*) FROM api_keys WHERE tenant_id = ? AND revoked_at = 0 AND "+temporary, tenantID)
}

// EndTemporaryKeys revokes temporary keys whose end has passed, so that their cells forget
// them, and counts them. They are left unobserved, for the scan to find.
func (t *Tx) EndTemporaryKeys(ctx context.Context, ended time.Time) (int, error) {
	return t.across().exec(ctx, "end temporary keys", `UPDATE api_keys SET revoked_at = expires_at, generation = generation + 1, version = version + 1
		WHERE `+temporary+` AND revoked_at = 0 AND expires_at < ?`, ended)
}

// DeleteTemporaryKeysBefore deletes temporary keys that ended long ago and that their cells
// know to be revoked, and counts them.
func (t *Tx) DeleteTemporaryKeysBefore(ctx context.Context, ended time.Time) (int, error) {
	return t.across().exec(ctx, "delete temporary keys", "DELETE FROM api_keys WHERE "+temporary+" AND revoked_at <> 0 AND expires_at < ? AND observed >= generation", ended)
}
