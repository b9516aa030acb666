package store

import (
	"context"
	"errors"
	"time"
)

// SignInPolicy is how people sign in to a tenant, and what its keys must be.
type SignInPolicy struct {
	TenantID            string
	RequireSSO          bool
	RequireSecondFactor bool
	// SessionIdle and SessionLife are 0 for what holds everywhere.
	SessionIdle, SessionLife time.Duration
	// KeyLife is how long a new key may work; 0: for ever.
	KeyLife time.Duration
	// KeyNetworks: a new key must name its networks.
	KeyNetworks bool
	// NoPersonalKeys: people's own keys do nothing at the tenant URL.
	NoPersonalKeys bool
	// AuditPayloadReads: the audit log has who of the people read payloads.
	AuditPayloadReads bool
	// AuditRetention is how long entries of the audit log are kept; 0: as everywhere.
	AuditRetention       time.Duration
	CreatedAt, UpdatedAt time.Time
	// Version is 0 for a tenant that never set anything.
	Version int64
}

// BreakGlassEntry is a session that showed a break-glass code.
type BreakGlassEntry struct {
	TenantID, SessionID, UserID string
	CreatedAt, ExpiresAt        time.Time
}

var (
	signInPolicies = table[SignInPolicy]{
		name: "sign_in_policies",
		columns: "tenant_id, require_sso, require_second_factor, session_idle_ns, session_life_ns, key_life_ns, key_networks, no_personal_keys, " +
			"audit_payload_reads, audit_retention_ns, created_at, updated_at, version",
		fields: func(v *SignInPolicy) []any {
			return []any{&v.TenantID, asBool{&v.RequireSSO}, asBool{&v.RequireSecondFactor}, &v.SessionIdle, &v.SessionLife, &v.KeyLife,
				asBool{&v.KeyNetworks}, asBool{&v.NoPersonalKeys}, asBool{&v.AuditPayloadReads}, &v.AuditRetention, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version}
		},
		key:     "tenant_id",
		changes: "require_sso, require_second_factor, session_idle_ns, session_life_ns, key_life_ns, key_networks, no_personal_keys, audit_payload_reads, audit_retention_ns, updated_at",
	}
	breakGlassEntries = table[BreakGlassEntry]{
		name: "break_glass_entries", columns: "tenant_id, session_id, user_id, created_at, expires_at",
		fields: func(v *BreakGlassEntry) []any {
			return []any{&v.TenantID, &v.SessionID, &v.UserID, asTime{&v.CreatedAt}, asTime{&v.ExpiresAt}}
		},
	}
)

// GetSignInPolicy gives a tenant's policy; one that never set anything has none of it.
func (t *Tx) GetSignInPolicy(ctx context.Context, tenantID string) (SignInPolicy, error) {
	v, err := signInPolicies.get(ctx, t.of(tenantID), "tenant_id = ?", tenantID)
	if errors.Is(err, ErrNotFound) {
		return SignInPolicy{TenantID: tenantID}, nil
	}
	return v, err
}

// InsertSignInPolicy writes a tenant's first one.
func (t *Tx) InsertSignInPolicy(ctx context.Context, v SignInPolicy) error {
	return signInPolicies.insert(ctx, t.of(v.TenantID), v)
}

// UpdateSignInPolicy changes one at the version it was read at.
func (t *Tx) UpdateSignInPolicy(ctx context.Context, v *SignInPolicy) error {
	return signInPolicies.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// SessionLimits are the shortest lives that the tenants of a user allow a session, idle and
// at all; onlyTenantID is the tenant of a session that reaches no other. 0 is no limit.
func (t *Tx) SessionLimits(ctx context.Context, userID, onlyTenantID string) (idle, life time.Duration, _ error) {
	type limits struct{ idle, life time.Duration }
	into := func(l *limits) []any { return []any{&l.idle, &l.life} }
	const doing = "read the limits of sessions"
	var l limits
	var err error
	if onlyTenantID != "" {
		l, err = first(ctx, t.across(), doing, into, "SELECT COALESCE(MIN(session_idle_ns), 0), COALESCE(MIN(session_life_ns), 0) FROM sign_in_policies WHERE tenant_id = ?", onlyTenantID)
	} else {
		l, err = first(ctx, t.across(), doing, into, `SELECT COALESCE(MIN(NULLIF(session_idle_ns, 0)), 0), COALESCE(MIN(NULLIF(session_life_ns, 0)), 0)
			FROM sign_in_policies WHERE tenant_id IN (SELECT tenant_id FROM memberships WHERE user_id = ?)`, userID)
	}
	return l.idle, l.life, err
}

// PutBreakGlassCodes replaces a tenant's codes, by their digests.
func (t *Tx) PutBreakGlassCodes(ctx context.Context, tenantID string, digests []string, now time.Time) error {
	if _, err := t.of(tenantID).exec(ctx, "delete break-glass codes", "DELETE FROM break_glass_codes WHERE tenant_id = ?", tenantID); err != nil {
		return err
	}
	for _, d := range digests {
		if err := t.of(tenantID).insert(ctx, "break_glass_codes", "tenant_id, digest, created_at", tenantID, d, now); err != nil {
			return err
		}
	}
	return nil
}

// CountBreakGlassCodes counts those that are left.
func (t *Tx) CountBreakGlassCodes(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count break-glass codes", "SELECT COUNT(*) FROM break_glass_codes WHERE tenant_id = ? AND used_at = 0", tenantID)
}

// UseBreakGlassCode uses one, once: ErrNotFound if there is none such, or no more.
func (t *Tx) UseBreakGlassCode(ctx context.Context, tenantID, digest string, now time.Time) error {
	return t.of(tenantID).change(ctx, "use break-glass code", "UPDATE break_glass_codes SET used_at = ? WHERE tenant_id = ? AND digest = ? AND used_at = 0", now, tenantID, digest)
}

// PutBreakGlassEntry lets a session in, and forgets the tenant's entries that are over.
func (t *Tx) PutBreakGlassEntry(ctx context.Context, v BreakGlassEntry) error {
	_, err := t.of(v.TenantID).exec(ctx, "delete break-glass entries", "DELETE FROM break_glass_entries WHERE tenant_id = ? AND (expires_at <= ? OR session_id = ?)",
		v.TenantID, v.CreatedAt, v.SessionID)
	if err != nil {
		return err
	}
	return breakGlassEntries.insert(ctx, t.of(v.TenantID), v)
}

// GetBreakGlassEntry finds a session's entry, also one that is over.
func (t *Tx) GetBreakGlassEntry(ctx context.Context, tenantID, sessionID string) (BreakGlassEntry, error) {
	return breakGlassEntries.get(ctx, t.of(tenantID), "tenant_id = ? AND session_id = ?", tenantID, sessionID)
}
