package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

func TestKey_BecomesWhatTheCellKnows(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	may := permission.Grants{{Permissions: permission.Of(permission.TenantRead, permission.JobFetch), Namespaces: []string{nsID}}}
	fetching := permission.Of(permission.JobFetch).Bytes()
	for name, tc := range map[string]struct {
		key  store.Key
		want func(k *cellv1.Key)
	}{
		"a worker's": {aKey(), func(*cellv1.Key) {}},
		"with an end": {func() store.Key { k := aKey(); k.ExpiresAt = now; return k }(), func(k *cellv1.Key) {
			k.NotAfterNs = now.UnixNano()
		}},
		"revoked": {func() store.Key { k := aKey(); k.RevokedAt = now; return k }(), func(k *cellv1.Key) {
			k.Revoked, k.Digests, k.Grants, k.DefaultNamespaceId = true, nil, nil, ""
		}},
		"a name longer than a cell takes": {func() store.Key { k := aKey(); k.Name = strings.Repeat("界", 100); return k }(), func(k *cellv1.Key) {
			k.Name = strings.Repeat("界", 42)
		}},
		"revoked, with more namespaces than a cell takes": {func() store.Key {
			k := aKey()
			k.RevokedAt, k.NamespaceIDs = now, slices.Repeat(k.NamespaceIDs, 65)
			return k
		}(), func(k *cellv1.Key) { k.Revoked, k.Digests, k.Grants, k.DefaultNamespaceId = true, nil, nil, "" }},
		"an end that no clock of ours can tell": {func() store.Key { k := aKey(); k.ExpiresAt = time.Unix(-1, 0); return k }(), func(k *cellv1.Key) {
			k.NotAfterNs = 1
		}},
		"two secrets, each with its end": {func() store.Key {
			k := aKey()
			k.Versions = []store.KeyVersion{{Digest: digest(1), ExpiresAt: now}, {Digest: digest(2), ExpiresAt: now.Add(1)}}
			return k
		}(), func(k *cellv1.Key) {
			k.Digests, k.DigestEndsNs = [][]byte{digest(1), digest(2)}, []int64{now.UnixNano(), now.UnixNano() + 1}
		}},
		"all secrets over": {func() store.Key { k := aKey(); k.Versions[0].ExpiresAt = now; return k }(), func(k *cellv1.Key) {
			k.DigestEndsNs = []int64{now.UnixNano()}
		}},
		"with networks": {func() store.Key { k := aKey(); k.CIDRs = []string{"10.0.0.0/8"}; return k }(), func(k *cellv1.Key) {
			k.Cidrs = []string{"10.0.0.0/8"}
		}},
	} {
		want := signedUp().GetKeys()[0]
		want.Grants = []*cellv1.Grant{{Permissions: fetching, NamespaceIds: []string{nsID}}}
		tc.want(want)
		if got := reconcile.Key(tc.key, may); !proto.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
	}
}

// A cell refuses a record that is too large, and then the key could not even be revoked. What
// does not fit is left out, and nothing is widened.
func TestKey_RightsThatDoNotFitAreLeftOut(t *testing.T) {
	t.Parallel()
	var all permission.Grants
	for i := range 200 {
		all = append(all, permission.Grant{Permissions: permission.Of(permission.JobFetch), Queues: []string{fmt.Sprintf("q%03d", i)}})
	}
	all = append(all, permission.Grant{Permissions: permission.Of(permission.TenantRead)})
	got := reconcile.Key(aKey(), all)
	if err := celladmin.CheckGrants(celladmin.GrantsFrom(got)); err != nil {
		t.Error(err)
	}
	if n := len(got.GetGrants()); n == 0 || !all.Covers(celladmin.GrantsFrom(got)) {
		t.Errorf("%d grants, which do not lie within what is held", n)
	}
}

// A change of a role reaches every key of those who have it, and no other.
func TestAccess_AChangeOfRightsReachesTheKeysThatItChanges(t *testing.T) {
	t.Parallel()
	r := onSQLite(t)
	r.start(t, r.options())
	r.signUp(t)
	r.done(t)
	before := r.cell.current().GetKeys()[0]
	r.write(t, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.DeleteBinding(ctx, tenantID, "bnd_1"), r.tell(ctx, tx, store.OutboxAccess, tenantID), r.tell(ctx, tx, store.OutboxUser, tenantID))
	})
	r.done(t)
	state := r.cell.current()
	after := state.GetKeys()[0]
	want := celladmin.RoleSet([]string{permission.RoleProducer}).Bytes()
	if proto.Equal(before, after) || !bytes.Equal(after.GetGrants()[0].GetPermissions(), want) {
		t.Errorf("the cell has %v", after)
	}
	if cut := state.GetUserCutoffs(); len(cut) != 1 || cut[0].GetUserId() != "" || cut[0].GetTenantId() != tenantID {
		t.Errorf("cut off are %v", cut)
	}
}
