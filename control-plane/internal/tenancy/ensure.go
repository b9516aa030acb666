package tenancy

import (
	"context"
	"errors"
	"strings"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// FirstNamespace is the name of the first namespace of a tenant.
const FirstNamespace = "default"

// TenantSetup is what a tenant starts with. Times and versions are filled in.
type TenantSetup struct {
	Tenant    store.Tenant
	Namespace store.Namespace
	// Owner is there already; nobody without an id.
	Owner store.User
	Keys  []FirstKey
}

// FirstKey is a key that a tenant begins with, and its service account.
type FirstKey struct {
	store.Key
	Account store.ServiceAccount
	// Roles are names, given in the whole tenant.
	Roles []string
}

// NewFirstKey is the record of a key that a tenant begins with: one for management is an
// owner's, one for jobs has the roles. accountID is its service account's.
func NewFirstKey(made apikey.Key, name, accountID string, roles ...string) FirstKey {
	digest := made.Digest()
	k := FirstKey{
		Key:     store.Key{ID: made.ID(), Name: name, Kind: cloudv1.KeyKind_KEY_KIND_JOBS, OwnerID: accountID, Versions: []store.KeyVersion{{Digest: digest[:]}}},
		Account: store.ServiceAccount{ID: accountID, Name: name},
		Roles:   roles,
	}
	if made.Kind() == apikey.Management {
		k.Kind, k.Roles = cloudv1.KeyKind_KEY_KIND_MANAGEMENT, []string{permission.RoleOwner}
	}
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
		m := store.Membership{TenantID: t.ID, UserID: f.Owner.ID, CreatedAt: now, Version: 1}
		_, err = tx.GetMembership(ctx, t.ID, f.Owner.ID)
		if err := makeMissing(ctx, k, tx, err, "member.create", change.InsertMember(m, f.Owner, bindings(ctx, k, t.ID, m.UserID, permission.RoleOwner)...)); err != nil {
			return err
		}
	}
	for _, key := range f.Keys {
		if err := ensureKey(ctx, k, tx, t.ID, key); err != nil {
			return err
		}
	}
	return nil
}

func ensureKey(ctx context.Context, k kit.Kit, tx *store.Tx, tenantID string, key FirstKey) error {
	_, err := tx.GetKey(ctx, tenantID, key.ID)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	now := k.Now()
	a := key.Account
	a.TenantID, a.CreatedBy, a.CreatedAt, a.UpdatedAt, a.Version = tenantID, key.CreatedBy, now, now, 1
	key.TenantID, key.Versions[0].CreatedAt, key.CreatedAt, key.UpdatedAt, key.Version, key.Generation = tenantID, now, now, now, 1, 1
	if _, err := tx.GetServiceAccountByName(ctx, tenantID, a.Name); err == nil {
		a.Name += " (" + strings.TrimPrefix(key.ID, "key_") + ")"
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	fields := change.Fields{"roles": {After: key.Roles}}
	if err := change.Make(ctx, k, tx, "service_account.create", change.InsertServiceAccount(a, bindings(ctx, k, tenantID, a.ID, key.Roles...)...), fields); err != nil {
		return err
	}
	return change.Make(ctx, k, tx, "key.create", change.InsertKey(key.Key), nil)
}

// bindings give fixed roles in the whole tenant.
func bindings(ctx context.Context, k kit.Kit, tenantID, principalID string, names ...string) []store.Binding {
	var roles []rights.Role
	for _, name := range names {
		roles = append(roles, rights.Role{ID: rights.FixedID(name)})
	}
	return principals.Bindings(k, access.From(ctx), tenantID, principalID, "", roles, k.Now())
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
