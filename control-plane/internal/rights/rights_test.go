package rights_test

import (
	"context"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// A role gives at a place what can be given there, and nothing of what is above it.
func TestRole_GivesAtAPlaceWhatCanBeGivenThere(t *testing.T) {
	t.Parallel()
	for _, r := range rights.Fixed() {
		for _, c := range []struct {
			namespace, queues string
			level             permission.Level
		}{{"ns_a", "", permission.OfNamespace}, {"ns_a", "mail.*", permission.OfQueue}, {"", "mail.*", permission.OfQueue}} {
			g := r.Grant(c.namespace, c.queues)
			if g.Permissions != r.Permissions.At(c.level) {
				t.Errorf("%s in %q for %q: %v", r.Name, c.namespace, c.queues, g.Permissions.Names())
			}
		}
		if g := r.Grant("", ""); g.Permissions != r.Permissions {
			t.Errorf("%s in the tenant: %v", r.Name, g.Permissions.Names())
		}
	}
}

// A key may what its owner may, narrowed, and nothing while its owner is disabled, who has
// everything again afterwards.
func TestOfKey_IsWhatItsOwnerMayNarrowed(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		tn, _ := w.Tenant(t, "acme", "ada@example.com")
		account := store.ServiceAccount{TenantID: tn.ID, ID: "sa_01JD0000000000000000000001", Name: "ci", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.InsertServiceAccount(ctx, account); err != nil {
				return err
			}
			return tx.InsertBinding(ctx, store.Binding{TenantID: tn.ID, ID: "bnd_01JD0000000000000000000001", PrincipalID: account.ID, RoleID: rights.FixedID(permission.RoleAdmin), CreatedAt: w.Now()})
		})
		admin, _ := permission.FixedRole(permission.RoleAdmin)
		read := permission.Of(permission.JobRead)
		for name, c := range map[string]struct {
			key  store.Key
			want permission.Grants
		}{
			"whole":          {store.Key{}, permission.Grants{{Permissions: admin.Permissions}}},
			"permissions":    {store.Key{Permissions: []string{"job.read"}}, permission.Grants{{Permissions: read}}},
			"a namespace":    {store.Key{NamespaceIDs: []string{"ns_a"}}, permission.Grants{{Permissions: admin.Permissions.At(permission.OfNamespace), Namespaces: []string{"ns_a"}}}},
			"queues":         {store.Key{Queues: []string{"mail.*"}}, permission.Grants{{Permissions: admin.Permissions.At(permission.OfQueue), Queues: []string{"mail.*"}}}},
			"one in a queue": {store.Key{Permissions: []string{"job.read"}, Queues: []string{"mail"}}, permission.Grants{{Permissions: read, Queues: []string{"mail"}}}},
		} {
			c.key.TenantID, c.key.OwnerID = tn.ID, account.ID
			if got := mayOf(t, w, c.key); !got.Covers(c.want) || !c.want.Covers(got) {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
		account.Disabled = true
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.UpdateServiceAccount(ctx, &account) })
		if got := mayOf(t, w, store.Key{TenantID: tn.ID, OwnerID: account.ID}); len(got) != 0 {
			t.Errorf("a disabled account's key: %+v", got)
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			bound, err := rights.NewReader(tx, tn.ID).Bound(ctx, account.ID)
			if err == nil && !bound.Covers(permission.Grants{{Permissions: admin.Permissions}}) {
				t.Errorf("when it is enabled again: %+v", bound)
			}
			return err
		})
	})
}

func mayOf(t *testing.T, w *cloudtest.World, k store.Key) (g permission.Grants) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		may, err := rights.OfKey(ctx, tx, k)
		g = may.Grants
		return err
	})
	return g
}
