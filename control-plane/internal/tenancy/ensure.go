package tenancy

import (
	"context"
	"errors"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// FirstNamespace is the name of the first namespace of a tenant.
const FirstNamespace = "default"

// TenantSetup is what a tenant starts with. Times and versions are filled in.
type TenantSetup struct {
	Tenant    store.Tenant
	Namespace store.Namespace
	// Owner is there already; nobody without an id.
	Owner store.User
	Keys  []store.Key
}

// FirstKey is the record of a key that a tenant begins with: one for management is an
// owner's, one for jobs has the roles.
func FirstKey(made apikey.Key, name string, roles ...cloudv1.NamespaceRole) store.Key {
	digest := made.Digest()
	k := store.Key{ID: made.ID(), Name: name, Versions: []store.KeyVersion{{Digest: digest[:]}}}
	if made.Kind() == apikey.Management {
		k.Kind, k.TenantRole = cloudv1.KeyKind_KEY_KIND_MANAGEMENT, cloudv1.TenantRole_TENANT_ROLE_OWNER
		return k
	}
	k.Kind, k.Roles = cloudv1.KeyKind_KEY_KIND_JOBS, roles
	return k
}

// EnsureTenant makes a tenant with its first namespace, owner and keys, as far as they are
// missing; what is there stays as it is. store.ErrExists: another tenant has the name.
func EnsureTenant(ctx context.Context, k kit.Kit, tx *store.Tx, f TenantSetup) error {
	now := k.Now()
	t, n := f.Tenant, f.Namespace
	t.DisplayName, t.CreatedAt, t.UpdatedAt, t.Version, t.Generation = t.Name, now, now, 1, 1
	n.TenantID, n.Labels, n.Region, n.CreatedAt, n.UpdatedAt, n.Version, n.Generation = t.ID, map[string]string{}, t.Cell, now, now, 1, 1
	_, err := tx.GetTenant(ctx, t.ID)
	if err := makeMissing(ctx, k, tx, err, "tenant.create", change.InsertTenant(t)); err != nil {
		return err
	}
	_, err = tx.GetNamespace(ctx, t.ID, n.ID)
	if err := makeMissing(ctx, k, tx, err, "namespace.create", change.InsertNamespace(n)); err != nil {
		return err
	}
	if f.Owner.ID != "" {
		m := store.Membership{TenantID: t.ID, UserID: f.Owner.ID, Role: cloudv1.TenantRole_TENANT_ROLE_OWNER, CreatedAt: now, Version: 1}
		_, err = tx.GetMembership(ctx, t.ID, f.Owner.ID)
		if err := makeMissing(ctx, k, tx, err, "member.create", change.InsertMember(m, f.Owner)); err != nil {
			return err
		}
	}
	for _, key := range f.Keys {
		key.TenantID, key.Versions[0].CreatedAt, key.CreatedAt, key.UpdatedAt, key.Version, key.Generation = t.ID, now, now, now, 1, 1
		_, err = tx.GetKey(ctx, t.ID, key.ID)
		if err := makeMissing(ctx, k, tx, err, "key.create", change.InsertKey(key)); err != nil {
			return err
		}
	}
	return nil
}

// makeMissing makes a record that was looked for and not found.
func makeMissing(ctx context.Context, k kit.Kit, tx *store.Tx, found error, action string, r change.Record) error {
	if errors.Is(found, store.ErrNotFound) {
		return change.Make(ctx, k, tx, action, r, nil)
	}
	return found
}

// FindOrInsertUser fills in the user of u's address, or makes it of u. store.ErrExists:
// somebody else makes it at this moment.
func FindOrInsertUser(ctx context.Context, tx *store.Tx, u *store.User) (isNew bool, _ error) {
	found, err := tx.GetUserByEmail(ctx, u.Email)
	if errors.Is(err, store.ErrNotFound) {
		return true, tx.InsertUser(ctx, *u)
	}
	if err == nil {
		*u = found
	}
	return false, err
}
