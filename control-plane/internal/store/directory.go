package store

import (
	"context"
	"errors"
	"time"
)

// ScimToken is what a directory calls with.
type ScimToken struct {
	TenantID, ID, ConnectionID string
	Digest                     string // Hex SHA-256, as apikey.Digest makes it.
	CreatedBy                  string
	CreatedAt, ExpiresAt       time.Time
	RevokedAt                  time.Time
	LastUsedAt                 time.Time // Known to within some minutes.
}

// DirectoryUser is what a connection's directory says of a user.
type DirectoryUser struct {
	TenantID, ConnectionID, UserID string
	ExternalID, UserName           string
	NameKey                        string // UserName in lower case.
	// Active users are members; a member who goes is not active any more.
	Active               bool
	Attributes           map[string]any
	CreatedAt, UpdatedAt time.Time
	Version              int64
}

// DirectoryMember is a directory's user in a group of it.
type DirectoryMember struct{ UserID, UserName string }

// DirectoryState is how a connection's directory sync goes.
type DirectoryState struct {
	TenantID, ConnectionID  string
	LastCallAt, LastErrorAt time.Time
	LastError               string
}

var (
	scimTokens = table[ScimToken]{
		name: "scim_tokens", columns: "tenant_id, id, connection_id, digest, created_by, created_at, expires_at, revoked_at, last_used_at",
		fields: func(v *ScimToken) []any {
			return []any{&v.TenantID, &v.ID, &v.ConnectionID, &v.Digest, &v.CreatedBy, asTime{&v.CreatedAt}, asTime{&v.ExpiresAt}, asTime{&v.RevokedAt}, asTime{&v.LastUsedAt}}
		},
	}
	scimUsers = table[DirectoryUser]{
		name: "scim_users", columns: "tenant_id, connection_id, user_id, external_id, user_name, name_key, active, attributes, created_at, updated_at, version",
		fields: func(v *DirectoryUser) []any {
			return []any{&v.TenantID, &v.ConnectionID, &v.UserID, &v.ExternalID, &v.UserName, &v.NameKey, asBool{&v.Active}, asJSON{&v.Attributes},
				asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version}
		},
		key: "tenant_id, user_id", changes: "external_id, user_name, name_key, active, attributes, updated_at",
	}
	scimState = table[DirectoryState]{
		name: "scim_state", columns: "tenant_id, connection_id, last_call_at, last_error_at, last_error",
		fields: func(v *DirectoryState) []any {
			return []any{&v.TenantID, &v.ConnectionID, asTime{&v.LastCallAt}, asTime{&v.LastErrorAt}, &v.LastError}
		},
	}
)

// InsertScimToken adds a token of a connection.
func (t *Tx) InsertScimToken(ctx context.Context, v ScimToken) error {
	return scimTokens.insert(ctx, t.of(v.TenantID), v)
}

// FindScimToken finds a token of any tenant: who calls?
func (t *Tx) FindScimToken(ctx context.Context, id string) (ScimToken, error) {
	return scimTokens.get(ctx, t.across(), "id = ?", id)
}

