package principals

import (
	"context"
	"errors"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// shownAccount is a service account with what is shown of it.
type shownAccount struct {
	store.ServiceAccount
	keys  int
	roles []string
}

func showAccount(ctx context.Context, tx *store.Tx, a store.ServiceAccount) (out shownAccount, err error) {
	out.ServiceAccount = a
	if out.keys, err = tx.CountKeysOf(ctx, a.TenantID, a.ID); err != nil {
		return out, err
	}
	held, err := InTenant(ctx, tx, a.TenantID, a.ID)
	out.roles = rights.Names(RolesOf(held))
	return out, err
}

func accountMessage(a shownAccount) *cloudv1.ServiceAccount {
	return &cloudv1.ServiceAccount{
		Id: a.ID, Name: a.Name, Description: a.Description, Disabled: a.Disabled, CreatedBy: a.CreatedBy, CreatedAt: stamp(a.CreatedAt), UpdatedAt: stamp(a.UpdatedAt),
		Etag: accountTag(a.ServiceAccount), Keys: int32(a.keys), Roles: a.roles,
	}
}

func accountTag(a store.ServiceAccount) string { return etag.Of(a.Version, a.ID) }

// FindServiceAccount finds one of the caller's tenant by id or name.
func FindServiceAccount(ctx context.Context, tx *store.Tx, idOrName string) (store.ServiceAccount, error) {
	tenantID := access.From(ctx).TenantID
	a, err := tx.GetServiceAccount(ctx, tenantID, idOrName)
	if errors.Is(err, store.ErrNotFound) {
		a, err = tx.GetServiceAccountByName(ctx, tenantID, idOrName)
	}
	return a, none(err, "service account")
}

// NewServiceAccount makes one with roles at places, unless the caller lacks what they give.
func NewServiceAccount(ctx context.Context, k kit.Kit, tx *store.Tx, a store.ServiceAccount, bindings []store.Binding) error {
	if err := room(ctx, a.TenantID, "service accounts", serviceAccountsMax, tx.CountServiceAccounts); err != nil {
		return err
	}
	fields := change.Fields{}
	var roles []string
	for _, b := range bindings {
		role, err := rights.GetRole(ctx, tx, a.TenantID, b.RoleID)
		if err != nil {
			return err
		}
		text := role.Name
		if b.NamespaceID != "" {
			text += " in " + b.NamespaceID
		}
		roles = append(roles, text)
	}
	if len(roles) > 0 {
		fields["roles"] = store.Change{After: roles}
	}
	return taken(change.Make(ctx, k, tx, "service_account.create", change.InsertServiceAccount(a, bindings...), fields), "service account", a.Name)
}

// CreateServiceAccount makes a machine, with roles in the whole tenant.
func (s *Service) CreateServiceAccount(ctx context.Context, r *cloudv1.CreateServiceAccountRequest) (*cloudv1.CreateServiceAccountResponse, error) {
	call, err := once.Of(ctx, "CreateServiceAccount", r)
	if err != nil {
		return nil, err
	}
	if err := fault.InvalidFields(checkText(r.GetName(), r.GetDescription())); err != nil {
		return nil, err
	}
	c, now := access.From(ctx), s.Now()
	a := store.ServiceAccount{
		TenantID: c.TenantID, ID: s.IDs.New(ids.ServiceAccount, now), Name: r.GetName(), Description: r.GetDescription(),
		CreatedBy: c.ID(), CreatedAt: now, UpdatedAt: now, Version: 1,
	}
	res := new(cloudv1.CreateServiceAccountResponse)
	_, err = call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		roles, err := rights.FindRoles(ctx, tx, c.TenantID, "roles", r.GetRoles())
		if err != nil {
			return err
		}
		if err := MayGive(c, rights.InTenant(roles), "this service account"); err != nil {
			return err
		}
		if err := NewServiceAccount(ctx, s.Kit, tx, a, Bindings(s.Kit, c, c.TenantID, a.ID, "", roles, now)); err != nil {
			return err
		}
		shown, err := showAccount(ctx, tx, a)
		res.ServiceAccount = accountMessage(shown)
		return err
	})
	return res, err
}

