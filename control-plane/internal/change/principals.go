package change

import (
	"context"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func role(r store.Role) Target { return Target{"role", r.ID, r.Name, r.TenantID} }

// InsertRole changes nobody's rights yet.
func InsertRole(r store.Role) Record { return record(role(r), (*store.Tx).InsertRole, r) }

// UpdateRole changes what everybody with the role may do.
func UpdateRole(r *store.Role) Record {
	return updated(role(*r), &r.UpdatedAt, (*store.Tx).UpdateRole, r).Rights()
}

// DeleteRole deletes a role that nobody has.
func DeleteRole(r store.Role) Record {
	return Record{Target: role(r), write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
		return tx.DeleteRole(ctx, r.TenantID, r.ID)
	}}
}

func serviceAccount(a store.ServiceAccount) Target {
	return Target{"service_account", a.ID, a.Name, a.TenantID}
}

// InsertServiceAccount makes a machine, with roles.
func InsertServiceAccount(a store.ServiceAccount, roles ...store.Binding) Record {
	return record(serviceAccount(a), (*store.Tx).InsertServiceAccount, a).with(roles, nil)
}

// UpdateServiceAccount may disable it, which its keys must learn.
func UpdateServiceAccount(a *store.ServiceAccount) Record {
	return updated(serviceAccount(*a), &a.UpdatedAt, (*store.Tx).UpdateServiceAccount, a).RightsOfMachines()
}

// DeleteServiceAccount takes its roles, too.
func DeleteServiceAccount(a store.ServiceAccount) Record {
	r := Record{Target: serviceAccount(a), write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
		return tx.DeleteServiceAccount(ctx, a.TenantID, a.ID)
	}}
	return r.RightsOfMachines()
}

func trust(v store.Trust) Target { return Target{"trust", v.ID, v.Name, v.TenantID} }

// InsertTrust is not told to the cell, like all of trusts: their keys are.
func InsertTrust(v store.Trust) Record { return record(trust(v), (*store.Tx).InsertTrust, v) }

// UpdateTrust writes what people set.
func UpdateTrust(v *store.Trust) Record {
	return updated(trust(*v), &v.UpdatedAt, (*store.Tx).UpdateTrust, v)
}

// DeleteTrust forgets the tokens that it took, too.
func DeleteTrust(v store.Trust) Record {
	return Record{Target: trust(v), write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
		return tx.DeleteTrust(ctx, v.TenantID, v.ID)
	}}
}

func group(g store.Group) Target { return Target{"group", g.ID, g.Name, g.TenantID} }

// InsertGroup makes a group without members and roles.
func InsertGroup(g store.Group) Record { return record(group(g), (*store.Tx).InsertGroup, g) }

// UpdateGroup writes what it is called.
func UpdateGroup(g *store.Group) Record {
	return updated(group(*g), &g.UpdatedAt, (*store.Tx).UpdateGroup, g)
}

// DeleteGroup takes its roles from everybody in it.
func DeleteGroup(g store.Group) Record {
	r := Record{Target: group(g), write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
		return tx.DeleteGroup(ctx, g.TenantID, g.ID)
	}}
	return r.Rights()
}

// AddToGroup puts users into a group; those who are in it stay.
func AddToGroup(g store.Group, userIDs ...string) Record {
	r := Record{Target: group(g), write: func(ctx context.Context, tx *store.Tx, now time.Time) error {
		for _, id := range userIDs {
			if err := tx.InsertGroupMember(ctx, store.GroupMember{TenantID: g.TenantID, GroupID: g.ID, UserID: id, CreatedAt: now}); err != nil {
				return err
			}
		}
		return nil
	}}
	return r.rightsOfSome(userIDs)
}

// RemoveFromGroup takes users who are in a group out of it.
func RemoveFromGroup(g store.Group, userIDs ...string) Record {
	r := Record{Target: group(g), write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
		for _, id := range userIDs {
			if err := tx.DeleteGroupMember(ctx, g.TenantID, g.ID, id); err != nil {
				return err
			}
		}
		return nil
	}}
	return r.rightsOfSome(userIDs)
}

// someMax is how many users are cut off one by one; more are cheaper together.
const someMax = 20

func (r Record) rightsOfSome(userIDs []string) Record {
	if len(userIDs) > someMax {
		return r.Rights()
	}
	return r.Rights(userIDs...)
}

// Binding is a role binding and the names in it, for the audit log.
type Binding struct {
	store.Binding
	Principal, Role, Namespace string
}

func binding(b Binding) Target {
	return Target{"role_binding", b.ID, b.Role + " for " + b.Principal + b.place(), b.TenantID}
}

func (b Binding) place() string {
	var place strings.Builder
	if b.NamespaceID != "" {
		place.WriteString(" in " + b.Namespace)
	}
	if b.Queues != "" {
		place.WriteString(" for queues " + b.Queues)
	}
	return place.String()
}

// InsertBinding gives a role.
func InsertBinding(b Binding) Record {
	return record(binding(b), (*store.Tx).InsertBinding, b.Binding).rightsOf(b.PrincipalID)
}

// DeleteBinding takes a role away.
func DeleteBinding(b Binding) Record {
	r := Record{Target: binding(b), write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
		return tx.DeleteBinding(ctx, b.TenantID, b.ID)
	}}
	return r.rightsOf(b.PrincipalID)
}

// rightsOf is whose rights a binding of a principal changes: a group's are everybody's.
func (r Record) rightsOf(principalID string) Record {
	switch {
	case strings.HasPrefix(principalID, string(ids.User)):
		return r.Rights(principalID)
	case strings.HasPrefix(principalID, string(ids.ServiceAccount)):
		return r.RightsOfMachines()
	}
	return r.Rights()
}