// GetScimToken finds revoked ones too.
func (t *Tx) GetScimToken(ctx context.Context, tenantID, id string) (ScimToken, error) {
	return scimTokens.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// ListScimTokens lists those of a connection that have not been revoked, oldest first.
func (t *Tx) ListScimTokens(ctx context.Context, tenantID, connectionID string) ([]ScimToken, error) {
	return scimTokens.list(ctx, t.of(tenantID), pageMax, "tenant_id = ? AND connection_id = ? AND revoked_at = 0 ORDER BY created_at, id", tenantID, connectionID)
}

// UpdateScimToken moves the end of a token that has not been revoked.
func (t *Tx) UpdateScimToken(ctx context.Context, v ScimToken) error {
	return t.of(v.TenantID).change(ctx, "move the end of a directory token", "UPDATE scim_tokens SET expires_at = ? WHERE tenant_id = ? AND id = ? AND revoked_at = 0", v.ExpiresAt, v.TenantID, v.ID)
}

// RevokeScimToken ends a token.
func (t *Tx) RevokeScimToken(ctx context.Context, tenantID, id string, now time.Time) error {
	return t.of(tenantID).change(ctx, "revoke directory token", "UPDATE scim_tokens SET revoked_at = ? WHERE tenant_id = ? AND id = ? AND revoked_at = 0", now, tenantID, id)
}

// TouchScimToken records when a token was last used.
func (t *Tx) TouchScimToken(ctx context.Context, tenantID, id string, at time.Time) error {
	_, err := t.of(tenantID).exec(ctx, "touch directory token", "UPDATE scim_tokens SET last_used_at = ? WHERE tenant_id = ? AND id = ? AND last_used_at < ?", at, tenantID, id, at)
	return err
}

// InsertDirectoryUser adds what a directory says of a user; ErrExists also if another of the
// connection has the name.
func (t *Tx) InsertDirectoryUser(ctx context.Context, v DirectoryUser) error {
	return scimUsers.insert(ctx, t.of(v.TenantID), v)
}

// GetDirectoryUser finds what the directory of any connection says of a user.
func (t *Tx) GetDirectoryUser(ctx context.Context, tenantID, userID string) (DirectoryUser, error) {
	return scimUsers.get(ctx, t.of(tenantID), "tenant_id = ? AND user_id = ?", tenantID, userID)
}

// DirectoryUserByName finds a connection's user by name, in lower case.
func (t *Tx) DirectoryUserByName(ctx context.Context, tenantID, connectionID, nameKey string) (DirectoryUser, error) {
	return scimUsers.get(ctx, t.of(tenantID), "tenant_id = ? AND connection_id = ? AND name_key = ?", tenantID, connectionID, nameKey)
}

// DirectoryUsersByExternalID lists a connection's users whom the directory calls so; that it
// is one is the directory's affair.
func (t *Tx) DirectoryUsersByExternalID(ctx context.Context, tenantID, connectionID, externalID string) ([]DirectoryUser, error) {
	return scimUsers.list(ctx, t.of(tenantID), pageMax, "tenant_id = ? AND connection_id = ? AND external_id = ? AND external_id <> '' ORDER BY user_id", tenantID, connectionID, externalID)
}

// ListDirectoryUsers lists a connection's by user id, after leaving out some.
func (t *Tx) ListDirectoryUsers(ctx context.Context, tenantID, connectionID string, skip int, p Page) ([]DirectoryUser, error) {
	return query(ctx, t.of(tenantID), "list scim_users", scimUsers.fields, "SELECT "+scimUsers.columns+
		" FROM scim_users WHERE tenant_id = ? AND connection_id = ? AND user_id > ? ORDER BY user_id LIMIT ? OFFSET ?", tenantID, connectionID, p.After, p.limit(), skip)
}

// CountDirectoryUsers counts a connection's, and those of them who are active.
func (t *Tx) CountDirectoryUsers(ctx context.Context, tenantID, connectionID string) (all, active int, err error) {
	all, err = t.of(tenantID).count(ctx, "count directory users", "SELECT COUNT(*) FROM scim_users WHERE tenant_id = ? AND connection_id = ?", tenantID, connectionID)
	if err == nil {
		active, err = t.of(tenantID).count(ctx, "count directory users", "SELECT COUNT(*) FROM scim_users WHERE tenant_id = ? AND connection_id = ? AND active = 1", tenantID, connectionID)
	}
	return all, active, err
}

// UpdateDirectoryUser changes one at the version it was read at.
func (t *Tx) UpdateDirectoryUser(ctx context.Context, v *DirectoryUser) error {
	return scimUsers.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// DeleteDirectoryUser forgets what a directory said of a user, their groups at the directory
// and who they are at the provider.
func (t *Tx) DeleteDirectoryUser(ctx context.Context, v DirectoryUser) error {
	if _, err := t.of(v.TenantID).exec(ctx, "leave directory groups", "DELETE FROM scim_members WHERE tenant_id = ? AND user_id = ?", v.TenantID, v.UserID); err != nil {
		return err
	}
	_, err := t.of(v.TenantID).exec(ctx, "delete identities", "DELETE FROM identities WHERE tenant_id = ? AND connection_id = ? AND user_id = ?", v.TenantID, v.ConnectionID, v.UserID)
	if err != nil {
		return err
	}
	return t.of(v.TenantID).change(ctx, "delete directory user", "DELETE FROM scim_users WHERE tenant_id = ? AND user_id = ?", v.TenantID, v.UserID)
}

// HasIdentity reports whether a user has signed in through a connection.
func (t *Tx) HasIdentity(ctx context.Context, tenantID, connectionID, userID string) (bool, error) {
	n, err := t.of(tenantID).count(ctx, "look for an identity", "SELECT 1 FROM identities WHERE tenant_id = ? AND connection_id = ? AND user_id = ? LIMIT 1", tenantID, connectionID, userID)
	return n > 0, err
}

// CameBy lists the members with an address who came through a connection, whose provider
// vouches for it, and whom its directory doesn't know.
func (t *Tx) CameBy(ctx context.Context, tenantID, connectionID, email string) ([]User, error) {
	return query(ctx, t.of(tenantID), "list members of a connection", users.fields,
		"SELECT "+users.under("u")+` FROM memberships m JOIN users u ON u.id = m.user_id
		 WHERE m.tenant_id = ? AND m.connection_id = ? AND u.home_tenant = m.tenant_id AND u.email = ?
		 AND EXISTS (SELECT 1 FROM identities i WHERE i.tenant_id = m.tenant_id AND i.connection_id = m.connection_id AND i.user_id = m.user_id AND i.vouched_email = u.email)
		 AND NOT EXISTS (SELECT 1 FROM scim_users d WHERE d.tenant_id = m.tenant_id AND d.user_id = m.user_id) ORDER BY u.id LIMIT ?`,
		tenantID, connectionID, email, pageMax)
}

// ListGroupsOfConnection lists the groups of a connection's directory by id, after leaving
// out some.
func (t *Tx) ListGroupsOfConnection(ctx context.Context, tenantID, connectionID string, skip int, p Page) ([]Group, error) {
	return query(ctx, t.of(tenantID), "list groups", groups.fields, "SELECT "+groups.columns+
		" FROM groups WHERE tenant_id = ? AND connection_id = ? AND connection_id <> '' AND id > ? ORDER BY id LIMIT ? OFFSET ?", tenantID, connectionID, p.After, p.limit(), skip)
}

// CountGroupsOfConnection counts those.
func (t *Tx) CountGroupsOfConnection(ctx context.Context, tenantID, connectionID string) (int, error) {
	return t.of(tenantID).count(ctx, "count groups", "SELECT COUNT(*) FROM groups WHERE tenant_id = ? AND connection_id = ? AND connection_id <> ''", tenantID, connectionID)
}

// AddDirectoryMember puts a directory's user into a group of it, and reports whether they
// were out of it.
func (t *Tx) AddDirectoryMember(ctx context.Context, tenantID, groupID, userID string) (bool, error) {
	err := t.of(tenantID).insert(ctx, "scim_members", "tenant_id, group_id, user_id", tenantID, groupID, userID)
	if errors.Is(err, ErrExists) {
		return false, nil
	}
	return err == nil, err
}

// RemoveDirectoryMember takes a directory's user out of a group, and reports whether they
// were in it.
func (t *Tx) RemoveDirectoryMember(ctx context.Context, tenantID, groupID, userID string) (bool, error) {
	n, err := t.of(tenantID).exec(ctx, "remove directory member", "DELETE FROM scim_members WHERE tenant_id = ? AND group_id = ? AND user_id = ?", tenantID, groupID, userID)
	return n > 0, err
}

// InDirectoryGroup reports whether a directory's user is in a group of it.
func (t *Tx) InDirectoryGroup(ctx context.Context, tenantID, groupID, userID string) (bool, error) {
	n, err := t.of(tenantID).count(ctx, "look for a directory member", "SELECT 1 FROM scim_members WHERE tenant_id = ? AND group_id = ? AND user_id = ?", tenantID, groupID, userID)
	return n > 0, err
}

// ListDirectoryMembers lists the directory's users in a group, by user id.
func (t *Tx) ListDirectoryMembers(ctx context.Context, tenantID, groupID string, p Page) ([]DirectoryMember, error) {
	return query(ctx, t.of(tenantID), "list directory members", func(v *DirectoryMember) []any { return []any{&v.UserID, &v.UserName} },
		`SELECT m.user_id, d.user_name FROM scim_members m JOIN scim_users d ON d.tenant_id = m.tenant_id AND d.user_id = m.user_id
		 WHERE m.tenant_id = ? AND m.group_id = ? AND m.user_id > ? ORDER BY m.user_id LIMIT ?`, tenantID, groupID, p.After, p.limit())
}

// CountDirectoryMembers counts those.
func (t *Tx) CountDirectoryMembers(ctx context.Context, tenantID, groupID string) (int, error) {
	return t.of(tenantID).count(ctx, "count directory members", "SELECT COUNT(*) FROM scim_members WHERE tenant_id = ? AND group_id = ?", tenantID, groupID)
}

// DirectoryGroupsOf lists the groups that a directory's user is in at the directory, by id.
func (t *Tx) DirectoryGroupsOf(ctx context.Context, tenantID, userID string, p Page) ([]Group, error) {
	return groups.list(ctx, t.of(tenantID), p.limit(),
		"tenant_id = ? AND id IN (SELECT group_id FROM scim_members WHERE tenant_id = ? AND user_id = ?) AND id > ? ORDER BY id", tenantID, tenantID, userID, p.After)
}

// EmptyDirectoryGroup takes everybody out of a group at the directory.
func (t *Tx) EmptyDirectoryGroup(ctx context.Context, tenantID, groupID string) error {
	_, err := t.of(tenantID).exec(ctx, "empty directory group", "DELETE FROM scim_members WHERE tenant_id = ? AND group_id = ?", tenantID, groupID)
	return err
}

// deactivate says of a directory's user that they are no member.
func (t *Tx) deactivate(ctx context.Context, tenantID, userID string) error {
	_, err := t.of(tenantID).exec(ctx, "deactivate directory user",
		"UPDATE scim_users SET active = 0, version = version + 1 WHERE tenant_id = ? AND user_id = ? AND active = 1", tenantID, userID)
	return err
}

// PutDirectoryState records how directory sync goes.
func (t *Tx) PutDirectoryState(ctx context.Context, v DirectoryState) error {
	_, err := t.of(v.TenantID).exec(ctx, "replace directory state", "DELETE FROM scim_state WHERE tenant_id = ? AND connection_id = ?", v.TenantID, v.ConnectionID)
	if err != nil {
		return err
	}
	return scimState.insert(ctx, t.of(v.TenantID), v)
}

// GetDirectoryState finds it; ErrNotFound if the directory never called.
func (t *Tx) GetDirectoryState(ctx context.Context, tenantID, connectionID string) (DirectoryState, error) {
	return scimState.get(ctx, t.of(tenantID), "tenant_id = ? AND connection_id = ?", tenantID, connectionID)
}

// deleteDirectory deletes all that a connection's directory keeps.
func (t *Tx) deleteDirectory(ctx context.Context, tenantID, connectionID string) error {
	for {
		page, err := t.ListGroupsOfConnection(ctx, tenantID, connectionID, 0, Page{})
		if err != nil {
			return err
		}
		for _, g := range page {
			if err := t.DeleteGroup(ctx, tenantID, g.ID); err != nil {
				return err
			}
		}
		if len(page) == 0 {
			break
		}
	}
	// Groups of other directories may have its users.
	_, members := t.of(tenantID).exec(ctx, "delete directory members",
		"DELETE FROM scim_members WHERE tenant_id = ? AND user_id IN (SELECT user_id FROM scim_users WHERE tenant_id = ? AND connection_id = ?)", tenantID, tenantID, connectionID)
	_, users := t.of(tenantID).exec(ctx, "delete directory users", "DELETE FROM scim_users WHERE tenant_id = ? AND connection_id = ?", tenantID, connectionID)
	_, tokens := t.of(tenantID).exec(ctx, "delete directory tokens", "DELETE FROM scim_tokens WHERE tenant_id = ? AND connection_id = ?", tenantID, connectionID)
	_, state := t.of(tenantID).exec(ctx, "delete directory state", "DELETE FROM scim_state WHERE tenant_id = ? AND connection_id = ?", tenantID, connectionID)
	return errors.Join(members, users, tokens, state)
}

// IsRemovedByPeople is IsRemoved without those whom a connection's directory removed.
func (t *Tx) IsRemovedByPeople(ctx context.Context, tenantID, userID, email string) (bool, error) {
	n, err := t.of(tenantID).count(ctx, "look for a removal",
		"SELECT 1 FROM removals WHERE tenant_id = ? AND connection_id = '' AND (user_id = ? OR email = ? AND email <> '') LIMIT 1", tenantID, userID, email)
	return n > 0, err
}
