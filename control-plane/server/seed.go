package server

import (
	"context"
	"errors"
	"fmt"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/names"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// Seed is a tenant of the operator's own, without limits.
type Seed struct {
	Tenant, TenantID string
	// Namespace is "default" if it is empty.
	Namespace, NamespaceID string
	// Email is the address of its owner.
	Email string
	// Keys for jobs (kind dp, role admin) or for management (kind mg, role owner).
	Keys []apikey.Key
}

const (
	defaultNamespace = "default"
	// seedKeyName is how people see a key that stands in a file of the operator's.
	seedKeyName = "development"
)

// Ensure makes a tenant with its namespace, owner and keys, as far as they are missing.
// What is there stays as it is: a revoked key stays revoked.
func (s *Server) Ensure(ctx context.Context, seed Seed) error {
	if seed.Namespace == "" {
		seed.Namespace = defaultNamespace
	}
	if p := names.Tenant(seed.Tenant); p != "" {
		return fmt.Errorf("tenant %q: %s", seed.Tenant, p)
	}
	if !ids.Is(ids.Tenant, seed.TenantID) || !ids.Is(ids.Namespace, seed.NamespaceID) {
		return fmt.Errorf("tenant %q: its id %q or its namespace's id %q isn't valid", seed.Tenant, seed.TenantID, seed.NamespaceID)
	}
	if seed.Email != "" {
		address, err := mail.Address(seed.Email)
		if err != nil {
			return fmt.Errorf("owner of tenant %q: %w", seed.Tenant, err)
		}
		seed.Email = address
	}
	// No request: the audit log says that the system did it.
	ctx = access.With(ctx, access.Caller{TenantID: seed.TenantID, Tenant: seed.Tenant})
	err := s.kit.Store.Service(ctx, func(tx store.Tx) error {
		for _, step := range []func(context.Context, store.Tx, Seed) error{s.ensureTenant, s.ensureNamespace, s.ensureOwner, s.ensureKeys} {
			if err := step(ctx, tx, seed); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make tenant %s: %w", seed.Tenant, err)
	}
	s.loop.Wake()
	return nil
}

func (s *Server) ensureTenant(ctx context.Context, tx store.Tx, seed Seed) error {
	_, err := tx.GetTenant(ctx, seed.TenantID)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	now := s.kit.Now()
	t := store.Tenant{
		ID: seed.TenantID, Name: seed.Tenant, DisplayName: seed.Tenant, Plan: tenancy.PlanUnlimited, Cell: s.config.Cells[0].Name,
		CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1,
	}
	return change.Make(ctx, s.kit, tx, "tenant.create", change.InsertTenant(t), nil)
}

func (s *Server) ensureNamespace(ctx context.Context, tx store.Tx, seed Seed) error {
	_, err := tx.GetNamespace(ctx, seed.TenantID, seed.NamespaceID)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	now := s.kit.Now()
	n := store.Namespace{
		TenantID: seed.TenantID, ID: seed.NamespaceID, Name: seed.Namespace, Region: s.config.Cells[0].Name,
		CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1,
	}
	return change.Make(ctx, s.kit, tx, "namespace.create", change.InsertNamespace(n), nil)
}

func (s *Server) ensureOwner(ctx context.Context, tx store.Tx, seed Seed) error {
	if seed.Email == "" {
		return nil
	}
	now := s.kit.Now()
	u, err := tx.GetUserByEmail(ctx, seed.Email)
	if errors.Is(err, store.ErrNotFound) {
		u = store.User{ID: s.kit.IDs.New(ids.User, now), Email: seed.Email, CreatedAt: now}
		err = tx.InsertUser(ctx, u)
	}
	if err != nil {
		return err
	}
	_, err = tx.GetMembership(ctx, seed.TenantID, u.ID)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	m := store.Membership{TenantID: seed.TenantID, UserID: u.ID, Role: cloudv1.TenantRole_TENANT_ROLE_OWNER, CreatedAt: now, Version: 1}
	return change.Make(ctx, s.kit, tx, "member.create", change.InsertMember(m, u), nil)
}

func (s *Server) ensureKeys(ctx context.Context, tx store.Tx, seed Seed) error {
	for _, made := range seed.Keys {
		_, err := tx.GetKey(ctx, seed.TenantID, made.ID())
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		k := s.seedKey(seed, made)
		if err := change.Make(ctx, s.kit, tx, "key.create", change.InsertKey(k), nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) seedKey(seed Seed, made apikey.Key) store.Key {
	now, digest := s.kit.Now(), made.Digest()
	k := store.Key{
		TenantID: seed.TenantID, ID: made.ID(), Name: seedKeyName, Versions: []store.KeyVersion{{Digest: digest[:], CreatedAt: now}},
		CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1,
	}
	if made.Kind() == apikey.Management {
		k.Kind, k.TenantRole = cloudv1.KeyKind_KEY_KIND_MANAGEMENT, cloudv1.TenantRole_TENANT_ROLE_OWNER
		return k
	}
	k.Kind, k.Roles = cloudv1.KeyKind_KEY_KIND_JOBS, []cloudv1.NamespaceRole{cloudv1.NamespaceRole_NAMESPACE_ROLE_ADMIN}
	return k
}

// SignInLink makes a one-time link with which the owner of an address signs in. It is
// for the operator's terminal; nothing is mailed.
func (s *Server) SignInLink(ctx context.Context, email string) (string, error) {
	return s.login.SignInLink(ctx, email)
}
