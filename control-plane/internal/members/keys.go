package members

import (
	"context"
	"fmt"
	"slices"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// ListMemberKeys lists what a member leaves behind: their own keys, which end with the
// membership, and the keys of service accounts, trusts and directory tokens that they made.
func (s *Service) ListMemberKeys(ctx context.Context, r *cloudv1.ListMemberKeysRequest) (*cloudv1.ListMemberKeysResponse, error) {
	c := access.From(ctx)
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.ListMemberKeysResponse, error) {
		_, u, err := find(ctx, tx, c.TenantID, r.GetUserId())
		if err != nil {
			return nil, err
		}
		res := &cloudv1.ListMemberKeysResponse{}
		all, err := madeBy(ctx, s.Kit, tx, c.TenantID, u.ID)
		for _, m := range all {
			res.Keys = append(res.Keys, m.shown)
		}
		return res, err
	})
}

// revokeLeft ends a member's own keys and what was asked for, and writes into fields what
// ended and what goes on.
func revokeLeft(ctx context.Context, use kit.Kit, tx *store.Tx, tenantID string, u store.User, also []string, fields change.Fields) (revoked []string, _ error) {
	all, err := madeBy(ctx, use, tx, tenantID, u.ID)
	if err != nil {
		return nil, err
	}
	for i, id := range also {
		if !slices.ContainsFunc(all, func(m made) bool { return m.shown.GetId() == id }) {
			return nil, fault.InvalidField(fmt.Sprintf("revoke_keys[%d]", i), "isn't something that this member made; ListMemberKeys lists it")
		}
	}
	var ended, left []string
	for _, m := range all {
		id, name := m.shown.GetId(), m.shown.GetName()
		if m.shown.GetOwnerId() != u.ID && !slices.Contains(also, id) {
			left = append(left, id+" "+name)
			continue
		}
		if err := m.end(ctx, u.Email+" is no longer a member"); err != nil {
			return nil, err
		}
		revoked, ended = append(revoked, id), append(ended, id+" "+name)
	}
	if len(ended) > 0 {
		fields["keys_revoked"] = store.Change{After: ended}
	}
	if len(left) > 0 {
		fields["keys_left"] = store.Change{After: left}
	}
	return revoked, nil
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
