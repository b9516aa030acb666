package celladmin

import (
	"fmt"
	"slices"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// Bounds of what a key's record may hold, over all of its grants. What passes them also
// travels as the rights of one namespace (package identity).
const (
	GrantsMax          = identity.GroupsMax
	GrantNamespacesMax = 64
	GrantQueuesMax     = identity.PatternsMax
	GrantQueueBytesMax = identity.PatternBytesMax
	CIDRsMax           = 32
)

// CheckGrants says which bound grants exceed: a key with them would be refused.
func CheckGrants(grants permission.Grants) error {
	namespaces, queues, size := 0, 0, 0
	for i := range grants {
		namespaces += len(grants[i].Namespaces)
		queues += len(grants[i].Queues)
		for _, q := range grants[i].Queues {
			size += len(q)
		}
	}
	for _, b := range []struct {
		n, most int
		what    string
	}{
		{len(grants), GrantsMax, "sets of permissions"}, {namespaces, GrantNamespacesMax, "namespaces"},
		{queues, GrantQueuesMax, "patterns of queues"}, {size, GrantQueueBytesMax, "bytes of patterns"},
	} {
		if b.n > b.most {
			return fmt.Errorf("has %d %s; at most %d are allowed", b.n, b.what, b.most)
		}
	}
	return nil
}

// Fit is what of some rights a cell needs and takes: nothing of the tenant's level, and no
// more places than fit. The error says which bound the rest exceeds.
func Fit(all permission.Grants) (fit permission.Grants, err error) {
	for _, g := range all {
		g.Permissions = g.Permissions.At(permission.OfNamespace)
		next := append(slices.Clone(fit), g).Compact()
		if beyond := CheckGrants(next); beyond != nil {
			err = beyond
			continue
		}
		fit = next
	}
	return fit, err
}

// GrantsOf is grants as a key's record has them.
func GrantsOf(grants permission.Grants) []*cellv1.Grant {
	var out []*cellv1.Grant
	for _, g := range grants {
		out = append(out, &cellv1.Grant{Permissions: g.Permissions.Bytes(), NamespaceIds: g.Namespaces, Queues: g.Queues})
	}
	return out
}

// GrantsFrom is what a key may do, by its record. A grant that cannot be read gives nothing.
func GrantsFrom(k *cellv1.Key) permission.Grants {
	if len(k.GetGrants()) == 0 {
		return grantsOfRoles(k.GetRoles(), k.GetNamespaceIds())
	}
	out := make(permission.Grants, 0, len(k.GetGrants()))
	for _, g := range k.GetGrants() {
		if set, err := permission.SetFrom(g.GetPermissions()); err == nil {
			out = append(out, permission.Grant{Permissions: set, Namespaces: g.GetNamespaceIds(), Queues: g.GetQueues()})
		}
	}
	return out
}

// grantsOfRoles reads the form of a key's record that had names of roles. No program writes it
// any more, but a cell that began under the commit that services/e2e/upgrade/from names has it
// in its meta group's log and state: of keys that no control plane has sent again since. It
// goes, with the record's roles and namespace_ids, when from names a later commit.
func grantsOfRoles(names, namespaceIDs []string) permission.Grants {
	set := RoleSet(names)
	if set.Empty() {
		return nil
	}
	return permission.Grants{{Permissions: set, Namespaces: namespaceIDs}}
}

// RoleSet is what fixed roles give in a namespace, together.
func RoleSet(names []string) (set permission.Set) {
	for _, name := range names {
		if r, ok := permission.FixedRole(name); ok {
			set = set.Or(r.Permissions)
		}
	}
	return set.At(permission.OfNamespace)
}

// FirstNamespaces are the ids of the namespaces that a call without one may get, the first
// choice first, as far as the key's record names any.
func FirstNamespaces(k *cellv1.Key) []string {
	var out []string
	add := func(ids ...string) {
		for _, id := range ids {
			if id != "" && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	add(k.GetDefaultNamespaceId())
	add(k.GetNamespaceIds()...)
	for _, g := range k.GetGrants() {
		add(g.GetNamespaceIds()...)
	}
	return out
}
