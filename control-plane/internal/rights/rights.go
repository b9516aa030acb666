// Package rights turns roles and bindings into what a principal may do: the grants of a user
// with their groups, of a service account, and of a key, which is what its owner may do,
// narrowed.
//
// It must not know use cases: who may change any of it. Surprising: a role gives at a place
// only what can be given there. An admin of one namespace has nothing of the tenant's.
package rights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// Role is a fixed role or a tenant's own.
type Role struct {
	ID, Name, About string
	Permissions     permission.Set
	Narrowest       permission.Level
	Fixed           bool
	// Own is the record of a tenant's own.
	Own store.Role
}

const fixedPrefix = "role_"

// FixedID is the id of a fixed role.
func FixedID(name string) string { return fixedPrefix + name }

// Fixed are the roles of every tenant.
func Fixed() (out []Role) {
	for _, r := range permission.Roles() {
		out = append(out, fixed(r))
	}
	return out
}

func fixed(r permission.Role) Role {
	return Role{ID: FixedID(r.Name), Name: r.Name, About: r.About, Permissions: r.Permissions, Narrowest: r.Narrowest, Fixed: true}
}

// OwnRole is what a tenant's own role says. Names that are no permission any more give nothing.
func OwnRole(r store.Role) Role {
	set, _ := permission.SetOf(r.Permissions)
	return Role{ID: r.ID, Name: r.Name, About: r.Description, Permissions: set, Narrowest: narrowest(set), Own: r}
}

// narrowest is the narrowest place where any permission of the set can be given.
func narrowest(s permission.Set) permission.Level {
	n := permission.OfTenant
	for _, p := range s.List() {
		n = max(n, p.Level())
	}
	return n
}

// GetRole finds a role by its id; store.ErrNotFound.
func GetRole(ctx context.Context, tx *store.Tx, tenantID, id string) (Role, error) {
	if r, ok := permission.FixedRole(strings.TrimPrefix(id, fixedPrefix)); ok && strings.HasPrefix(id, fixedPrefix) {
		return fixed(r), nil
	}
	own, err := tx.GetRole(ctx, tenantID, id)
	return OwnRole(own), err
}

// FindRole finds a role by its name or id, and says in a refusal of field if there is none.
func FindRole(ctx context.Context, tx *store.Tx, tenantID, field, nameOrID string) (Role, error) {
	if r, ok := permission.FixedRole(nameOrID); ok {
		return fixed(r), nil
	}
	r, err := GetRole(ctx, tx, tenantID, nameOrID)
	if errors.Is(err, store.ErrNotFound) {
		var own store.Role
		own, err = tx.GetRoleByName(ctx, tenantID, nameOrID)
		r = OwnRole(own)
	}
	if errors.Is(err, store.ErrNotFound) {
		return r, fault.InvalidField(field, "%q is no role of this tenant; use one of %s, or a role of your own", nameOrID, FixedNames())
	}
	return r, err
}

// FindRoles finds roles that are given in the whole tenant, each once.
func FindRoles(ctx context.Context, tx *store.Tx, tenantID, field string, namesOrIDs []string) (out []Role, _ error) {
	const rolesMax = 20
	if len(namesOrIDs) > rolesMax {
		return nil, fault.InvalidField(field, "can't have more than %d", rolesMax)
	}
	for i, name := range namesOrIDs {
		r, err := FindRole(ctx, tx, tenantID, fmt.Sprintf("%s[%d]", field, i), name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o Role) bool { return o.ID == r.ID }) {
			out = append(out, r)
		}
	}
	return out, nil
}

// FixedNames are the names of the fixed roles, for a refusal.
func FixedNames() string {
	var names []string
	for _, r := range permission.Roles() {
		names = append(names, r.Name)
	}
	return strings.Join(names, ", ")
}

// Names are the names of roles.
func Names(roles []Role) []string {
	out := make([]string, len(roles))
	for i, r := range roles {
		out[i] = r.Name
	}
	return out
}

