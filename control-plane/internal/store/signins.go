package store

import (
	"context"
	"time"
)

var (
	sessions = table[Session]{
		name: "sessions", columns: "tenant_id, digest, id, user_id, peer, user_agent, created_at, seen_at, expires_at, kind, client, pending, proved_at",
		fields: func(v *Session) []any {
			return []any{&v.TenantID, &v.Digest, &v.ID, &v.UserID, &v.Peer, &v.UserAgent, asTime{&v.CreatedAt}, asTime{&v.SeenAt}, asTime{&v.ExpiresAt},
				&v.Kind, &v.Client, &v.Pending, asTime{&v.ProvedAt}}
		},
	}
	signups = table[Signup]{
		name:    "signups",
		columns: "id, email, tenant_name, digest, code_digest, attempts, peer, browser, created_at, expires_at, confirmed_at, tenant_id",
		fields: func(v *Signup) []any {
			return []any{&v.ID, &v.Email, &v.TenantName, &v.Digest, &v.CodeDigest, &v.Attempts, &v.Peer, &v.Browser,
				asTime{&v.CreatedAt}, asTime{&v.ExpiresAt}, asTime{&v.ConfirmedAt}, &v.TenantID}
		},
	}
	tokens = table[Token]{
		name: "one_time_tokens", columns: "digest, purpose, subject, data, created_at, expires_at, used_at",
		fields: func(v *Token) []any {
			return []any{&v.Digest, &v.Purpose, &v.Subject, &v.Data, asTime{&v.CreatedAt}, asTime{&v.ExpiresAt}, asTime{&v.UsedAt}}
		},
	}
	connections = table[Connection]{
		name: "sso_connections",
		columns: "tenant_id, id, name, issuer, client_id, client_secret, scopes, groups_claim, default_role_id, group_mappings, enabled, last_test, " +
			"tested_version, settings, staged, created_at, updated_at, version, type, saml, saml_key, shared_redirect",
		fields: func(v *Connection) []any {
			return []any{&v.TenantID, &v.ID, &v.Name, &v.Issuer, &v.ClientID, &v.ClientSecret, asJSON{&v.Scopes}, &v.GroupsClaim, &v.DefaultRole,
				asJSON{&v.GroupMappings}, asBool{&v.Enabled}, &v.LastTest, &v.Tested, &v.Settings, &v.Staged, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version,
				&v.Type, asJSON{&v.SAML}, &v.SAMLKey, asBool{&v.SharedRedirect}}
		},
		key: "tenant_id, id",
		changes: "name, issuer, client_id, client_secret, scopes, groups_claim, default_role_id, group_mappings, enabled, last_test, tested_version, settings, " +
			"staged, updated_at, saml, saml_key, shared_redirect",
	}
	identities = table[Identity]{
		name: "identities", columns: "tenant_id, connection_id, issuer, subject, user_id, created_at, vouched_email",
		fields: func(v *Identity) []any {
			return []any{&v.TenantID, &v.ConnectionID, &v.Issuer, &v.Subject, &v.UserID, asTime{&v.CreatedAt}, &v.VouchedEmail}
		},
	}
)

// InsertSession signs a browser or a program in.
func (t *Tx) InsertSession(ctx context.Context, v Session) error {
	return sessions.insert(ctx, t.of(v.TenantID), v)
}

// GetSession finds the session of a token.
func (t *Tx) GetSession(ctx context.Context, digest string) (Session, error) {
	return sessions.get(ctx, t.across(), "digest = ?", digest)
}

// GetSessionOfUser finds a user's session by its id.
func (t *Tx) GetSessionOfUser(ctx context.Context, userID, id string) (Session, error) {
	return sessions.get(ctx, t.across(), "user_id = ? AND id = ?", userID, id)
}

// ListSessionsOfUser lists a user's sessions, the one used last first; only those of one
// tenant, if it is given.
func (t *Tx) ListSessionsOfUser(ctx context.Context, userID, onlyTenantID string) ([]Session, error) {
	const order = " ORDER BY seen_at DESC, id DESC"
	if onlyTenantID != "" {
		return sessions.list(ctx, t.of(onlyTenantID), pageMax, "user_id = ? AND tenant_id = ?"+order, userID, onlyTenantID)
	}
	return sessions.list(ctx, t.across(), pageMax, "user_id = ?"+order, userID)
}

