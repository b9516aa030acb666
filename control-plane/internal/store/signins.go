package store

import (
	"context"
	"time"
)

const (
	sessionColumns    = "tenant_id, digest, id, user_id, peer, user_agent, created_at, seen_at, expires_at"
	signupColumns     = "id, email, tenant_name, digest, code_digest, attempts, peer, browser, created_at, expires_at, confirmed_at, tenant_id"
	tokenColumns      = "digest, purpose, subject, data, created_at, expires_at, used_at"
	connectionColumns = `tenant_id, id, name, issuer, client_id, client_secret, scopes, groups_claim, default_role, group_mappings, enabled, last_test,
		tested_version, settings, staged, created_at, updated_at, version`
	connectionExists = "SELECT 1 FROM sso_connections WHERE tenant_id = ? AND id = ?"
	identityColumns  = "tenant_id, connection_id, issuer, subject, user_id, created_at"
)

func scanSession(s scanner) (v Session, err error) {
	return v, s.Scan(&v.TenantID, &v.Digest, &v.ID, &v.UserID, &v.Peer, &v.UserAgent, toTime{&v.CreatedAt}, toTime{&v.SeenAt}, toTime{&v.ExpiresAt})
}

func (t *tx) InsertSession(ctx context.Context, v Session) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.insert(ctx, "sessions", sessionColumns, v.TenantID, v.Digest, v.ID, v.UserID, v.Peer, v.UserAgent, v.CreatedAt, v.SeenAt, v.ExpiresAt)
}

func (t *tx) GetSession(ctx context.Context, digest string) (Session, error) {
	if err := t.service(); err != nil {
		return Session{}, err
	}
	return one(ctx, t, "get session", scanSession, "SELECT "+sessionColumns+" FROM sessions WHERE digest = ?", digest)
}

func (t *tx) TouchSession(ctx context.Context, digest string, seen time.Time) error {
	if err := t.service(); err != nil {
		return err
	}
	return t.change(ctx, "touch session", "UPDATE sessions SET seen_at = ? WHERE digest = ?", seen, digest)
}

func (t *tx) DeleteSession(ctx context.Context, digest string) error {
	if err := t.service(); err != nil {
		return err
	}
	return t.change(ctx, "delete session", "DELETE FROM sessions WHERE digest = ?", digest)
}

func (t *tx) DeleteSessionsOfUser(ctx context.Context, userID, ssoTenantID string) (int, error) {
	const doing = "delete sessions of a user"
	if ssoTenantID != "" {
		if err := t.in(ssoTenantID); err != nil {
			return 0, err
		}
		return t.exec(ctx, doing, "DELETE FROM sessions WHERE user_id = ? AND tenant_id = ?", userID, ssoTenantID)
	}
	if err := t.service(); err != nil {
		return 0, err
	}
	return t.exec(ctx, doing, "DELETE FROM sessions WHERE user_id = ?", userID)
}

func (t *tx) DeleteSessionsBefore(ctx context.Context, expired time.Time) (int, error) {
	if err := t.service(); err != nil {
		return 0, err
	}
	return t.exec(ctx, "delete expired sessions", "DELETE FROM sessions WHERE expires_at < ?", expired)
}

func scanSignup(s scanner) (v Signup, err error) {
	return v, s.Scan(&v.ID, &v.Email, &v.TenantName, &v.Digest, &v.CodeDigest, &v.Attempts, &v.Peer, &v.Browser,
		toTime{&v.CreatedAt}, toTime{&v.ExpiresAt}, toTime{&v.ConfirmedAt}, &v.TenantID)
}

func (t *tx) InsertSignup(ctx context.Context, v Signup) error {
	return t.insert(ctx, "signups", signupColumns, v.ID, v.Email, v.TenantName, v.Digest, v.CodeDigest, v.Attempts, v.Peer, v.Browser,
		v.CreatedAt, v.ExpiresAt, v.ConfirmedAt, v.TenantID)
}

func (t *tx) GetSignup(ctx context.Context, id string) (Signup, error) {
	return one(ctx, t, "get sign-up", scanSignup, "SELECT "+signupColumns+" FROM signups WHERE id = ?", id)
}

func (t *tx) GetSignupByDigest(ctx context.Context, digest string) (Signup, error) {
	return one(ctx, t, "get sign-up by link", scanSignup, "SELECT "+signupColumns+" FROM signups WHERE digest = ?", digest)
}

func (t *tx) UpdateSignup(ctx context.Context, v Signup) error {
	return t.change(ctx, "update sign-up", "UPDATE signups SET attempts = ?, expires_at = ?, confirmed_at = ?, tenant_id = ? WHERE id = ?",
		v.Attempts, v.ExpiresAt, v.ConfirmedAt, v.TenantID, v.ID)
}

func (t *tx) VoidSignups(ctx context.Context, email, tenantName, peer string, now time.Time) error {
	_, err := t.exec(ctx, "void sign-ups", "UPDATE signups SET expires_at = ? WHERE email = ? AND tenant_name = ? AND peer = ? AND confirmed_at = 0 AND expires_at > ?",
		now, email, tenantName, peer, now)
	return err
}

func (t *tx) DeleteSignupsBefore(ctx context.Context, expired time.Time) (int, error) {
	return t.exec(ctx, "delete expired sign-ups", "DELETE FROM signups WHERE expires_at < ?", expired)
}

func scanToken(s scanner) (v Token, err error) {
	return v, s.Scan(&v.Digest, &v.Purpose, &v.Subject, &v.Data, toTime{&v.CreatedAt}, toTime{&v.ExpiresAt}, toTime{&v.UsedAt})
}

