package store

import "context"

var (
	users = table[User]{
		name: "users", columns: "id, email, name, home_tenant, created_at, seen_at",
		fields: func(v *User) []any {
			return []any{&v.ID, &v.Email, &v.Name, &v.HomeTenant, asTime{&v.CreatedAt}, asTime{&v.SeenAt}}
		},
	}
	memberships = table[Membership]{
		name: "memberships", columns: "tenant_id, user_id, connection_id, created_at, version",
		fields: func(v *Membership) []any {
			return []any{&v.TenantID, &v.UserID, &v.ConnectionID, asTime{&v.CreatedAt}, &v.Version}
		},
		key: "tenant_id, user_id", changes: "connection_id",
	}
	invitations = table[Invitation]{
		name: "invitations", columns: "tenant_id, id, email, roles, digest, invited_by, invited_by_id, created_at, expires_at",
		fields: func(v *Invitation) []any {
			return []any{&v.TenantID, &v.ID, &v.Email, asJSON{&v.Roles}, &v.Digest, &v.InvitedBy, &v.InvitedByID, asTime{&v.CreatedAt}, asTime{&v.ExpiresAt}}
		},
	}
)

// InsertUser adds a person.
func (t *Tx) InsertUser(ctx context.Context, v User) error { return users.insert(ctx, t.common(), v) }

// GetUser finds a person of any tenant.
func (t *Tx) GetUser(ctx context.Context, id string) (User, error) {
	return users.get(ctx, t.common(), "id = ?", id)
}

// GetUserByEmail finds users without a home tenant only.
func (t *Tx) GetUserByEmail(ctx context.Context, email string) (User, error) {
	return users.get(ctx, t.common(), "email = ? AND home_tenant = ''", email)
}

// UpdateUser changes a person's address and name, and when they were seen.
func (t *Tx) UpdateUser(ctx context.Context, v User) error {
	return t.common().change(ctx, "update user", "UPDATE users SET email = ?, name = ?, seen_at = ? WHERE id = ?", v.Email, v.Name, v.SeenAt, v.ID)
}

// InsertMembership makes a user a member.
func (t *Tx) InsertMembership(ctx context.Context, v Membership) error {
	return memberships.insert(ctx, t.of(v.TenantID), v)
}

// GetMembership finds a user's place in a tenant.
func (t *Tx) GetMembership(ctx context.Context, tenantID, userID string) (Membership, error) {
	return memberships.get(ctx, t.of(tenantID), "tenant_id = ? AND user_id = ?", tenantID, userID)
}

