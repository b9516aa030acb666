package access

import (
	"slices"
	"strings"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

// tenantRole is what there is to say about a role in a tenant.
type tenantRole struct {
	role cloudv1.TenantRole
	// word is how people write it.
	word string
	may  []cloudv1.Permission
	// jobs is what it may do with jobs in every namespace of the tenant.
	jobs []cloudv1.NamespaceRole
}

// tenantRoles is the table of them, in the order of the proto.
func tenantRoles() []tenantRole {
	everything := []cloudv1.Permission{tenantRead, tenantWrite, namespaceRead, namespaceWrite, namespaceDelete, keyRead, keyWrite,
		memberRead, memberWrite, ssoRead, ssoWrite, auditRead, jobRead, jobOperate}
	return []tenantRole{
		{cloudv1.TenantRole_TENANT_ROLE_OWNER, "owner", everything, []cloudv1.NamespaceRole{cloudv1.NamespaceRole_NAMESPACE_ROLE_ADMIN}},
		{cloudv1.TenantRole_TENANT_ROLE_ADMIN, "admin", everything, []cloudv1.NamespaceRole{cloudv1.NamespaceRole_NAMESPACE_ROLE_ADMIN}},
		{cloudv1.TenantRole_TENANT_ROLE_BILLING, "billing", []cloudv1.Permission{tenantRead}, nil},
		{
			cloudv1.TenantRole_TENANT_ROLE_DEVELOPER, "developer",
			[]cloudv1.Permission{tenantRead, namespaceRead, namespaceWrite, keyRead, keyWrite, memberRead, jobRead, jobOperate},
			[]cloudv1.NamespaceRole{cloudv1.NamespaceRole_NAMESPACE_ROLE_OPERATOR, cloudv1.NamespaceRole_NAMESPACE_ROLE_PRODUCER},
		},
		{
			cloudv1.TenantRole_TENANT_ROLE_AUDITOR, "auditor",
			[]cloudv1.Permission{tenantRead, namespaceRead, keyRead, memberRead, ssoRead, auditRead}, nil,
		},
		{
			cloudv1.TenantRole_TENANT_ROLE_VIEWER, "viewer", []cloudv1.Permission{tenantRead, namespaceRead, memberRead, jobRead},
			[]cloudv1.NamespaceRole{cloudv1.NamespaceRole_NAMESPACE_ROLE_VIEWER},
		},
	}
}

// find gives what there is to say of a role, little for one that is none.
func find(r cloudv1.TenantRole) tenantRole {
	for _, known := range tenantRoles() {
		if known.role == r {
			return known
		}
	}
	return tenantRole{role: r, word: "unspecified"}
}

// Permissions lists what a role may do; nil for a role that is not one.
func Permissions(r cloudv1.TenantRole) []cloudv1.Permission { return find(r).may }

// NamespaceRoles is what a tenant role may do with jobs in every namespace of the tenant.
func NamespaceRoles(r cloudv1.TenantRole) []cloudv1.NamespaceRole { return find(r).jobs }

// RoleName is a tenant role as people write it.
func RoleName(r cloudv1.TenantRole) string { return find(r).word }

// RoleNames lists all tenant roles for a refusal.
func RoleNames() string {
	var words []string
	for _, r := range tenantRoles() {
		words = append(words, r.word)
	}
	return strings.Join(words, ", ")
}

// namespaceRole is the data plane's word for a role in a namespace.
type namespaceRole struct {
	role cloudv1.NamespaceRole
	word string
}

func namespaceRoles() []namespaceRole {
	return []namespaceRole{
		{cloudv1.NamespaceRole_NAMESPACE_ROLE_ADMIN, identity.RoleAdmin},
		{cloudv1.NamespaceRole_NAMESPACE_ROLE_OPERATOR, identity.RoleOperator},
		{cloudv1.NamespaceRole_NAMESPACE_ROLE_PRODUCER, identity.RoleProducer},
		{cloudv1.NamespaceRole_NAMESPACE_ROLE_WORKER, identity.RoleWorker},
		{cloudv1.NamespaceRole_NAMESPACE_ROLE_VIEWER, identity.RoleViewer},
	}
}

// NamespaceRoleName is the data plane's word for a role; empty for none.
func NamespaceRoleName(r cloudv1.NamespaceRole) string {
	for _, known := range namespaceRoles() {
		if known.role == r {
			return known.word
		}
	}
	return ""
}

// NamespaceRoleOf is the role of a word of the data plane; unspecified for none.
func NamespaceRoleOf(word string) cloudv1.NamespaceRole {
	for _, known := range namespaceRoles() {
		if known.word == word {
			return known.role
		}
	}
	return cloudv1.NamespaceRole_NAMESPACE_ROLE_UNSPECIFIED
}

// NamespaceRoleNames are the words of those that are roles.
func NamespaceRoleNames(roles []cloudv1.NamespaceRole) (words []string) {
	for _, r := range roles {
		if w := NamespaceRoleName(r); w != "" {
			words = append(words, w)
		}
	}
	return words
}

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

// MayByRole reports whether the caller's role has the permission.
func (c Caller) MayByRole(p cloudv1.Permission) bool { return RoleMay(c.Role, p) }