// TouchSession records when a session was last used, and until when that lets it live.
func (t *Tx) TouchSession(ctx context.Context, digest string, seen, expires time.Time) error {
	return t.across().change(ctx, "touch session", "UPDATE sessions SET seen_at = ?, expires_at = ? WHERE digest = ?", seen, expires, digest)
}

// ProveSession records when the second factor was shown in a session.
func (t *Tx) ProveSession(ctx context.Context, digest string, proved time.Time) error {
	return t.across().change(ctx, "prove session", "UPDATE sessions SET proved_at = ? WHERE digest = ?", proved, digest)
}

// DeleteSession signs a browser or a program out.
func (t *Tx) DeleteSession(ctx context.Context, digest string) error {
	return t.across().change(ctx, "delete session", "DELETE FROM sessions WHERE digest = ?", digest)
}

// DeleteSessionsOfUser ends all of a user's, or those of one tenant's provider, and
// counts them.
func (t *Tx) DeleteSessionsOfUser(ctx context.Context, userID, ssoTenantID string) (int, error) {
	const doing = "delete sessions of a user"
	if ssoTenantID != "" {
		return t.of(ssoTenantID).exec(ctx, doing, "DELETE FROM sessions WHERE user_id = ? AND tenant_id = ?", userID, ssoTenantID)
	}
	return t.across().exec(ctx, doing, "DELETE FROM sessions WHERE user_id = ?", userID)
}

// DeleteSessionsBefore deletes expired ones and counts them.
func (t *Tx) DeleteSessionsBefore(ctx context.Context, expired time.Time) (int, error) {
	return t.across().exec(ctx, "delete expired sessions", "DELETE FROM sessions WHERE expires_at < ?", expired)
}

// InsertSignup begins a sign-up.
func (t *Tx) InsertSignup(ctx context.Context, v Signup) error {
	return signups.insert(ctx, t.common(), v)
}

// GetSignup finds one by id.
func (t *Tx) GetSignup(ctx context.Context, id string) (Signup, error) {
	return signups.get(ctx, t.common(), "id = ?", id)
}

// GetSignupByDigest finds the one of a link.
func (t *Tx) GetSignupByDigest(ctx context.Context, digest string) (Signup, error) {
	return signups.get(ctx, t.common(), "digest = ?", digest)
}

// UpdateSignup records wrong codes, the confirmation and the end.
func (t *Tx) UpdateSignup(ctx context.Context, v Signup) error {
	return t.common().change(ctx, "update sign-up", "UPDATE signups SET attempts = ?, expires_at = ?, confirmed_at = ?, tenant_id = ? WHERE id = ?",
		v.Attempts, v.ExpiresAt, v.ConfirmedAt, v.TenantID, v.ID)
}

// VoidSignups invalidates the unconfirmed links for an address and name that one client
// asked for; links of other clients stay valid.
func (t *Tx) VoidSignups(ctx context.Context, email, tenantName, peer string, now time.Time) error {
	_, err := t.common().exec(ctx, "void sign-ups",
		"UPDATE signups SET expires_at = ? WHERE email = ? AND tenant_name = ? AND peer = ? AND confirmed_at = 0 AND expires_at > ?",
		now, email, tenantName, peer, now)
	return err
}

// DeleteSignupsBefore deletes expired ones and counts them.
func (t *Tx) DeleteSignupsBefore(ctx context.Context, expired time.Time) (int, error) {
	return t.common().exec(ctx, "delete expired sign-ups", "DELETE FROM signups WHERE expires_at < ?", expired)
}

// InsertToken keeps a secret that works once.
func (t *Tx) InsertToken(ctx context.Context, v Token) error {
	return tokens.insert(ctx, t.common(), v)
}

