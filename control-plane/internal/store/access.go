package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	roles = table[Role]{
		name: "roles", columns: "tenant_id, id, name, description, permissions, created_at, updated_at, version",
		fields: func(v *Role) []any {
			return []any{&v.TenantID, &v.ID, &v.Name, &v.Description, asJSON{&v.Permissions}, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version}
		},
		key: "tenant_id, id", changes: "name, description, permissions, updated_at",
	}
	serviceAccounts = table[ServiceAccount]{
		name: "service_accounts", columns: "tenant_id, id, name, description, disabled, created_by, created_at, updated_at, version",
		fields: func(v *ServiceAccount) []any {
			return []any{&v.TenantID, &v.ID, &v.Name, &v.Description, asBool{&v.Disabled}, &v.CreatedBy, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version}
		},
		key: "tenant_id, id", changes: "name, description, disabled, updated_at",
	}
	groups = table[Group]{
		name: "groups", columns: "tenant_id, id, name, description, external_id, connection_id, created_at, updated_at, version",
		fields: func(v *Group) []any {
			return []any{&v.TenantID, &v.ID, &v.Name, &v.Description, &v.ExternalID, &v.ConnectionID, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version}
		},
		key: "tenant_id, id", changes: "name, description, external_id, updated_at",
	}
	groupMembers = table[GroupMember]{
		name: "group_members", columns: "tenant_id, group_id, user_id, created_at",
		fields: func(v *GroupMember) []any {
			return []any{&v.TenantID, &v.GroupID, &v.UserID, asTime{&v.CreatedAt}}
		},
	}
	bindings = table[Binding]{
		name: "role_bindings", columns: "tenant_id, id, principal_id, role_id, namespace_id, queues, source, created_by, created_at",
		fields: func(v *Binding) []any {
			return []any{&v.TenantID, &v.ID, &v.PrincipalID, &v.RoleID, &v.NamespaceID, &v.Queues, &v.Source, &v.CreatedBy, asTime{&v.CreatedAt}}
		},
	}
)

// RoleOwner is the id of the role that a tenant cannot be without.
const RoleOwner = "role_owner"

// RoleBilling is the id of the role of those who see to what a tenant pays.
const RoleBilling = "role_billing"

// InsertRole adds a role of a tenant's own; ErrExists also if another has the name.
func (t *Tx) InsertRole(ctx context.Context, v Role) error {
	return roles.insert(ctx, t.of(v.TenantID), v)
}