// Grant is what the role gives at a place.
func (r Role) Grant(namespaceID, queues string) permission.Grant {
	g := permission.Grant{Permissions: r.Permissions}
	if namespaceID != "" {
		g.Namespaces, g.Permissions = []string{namespaceID}, r.Permissions.At(permission.OfNamespace)
	}
	if queues != "" {
		g.Queues, g.Permissions = []string{queues}, r.Permissions.At(permission.OfQueue)
	}
	return g
}

// InTenant is what some roles give in the whole tenant.
func InTenant(roles []Role) (g permission.Grants) {
	for _, r := range roles {
		g = append(g, r.Grant("", ""))
	}
	return g
}

// Through is what a connection can make somebody: whoever it gives its default role or one of
// a mapped group, whoever its directory puts into a group, and each of those who came through
// it, with all that they have. Whoever decides what it says can be any of them.
func (r *Reader) Through(ctx context.Context, c store.Connection) (g permission.Grants, _ error) {
	given := []string{c.DefaultRole}
	for _, m := range c.GroupMappings {
		given = append(given, string(m.Role))
	}
	held, err := r.tx.BindingsThrough(ctx, c.TenantID, c.ID)
	if err != nil {
		return nil, err
	}
	for _, id := range given {
		held = append(held, store.Binding{RoleID: id})
	}
	for _, b := range held {
		if b.RoleID == "" {
			continue
		}
		role, err := r.Role(ctx, b.RoleID)
		if err != nil {
			return nil, err
		}
		g = append(g, Held{b, role}.Grant())
	}
	return g.Compact(), nil
}

// Held is a binding with its role.
type Held struct {
	store.Binding
	Role Role
}

// Grant is what the binding gives.
func (h Held) Grant() permission.Grant { return h.Role.Grant(h.NamespaceID, h.Queues) }

// Reader reads the rights of a tenant's principals, each role and principal once. It is for
// one transaction.
type Reader struct {
	tx       *store.Tx
	tenantID string
	roles    map[string]Role
	held     map[string][]store.Binding
	rights   map[string]access.Rights
}

// NewReader makes a Reader.
func NewReader(tx *store.Tx, tenantID string) *Reader {
	return &Reader{tx: tx, tenantID: tenantID, roles: map[string]Role{}, held: map[string][]store.Binding{}, rights: map[string]access.Rights{}}
}

// Of is what a user or service account may do.
func Of(ctx context.Context, tx *store.Tx, tenantID, principalID string) (access.Rights, error) {
	return NewReader(tx, tenantID).Of(ctx, principalID)
}

// OfKey is what a key may do.
func OfKey(ctx context.Context, tx *store.Tx, k store.Key) (access.Rights, error) {
	return NewReader(tx, k.TenantID).OfKey(ctx, k)
}

// Role finds a role by its id. One that is gone gives nothing.
func (r *Reader) Role(ctx context.Context, id string) (Role, error) {
	if known, ok := r.roles[id]; ok {
		return known, nil
	}
	role, err := GetRole(ctx, r.tx, r.tenantID, id)
	if errors.Is(err, store.ErrNotFound) {
		role, err = Role{ID: id, Name: id}, nil
	}
	if err == nil {
		r.roles[id] = role
	}
	return role, err
}

// With lists the ids of the roles, fixed and the tenant's own, that have a permission. It reads
// all of them at once, as a page about many principals should.
func (r *Reader) With(ctx context.Context, p permission.Permission) (out []string, _ error) {
	if err := r.ReadRoles(ctx); err != nil {
		return nil, err
	}
	for _, role := range r.roles {
		if role.Permissions.Has(p) {
			out = append(out, role.ID)
		}
	}
	slices.Sort(out)
	return out, nil
}

