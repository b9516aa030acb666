package tenancy

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tokenkeys"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

func TestMintToken_SaysWhatTheRoleMayInOneNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.tenant(t, "acme", plans.First)
	n := w.namespaceFor(t, people(owner), "orders")
	var keys []tokenkeys.Public
	err := w.Store.Service(t.Context(), func(tx *store.Tx) (err error) {
		keys, err = w.Keys.Public(t.Context(), tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	known := func(id string) ed25519.PublicKey {
		for _, k := range keys {
			if k.ID == id {
				return k.Key
			}
		}
		return nil
	}
	for role, want := range map[string]string{owner: "admin", admin: "admin", developer: "developer", viewer: "viewer"} {
		res := must(w.MintToken(people(role), &cloudv1.MintTokenRequest{Namespace: "orders"}))(t)
		c, err := usertoken.Verify(known, res.GetToken(), w.now)
		if err != nil {
			t.Fatal(err)
		}
		if c.NamespaceID != n.GetId() || c.TenantID != access.From(people(role)).TenantID || c.Grants.All != cloudtest.Rights(want).Grants.At(n.GetId()).All || !c.ExpiresAt.Equal(w.now.Add(5*time.Minute)) {
			t.Errorf("%v gets %+v", role, c)
		}
		if res.GetTenantUrl() != "http://corvo.test:8080/t/acme" || res.GetNamespace() != "orders" || !res.GetExpiresAt().AsTime().Equal(c.ExpiresAt) {
			t.Errorf("%v", res)
		}
	}
	cut := w.now.Add(700 * time.Millisecond)
	w.now = cut.Add(time.Millisecond)
	late := must(w.MintToken(people(owner), &cloudv1.MintTokenRequest{Namespace: "orders"}))(t)
	if c, err := usertoken.Verify(known, late.GetToken(), w.now); err != nil || c.IssuedAt.Before(cut) || !late.GetExpiresAt().AsTime().Equal(c.ExpiresAt) {
		t.Errorf("made after %v: %+v, %v", cut, c, err)
	}
	_, err = w.MintToken(people(owner), &cloudv1.MintTokenRequest{})
	field(t, err, "namespace")
	_, err = w.MintToken(w.tenant(t, "other", plans.First)(owner), &cloudv1.MintTokenRequest{Namespace: n.GetId()})
	refused(t, err, "NOT_FOUND")
	c := access.From(people(owner))
	c.UserID, c.KeyID = "", "key_000000000000"
	_, err = w.MintToken(access.With(t.Context(), c), &cloudv1.MintTokenRequest{Namespace: "orders"})
	refused(t, err, "KEY_NEEDS_NO_TOKEN")
}

func TestMintToken_SaysWhenThereAreMorePlacesThanTravel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.tenant(t, "acme", plans.First)
	n := w.namespaceFor(t, people(owner), "orders")
	c := access.From(people(viewer))
	c.Rights.Grants = nil
	for i := range identity.PatternsMax + 1 {
		c.Rights.Grants = append(c.Rights.Grants, permission.Grant{Permissions: permission.Of(permission.JobList), Namespaces: []string{n.GetId()}, Queues: []string{fmt.Sprintf("q%d", i)}})
	}
	_, err := w.MintToken(access.With(t.Context(), c), &cloudv1.MintTokenRequest{Namespace: "orders"})
	refused(t, err, "TOO_MANY_PLACES")
	c.Rights.Grants = c.Rights.Grants[1:]
	if _, err := w.MintToken(access.With(t.Context(), c), &cloudv1.MintTokenRequest{Namespace: "orders"}); err != nil {
		t.Error(err)
	}
}

func TestOwn_ASessionOfATenantsProviderIsValidThereOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := store.User{ID: "usr_00000000000000000000000000", Email: "ada@corvo.test", CreatedAt: w.now}
	var ids []string
	for _, name := range []string{"acme", "other"} {
		ids = append(ids, access.From(w.tenant(t, name, plans.First)(owner)).TenantID)
	}
	err := w.Store.Service(t.Context(), func(tx *store.Tx) error {
		if err := tx.InsertUser(t.Context(), user); err != nil {
			return err
		}
		for _, id := range ids {
			if err := tx.InsertMembership(t.Context(), store.Membership{TenantID: id, UserID: user.ID, CreatedAt: w.now, Version: 1}); err != nil {
				return err
			}
			if err := tx.InsertBinding(t.Context(), store.Binding{TenantID: id, ID: "bnd_" + id, PrincipalID: user.ID, RoleID: "role_viewer", CreatedAt: w.now}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	who := func(c access.Caller) *cloudv1.GetCurrentIdentityResponse {
		return must(w.GetCurrentIdentity(access.With(context.Background(), c), nil))(t)
	}
	if got := who(access.Caller{UserID: user.ID}); len(got.GetTenants()) != 2 || got.GetUser().GetEmail() != user.Email || got.GetVersion() != "test" {
		t.Errorf("%v", got)
	}
	got := who(access.Caller{UserID: user.ID, OnlyTenantID: ids[1]})
	if len(got.GetTenants()) != 1 || got.GetTenants()[0].GetTenantId() != ids[1] || len(got.GetTenants()[0].GetPermissions()) == 0 {
		t.Errorf("%v", got)
	}
}

func TestListAuditEvents_FiltersAndPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.tenant(t, "acme", plans.First)
	for _, name := range []string{"one", "two", "three"} {
		w.namespaceFor(t, people(owner), name)
		w.now = w.now.Add(time.Minute)
	}
	w.keyFor(t, people(admin), &cloudv1.CreateApiKeyRequest{Kind: jobsKind, Roles: []string{workerRole}})
	list := func(r *cloudv1.ListAuditEventsRequest) *cloudv1.ListAuditEventsResponse {
		return must(w.ListAuditEvents(people(owner), r))(t)
	}
	if got := list(&cloudv1.ListAuditEventsRequest{Action: "namespace"}).GetEvents(); len(got) != 3 || got[0].GetTarget() != "three" {
		t.Errorf("%v", got)
	}
	if got := list(&cloudv1.ListAuditEventsRequest{ActorId: access.From(people(admin)).UserID}).GetEvents(); len(got) != 2 || got[0].GetAction() != "key.create" {
		t.Errorf("%v", got)
	}
	first := list(&cloudv1.ListAuditEventsRequest{PageSize: 3})
	second := list(&cloudv1.ListAuditEventsRequest{PageSize: 3, PageToken: first.GetNextPageToken()})
	if len(first.GetEvents()) != 3 || len(second.GetEvents()) != 2 || second.GetNextPageToken() != "" || second.GetEvents()[1].GetTarget() != "one" {
		t.Errorf("%v, then %v", first, second)
	}
	_, err := w.ListAuditEvents(people(owner), &cloudv1.ListAuditEventsRequest{PageSize: 3, Action: "key", PageToken: first.GetNextPageToken()})
	field(t, err, "page_token")
	if got := w.auditOf(t, w.tenant(t, "other", plans.First)(owner)); len(got) != 0 {
		t.Errorf("another tenant sees %v", got)
	}
}

func TestUpdateTenant_ChangesWhatPeopleSee(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	was := must(w.GetTenant(ctx, nil))(t).GetTenant()
	got := must(w.UpdateTenant(ctx, &cloudv1.UpdateTenantRequest{DisplayName: "Acme Ltd", Etag: was.GetEtag()}))(t).GetTenant()
	if got.GetDisplayName() != "Acme Ltd" || got.GetName() != "acme" || got.GetEtag() == was.GetEtag() || got.GetUrl() != "http://corvo.test:8080/t/acme" {
		t.Errorf("%v", got)
	}
	_, err := w.UpdateTenant(ctx, &cloudv1.UpdateTenantRequest{DisplayName: "x", Etag: was.GetEtag()})
	refused(t, err, "ETAG_MISMATCH")
	_, err = w.UpdateTenant(ctx, &cloudv1.UpdateTenantRequest{DisplayName: " "})
	field(t, err, "display_name")
}

// Right after a rotation a new token waits for the proxies: until they know the key, a
// browser that was refused would be refused again.
func TestMintToken_WaitsUntilARotationIsCarried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.tenant(t, "acme", plans.First)
	w.namespaceFor(t, people(owner), "orders")
	rotate := func() {
		if err := w.Store.Service(t.Context(), func(tx *store.Tx) error { _, err := w.Keys.Rotate(t.Context(), tx); return err }); err != nil {
			t.Fatal(err)
		}
	}
	carry := func() error {
		return w.Store.Service(t.Context(), func(tx *store.Tx) error {
			rows, err := tx.ClaimOutbox(t.Context(), "test", w.now, w.now.Add(time.Minute), 10, store.OutboxTokenKeys)
			for _, r := range rows {
				err = errors.Join(err, tx.FinishOutbox(t.Context(), r))
			}
			return err
		})
	}
	rotate()
	w.ObserveWait = time.Minute
	woken := make(chan struct{}, 1)
	w.Wake = func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	minted := make(chan error, 1)
	go func() {
		_, err := w.MintToken(people(owner), &cloudv1.MintTokenRequest{Namespace: "orders"})
		minted <- err
	}()
	<-woken
	select {
	case err := <-minted:
		t.Fatalf("handed out before a proxy knows its key: %v", err)
	default:
	}
	if err := carry(); err != nil {
		t.Fatal(err)
	}
	if err := <-minted; err != nil {
		t.Fatal(err)
	}
	rotate()
	w.ObserveWait = time.Millisecond
	must(w.MintToken(people(owner), &cloudv1.MintTokenRequest{Namespace: "orders"}))(t) // Not forever.
}

// Proxies judge a token by the cell's time, whatever this machine's clock says.
func TestMintToken_GoesByTheTimeOfTheCell(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{8 * time.Hour, -8 * time.Hour, 400 * 24 * time.Hour} {
		w := newWorld(t)
		w.ahead = ahead
		people := w.tenant(t, "acme", plans.First)
		w.namespaceFor(t, people(owner), "orders")
		res := must(w.MintToken(people(owner), &cloudv1.MintTokenRequest{Namespace: "orders"}))(t)
		known := make(map[string]ed25519.PublicKey)
		err := w.Store.Service(t.Context(), func(tx *store.Tx) error {
			keys, err := w.Keys.Public(t.Context(), tx)
			for _, k := range keys {
				if k.NotAfter.After(w.cellNow()) {
					known[k.ID] = k.Key
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := usertoken.Verify(func(id string) ed25519.PublicKey { return known[id] }, res.GetToken(), w.cellNow())
		if err != nil || !c.IssuedAt.Equal(w.cellNow()) {
			t.Errorf("the cell is %s ahead: %+v, %v", ahead, c, err)
		}
	}
}