// GetServiceAccount finds one by id or name.
func (s *Service) GetServiceAccount(ctx context.Context, r *cloudv1.GetServiceAccountRequest) (*cloudv1.GetServiceAccountResponse, error) {
	a, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (shownAccount, error) {
		a, err := FindServiceAccount(ctx, tx, r.GetServiceAccount())
		if err != nil {
			return shownAccount{}, err
		}
		return showAccount(ctx, tx, a)
	})
	if err != nil {
		return nil, err
	}
	return &cloudv1.GetServiceAccountResponse{ServiceAccount: accountMessage(a)}, nil
}

// ListServiceAccounts lists by id.
func (s *Service) ListServiceAccounts(ctx context.Context, r *cloudv1.ListServiceAccountsRequest) (*cloudv1.ListServiceAccountsResponse, error) {
	shown, next, err := listing.Of[shownAccount, *cloudv1.ServiceAccount]{
		Method: "ListServiceAccounts", Key: func(a shownAccount) string { return a.ID }, Show: accountMessage,
		Page: func(tx *store.Tx, tenantID string, p store.Page) (out []shownAccount, _ error) {
			list, err := tx.ListServiceAccounts(ctx, tenantID, p)
			for _, a := range list {
				shown, showErr := showAccount(ctx, tx, a)
				if showErr != nil {
					return nil, showErr
				}
				out = append(out, shown)
			}
			return out, err
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListServiceAccountsResponse{ServiceAccounts: shown, NextPageToken: next}, err
}

// mayHoldAccount refuses to change a machine that can do more than the caller.
func mayHoldAccount(ctx context.Context, tx *store.Tx, a store.ServiceAccount) error {
	grants, err := rights.NewReader(tx, a.TenantID).Bound(ctx, a.ID)
	if err != nil {
		return err
	}
	return MayGive(access.From(ctx), grants, "the service account "+a.Name)
}

// UpdateServiceAccount renames, describes, disables or enables.
func (s *Service) UpdateServiceAccount(ctx context.Context, r *cloudv1.UpdateServiceAccountRequest) (*cloudv1.UpdateServiceAccountResponse, error) {
	paths := r.GetUpdateMask().GetPaths()
	if err := fault.InvalidMask(paths, "name", "description", "disabled"); err != nil {
		return nil, err
	}
	res := new(cloudv1.UpdateServiceAccountResponse)
	err := s.Write(ctx, func(tx *store.Tx) error {
		a, err := tx.GetServiceAccount(ctx, access.From(ctx).TenantID, r.GetServiceAccountId())
		if err != nil {
			return none(err, "service account")
		}
		if err := etag.Check(r.GetEtag(), accountTag(a), "this service account"); err != nil {
			return err
		}
		if err := mayHoldAccount(ctx, tx, a); err != nil {
			return err
		}
		fields := editAccount(&a, r, paths)
		if err := fault.InvalidFields(checkText(a.Name, a.Description)); err != nil {
			return err
		}
		if err := change.Make(ctx, s.Kit, tx, "service_account.update", change.UpdateServiceAccount(&a), fields); err != nil {
			return taken(err, "service account", a.Name)
		}
		shown, err := showAccount(ctx, tx, a)
		res.ServiceAccount = accountMessage(shown)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.settled(ctx)
	return res, nil
}

func editAccount(a *store.ServiceAccount, r *cloudv1.UpdateServiceAccountRequest, paths []string) change.Fields {
	fields := change.Fields{}
	for _, p := range paths {
		switch p {
		case "name":
			fields["name"] = store.Change{Before: a.Name, After: r.GetName()}
			a.Name = r.GetName()
		case "description":
			fields["description"] = store.Change{Before: a.Description, After: r.GetDescription()}
			a.Description = r.GetDescription()
		case "disabled":
			fields["disabled"] = store.Change{Before: a.Disabled, After: r.GetDisabled()}
			a.Disabled = r.GetDisabled()
		}
	}
	return fields
}

// DeleteServiceAccount refuses while it has keys that work, unless they are to be revoked.
func (s *Service) DeleteServiceAccount(ctx context.Context, r *cloudv1.DeleteServiceAccountRequest) (*cloudv1.DeleteServiceAccountResponse, error) {
	err := s.Write(ctx, func(tx *store.Tx) error {
		c := access.From(ctx)
		a, err := tx.GetServiceAccount(ctx, c.TenantID, r.GetServiceAccountId())
		if errors.Is(err, store.ErrNotFound) && r.GetAllowMissing() {
			return nil
		}
		if err != nil {
			return none(err, "service account")
		}
		if err := mayHoldAccount(ctx, tx, a); err != nil {
			return err
		}
		if err := s.endKeys(ctx, tx, a, r.GetRevokeKeys()); err != nil {
			return err
		}
		return change.Make(ctx, s.Kit, tx, "service_account.delete", change.DeleteServiceAccount(a), nil)
	})
	if err != nil {
		return nil, err
	}
	s.settled(ctx)
	return &cloudv1.DeleteServiceAccountResponse{}, nil
}

func (s *Service) endKeys(ctx context.Context, tx *store.Tx, a store.ServiceAccount, revoke bool) error {
	n, err := tx.CountKeysOf(ctx, a.TenantID, a.ID)
	if err != nil {
		return err
	}
	if n > 0 && !revoke {
		return fault.New(fault.Conflict, "HAS_KEYS", "the service account %s has %d keys that aren't revoked; revoke them, or set revoke_keys", a.Name, n)
	}
	return RevokeKeysOf(ctx, s.Kit, tx, a.TenantID, a.ID, "its service account "+a.Name+" was deleted")
}

// RevokeKeysOf ends all keys of an owner; why is for the audit log.
func RevokeKeysOf(ctx context.Context, k kit.Kit, tx *store.Tx, tenantID, ownerID, why string) error {
	_, err := revokeAll(ctx, k, tx, func(p store.Page) ([]store.Key, error) { return tx.ListKeysOf(ctx, tenantID, ownerID, p) }, why)
	return err
}

// RevokeKeysOfTrust ends the keys that a trust gave, and tells which; why is for the audit log.
func RevokeKeysOfTrust(ctx context.Context, k kit.Kit, tx *store.Tx, v store.Trust, why string) (ended []string, _ error) {
	return revokeAll(ctx, k, tx, func(p store.Page) ([]store.Key, error) { return tx.KeysOfTrust(ctx, v.TenantID, v.ID, p) }, why)
}

// EndTrust deletes a trust and ends the keys that it gave; why is for the audit log.
func EndTrust(ctx context.Context, k kit.Kit, tx *store.Tx, v store.Trust, why string) error {
	if _, err := RevokeKeysOfTrust(ctx, k, tx, v, why); err != nil {
		return err
	}
	return change.Make(ctx, k, tx, "trust.delete", change.DeleteTrust(v), change.Fields{"reason": {After: why}})
}

func revokeAll(ctx context.Context, k kit.Kit, tx *store.Tx, list func(store.Page) ([]store.Key, error), why string) (ended []string, _ error) {
	for key, err := range store.All(list, func(k store.Key) string { return k.ID }) {
		if err != nil {
			return nil, err
		}
		key.RevokedAt = k.Now()
		if err := change.Make(ctx, k, tx, "key.revoke", change.UpdateKey(&key), change.Fields{"reason": {After: why}}); err != nil {
			return nil, err
		}
		ended = append(ended, key.ID)
	}
	return ended, nil
}
