package members

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
)

// Keep is which of a member's keys go on working although the member goes.
type Keep struct {
	All bool
	IDs []string
}

// ListMemberKeys lists what a removal, or a change of role, revokes.
func (s *Service) ListMemberKeys(ctx context.Context, r *cloudv1.ListMemberKeysRequest) (*cloudv1.ListMemberKeysResponse, error) {
	c := access.From(ctx)
	if r.GetRole() != cloudv1.TenantRole_TENANT_ROLE_UNSPECIFIED {
		if err := checkRole(r.GetRole()); err != nil {
			return nil, err
		}
	}
	keys, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) ([]store.Key, error) {
		_, u, err := find(ctx, tx, c.TenantID, r.GetUserId())
		if err != nil {
			return nil, err
		}
		return lost(ctx, tx, c.TenantID, u.ID, r.GetRole())
	})
	res := &cloudv1.ListMemberKeysResponse{}
	for _, k := range keys {
		res.Keys = append(res.Keys, keyMessage(k))
	}
	return res, err
}

// lost lists the living keys that a user made, directly or through keys of theirs, and
// could not make in a role.
func lost(ctx context.Context, tx *store.Tx, tenantID, userID string, to cloudv1.TenantRole) (keys []store.Key, _ error) {
	made := store.All(func(p store.Page) ([]store.Key, error) { return tx.KeysMadeBy(ctx, tenantID, userID, p) }, func(k store.Key) string { return k.ID })
	for k, err := range made {
		if err != nil {
			return nil, err
		}
		if !access.RoleMay(to, cloudv1.Permission_PERMISSION_KEY_WRITE) || tenancy.MayHold(access.Caller{Role: to}, k) != nil {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// revokeKeys ends the keys that a member made and loses, but for those to keep, and
// writes both into fields.
func revokeKeys(
	ctx context.Context, use kit.Kit, tx *store.Tx, tenantID string, u store.User, to cloudv1.TenantRole, keep Keep, fields change.Fields,
) (revoked []string, _ error) {
	keys, err := lost(ctx, tx, tenantID, u.ID, to)
	if err != nil {
		return nil, err
	}
	for i, id := range keep.IDs {
		if !slices.ContainsFunc(keys, func(k store.Key) bool { return k.ID == id }) {
			return nil, fault.InvalidField(fmt.Sprintf("keep_keys[%d]", i), "isn't a key that this change revokes; ListMemberKeys lists them")
		}
	}
	var ended, kept []string
	for _, k := range keys {
		if keep.All || slices.Contains(keep.IDs, k.ID) {
			kept = append(kept, k.ID+" "+k.Name)
			continue
		}
		k.RevokedAt = use.Now()
		err := change.Make(ctx, use, tx, "key.revoke", change.UpdateKey(&k), change.Fields{
			"reason": {After: "made by " + u.Email + ", who is no longer allowed to hold such a key"},
		})
		if err != nil {
			return nil, err
		}
		revoked, ended = append(revoked, k.ID), append(ended, k.ID+" "+k.Name)
	}
	if len(ended) > 0 {
		fields["keys_revoked"] = store.Change{After: ended}
	}
	if len(kept) > 0 {
		fields["keys_kept"] = store.Change{After: kept}
	}
	return revoked, nil
}

// mayInvite refuses a key whose maker is no longer a member: it could invite them back.
func mayInvite(ctx context.Context, tx *store.Tx) error {
	c := access.From(ctx)
	const hopsMax = 100
	by := c.KeyID
	for range hopsMax {
		if !ids.Is(ids.User, by) {
			if by == "" {
				return nil // The operator's, or made by the caller of no key.
			}
			k, err := tx.GetKey(ctx, c.TenantID, by)
			if err != nil {
				return err
			}
			by = k.CreatedBy
			continue
		}
		if _, _, err := find(ctx, tx, c.TenantID, by); err == nil {
			return nil
		} else if _, gone := fault.As(err); !gone {
			return err
		}
		break
	}
	return fault.New(fault.Denied, "KEY_MAKER_LEFT",
		"the member who created the management key %s has left, so it can't invite anyone; use a key that a current member created", c.KeyID)
}

func keyMessage(k store.Key) *cloudv1.MemberKey {
	out := &cloudv1.MemberKey{
		Id: k.ID, Name: k.Name, Kind: k.Kind, Prefix: tenancy.KeyPrefix(k), Roles: k.Roles, TenantRole: k.TenantRole, CreatedAt: timestamppb.New(k.CreatedAt),
	}
	if !k.ExpiresAt.IsZero() {
		out.ExpiresAt = timestamppb.New(k.ExpiresAt)
	}
	return out
}