// UpdateMembership changes a membership at the version it was read at.
func (t *Tx) UpdateMembership(ctx context.Context, v *Membership) error {
	return memberships.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// DeleteMembership ends a membership with the member's roles and places in groups.
func (t *Tx) DeleteMembership(ctx context.Context, tenantID, userID string) error {
	if err := t.deletePrincipal(ctx, tenantID, userID); err != nil {
		return err
	}
	if err := t.deactivate(ctx, tenantID, userID); err != nil {
		return err
	}
	return t.of(tenantID).change(ctx, "delete membership", "DELETE FROM memberships WHERE tenant_id = ? AND user_id = ?", tenantID, userID)
}

// ListMembers lists by user id.
func (t *Tx) ListMembers(ctx context.Context, tenantID string, p Page) ([]Member, error) {
	return query(ctx, t.of(tenantID), "list members", member,
		"SELECT "+memberships.under("m")+", "+users.under("u")+` FROM memberships m JOIN users u ON u.id = m.user_id
		 WHERE m.tenant_id = ? AND m.user_id > ? ORDER BY m.user_id LIMIT ?`, tenantID, p.After, p.limit())
}

func member(v *Member) []any {
	return append(memberships.fields(&v.Membership), users.fields(&v.User)...)
}

// MembersOf finds some users who are members; who is none is not there.
func (t *Tx) MembersOf(ctx context.Context, tenantID string, userIDs []string) ([]Member, error) {
	if len(userIDs) == 0 {
		return nil, nil
	}
	return query(ctx, t.of(tenantID), "find members", member,
		"SELECT "+memberships.under("m")+", "+users.under("u")+` FROM memberships m JOIN users u ON u.id = m.user_id
		 WHERE m.tenant_id = ? AND m.user_id IN (`+places(len(userIDs))+")", append([]any{tenantID}, anys(userIDs)...)...)
}

// ListAccess is every live tenant of a user, by tenant name.
func (t *Tx) ListAccess(ctx context.Context, userID string) ([]Access, error) {
	both := func(v *Access) []any { return append(memberships.fields(&v.Membership), tenants.fields(&v.Tenant)...) }
	return query(ctx, t.across(), "list tenants of a user", both,
		"SELECT "+memberships.under("m")+", "+tenants.under("t")+` FROM memberships m JOIN tenants t ON t.tenant_id = m.tenant_id
		 WHERE m.user_id = ? AND t.deleted_at = 0 ORDER BY t.name LIMIT ?`, userID, pageMax)
}

// PutInvitation replaces an older one for the same address.
func (t *Tx) PutInvitation(ctx context.Context, v Invitation) error {
	_, err := t.of(v.TenantID).exec(ctx, "replace invitation", "DELETE FROM invitations WHERE tenant_id = ? AND email = ?", v.TenantID, v.Email)
	if err != nil {
		return err
	}
	return invitations.insert(ctx, t.of(v.TenantID), v)
}

// GetInvitation finds one by id.
func (t *Tx) GetInvitation(ctx context.Context, tenantID, id string) (Invitation, error) {
	return invitations.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// GetInvitationByDigest finds the one of a link.
func (t *Tx) GetInvitationByDigest(ctx context.Context, digest string) (Invitation, error) {
	return invitations.get(ctx, t.across(), "digest = ?", digest)
}

// ListInvitations lists by id.
func (t *Tx) ListInvitations(ctx context.Context, tenantID string, p Page) ([]Invitation, error) {
	return invitations.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND id > ? ORDER BY id", tenantID, p.After)
}

// DeleteInvitation withdraws or uses up an invitation.
func (t *Tx) DeleteInvitation(ctx context.Context, tenantID, id string) error {
	return t.of(tenantID).change(ctx, "delete invitation", "DELETE FROM invitations WHERE tenant_id = ? AND id = ?", tenantID, id)
}

// PutRemoval records the removal of a user from a tenant.
func (t *Tx) PutRemoval(ctx context.Context, v Removal) error {
	_, err := t.of(v.TenantID).exec(ctx, "replace removal", "DELETE FROM removals WHERE tenant_id = ? AND user_id = ?", v.TenantID, v.UserID)
	if err != nil {
		return err
	}
	return t.of(v.TenantID).insert(ctx, "removals", "tenant_id, user_id, email, removed_by, removed_at, connection_id",
		v.TenantID, v.UserID, v.Email, v.RemovedBy, v.RemovedAt, v.ConnectionID)
}

// IsRemoved reports whether the user, or one of that address (unless it is empty), was removed.
func (t *Tx) IsRemoved(ctx context.Context, tenantID, userID, email string) (bool, error) {
	n, err := t.of(tenantID).count(ctx, "look for a removal",
		"SELECT 1 FROM removals WHERE tenant_id = ? AND (user_id = ? OR email = ? AND email <> '') LIMIT 1", tenantID, userID, email)
	return n > 0, err
}

// DeleteRemovals deletes what IsRemoved would find.
func (t *Tx) DeleteRemovals(ctx context.Context, tenantID, userID, email string) error {
	_, err := t.of(tenantID).exec(ctx, "forget removals",
		"DELETE FROM removals WHERE tenant_id = ? AND (user_id = ? OR email = ? AND email <> '')", tenantID, userID, email)
	return err
}
