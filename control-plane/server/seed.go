package server

import (
	"cmp"
	"context"
	"fmt"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/names"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
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

// seedKeyName is how people see a key that stands in a file of the operator's.
const seedKeyName = "development"

// Ensure makes a tenant with its namespace, owner and keys, as far as they are missing.
// What is there stays as it is: a revoked key stays revoked.
func (s *Server) Ensure(ctx context.Context, seed Seed) error {
	seed.Namespace = cmp.Or(seed.Namespace, tenancy.FirstNamespace)
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
	err := s.kit.Store.Service(ctx, func(tx *store.Tx) error { return s.found(ctx, tx, seed) })
	if err != nil {
		return fmt.Errorf("make tenant %s: %w", seed.Tenant, err)
	}
	s.loop.Wake()
	return nil
}

func (s *Server) found(ctx context.Context, tx *store.Tx, seed Seed) error {
	f := tenancy.TenantSetup{
		Tenant:    store.Tenant{ID: seed.TenantID, Name: seed.Tenant, Plan: plans.Operators, Cell: s.config.Cells[0].Name},
		Namespace: store.Namespace{ID: seed.NamespaceID, Name: seed.Namespace},
	}
	if seed.Email != "" {
		now := s.kit.Now()
		f.Owner = store.User{ID: s.kit.IDs.New(ids.User, now), Email: seed.Email, CreatedAt: now}
		if _, err := tenancy.FindOrInsertUser(ctx, tx, &f.Owner); err != nil {
			return err
		}
	}
	for _, made := range seed.Keys {
		f.Keys = append(f.Keys, tenancy.NewFirstKey(made, seedKeyName, s.kit.IDs.New(ids.ServiceAccount, s.kit.Now()), permission.RoleAdmin))
	}
	return tenancy.EnsureTenant(ctx, s.kit, tx, f)
}

// SignInLink makes a one-time link with which the owner of an address signs in. It is
// for the operator's terminal; nothing is mailed.
func (s *Server) SignInLink(ctx context.Context, email string) (string, error) {
	return s.login.SignInLink(ctx, email)
}
