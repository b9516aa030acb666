package sso

import (
	"context"
	"errors"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
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
