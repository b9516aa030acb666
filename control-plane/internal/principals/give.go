package principals

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// MayGive refuses to give or take away more than the caller has. what names it.
func MayGive(c access.Caller, g permission.Grants, what string) error {
	beyond := c.Rights.Grants.Beyond(g)
	if len(beyond) == 0 {
		return nil
	}
	return fault.New(fault.Denied, "ABOVE_CALLER", "%s can do more than you: you have %s in tenant %s, and lack %s; ask somebody who has it",
		what, c.RolesText(), c.Tenant, missing(beyond))
}

// MayVouch refuses a caller who holds less than somebody who can sign in through a connection:
// whoever sets it up, or has its directory's token, decides who they are.
func MayVouch(ctx context.Context, tx *store.Tx, c store.Connection) error {
	through, err := rights.NewReader(tx, c.TenantID).Through(ctx, c)
	if err != nil {
		return err
	}
	return MayGive(access.From(ctx), through, "somebody who signs in through "+c.Name)
}

// adminsConnections are those that an admin may change, since nobody who signs in through them
// can do more.
func adminsConnections(ctx context.Context, tx *store.Tx, tenantID string) ([]store.Connection, error) {
	all, err := tx.ListConnections(ctx, tenantID)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	reader := rights.NewReader(tx, tenantID)
	admin, err := reader.Role(ctx, rights.FixedID(permission.RoleAdmin))
	if err != nil {
		return nil, err
	}
	may := rights.InTenant([]rights.Role{admin})
	var out []store.Connection
	for _, c := range all {
		through, err := reader.Through(ctx, c)
		if err != nil {
			return nil, err
		}
		if may.Covers(through) {
			out = append(out, c)
		}
	}
	return out, nil
}

// noticing makes a change that gives roles, and tells of the connections that it took from
// admins: by MayVouch, whoever changes one must hold what its people hold.
func noticing(ctx context.Context, tx *store.Tx, give func() error) (notices []string, _ error) {
	tenantID := access.From(ctx).TenantID
	before, err := adminsConnections(ctx, tx, tenantID)
	if err == nil {
		err = give()
	}
	if err != nil || len(before) == 0 {
		return nil, err
	}
	after, err := adminsConnections(ctx, tx, tenantID)
	for _, c := range before {
		if !slices.ContainsFunc(after, func(still store.Connection) bool { return still.ID == c.ID }) {
			notices = append(notices, "Somebody who signs in through the connection "+c.Name+
				" can do more than an admin now. From now on, only whoever can do as much, such as an owner, can change that connection and its directory sync.")
		}
	}
	return notices, err
}

// MayEndKey refuses to end a key that may do more than the caller: revoking stops its users.
// A disabled service account counts with what it may do when it is enabled again.
func MayEndKey(ctx context.Context, tx *store.Tx, k store.Key) error {
	may, err := enabled(ctx, tx, k)
	if err != nil {
		return err
	}
	return MayGive(access.From(ctx), may, "the key "+k.Name)
}

// Fits refuses a key whose rights a cell would not take whole: it would work in some of its
// places only. refused says so of the bound that they exceed.
func Fits(ctx context.Context, tx *store.Tx, k store.Key, refused func(beyond error) error) error {
	may, err := enabled(ctx, tx, k)
	if err != nil {
		return err
	}
	if _, beyond := celladmin.Fit(may); beyond != nil {
		return refused(beyond)
	}
	return nil
}

// enabled is what a key may do while its owner is enabled.
func enabled(ctx context.Context, tx *store.Tx, k store.Key) (permission.Grants, error) {
	may, err := rights.NewReader(tx, k.TenantID).Bound(ctx, k.OwnerID)
	return may.Narrow(rights.Limit(k)), err
}

// missing names some of what is lacked.
func missing(beyond permission.Grants) string {
	const shown = 3
	var names []string
	for _, g := range beyond {
		for _, n := range g.Permissions.Names() {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	if len(names) > shown {
		names = append(names[:shown], "more")
	}
	return strings.Join(names, ", ")
}

// Bindings are those that give roles in the whole tenant. source is the connection that
// does so, empty for people.
func Bindings(k kit.Kit, by access.Caller, tenantID, principalID, source string, roles []rights.Role, now time.Time) (out []store.Binding) {
	for _, r := range roles {
		out = append(out, store.Binding{
			TenantID: tenantID, ID: k.IDs.New(ids.Binding, now), PrincipalID: principalID, RoleID: r.ID, Source: source, CreatedBy: by.ID(), CreatedAt: now,
		})
	}
	return out
}

// InTenant lists what a principal has directly in the whole tenant, with its roles.
func InTenant(ctx context.Context, tx *store.Tx, tenantID, principalID string) (out []rights.Held, _ error) {
	held, err := rights.NewReader(tx, tenantID).Held(ctx, principalID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(held, func(h rights.Held) bool {
		return h.PrincipalID != principalID || h.NamespaceID != "" || h.Queues != ""
	}), nil
}

// RolesOf are the roles of bindings, each once.
func RolesOf(held []rights.Held) (out []rights.Role) {
	for _, h := range held {
		if !slices.ContainsFunc(out, func(r rights.Role) bool { return r.ID == h.RoleID }) {
			out = append(out, h.Role)
		}
	}
	return out
}

// IsOwner reports whether the role owner is among them.
func IsOwner(roles []rights.Role) bool {
	return slices.ContainsFunc(roles, func(r rights.Role) bool { return r.ID == store.RoleOwner })
}

// CheckLastOwner refuses to take the role owner from the only user who has it. Whoever calls
// it knows that the user loses the role.
func CheckLastOwner(ctx context.Context, tx *store.Tx, tenantID string) error {
	n, err := tx.CountOwners(ctx, tenantID)
	if err != nil || n > 1 {
		return err
	}
	return fault.New(fault.Conflict, "LAST_OWNER", "this is the last owner, and a tenant needs at least one; make someone else an owner first")
}
