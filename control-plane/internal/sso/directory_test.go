package sso

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/directory"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/scim"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Who is found among the users of a connection's directory, and who is refused.
func TestManaged_TiesAFirstSignInByExternalIDOrUserNameOnly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		user    store.DirectoryUser
		who     person
		subject string // Of somebody who signed in as the user before.
		found   bool
	}{
		"externalId is the subject":      {store.DirectoryUser{ExternalID: "s1", UserName: "ada", Active: true}, person{subject: "s1"}, "", true},
		"externalId in another case":     {store.DirectoryUser{ExternalID: "S1", UserName: "ada", Active: true}, person{subject: "s1"}, "", false},
		"userName is the address":        {store.DirectoryUser{UserName: "ada@corvo.test", NameKey: "ada@corvo.test", Active: true}, person{subject: "s1", email: "ada@corvo.test"}, "", true},
		"userName is the NameID":         {store.DirectoryUser{UserName: "Ada", NameKey: "ada", Active: true}, person{subject: "ada"}, "", true},
		"an address that isn't verified": {store.DirectoryUser{NameKey: "ada@corvo.test", Active: true}, person{subject: "s1", email: "ada@corvo.test", unverified: true}, "", false},
		"part of an address":             {store.DirectoryUser{NameKey: "ada@corvo.test", Active: true}, person{subject: "s1", email: "a@corvo.test"}, "", false},
		"no address, no external id":     {store.DirectoryUser{NameKey: "ada", Active: true}, person{subject: "s1"}, "", false},
		"another subject has the user":   {store.DirectoryUser{NameKey: "ada@corvo.test", Active: true}, person{subject: "s2", email: "ada@corvo.test"}, "s1", false},
		"the same subject again":         {store.DirectoryUser{NameKey: "ada", Active: true}, person{subject: "s1", email: "new@corvo.test"}, "s1", true},
		"not active":                     {store.DirectoryUser{ExternalID: "s1", NameKey: "ada"}, person{subject: "s1"}, "", false},
		"not active any more":            {store.DirectoryUser{NameKey: "ada"}, person{subject: "s1"}, "s1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cloudtest.New(t)
			tn, _ := w.Tenant(t, "acme", "boss@acme.test")
			conn := store.Connection{TenantID: tn.ID, ID: w.IDs.New(ids.Connection, w.Now()), Issuer: "https://idp.test", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1}
			other := conn
			other.ID = w.IDs.New(ids.Connection, w.Now())
			u := store.User{ID: w.IDs.New(ids.User, w.Now()), HomeTenant: tn.ID, CreatedAt: w.Now()}
			v := tc.user
			v.TenantID, v.ConnectionID, v.UserID, v.Version = tn.ID, conn.ID, u.ID, 1
			s := &Service{Needs: Needs{Kit: w.Kit}}
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				err := errors.Join(tx.InsertConnection(ctx, conn), tx.InsertConnection(ctx, other), tx.InsertUser(ctx, u), tx.InsertDirectoryUser(ctx, v))
				if tc.subject != "" {
					err = errors.Join(err, tx.InsertIdentity(ctx, store.Identity{TenantID: tn.ID, ConnectionID: conn.ID, Issuer: conn.Issuer, Subject: tc.subject, UserID: u.ID}))
				}
				if err != nil {
					return err
				}
				if _, known, err := s.managed(ctx, tx, other, tc.who); known || err != nil {
					t.Errorf("through a connection without a directory: %t %v", known, err)
				}
				got, known, err := s.managed(ctx, tx, conn, tc.who)
				if known != tc.found || known != (err == nil) || known && got.UserID != u.ID {
					t.Errorf("%+v %t %v", got, known, err)
				}
				if known {
					id, err := tx.GetIdentity(ctx, tn.ID, conn.ID, conn.Issuer, tc.who.subject)
					if err != nil || id.UserID != u.ID {
						t.Errorf("%+v %v", id, err)
					}
				}
				return nil
			})
		})
	}
}

// Whom a directory finds among those who signed in before it spoke of them: roles that it
// gives to an address go to nobody who only says that it is theirs.
func TestDirectory_FindsWhoCameBeforeByAVerifiedAddressOnly(t *testing.T) {
	t.Parallel()
	const mine, ceos = "mallory@idp.example", "ceo@idp.example"
	type claims map[string]any
	for name, tc := range map[string]struct {
		signIns []claims // Of one person.
		found   bool
	}{
		"the provider doesn't say":   {[]claims{{"email": ceos}}, true},
		"verified":                   {[]claims{{"email": ceos, "email_verified": true}}, true},
		"not verified":               {[]claims{{"email": ceos, "email_verified": false}}, false},
		"verified since":             {[]claims{{"email": ceos, "email_verified": false}, {"email": ceos, "email_verified": true}}, true},
		"not verified any more":      {[]claims{{"email": ceos}, {"email": ceos, "email_verified": false}}, false},
		"changed after verification": {[]claims{{"email": mine, "email_verified": true}, {"email": ceos, "email_verified": false}}, false},
		"another address by now":     {[]claims{{"email": ceos}, {"email": mine}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
				b := newBundle(t, w)
				conn := b.enabled(nil)
				var came store.User
				for _, said := range tc.signIns {
					b.idp.with(func(p *idp) {
						p.person = map[string]any{"sub": "subject-1", "email": said["email"], "email_verified": said["email_verified"]}
					})
					_, came, _ = b.mustEnter().found()
				}
				if got := b.provision(conn.GetId(), ceos); (got == came.ID) != tc.found {
					t.Errorf("the directory's %s is user %s, who signed in is %s", ceos, got, came.ID)
				}
			})
		})
	}
}

// provision creates a user as a connection's directory does, and gives the id.
func (b *bundle) provision(connectionID, userName string) string {
	b.t.Helper()
	s := directory.New(b.Kit)
	token, err := s.CreateScimToken(b.ctx, &cloudv1.CreateScimTokenRequest{ConnectionId: connectionID})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx := access.With(b.t.Context(), access.Caller{RequestID: "req_test", Peer: "203.0.113.9"})
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, scim.Base+"/Users", strings.NewReader(`{"userName":"`+userName+`"}`))
	r.Header.Set("Authorization", "Bearer "+token.GetSecret())
	r.Header.Set("Content-Type", scim.ContentType)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	var made struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated {
		b.t.Fatalf("create %s: %d %v\n%s", userName, w.Code, err, w.Body)
	}
	return made.ID
}
