package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

func TestKey_BecomesWhatTheCellKnows(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	management := func(role cloudv1.TenantRole) store.Key {
		k := aKey()
		k.Kind, k.TenantRole, k.Roles, k.NamespaceIDs = cloudv1.KeyKind_KEY_KIND_MANAGEMENT, role, nil, nil
		return k
	}
	for name, tc := range map[string]struct {
		key  store.Key
		want func(k *cellv1.Key)
	}{
		"a worker's": {aKey(), func(*cellv1.Key) {}},
		"with an end": {func() store.Key { k := aKey(); k.ExpiresAt = now; return k }(), func(k *cellv1.Key) {
			k.NotAfterNs = now.UnixNano()
		}},
		"revoked": {func() store.Key { k := aKey(); k.RevokedAt = now; return k }(), func(k *cellv1.Key) {
			k.Revoked, k.Digests, k.NamespaceIds = true, nil, nil
		}},
		"a name longer than a cell takes": {func() store.Key { k := aKey(); k.Name = strings.Repeat("界", 100); return k }(), func(k *cellv1.Key) {
			k.Name = strings.Repeat("界", 42)
		}},
		"revoked, with more namespaces than a cell takes": {func() store.Key {
			k := aKey()
			k.RevokedAt, k.NamespaceIDs = now, slices.Repeat(k.NamespaceIDs, 65)
			return k
		}(), func(k *cellv1.Key) { k.Revoked, k.Digests, k.NamespaceIds = true, nil, nil }},
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
		"management, owner": {management(cloudv1.TenantRole_TENANT_ROLE_OWNER), func(k *cellv1.Key) {
			k.Roles, k.NamespaceIds = []string{"admin"}, nil
		}},
		"management, developer": {management(cloudv1.TenantRole_TENANT_ROLE_DEVELOPER), func(k *cellv1.Key) {
			k.Roles, k.NamespaceIds = []string{"operator", "producer"}, nil
		}},
		"management without a role with jobs ends at once": {management(cloudv1.TenantRole_TENANT_ROLE_BILLING), func(k *cellv1.Key) {
			k.Roles, k.NamespaceIds, k.NotAfterNs = []string{"viewer"}, nil, 1
		}},
		"no role at all ends at once": {func() store.Key { k := aKey(); k.Roles = nil; return k }(), func(k *cellv1.Key) {
			k.Roles, k.NotAfterNs = []string{"viewer"}, 1
		}},
		"a role twice": {func() store.Key { k := aKey(); k.Roles = append(k.Roles, k.Roles...); return k }(), func(*cellv1.Key) {}},
	} {
		want := signedUp().GetKeys()[0]
		tc.want(want)
		if got := reconcile.Key(tc.key); !proto.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
	}
}
