package store

import (
	"context"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

const (
	userColumns       = "id, email, name, home_tenant, created_at, seen_at"
	membershipColumns = "tenant_id, user_id, role, connection_id, created_at, version"
	membershipExists  = "SELECT 1 FROM memberships WHERE tenant_id = ? AND user_id = ?"
	invitationColumns = "tenant_id, id, email, role, digest, invited_by, created_at, expires_at"
)

func scanUser(s scanner) (v User, err error) { return v, s.Scan(userFields(&v)...) }

func userFields(v *User) []any {
	return []any{&v.ID, &v.Email, &v.Name, &v.HomeTenant, toTime{&v.CreatedAt}, toTime{&v.SeenAt}}
}

func (t *tx) InsertUser(ctx context.Context, v User) error {
	return t.insert(ctx, "users", userColumns, v.ID, v.Email, v.Name, v.HomeTenant, v.CreatedAt, v.SeenAt)
}

func (t *tx) GetUser(ctx context.Context, id string) (User, error) {
	return one(ctx, t, "get user", scanUser, "SELECT "+userColumns+" FROM users WHERE id = ?", id)
}

func (t *tx) GetUserByEmail(ctx context.Context, email string) (User, error) {
	return one(ctx, t, "get user by address", scanUser, "SELECT "+userColumns+" FROM users WHERE email = ? AND home_tenant = ''", email)
}

func (t *tx) UpdateUser(ctx context.Context, v User) error {
	return t.change(ctx, "update user", "UPDATE users SET email = ?, name = ?, seen_at = ? WHERE id = ?", v.Email, v.Name, v.SeenAt, v.ID)
}

func membershipFields(v *Membership) []any {
	return []any{&v.TenantID, &v.UserID, &v.Role, &v.ConnectionID, toTime{&v.CreatedAt}, &v.Version}
}

func scanMembership(s scanner) (v Membership, err error) { return v, s.Scan(membershipFields(&v)...) }

func (t *tx) InsertMembership(ctx context.Context, v Membership) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.insert(ctx, "memberships", membershipColumns, v.TenantID, v.UserID, v.Role, v.ConnectionID, v.CreatedAt, v.Version)
}

func (t *tx) GetMembership(ctx context.Context, tenantID, userID string) (Membership, error) {
	if !t.sees(tenantID) {
		return Membership{}, ErrNotFound
	}
	return one(ctx, t, "get membership", scanMembership, "SELECT "+membershipColumns+" FROM memberships WHERE tenant_id = ? AND user_id = ?", tenantID, userID)
}

func (t *tx) UpdateMembership(ctx context.Context, v *Membership) error {
	if !t.sees(v.TenantID) {
		return ErrNotFound
	}
	err := t.update(ctx, "update membership",
		"UPDATE memberships SET role = ?, connection_id = ?, version = version + 1 WHERE tenant_id = ? AND user_id = ? AND version = ?",
		[]any{v.Role, v.ConnectionID, v.TenantID, v.UserID, v.Version}, membershipExists, v.TenantID, v.UserID)
	if err == nil {
		v.Version++
	}
	return err
}

func (t *tx) DeleteMembership(ctx context.Context, tenantID, userID string) error {
	if !t.sees(tenantID) {
		return ErrNotFound
	}
	return t.change(ctx, "delete membership", "DELETE FROM memberships WHERE tenant_id = ? AND user_id = ?", tenantID, userID)
}

func (t *tx) ListMembers(ctx context.Context, tenantID string, p Page) ([]Member, error) {
	if !t.sees(tenantID) {
		return nil, nil
	}
	scan := func(s scanner) (v Member, err error) {
		return v, s.Scan(append(membershipFields(&v.Membership), userFields(&v.User)...)...)
	}
	return many(ctx, t, "list members", scan,
		`SELECT m.tenant_id, m.user_id, m.role, m.connection_id, m.created_at, m.version, u.id, u.email, u.name, u.home_tenant, u.created_at, u.seen_at
		 FROM memberships m JOIN users u ON u.id = m.user_id
		 WHERE m.tenant_id = ? AND m.user_id > ? ORDER BY m.user_id LIMIT ?`, tenantID, p.After, p.limit())
}

func (t *tx) CountOwners(ctx context.Context, tenantID string) (int, error) {
	if !t.sees(tenantID) {
		return 0, nil
	}
	n, err := one(ctx, t, "count owners", number,
		"SELECT COUNT(*) FROM (SELECT user_id FROM memberships WHERE tenant_id = ? AND role = ?"+t.dialect.lockRows+") AS owners",
		tenantID, cloudv1.TenantRole_TENANT_ROLE_OWNER)
	return int(n), err
}