func (t *tx) InsertToken(ctx context.Context, v Token) error {
	return t.insert(ctx, "one_time_tokens", tokenColumns, v.Digest, v.Purpose, v.Subject, v.Data, v.CreatedAt, v.ExpiresAt, v.UsedAt)
}

func (t *tx) GetToken(ctx context.Context, digest, purpose string) (Token, error) {
	return one(ctx, t, "get token", scanToken, "SELECT "+tokenColumns+" FROM one_time_tokens WHERE digest = ? AND purpose = ?", digest, purpose)
}

func (t *tx) UseToken(ctx context.Context, digest, purpose string, now time.Time) (Token, error) {
	v, err := one(ctx, t, "use token", scanToken, "SELECT "+tokenColumns+" FROM one_time_tokens WHERE digest = ? AND purpose = ?"+t.dialect.lockRows, digest, purpose)
	if err != nil {
		return Token{}, err
	}
	if _, err := t.exec(ctx, "use token", "UPDATE one_time_tokens SET used_at = ? WHERE digest = ? AND used_at = 0", now, digest); err != nil {
		return Token{}, err
	}
	return v, nil
}

func (t *tx) DeleteTokensBefore(ctx context.Context, expired time.Time) (int, error) {
	return t.exec(ctx, "delete expired tokens", "DELETE FROM one_time_tokens WHERE expires_at < ?", expired)
}

func scanConnection(s scanner) (v Connection, err error) {
	return v, s.Scan(&v.TenantID, &v.ID, &v.Name, &v.Issuer, &v.ClientID, &v.ClientSecret, asJSON{&v.Scopes}, &v.GroupsClaim, &v.DefaultRole,
		asJSON{&v.GroupMappings}, toBool{&v.Enabled}, &v.LastTest, &v.Tested, &v.Settings, &v.Staged, toTime{&v.CreatedAt}, toTime{&v.UpdatedAt}, &v.Version)
}

func (t *tx) InsertConnection(ctx context.Context, v Connection) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.insert(ctx, "sso_connections", connectionColumns, v.TenantID, v.ID, v.Name, v.Issuer, v.ClientID, v.ClientSecret, asJSON{v.Scopes},
		v.GroupsClaim, v.DefaultRole, asJSON{v.GroupMappings}, v.Enabled, v.LastTest, v.Tested, v.Settings, v.Staged, v.CreatedAt, v.UpdatedAt, v.Version)
}

func (t *tx) GetConnection(ctx context.Context, tenantID, id string) (Connection, error) {
	if !t.sees(tenantID) {
		return Connection{}, ErrNotFound
	}
	return one(ctx, t, "get connection", scanConnection, "SELECT "+connectionColumns+" FROM sso_connections WHERE tenant_id = ? AND id = ?", tenantID, id)
}

func (t *tx) ListConnections(ctx context.Context, tenantID string) ([]Connection, error) {
	if !t.sees(tenantID) {
		return nil, nil
	}
	return many(ctx, t, "list connections", scanConnection,
		"SELECT "+connectionColumns+" FROM sso_connections WHERE tenant_id = ? ORDER BY id LIMIT ?", tenantID, pageMax)
}

func (t *tx) UpdateConnection(ctx context.Context, v *Connection) error {
	if !t.sees(v.TenantID) {
		return ErrNotFound
	}
	err := t.update(ctx, "update connection",
		`UPDATE sso_connections SET name = ?, issuer = ?, client_id = ?, client_secret = ?, scopes = ?, groups_claim = ?, default_role = ?, group_mappings = ?,
		 enabled = ?, last_test = ?, tested_version = ?, settings = ?, staged = ?, updated_at = ?, version = version + 1 WHERE tenant_id = ? AND id = ? AND version = ?`,
		[]any{v.Name, v.Issuer, v.ClientID, v.ClientSecret, asJSON{v.Scopes}, v.GroupsClaim, v.DefaultRole, asJSON{v.GroupMappings}, v.Enabled, v.LastTest,
			v.Tested, v.Settings, v.Staged, v.UpdatedAt, v.TenantID, v.ID, v.Version}, connectionExists, v.TenantID, v.ID)
	if err == nil {
		v.Version++
	}
	return err
}

func (t *tx) DeleteConnection(ctx context.Context, tenantID, id string) error {
	if !t.sees(tenantID) {
		return ErrNotFound
	}
	if _, err := t.exec(ctx, "delete identities", "DELETE FROM identities WHERE tenant_id = ? AND connection_id = ?", tenantID, id); err != nil {
		return err
	}
	return t.change(ctx, "delete connection", "DELETE FROM sso_connections WHERE tenant_id = ? AND id = ?", tenantID, id)
}

func (t *tx) InsertIdentity(ctx context.Context, v Identity) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.insert(ctx, "identities", identityColumns, v.TenantID, v.ConnectionID, v.Issuer, v.Subject, v.UserID, v.CreatedAt)
}

func (t *tx) GetIdentity(ctx context.Context, tenantID, connectionID, issuer, subject string) (Identity, error) {
	if !t.sees(tenantID) {
		return Identity{}, ErrNotFound
	}
	scan := func(s scanner) (v Identity, err error) {
		return v, s.Scan(&v.TenantID, &v.ConnectionID, &v.Issuer, &v.Subject, &v.UserID, toTime{&v.CreatedAt})
	}
	return one(ctx, t, "get identity", scan,
		"SELECT "+identityColumns+" FROM identities WHERE tenant_id = ? AND connection_id = ? AND issuer = ? AND subject = ?", tenantID, connectionID, issuer, subject)
}
