package members

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
)

// ListMemberKeys lists what a member leaves behind: their own keys, which end with the
// membership, and those of service accounts that they made and may still have.
func (s *Service) ListMemberKeys(ctx context.Context, r *cloudv1.ListMemberKeysRequest) (*cloudv1.ListMemberKeysResponse, error) {
	c := access.From(ctx)
	res := &cloudv1.ListMemberKeysResponse{}
	_, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (none struct{}, _ error) {
		_, u, err := find(ctx, tx, c.TenantID, r.GetUserId())
		if err != nil {
			return none, err
		}
		names := principals.NewNamer(tx, c.TenantID)
		for k, err := range madeBy(ctx, tx, c.TenantID, u.ID) {
			if err != nil {
				return none, err
			}
			owner, err := names.Principal(ctx, k.OwnerID)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return none, err
			}
			res.Keys = append(res.Keys, keyMessage(k, owner))
		}
		return none, nil
	})
	return res, err
}

func madeBy(ctx context.Context, tx *store.Tx, tenantID, userID string) iter.Seq2[store.Key, error] {
	return store.All(func(p store.Page) ([]store.Key, error) { return tx.KeysMadeBy(ctx, tenantID, userID, p) }, func(k store.Key) string { return k.ID })
}

// revokeLeft ends a member's own keys and those asked for, and writes into fields which
// ended and which go on.
func revokeLeft(ctx context.Context, use kit.Kit, tx *store.Tx, tenantID string, u store.User, also []string, fields change.Fields) (revoked []string, _ error) {
	var keys []store.Key
	for k, err := range madeBy(ctx, tx, tenantID, u.ID) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	for i, id := range also {
		if !slices.ContainsFunc(keys, func(k store.Key) bool { return k.ID == id }) {
			return nil, fault.InvalidField(fmt.Sprintf("revoke_keys[%d]", i), "isn't a key that this member made; ListMemberKeys lists them")
		}
	}
	var ended, left []string
	for _, k := range keys {
		if k.OwnerID != u.ID && !slices.Contains(also, k.ID) {
			left = append(left, k.ID+" "+k.Name)
			continue
		}
		if err := mayRevoke(ctx, tx, k); err != nil {
			return nil, err
		}
		k.RevokedAt = use.Now()
		err := change.Make(ctx, use, tx, "key.revoke", change.UpdateKey(&k), change.Fields{"reason": {After: u.Email + " is no longer a member"}})
		if err != nil {
			return nil, err
		}
		revoked, ended = append(revoked, k.ID), append(ended, k.ID+" "+k.Name)
	}
	if len(ended) > 0 {
		fields["keys_revoked"] = store.Change{After: ended}
	}
	if len(left) > 0 {
		fields["keys_left"] = store.Change{After: left}
	}
	return revoked, nil
}

// mayRevoke refuses to end a service account's key that may do more than the caller. A
// personal key ends with the membership, which the caller may end.
func mayRevoke(ctx context.Context, tx *store.Tx, k store.Key) error {
	if !strings.HasPrefix(k.OwnerID, string(ids.ServiceAccount)) {
		return nil
	}
	return principals.MayEndKey(ctx, tx, k)
}

// inviter is the user behind the call; nobody is behind the operator's. It refuses a key whose
// maker is no longer a member: it could invite them back.
func inviter(ctx context.Context, tx *store.Tx) (userID string, _ error) {
	c := access.From(ctx)
	by, err := behind(ctx, tx, c.TenantID, c.ID())
	if err != nil || by == "" {
		return "", err
	}
	_, _, err = find(ctx, tx, c.TenantID, by)
	if _, gone := fault.As(err); gone {
		return "", fault.New(fault.Denied, "KEY_MAKER_LEFT",
			"the member who created the management key %s has left, so it can't invite anyone; use a key that a current member created", c.KeyID)
	}
	return by, err
}

// behind is the user who made a key, or the key or trust that made it, and so on; a user is
// behind themselves, and nobody behind what the operator made.
func behind(ctx context.Context, tx *store.Tx, tenantID, by string) (userID string, _ error) {
	const hopsMax = 100
	for range hopsMax {
		switch {
		case by == "" || ids.Is(ids.User, by):
			return by, nil
		case ids.Is(ids.Trust, by):
			t, err := tx.GetTrust(ctx, tenantID, by)
			if err != nil {
				return "", err
			}
			by = t.CreatedBy
		default:
			k, err := tx.GetKey(ctx, tenantID, by)
			if err != nil {
				return "", err
			}
			by = k.CreatedBy
		}
	}
	return "", fmt.Errorf("find who is behind %s: more than %d keys made each other", by, hopsMax)
}

func keyMessage(k store.Key, owner string) *cloudv1.MemberKey {
	out := &cloudv1.MemberKey{
		Id: k.ID, Name: k.Name, Kind: k.Kind, Prefix: tenancy.KeyPrefix(k), OwnerId: k.OwnerID, Owner: owner, CreatedAt: timestamppb.New(k.CreatedAt),
	}
	if !k.ExpiresAt.IsZero() {
		out.ExpiresAt = timestamppb.New(k.ExpiresAt)
	}
	return out
}