func (t *tx) ListAccess(ctx context.Context, userID string) ([]Access, error) {
	if err := t.service(); err != nil {
		return nil, err
	}
	scan := func(s scanner) (v Access, err error) {
		return v, s.Scan(append(membershipFields(&v.Membership), &v.Tenant.ID, &v.Tenant.Name, &v.Tenant.DisplayName, &v.Tenant.Plan, &v.Tenant.Cell,
			toTime{&v.Tenant.CreatedAt}, toTime{&v.Tenant.UpdatedAt}, toTime{&v.Tenant.DeletedAt}, &v.Tenant.Version, &v.Tenant.Generation, &v.Tenant.Observed)...)
	}
	return many(ctx, t, "list tenants of a user", scan,
		`SELECT m.tenant_id, m.user_id, m.role, m.connection_id, m.created_at, m.version,
		        t.tenant_id, t.name, t.display_name, t.plan, t.cell, t.created_at, t.updated_at, t.deleted_at, t.version, t.generation, t.observed
		 FROM memberships m JOIN tenants t ON t.tenant_id = m.tenant_id
		 WHERE m.user_id = ? AND t.deleted_at = 0 ORDER BY t.name LIMIT ?`, userID, pageMax)
}

func scanInvitation(s scanner) (v Invitation, err error) {
	return v, s.Scan(&v.TenantID, &v.ID, &v.Email, &v.Role, &v.Digest, &v.InvitedBy, toTime{&v.CreatedAt}, toTime{&v.ExpiresAt})
}

func (t *tx) PutInvitation(ctx context.Context, v Invitation) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	if _, err := t.exec(ctx, "replace invitation", "DELETE FROM invitations WHERE tenant_id = ? AND email = ?", v.TenantID, v.Email); err != nil {
		return err
	}
	return t.insert(ctx, "invitations", invitationColumns, v.TenantID, v.ID, v.Email, v.Role, v.Digest, v.InvitedBy, v.CreatedAt, v.ExpiresAt)
}

func (t *tx) GetInvitation(ctx context.Context, tenantID, id string) (Invitation, error) {
	if !t.sees(tenantID) {
		return Invitation{}, ErrNotFound
	}
	return one(ctx, t, "get invitation", scanInvitation, "SELECT "+invitationColumns+" FROM invitations WHERE tenant_id = ? AND id = ?", tenantID, id)
}

func (t *tx) GetInvitationByDigest(ctx context.Context, digest string) (Invitation, error) {
	if err := t.service(); err != nil {
		return Invitation{}, err
	}
	return one(ctx, t, "get invitation by link", scanInvitation, "SELECT "+invitationColumns+" FROM invitations WHERE digest = ?", digest)
}

func (t *tx) ListInvitations(ctx context.Context, tenantID string, p Page) ([]Invitation, error) {
	if !t.sees(tenantID) {
		return nil, nil
	}
	return many(ctx, t, "list invitations", scanInvitation,
		"SELECT "+invitationColumns+" FROM invitations WHERE tenant_id = ? AND id > ? ORDER BY id LIMIT ?", tenantID, p.After, p.limit())
}

func (t *tx) DeleteInvitation(ctx context.Context, tenantID, id string) error {
	if !t.sees(tenantID) {
		return ErrNotFound
	}
	return t.change(ctx, "delete invitation", "DELETE FROM invitations WHERE tenant_id = ? AND id = ?", tenantID, id)
}

func (t *tx) PutRemoval(ctx context.Context, v Removal) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	if _, err := t.exec(ctx, "replace removal", "DELETE FROM removals WHERE tenant_id = ? AND user_id = ?", v.TenantID, v.UserID); err != nil {
		return err
	}
	return t.insert(ctx, "removals", "tenant_id, user_id, email, removed_by, removed_at", v.TenantID, v.UserID, v.Email, v.RemovedBy, v.RemovedAt)
}

func (t *tx) IsRemoved(ctx context.Context, tenantID, userID, email string) (bool, error) {
	if !t.sees(tenantID) {
		return false, nil
	}
	found, err := many(ctx, t, "look for a removal", number,
		"SELECT 1 FROM removals WHERE tenant_id = ? AND (user_id = ? OR email = ? AND email <> '') LIMIT 1", tenantID, userID, email)
	return len(found) > 0, err
}

func (t *tx) DeleteRemovals(ctx context.Context, tenantID, userID, email string) error {
	if !t.sees(tenantID) {
		return ErrNotFound
	}
	_, err := t.exec(ctx, "forget removals",
		"DELETE FROM removals WHERE tenant_id = ? AND (user_id = ? OR email = ? AND email <> '')", tenantID, userID, email)
	return err
}
