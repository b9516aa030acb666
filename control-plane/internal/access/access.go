// Package access owns who calls and what a role may do: the table of permissions of
// tenant roles, what they become in a namespace, and the rule that nobody grants more
// than they hold.
//
// It must not know stores or transports. Surprising: owner and admin differ in two
// things only, that the last owner cannot be taken away and that only an owner makes
// or unmakes owners.
package access

import (
	"cmp"
	"context"
	"slices"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// Caller is who makes a call, in one tenant.
type Caller struct {
	// TenantID is the tenant that the call is about; empty for calls about the caller.
	TenantID string
	// Tenant is its name, Plan what its limits are.
	Tenant, Plan string
	Role         cloudv1.TenantRole
	// Exactly one of UserID and KeyID is set; neither for a public call.
	UserID string
	KeyID  string
	// Name is the e-mail address or the key's name, for people.
	Name string
	// SessionID is set for a user.
	SessionID string
	// OnlyTenantID is set for a session that is good in one tenant only: its provider
	// opened it, or its invitation. BySSO tells the two apart.
	OnlyTenantID string
	BySSO        bool
	RequestID    string
	// Peer is the client's address; UserAgent what the client says it is.
	Peer      string
	UserAgent string
}

// ID of the user or key; empty for a public call.
func (c Caller) ID() string { return cmp.Or(c.UserID, c.KeyID) }

// Type is the audit's word for the caller.
func (c Caller) Type() string {
	switch {
	case c.UserID != "" && c.BySSO:
		return "sso"
	case c.UserID != "":
		return "user"
	case c.KeyID != "":
		return "key"
	}
	return "public"
}

// May reports whether the caller's role has the permission.
func (c Caller) May(p cloudv1.Permission) bool { return RoleMay(c.Role, p) }

const (
	tenantRead      = cloudv1.Permission_PERMISSION_TENANT_READ
	tenantWrite     = cloudv1.Permission_PERMISSION_TENANT_WRITE
	namespaceRead   = cloudv1.Permission_PERMISSION_NAMESPACE_READ
	namespaceWrite  = cloudv1.Permission_PERMISSION_NAMESPACE_WRITE
	namespaceDelete = cloudv1.Permission_PERMISSION_NAMESPACE_DELETE
	keyRead         = cloudv1.Permission_PERMISSION_KEY_READ
	keyWrite        = cloudv1.Permission_PERMISSION_KEY_WRITE
	memberRead      = cloudv1.Permission_PERMISSION_MEMBER_READ
	memberWrite     = cloudv1.Permission_PERMISSION_MEMBER_WRITE
	ssoRead         = cloudv1.Permission_PERMISSION_SSO_READ
	ssoWrite        = cloudv1.Permission_PERMISSION_SSO_WRITE
	auditRead       = cloudv1.Permission_PERMISSION_AUDIT_READ
	jobRead         = cloudv1.Permission_PERMISSION_JOB_READ
	jobOperate      = cloudv1.Permission_PERMISSION_JOB_OPERATE
)

// RoleMay reports whether a role has a permission.
func RoleMay(r cloudv1.TenantRole, p cloudv1.Permission) bool {
	switch p {
	case cloudv1.Permission_PERMISSION_PUBLIC:
		return true
	case cloudv1.Permission_PERMISSION_UNSPECIFIED:
		return false
	}
	return slices.Contains(Permissions(r), p)
}

// MayGrant reports whether a caller of role holder may give or take away role given:
// only an owner makes owners, and nobody grants a permission they lack.
func MayGrant(holder, given cloudv1.TenantRole) bool {
	if given == cloudv1.TenantRole_TENANT_ROLE_OWNER && holder != cloudv1.TenantRole_TENANT_ROLE_OWNER {
		return false
	}
	all := Permissions(given)
	return all != nil && !slices.ContainsFunc(all, func(p cloudv1.Permission) bool { return !RoleMay(holder, p) })
}

type contextKey struct{}

// With hands a caller down.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From gives the caller; the zero Caller may do nothing.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(contextKey{}).(Caller)
	return c
}
