package tenancy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

const (
	// keyNamespacesMax bounds the namespaces of one key: proxies hold them in memory. A
	// cell takes no more.
	keyNamespacesMax = 64
	// keyLifeMax keeps an end inside what a count of nanoseconds can tell, which stops in
	// the year 2262.
	keyLifeMax = 100 * 365 * 24 * time.Hour
)

// checkKey says what is wrong with a key by itself, whoever makes it.
func checkKey(k store.Key, now time.Time) error {
	var wrong []fault.Field
	add := func(field, format string, args ...any) {
		wrong = append(wrong, fault.Field{Name: field, Problem: fmt.Sprintf(format, args...)})
	}
	if p := displayName(k.Name); p != "" {
		add("name", "%s", p)
	}
	switch k.Kind {
	case cloudv1.KeyKind_KEY_KIND_JOBS:
		if len(k.Roles) == 0 {
			add("roles", "a key for jobs needs at least one of admin, operator, producer, worker, viewer")
		}
		if k.TenantRole != cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED {
			add("tenant_role", "only applies to management keys; leave it out")
		}
	case cloudv1.KeyKind_KEY_KIND_MANAGEMENT:
		if len(k.Roles) > 0 {
			add("roles", "only apply to keys for jobs; leave them out and set tenant_role")
		}
		if len(k.NamespaceIDs) > 0 {
			add("namespaces", "a management key always covers the whole tenant; leave this out")
		}
		if access.Permissions(k.TenantRole) == nil {
			add("tenant_role", "a management key needs one of %s", access.RoleNames())
		}
	default:
		add("kind", "must be KEY_KIND_JOBS or KEY_KIND_MANAGEMENT")
	}
	for i, r := range k.Roles {
		if access.NamespaceRoleName(r) == "" {
			add(fmt.Sprintf("roles[%d]", i), "isn't a role")
		} else if slices.Contains(k.Roles[:i], r) {
			add(fmt.Sprintf("roles[%d]", i), "is listed twice")
		}
	}
	if len(k.NamespaceIDs) > keyNamespacesMax {
		add("namespaces", "can't have more than %d; leave it empty for all namespaces", keyNamespacesMax)
	}
	if ended(k.ExpiresAt, now) {
		add("expires_at", "is in the past")
	}
	if k.ExpiresAt.After(now.Add(keyLifeMax)) {
		add("expires_at", "is more than 100 years away; leave it out for a key that doesn't expire")
	}
	return fault.InvalidFields(wrong)
}

// MayHold refuses to make, change or end a key that may do more than the caller. Ending
// counts too: rotating a key gives it to the caller, and revoking it stops its users.
func MayHold(c access.Caller, k store.Key) error {
	if k.Kind == cloudv1.KeyKind_KEY_KIND_MANAGEMENT {
		if access.MayGrant(c.Role, k.TenantRole) {
			return nil
		}
		return broader(c, "a management key with the role "+access.RoleName(k.TenantRole))
	}
	held := access.NamespaceRoleNames(access.NamespaceRoles(c.Role))
	for _, r := range k.Roles {
		for a := identity.Enqueue; a <= identity.Administer; a++ {
			if identity.Allows([]string{access.NamespaceRoleName(r)}, a) && !identity.Allows(held, a) {
				return broader(c, "a key for jobs with the role "+access.NamespaceRoleName(r))
			}
		}
	}
	return nil
}

func broader(c access.Caller, what string) error {
	return fault.New(fault.Denied, "KEY_BROADER_THAN_CALLER", "%s can do more than your role %s in tenant %s; ask an owner or admin", what, access.RoleName(c.Role), c.Tenant)
}

// namespaceIDs resolves names and ids of living namespaces, without repetition.
func namespaceIDs(ctx context.Context, tx *store.Tx, namesOrIDs []string) ([]string, error) {
	if len(namesOrIDs) > keyNamespacesMax {
		return nil, fault.InvalidField("namespaces", "can't have more than %d; leave it empty for all namespaces", keyNamespacesMax)
	}
	var out []string
	for _, text := range namesOrIDs {
		n, err := findNamespace(ctx, tx, text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, n.ID) {
			out = append(out, n.ID)
		}
	}
	return out, nil
}

// living leaves out the secrets that have ended.
func living(versions []store.KeyVersion, now time.Time) []store.KeyVersion {
	return slices.DeleteFunc(slices.Clone(versions), func(v store.KeyVersion) bool { return ended(v.ExpiresAt, now) })
}

// KeyPrefix is what people recognize a key by: its text up to the secret.
func KeyPrefix(k store.Key) string {
	return "corvo_" + string(kindOf(k.Kind)) + "_" + strings.TrimPrefix(k.ID, "key_")
}