// ReadRoles reads all roles of the tenant, for a page about many principals.
func (r *Reader) ReadRoles(ctx context.Context) error {
	for _, role := range Fixed() {
		r.roles[role.ID] = role
	}
	own := store.All(func(page store.Page) ([]store.Role, error) { return r.tx.ListRoles(ctx, r.tenantID, page) }, func(v store.Role) string { return v.ID })
	for v, err := range own {
		if err != nil {
			return err
		}
		r.roles[v.ID] = OwnRole(v)
	}
	return nil
}

// ReadHeld reads the bindings of some principals at once, for a page about them.
func (r *Reader) ReadHeld(ctx context.Context, principalIDs []string) error {
	of, err := r.tx.BindingsOf(ctx, r.tenantID, principalIDs...)
	if err != nil {
		return err
	}
	n := 0
	for _, bindings := range of {
		n += len(bindings)
	}
	if n >= store.HeldMax {
		return nil // Some may be missing: each is read when asked for.
	}
	for _, id := range principalIDs {
		r.held[id] = of[id]
	}
	return nil
}

// bindings of a principal, those of a user's groups too.
func (r *Reader) bindings(ctx context.Context, principalID string) ([]store.Binding, error) {
	if known, ok := r.held[principalID]; ok {
		return known, nil
	}
	of, err := r.tx.BindingsOf(ctx, r.tenantID, principalID)
	if err == nil {
		r.held[principalID] = of[principalID]
	}
	return of[principalID], err
}

// Held lists the bindings of a principal with their roles, those of a user's groups too.
func (r *Reader) Held(ctx context.Context, principalID string) ([]Held, error) {
	bindings, err := r.bindings(ctx, principalID)
	if err != nil {
		return nil, err
	}
	held := make([]Held, len(bindings))
	for i, b := range bindings {
		role, err := r.Role(ctx, b.RoleID)
		if err != nil {
			return nil, err
		}
		held[i] = Held{b, role}
	}
	return held, nil
}

// Bound is what a principal's bindings give, those of a user's groups too. A disabled service
// account has it when it is enabled again.
func (r *Reader) Bound(ctx context.Context, principalID string) (g permission.Grants, _ error) {
	held, err := r.Held(ctx, principalID)
	for _, h := range held {
		g = append(g, h.Grant())
	}
	return g, err
}

// Of is what a user or service account may do; a disabled one may do nothing.
func (r *Reader) Of(ctx context.Context, principalID string) (access.Rights, error) {
	if known, ok := r.rights[principalID]; ok {
		return known, nil
	}
	out, err := r.read(ctx, principalID)
	if err == nil {
		r.rights[principalID] = out
	}
	return out, err
}

func (r *Reader) read(ctx context.Context, principalID string) (out access.Rights, _ error) {
	if strings.HasPrefix(principalID, string(ids.ServiceAccount)) {
		sa, err := r.tx.GetServiceAccount(ctx, r.tenantID, principalID)
		if errors.Is(err, store.ErrNotFound) || err == nil && sa.Disabled {
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
	held, err := r.Held(ctx, principalID)
	if err != nil {
		return out, err
	}
	for _, h := range held {
		out.Grants = append(out.Grants, h.Grant())
		if h.NamespaceID == "" && h.Queues == "" && !slices.Contains(out.Roles, h.Role.Name) {
			out.Roles = append(out.Roles, h.Role.Name)
		}
	}
	slices.Sort(out.Roles)
	out.Grants = out.Grants.Compact()
	return out, nil
}

// OfKey is what a key may do: what its owner may, narrowed.
func (r *Reader) OfKey(ctx context.Context, k store.Key) (access.Rights, error) {
	owner, err := r.Of(ctx, k.OwnerID)
	if err != nil {
		return owner, err
	}
	return access.Rights{Grants: owner.Grants.Narrow(Limit(k)), Roles: owner.Roles}, nil
}

// Limit is what a key is narrowed to.
func Limit(k store.Key) permission.Grant {
	g := permission.Grant{Permissions: permission.Everything(), Namespaces: k.NamespaceIDs, Queues: k.Queues}
	if len(k.Permissions) > 0 {
		g.Permissions, _ = permission.SetOf(k.Permissions)
	}
	return g
}