// GetRole finds a tenant's own role by id.
func (t *Tx) GetRole(ctx context.Context, tenantID, id string) (Role, error) {
	return roles.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// GetRoleByName finds a tenant's own role.
func (t *Tx) GetRoleByName(ctx context.Context, tenantID, name string) (Role, error) {
	return roles.get(ctx, t.of(tenantID), "tenant_id = ? AND name = ?", tenantID, name)
}

// ListRoles lists a tenant's own roles by id.
func (t *Tx) ListRoles(ctx context.Context, tenantID string, p Page) ([]Role, error) {
	return roles.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND id > ? ORDER BY id", tenantID, p.After)
}

// UpdateRole changes a role at the version it was read at.
func (t *Tx) UpdateRole(ctx context.Context, v *Role) error {
	return roles.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// DeleteRole removes a tenant's own role; nobody may have it.
func (t *Tx) DeleteRole(ctx context.Context, tenantID, id string) error {
	return t.of(tenantID).change(ctx, "delete role", "DELETE FROM roles WHERE tenant_id = ? AND id = ?", tenantID, id)
}

// CountRoles counts a tenant's own.
func (t *Tx) CountRoles(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count roles", "SELECT COUNT(*) FROM roles WHERE tenant_id = ?", tenantID)
}

// InsertServiceAccount adds a machine; ErrExists also if another has the name.
func (t *Tx) InsertServiceAccount(ctx context.Context, v ServiceAccount) error {
	return serviceAccounts.insert(ctx, t.of(v.TenantID), v)
}

// GetServiceAccount finds one by id.
func (t *Tx) GetServiceAccount(ctx context.Context, tenantID, id string) (ServiceAccount, error) {
	return serviceAccounts.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// GetServiceAccountByName finds one by its name.
func (t *Tx) GetServiceAccountByName(ctx context.Context, tenantID, name string) (ServiceAccount, error) {
	return serviceAccounts.get(ctx, t.of(tenantID), "tenant_id = ? AND name = ?", tenantID, name)
}

// ListServiceAccounts lists by id.
func (t *Tx) ListServiceAccounts(ctx context.Context, tenantID string, p Page) ([]ServiceAccount, error) {
	return serviceAccounts.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND id > ? ORDER BY id", tenantID, p.After)
}

// CountServiceAccounts counts those of a tenant.
func (t *Tx) CountServiceAccounts(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count service accounts", "SELECT COUNT(*) FROM service_accounts WHERE tenant_id = ?", tenantID)
}

// UpdateServiceAccount changes one at the version it was read at.
func (t *Tx) UpdateServiceAccount(ctx context.Context, v *ServiceAccount) error {
	return serviceAccounts.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// DeleteServiceAccount removes one with its roles and trusts. Its keys stay as records.
func (t *Tx) DeleteServiceAccount(ctx context.Context, tenantID, id string) error {
	if err := t.deletePrincipal(ctx, tenantID, id); err != nil {
		return err
	}
	if err := t.deleteTrustsOf(ctx, tenantID, id); err != nil {
		return err
	}
	return t.of(tenantID).change(ctx, "delete service account", "DELETE FROM service_accounts WHERE tenant_id = ? AND id = ?", tenantID, id)
}

// deletePrincipal takes every role and place in a group from a principal; ErrNotFound for
// another tenant's.
func (t *Tx) deletePrincipal(ctx context.Context, tenantID, id string) error {
	_, err := t.of(tenantID).exec(ctx, "delete role bindings", "DELETE FROM role_bindings WHERE tenant_id = ? AND principal_id = ?", tenantID, id)
	if err == nil {
		_, err = t.of(tenantID).exec(ctx, "leave groups", "DELETE FROM group_members WHERE tenant_id = ? AND user_id = ?", tenantID, id)
	}
	if errors.Is(err, errForeign) {
		return fmt.Errorf("delete principal: %w", ErrNotFound)
	}
	return err
}

// InsertGroup adds a group; ErrExists also if another has the name.
func (t *Tx) InsertGroup(ctx context.Context, v Group) error {
	return groups.insert(ctx, t.of(v.TenantID), v)
}

// GetGroup finds one by id.
func (t *Tx) GetGroup(ctx context.Context, tenantID, id string) (Group, error) {
	return groups.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// GetGroupByName finds one by its name.
func (t *Tx) GetGroupByName(ctx context.Context, tenantID, name string) (Group, error) {
	return groups.get(ctx, t.of(tenantID), "tenant_id = ? AND name = ?", tenantID, name)
}

// ListGroups lists by id.
func (t *Tx) ListGroups(ctx context.Context, tenantID string, p Page) ([]Group, error) {
	return groups.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND id > ? ORDER BY id", tenantID, p.After)
}

// GroupsOf lists the groups that each of some users is in, by user, in the order of their ids.
func (t *Tx) GroupsOf(ctx context.Context, tenantID string, userIDs ...string) (map[string][]Group, error) {
	if len(userIDs) == 0 {
		return nil, nil
	}
	rows, err := query(ctx, t.of(tenantID), "list groups of users", owned(groups),
		"SELECT m.user_id, "+groups.under("g")+` FROM group_members m
		 CROSS JOIN groups g WHERE g.tenant_id = m.tenant_id AND g.id = m.group_id AND m.tenant_id = ? AND m.user_id IN (`+places(len(userIDs))+") ORDER BY g.id LIMIT ?",
		append(append([]any{tenantID}, anys(userIDs)...), pageMax*len(userIDs))...)
	return byOwner(rows), err
}

// ownedBy is a record that a query found for somebody.
type ownedBy[T any] struct {
	owner  string
	record T
}

func owned[T any](d table[T]) func(*ownedBy[T]) []any {
	return func(v *ownedBy[T]) []any { return append([]any{&v.owner}, d.fields(&v.record)...) }
}

func byOwner[T any](rows []ownedBy[T]) map[string][]T {
	out := map[string][]T{}
	for _, r := range rows {
		out[r.owner] = append(out[r.owner], r.record)
	}
	return out
}

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

// CountGroups counts those of a tenant.
func (t *Tx) CountGroups(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count groups", "SELECT COUNT(*) FROM groups WHERE tenant_id = ?", tenantID)
}

// UpdateGroup changes one at the version it was read at.
func (t *Tx) UpdateGroup(ctx context.Context, v *Group) error {
	return groups.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// DeleteGroup removes a group, and its roles from everybody in it.
func (t *Tx) DeleteGroup(ctx context.Context, tenantID, id string) error {
	if err := t.deletePrincipal(ctx, tenantID, id); err != nil {
		return err
	}
	if err := t.EmptyDirectoryGroup(ctx, tenantID, id); err != nil {
		return err
	}
	if _, err := t.of(tenantID).exec(ctx, "empty group", "DELETE FROM group_members WHERE tenant_id = ? AND group_id = ?", tenantID, id); err != nil {
		return err
	}
	return t.of(tenantID).change(ctx, "delete group", "DELETE FROM groups WHERE tenant_id = ? AND id = ?", tenantID, id)
}

// InsertGroupMember puts a member of the tenant into a group; ErrExists if they are in it.
func (t *Tx) InsertGroupMember(ctx context.Context, v GroupMember) error {
	return groupMembers.insert(ctx, t.of(v.TenantID), v)
}

// DeleteGroupMember takes a member out of a group.
func (t *Tx) DeleteGroupMember(ctx context.Context, tenantID, groupID, userID string) error {
	return t.of(tenantID).change(ctx, "delete group member", "DELETE FROM group_members WHERE tenant_id = ? AND group_id = ? AND user_id = ?", tenantID, groupID, userID)
}

// CountGroupMembers counts those of a group.
func (t *Tx) CountGroupMembers(ctx context.Context, tenantID, groupID string) (int, error) {
	return t.of(tenantID).count(ctx, "count group members", "SELECT COUNT(*) FROM group_members WHERE tenant_id = ? AND group_id = ?", tenantID, groupID)
}

// InGroup reports whether a user is in a group.
func (t *Tx) InGroup(ctx context.Context, tenantID, groupID, userID string) (bool, error) {
	n, err := t.of(tenantID).count(ctx, "look for a group member", "SELECT 1 FROM group_members WHERE tenant_id = ? AND group_id = ? AND user_id = ?", tenantID, groupID, userID)
	return n > 0, err
}

// UserInGroup is a member in a group with their user.
type UserInGroup struct {
	GroupMember
	User User
}

// ListGroupMembers lists by user id.
func (t *Tx) ListGroupMembers(ctx context.Context, tenantID, groupID string, p Page) ([]UserInGroup, error) {
	both := func(v *UserInGroup) []any {
		return append(groupMembers.fields(&v.GroupMember), users.fields(&v.User)...)
	}
	return query(ctx, t.of(tenantID), "list group members", both,
		"SELECT "+groupMembers.under("m")+", "+users.under("u")+` FROM group_members m JOIN users u ON u.id = m.user_id
		 WHERE m.tenant_id = ? AND m.group_id = ? AND m.user_id > ? ORDER BY m.user_id LIMIT ?`, tenantID, groupID, p.After, p.limit())
}

// InsertBinding gives a role; ErrExists if the principal has it there from the same source.
func (t *Tx) InsertBinding(ctx context.Context, v Binding) error {
	return bindings.insert(ctx, t.of(v.TenantID), v)
}

// GetBinding finds one by id.
func (t *Tx) GetBinding(ctx context.Context, tenantID, id string) (Binding, error) {
	return bindings.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// FindBinding finds the one that says the same as v, whatever its id.
func (t *Tx) FindBinding(ctx context.Context, v Binding) (Binding, error) {
	return bindings.get(ctx, t.of(v.TenantID), "tenant_id = ? AND principal_id = ? AND role_id = ? AND namespace_id = ? AND queues = ? AND source = ?",
		v.TenantID, v.PrincipalID, v.RoleID, v.NamespaceID, v.Queues, v.Source)
}

// BindingFilter narrows a listing; empty fields do not.
type BindingFilter struct{ PrincipalID, RoleID string }

// ListBindings lists by id.
func (t *Tx) ListBindings(ctx context.Context, tenantID string, f BindingFilter, p Page) ([]Binding, error) {
	switch {
	case f.PrincipalID != "" && f.RoleID != "":
		return bindings.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND principal_id = ? AND role_id = ? AND id > ? ORDER BY id", tenantID, f.PrincipalID, f.RoleID, p.After)
	case f.PrincipalID != "":
		return bindings.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND principal_id = ? AND id > ? ORDER BY id", tenantID, f.PrincipalID, p.After)
	case f.RoleID != "":
		return bindings.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND role_id = ? AND id > ? ORDER BY id", tenantID, f.RoleID, p.After)
	}
	return bindings.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND id > ? ORDER BY id", tenantID, p.After)
}

// BindingsOf lists what each of some principals has by itself and, if it is a user, through
// groups, by principal, in the order of their ids. Every call asks this: it goes by
// principals, where an OR or an ORDER BY would have the database walk all bindings of the
// tenant, and SQLite takes the tables of a CROSS JOIN in their order. It lists no more than HeldMax in all.
func (t *Tx) BindingsOf(ctx context.Context, tenantID string, principalIDs ...string) (map[string][]Binding, error) {
	if len(principalIDs) == 0 {
		return nil, nil
	}
	these, ids := "IN ("+places(len(principalIDs))+")", anys(principalIDs)
	args := append(append(append(append([]any{tenantID}, ids...), tenantID), ids...), HeldMax)
	rows, err := query(ctx, t.of(tenantID), "list bindings of principals", owned(bindings),
		"SELECT principal_id, "+bindings.columns+" FROM role_bindings WHERE tenant_id = ? AND principal_id "+these+`
		 UNION ALL SELECT m.user_id, `+bindings.under("b")+` FROM group_members m
		 CROSS JOIN role_bindings b WHERE b.tenant_id = m.tenant_id AND b.principal_id = m.group_id AND m.tenant_id = ? AND m.user_id `+these+" LIMIT ?", args...)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b ownedBy[Binding]) int { return strings.Compare(a.record.ID, b.record.ID) })
	return byOwner(rows), nil
}

// BindingsThrough lists each role and place once that those have who came through a
// connection, by themselves or through groups, or that a group of its directory has.
func (t *Tx) BindingsThrough(ctx context.Context, tenantID, connectionID string) ([]Binding, error) {
	const given = " b.role_id, b.namespace_id, b.queues FROM "
	return query(ctx, t.of(tenantID), "list bindings through a connection", func(b *Binding) []any { return []any{&b.RoleID, &b.NamespaceID, &b.Queues} },
		"SELECT"+given+`memberships m CROSS JOIN role_bindings b
		 WHERE b.tenant_id = m.tenant_id AND b.principal_id = m.user_id AND m.tenant_id = ? AND m.connection_id = ?
		 UNION SELECT`+given+`memberships m CROSS JOIN group_members g CROSS JOIN role_bindings b
		 WHERE g.tenant_id = m.tenant_id AND g.user_id = m.user_id AND b.tenant_id = g.tenant_id AND b.principal_id = g.group_id AND m.tenant_id = ? AND m.connection_id = ?
		 UNION SELECT`+given+`groups g CROSS JOIN role_bindings b
		 WHERE b.tenant_id = g.tenant_id AND b.principal_id = g.id AND g.tenant_id = ? AND g.connection_id = ? AND g.connection_id <> ''
		 LIMIT ?`, tenantID, connectionID, tenantID, connectionID, tenantID, connectionID, placesMax)
}

// placesMax is more roles at more places than a tenant can give.
const placesMax = 100_000

// Holders lists the ids with a prefix, of users or service accounts, who have one of some
// roles anywhere, by themselves or through groups, after one in the order of ids.
func (t *Tx) Holders(ctx context.Context, tenantID, prefix string, roleIDs []string, p Page) ([]string, error) {
	if len(roleIDs) == 0 {
		return nil, nil
	}
	with, from, to := "tenant_id = ? AND role_id IN ("+places(len(roleIDs))+")", max(p.After, prefix), prefix+"~"
	args := append([]any{tenantID}, anys(roleIDs)...)
	args = append(append(append(args, from, to, tenantID, from, to), args...), p.limit())
	return query(ctx, t.of(tenantID), "list who has roles", func(id *string) []any { return []any{id} },
		"SELECT principal_id AS id FROM role_bindings WHERE "+with+` AND principal_id > ? AND principal_id < ?
		 UNION SELECT user_id FROM group_members WHERE tenant_id = ? AND user_id > ? AND user_id < ? AND group_id IN (SELECT principal_id FROM role_bindings WHERE `+with+`)
		 ORDER BY id LIMIT ?`, args...)
}

// HeldMax bounds the bindings, those of groups included, that BindingsOf lists.
const HeldMax = 5000

// TenantRoles lists the roles that users have directly in the whole tenant, of those with
// ids from one to another, both included: what a page of members shows.
func (t *Tx) TenantRoles(ctx context.Context, tenantID, fromUserID, toUserID string) ([]Binding, error) {
	return bindings.list(ctx, t.of(tenantID), pageMax*10,
		"tenant_id = ? AND principal_id >= ? AND principal_id <= ? AND namespace_id = '' AND queues = '' ORDER BY principal_id, id", tenantID, fromUserID, toUserID)
}

// DeleteBinding takes a role away.
func (t *Tx) DeleteBinding(ctx context.Context, tenantID, id string) error {
	return t.of(tenantID).change(ctx, "delete role binding", "DELETE FROM role_bindings WHERE tenant_id = ? AND id = ?", tenantID, id)
}

// BindingsIn lists those of a namespace.
func (t *Tx) BindingsIn(ctx context.Context, tenantID, namespaceID string, p Page) ([]Binding, error) {
	return bindings.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ? AND namespace_id = ? AND namespace_id <> '' AND id > ? ORDER BY id", tenantID, namespaceID, p.After)
}

// CountBindings counts those of a role, or of all roles of the tenant if it is empty.
func (t *Tx) CountBindings(ctx context.Context, tenantID, roleID string) (int, error) {
	if roleID == "" {
		return t.of(tenantID).count(ctx, "count role bindings", "SELECT COUNT(*) FROM role_bindings WHERE tenant_id = ?", tenantID)
	}
	return t.of(tenantID).count(ctx, "count role bindings", "SELECT COUNT(*) FROM role_bindings WHERE tenant_id = ? AND role_id = ?", tenantID, roleID)
}

// CountOwners counts the users who are owners directly, and locks, so that two
// transactions that each remove an owner do not both see the other's.
func (t *Tx) CountOwners(ctx context.Context, tenantID string) (int, error) {
	return t.of(tenantID).count(ctx, "count owners",
		`SELECT COUNT(DISTINCT principal_id) FROM (SELECT principal_id FROM role_bindings
		 WHERE tenant_id = ? AND role_id = ? AND namespace_id = '' AND queues = '' AND principal_id LIKE 'usr_%'`+t.dialect.lockRows+") AS owners",
		tenantID, RoleOwner)
}
