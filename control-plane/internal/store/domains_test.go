package store_test

import (
	"context"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func TestDomains_OneTenantHoldsANameAndSomeMayClaimIt(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		fullTenants(t, s)
		a := domain("tn_a", "dom_a")
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			wantErr(t, "a second claim", tx.InsertDomain(ctx, domain("tn_a", "dom_2")), store.ErrExists)
			got, err := tx.GetDomainByName(ctx, "tn_a", "example.com")
			wantEqual(t, "domain", got, a)
			a.VerifiedAt, a.MissingSince = at(6), at(0)
			return firstErr(err, tx.UpdateDomain(ctx, &a))
		})
		wantErr(t, "verify", err, nil)
		err = inTenant(t, s, "tn_b", func(ctx context.Context, tx *store.Tx) error {
			b := domain("tn_b", "dom_b")
			b.VerifiedAt = at(7)
			return tx.UpdateDomain(ctx, &b)
		})
		wantErr(t, "verify what another tenant holds", err, store.ErrExists)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			holder, err := tx.HolderOfDomain(ctx, "example.com")
			wantEqual(t, "holder", holder, a)
			due, dueErr := tx.DueDomains(ctx, at(2), 9)
			wantEqual(t, "due: the verified ones", due, []store.Domain{a})
			due, early := tx.DueDomains(ctx, at(1), 9)
			wantEqual(t, "due before their time", len(due), 0)
			stale := a
			stale.Version--
			wantErr(t, "note an older version", tx.NoteDomain(ctx, stale), store.ErrNotFound)
			return firstErr(err, dueErr, early)
		})
	})
}

func TestDomains_SignInIsFoundByTheConnectionThatIsOn(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		fullTenants(t, s)
		a := domain("tn_a", "dom_a")
		find := func() (v store.DomainSignIn, err error) {
			return store.Get(t.Context(), s.ReadService, func(tx *store.Tx) (store.DomainSignIn, error) { return tx.FindDomainSignIn(t.Context(), "example.com") })
		}
		set := func(change func()) {
			t.Helper()
			change()
			wantErr(t, "update", inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error { return tx.UpdateDomain(ctx, &a) }), nil)
		}
		_, err := find()
		wantErr(t, "while no tenant has verified it", err, store.ErrNotFound)
		set(func() { a.VerifiedAt = at(6) })
		got, err := find()
		wantErr(t, "verified", err, nil)
		wantEqual(t, "by a connection that isn't there", got, store.DomainSignIn{Tenant: "tenant-a", ConnectionID: "sso_x"})
		set(func() { a.ConnectionID = "sso_a" })
		got, _ = find()
		wantEqual(t, "by its own", got, store.DomainSignIn{Tenant: "tenant-a", ConnectionID: "sso_a", Enabled: 1})
		set(func() { a.ConnectionID = "" })
		got, _ = find()
		wantEqual(t, "by any", got, store.DomainSignIn{Tenant: "tenant-a", Enabled: 1})
		wantErr(t, "insert a connection", inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertConnection(ctx, connection("tn_a", "sso_n"))
		}), nil)
		got, _ = find()
		wantEqual(t, "by any of two", got, store.DomainSignIn{Tenant: "tenant-a", Enabled: 2})
		set(func() { a.ConnectionID = "sso_n" })
		wantErr(t, "delete the connection", inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error { return tx.DeleteConnection(ctx, "tn_a", "sso_n") }), nil)
		got, _ = find()
		wantEqual(t, "after its connection was deleted", got, store.DomainSignIn{Tenant: "tenant-a", Enabled: 1})
	})
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