// GetToken reads a token without using it.
func (t *Tx) GetToken(ctx context.Context, digest, purpose string) (Token, error) {
	return tokens.get(ctx, t.common(), "digest = ? AND purpose = ?", digest, purpose)
}

// UseToken marks a token used and returns it as it was before: the caller decides by
// UsedAt and ExpiresAt. Of two concurrent calls, one sees it unused.
func (t *Tx) UseToken(ctx context.Context, digest, purpose string, now time.Time) (Token, error) {
	v, err := tokens.get(ctx, t.common(), "digest = ? AND purpose = ?"+t.dialect.lockRows, digest, purpose)
	if err != nil {
		return Token{}, err
	}
	_, err = t.common().exec(ctx, "use token", "UPDATE one_time_tokens SET used_at = ? WHERE digest = ? AND used_at = 0", now, digest)
	return v, err
}

// DeleteTokensBefore deletes expired ones and counts them.
func (t *Tx) DeleteTokensBefore(ctx context.Context, expired time.Time) (int, error) {
	return t.common().exec(ctx, "delete expired tokens", "DELETE FROM one_time_tokens WHERE expires_at < ?", expired)
}

// InsertConnection adds a tenant's identity provider.
func (t *Tx) InsertConnection(ctx context.Context, v Connection) error {
	return connections.insert(ctx, t.of(v.TenantID), v)
}

// GetConnection finds one by id.
func (t *Tx) GetConnection(ctx context.Context, tenantID, id string) (Connection, error) {
	return connections.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// FindConnection finds one of any tenant: a SAML provider knows no more than its id.
func (t *Tx) FindConnection(ctx context.Context, id string) (Connection, error) {
	return connections.get(ctx, t.across(), "id = ?", id)
}

// ListConnections lists by id.
func (t *Tx) ListConnections(ctx context.Context, tenantID string) ([]Connection, error) {
	return connections.list(ctx, t.of(tenantID), pageMax, "tenant_id = ? ORDER BY id", tenantID)
}

// UpdateConnection changes a connection at the version it was read at.
func (t *Tx) UpdateConnection(ctx context.Context, v *Connection) error {
	return connections.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// DeleteConnection deletes its identities and its directory too. Domains that name it name none.
func (t *Tx) DeleteConnection(ctx context.Context, tenantID, id string) error {
	if _, err := t.GetConnection(ctx, tenantID, id); err != nil {
		return err
	}
	if err := t.deleteDirectory(ctx, tenantID, id); err != nil {
		return err
	}
	if _, err := t.of(tenantID).exec(ctx, "forget the connection", "UPDATE domains SET connection_id = '', version = version + 1 WHERE tenant_id = ? AND connection_id = ?", tenantID, id); err != nil {
		return err
	}
	_, err := t.of(tenantID).exec(ctx, "delete identities", "DELETE FROM identities WHERE tenant_id = ? AND connection_id = ?", tenantID, id)
	if err != nil {
		return err
	}
	return t.of(tenantID).change(ctx, "delete connection", "DELETE FROM sso_connections WHERE tenant_id = ? AND id = ?", tenantID, id)
}

// InsertIdentity ties a provider's user to one of ours.
func (t *Tx) InsertIdentity(ctx context.Context, v Identity) error {
	return identities.insert(ctx, t.of(v.TenantID), v)
}

// UpdateIdentity writes the address that the provider vouches for.
func (t *Tx) UpdateIdentity(ctx context.Context, v Identity) error {
	return t.of(v.TenantID).change(ctx, "update identity", "UPDATE identities SET vouched_email = ? WHERE tenant_id = ? AND connection_id = ? AND issuer = ? AND subject = ?",
		v.VouchedEmail, v.TenantID, v.ConnectionID, v.Issuer, v.Subject)
}

// GetIdentity finds a provider's user.
func (t *Tx) GetIdentity(ctx context.Context, tenantID, connectionID, issuer, subject string) (Identity, error) {
	return identities.get(ctx, t.of(tenantID), "tenant_id = ? AND connection_id = ? AND issuer = ? AND subject = ?", tenantID, connectionID, issuer, subject)
}
