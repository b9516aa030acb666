package members

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
)

// made is something that a member made and that lets machines, or whoever has a copy, in
// without them: a key, a trust or a directory's token.
type made struct {
	shown *cloudv1.MemberKey
	// end ends it; why is for the audit log.
	end func(ctx context.Context, why string) error
}

// maker reads what a member made.
type maker struct {
	kit.Kit
	tx               *store.Tx
	names            *principals.Namer
	tenantID, userID string
}

// madeBy lists keys, then trusts, then tokens.
func madeBy(ctx context.Context, k kit.Kit, tx *store.Tx, tenantID, userID string) ([]made, error) {
	m := maker{k, tx, principals.NewNamer(tx, tenantID), tenantID, userID}
	keys, err := everything(ctx, m, tx.KeysMadeBy, func(v store.Key) string { return v.ID }, m.key)
	trusts, trustErr := everything(ctx, m, tx.TrustsMadeBy, func(v store.Trust) string { return v.ID }, m.trust)
	tokens, tokenErr := everything(ctx, m, tx.ScimTokensMadeBy, func(v store.ScimToken) string { return v.ID }, m.token)
	return slices.Concat(keys, trusts, tokens), cmp.Or(err, trustErr, tokenErr)
}

// everything of one kind that the member made.
func everything[R any](ctx context.Context, m maker, list func(ctx context.Context, tenantID, userID string, p store.Page) ([]R, error), id func(R) string,
	of func(context.Context, R) (made, error)) (out []made, _ error) {
	all := store.All(func(p store.Page) ([]R, error) { return list(ctx, m.tenantID, m.userID, p) }, id)
	for v, err := range all {
		if err != nil {
			return nil, err
		}
		one, err := of(ctx, v)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (m maker) key(ctx context.Context, k store.Key) (made, error) {
	owner, err := m.owner(ctx, k.OwnerID)
	return made{
		&cloudv1.MemberKey{
			Id: k.ID, Name: k.Name, Kind: k.Kind, Prefix: tenancy.KeyPrefix(k), OwnerId: k.OwnerID, Owner: owner, CreatedAt: timestamppb.New(k.CreatedAt), ExpiresAt: stamp(k.ExpiresAt),
		},
		func(ctx context.Context, why string) error {
			if err := mayRevoke(ctx, m.tx, k); err != nil {
				return err
			}
			k.RevokedAt = m.Now()
			return change.Make(ctx, m.Kit, m.tx, "key.revoke", change.UpdateKey(&k), change.Fields{"reason": {After: why}})
		},
	}, err
}

// mayRevoke refuses to end a service account's key that may do more than the caller. A
// personal key ends with the membership, which the caller may end.
func mayRevoke(ctx context.Context, tx *store.Tx, k store.Key) error {
	if !strings.HasPrefix(k.OwnerID, string(ids.ServiceAccount)) {
		return nil
	}
	return principals.MayEndKey(ctx, tx, k)
}

func (m maker) trust(ctx context.Context, v store.Trust) (made, error) {
	owner, err := m.owner(ctx, v.AccountID)
	return made{
		&cloudv1.MemberKey{
			Id: v.ID, Name: "trust " + v.Name, Kind: cloudv1.KeyKind_KEY_KIND_TEMPORARY, Prefix: v.ID, OwnerId: v.AccountID, Owner: owner, CreatedAt: timestamppb.New(v.CreatedAt),
		},
		func(ctx context.Context, why string) error {
			gives := store.Key{TenantID: v.TenantID, Name: v.Name, OwnerID: v.AccountID, Permissions: v.Permissions, NamespaceIDs: v.NamespaceIDs, Queues: v.Queues}
			if err := principals.MayEndKey(ctx, m.tx, gives); err != nil {
				return err
			}
			return principals.EndTrust(ctx, m.Kit, m.tx, v, why)
		},
	}, err
}

func (m maker) token(ctx context.Context, t store.ScimToken) (made, error) {
	c, err := m.tx.GetConnection(ctx, t.TenantID, t.ConnectionID)
	return made{
		&cloudv1.MemberKey{
			Id: t.ID, Name: "directory sync of " + c.Name, Prefix: "corvo_scim_" + strings.TrimPrefix(t.ID, "key_"), OwnerId: c.ID, Owner: c.Name,
			CreatedAt: timestamppb.New(t.CreatedAt), ExpiresAt: stamp(t.ExpiresAt),
		},
		func(ctx context.Context, why string) error {
			if err := principals.MayVouch(ctx, m.tx, c); err != nil {
				return err
			}
			return change.Make(ctx, m.Kit, m.tx, "directory_token.revoke", change.RevokeScimToken(t, c.Name), change.Fields{"reason": {After: why}})
		},
	}, err
}

// owner is the name of whose a key is; empty for one who is gone.
func (m maker) owner(ctx context.Context, id string) (string, error) {
	name, err := m.names.Principal(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return name, err
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
