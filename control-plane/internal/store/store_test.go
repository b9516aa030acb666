package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// bothKinds runs a test on an empty database of each kind.
func bothKinds(t *testing.T, f func(t *testing.T, s store.Store)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, open(t, cloudtest.SQLite(t)))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, open(t, cloudtest.Postgres(t)))
	})
}

func open(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// service runs f in a transaction of the service that must succeed.
func service(t *testing.T, s store.Store, f func(ctx context.Context, tx *store.Tx) error) {
	t.Helper()
	ctx := t.Context()
	if err := s.Service(ctx, func(tx *store.Tx) error { return f(ctx, tx) }); err != nil {
		t.Fatal(err)
	}
}

// inTenant runs f in a transaction of one tenant and returns its result.
func inTenant(t *testing.T, s store.Store, id string, f func(ctx context.Context, tx *store.Tx) error) error {
	t.Helper()
	ctx := t.Context()
	return s.Tenant(ctx, id, func(tx *store.Tx) error { return f(ctx, tx) })
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// at is a time with nanoseconds that no database may lose.
func at(n int) time.Time { return time.Unix(1_700_000_000+int64(n), 123_456_789).UTC() }

func tenant(id, name string) store.Tenant {
	return store.Tenant{ID: id, Name: name, DisplayName: "The " + name, Plan: "free", Cell: "main", CreatedAt: at(1), UpdatedAt: at(1), Version: 1, Generation: 1}
}

func namespace(tenantID, id, name string) store.Namespace {
	return store.Namespace{TenantID: tenantID, ID: id, Name: name, Labels: map[string]string{"team": "ü"}, DeleteProtection: true, Region: "eu",
		Retention: store.Retention{Completed: 60, EventsBytes: 1 << 20}, CreatedAt: at(1), UpdatedAt: at(2), Version: 1, Generation: 1}
}

func user(id, email string) store.User {
	return store.User{ID: id, Email: email, Name: "Somebody", CreatedAt: at(1)}
}

func membership(tenantID, userID string) store.Membership {
	return store.Membership{TenantID: tenantID, UserID: userID, CreatedAt: at(1), Version: 1}
}

// owning makes a user an owner.
func owning(tenantID, userID string) store.Binding {
	return store.Binding{TenantID: tenantID, ID: "bnd_" + userID, PrincipalID: userID, RoleID: store.RoleOwner, CreatedAt: at(1)}
}

func key(tenantID, id string) store.Key {
	return store.Key{TenantID: tenantID, ID: id, Name: "worker", Kind: cloudv1.KeyKind_KEY_KIND_JOBS, NamespaceIDs: []string{"ns_1"},
		OwnerID: "sa_1", Permissions: []string{"job.fetch"}, Queues: []string{"mail.*"}, CIDRs: []string{"10.0.0.0/8"}, LastUsedAt: at(3),
		Versions:  []store.KeyVersion{{Digest: []byte{1, 2}, CreatedAt: at(1), ExpiresAt: at(9)}, {Digest: []byte{3}, CreatedAt: at(2)}},
		CreatedBy: "usr_1", CreatedAt: at(1), UpdatedAt: at(1), Version: 1, Generation: 1}
}

func connection(tenantID, id string) store.Connection {
	return store.Connection{TenantID: tenantID, ID: id, Name: "Okta", Issuer: "https://id.example", ClientID: "c", ClientSecret: "sealed", Scopes: []string{"openid"},
		GroupsClaim: "groups", DefaultRole: "role_viewer",
		GroupMappings: []store.GroupMapping{{Group: "ops", Role: "role_admin"}}, Enabled: true, LastTest: "{}",
		Settings: 2, Tested: 1, CreatedAt: at(1), UpdatedAt: at(1), Version: 1,
		Type: store.ConnectionSAML, SAML: store.SAML{SSO: "https://id.example/sso", Certificates: []string{"pem"}, SignRequests: true}, SAMLKey: "sealed", SharedRedirect: true}
}

func outbox(tenantID, id string, due time.Time) store.Outbox {
	return store.Outbox{TenantID: tenantID, ID: id, Kind: store.OutboxKey, Subject: "key_1", Payload: "p", CreatedAt: at(1), DueAt: due}
}

// twoTenants makes tn_a and tn_b with a member each, who has the same names in both.
func twoTenants(t *testing.T, s store.Store) {
	t.Helper()
	service(t, s, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(
			tx.InsertTenant(ctx, tenant("tn_a", "acme")), tx.InsertTenant(ctx, tenant("tn_b", "globex")),
			tx.InsertUser(ctx, user("usr_1", "one@example.com")), tx.InsertUser(ctx, user("usr_2", "two@example.com")),
			tx.InsertMembership(ctx, membership("tn_a", "usr_1")), tx.InsertBinding(ctx, owning("tn_a", "usr_1")),
			tx.InsertMembership(ctx, membership("tn_b", "usr_2")), tx.InsertBinding(ctx, owning("tn_b", "usr_2")),
			tx.InsertNamespace(ctx, namespace("tn_a", "ns_1", "default")), tx.InsertNamespace(ctx, namespace("tn_b", "ns_2", "default")),
		)
	})
}

func TestTenants_AreKeptAndFound(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		want := tenant("tn_a", "acme")
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.InsertTenant(ctx, want); err != nil {
				return err
			}
			wantErr(t, "the same id", tx.InsertTenant(ctx, tenant("tn_a", "other")), store.ErrExists)
			wantErr(t, "the same name", tx.InsertTenant(ctx, tenant("tn_c", "acme")), store.ErrExists)
			got, err := tx.GetTenant(ctx, "tn_a")
			wantEqual(t, "by id", got, want)
			wantErr(t, "by id", err, nil)
			got, err = tx.GetTenantByName(ctx, "acme")
			wantEqual(t, "by name", got, want)
			_, missing := tx.GetTenant(ctx, "tn_x")
			wantErr(t, "missing", missing, store.ErrNotFound)
			return err
		})
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			v, err := tx.GetTenant(ctx, "tn_a")
			if err != nil {
				return err
			}
			v.DisplayName, v.Plan, v.UpdatedAt, v.Generation = "New", "pro", at(5), 2
			stale := v
			if err := tx.UpdateTenant(ctx, &v); err != nil {
				return err
			}
			wantEqual(t, "version", v.Version, 2)
			wantErr(t, "written at an old version", tx.UpdateTenant(ctx, &stale), store.ErrStale)
			list, err := tx.UnobservedTenants(ctx, store.Page{})
			wantEqual(t, "unobserved", list, []store.Tenant{v})
			if err := errors.Join(err, tx.ObserveTenant(ctx, "tn_a", 2), tx.ObserveTenant(ctx, "tn_a", 1)); err != nil {
				return err
			}
			v.Observed = 2
			got, err := tx.GetTenant(ctx, "tn_a")
			wantEqual(t, "after update", got, v)
			list, listErr := tx.UnobservedTenants(ctx, store.Page{})
			wantEqual(t, "unobserved after that", list, nil)
			v.DeletedAt = at(6)
			if err := errors.Join(err, listErr, tx.UpdateTenant(ctx, &v)); err != nil {
				return err
			}
			_, err = tx.GetTenant(ctx, "tn_a")
			wantErr(t, "deleted by id", err, store.ErrNotFound)
			_, err = tx.GetTenantByName(ctx, "acme")
			wantErr(t, "deleted by name", err, store.ErrNotFound)
			got, err = tx.FindTenant(ctx, "tn_a")
			wantEqual(t, "found although deleted", got, v)
			all, listErr := tx.ListTenants(ctx, store.Page{})
			wantEqual(t, "all", all, []store.Tenant{v})
			return errors.Join(err, listErr, tx.InsertTenant(ctx, tenant("tn_b", "acme"))) // The name is free.
		})
	})
}

func TestNamespaces_AreKeptAndFound(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			v, err := tx.GetNamespace(ctx, "tn_a", "ns_1")
			wantEqual(t, "by id", v, namespace("tn_a", "ns_1", "default"))
			byName, nameErr := tx.GetNamespaceByName(ctx, "tn_a", "default")
			wantEqual(t, "by name", byName, v)
			wantErr(t, "the same name", tx.InsertNamespace(ctx, namespace("tn_a", "ns_3", "default")), store.ErrExists)
			if err := errors.Join(err, nameErr, tx.InsertNamespace(ctx, namespace("tn_a", "ns_4", "apple"))); err != nil {
				return err
			}
			list, err := tx.ListNamespaces(ctx, "tn_a", store.Page{})
			wantEqual(t, "by name", names(list), []string{"apple", "default"})
			n, countErr := tx.CountNamespaces(ctx, "tn_a")
			wantEqual(t, "count", n, 2)
			stale := v
			v.Labels, v.DeleteProtection, v.UpdatedAt, v.DeletedAt, v.Generation = nil, false, at(7), at(7), 2
			if err := errors.Join(err, countErr, tx.UpdateNamespace(ctx, &v)); err != nil {
				return err
			}
			wantErr(t, "written at an old version", tx.UpdateNamespace(ctx, &stale), store.ErrStale)
			got, err := tx.GetNamespace(ctx, "tn_a", "ns_1")
			wantEqual(t, "deleted, by id", got, v)
			_, gone := tx.GetNamespaceByName(ctx, "tn_a", "default")
			wantErr(t, "deleted, by name", gone, store.ErrNotFound)
			list, listErr := tx.ListNamespaces(ctx, "tn_a", store.Page{})
			wantEqual(t, "living", names(list), []string{"apple"})
			return errors.Join(err, listErr, tx.ObserveNamespace(ctx, "tn_a", "ns_4", 1), tx.InsertNamespace(ctx, namespace("tn_a", "ns_5", "default")))
		})
		wantErr(t, "namespaces", err, nil)
		wantErr(t, "unobserved", inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			list, err := tx.UnobservedNamespacesOf(ctx, "tn_a", store.Page{})
			wantEqual(t, "unobserved of one tenant", names(list), []string{"default", "default"})
			return err
		}), nil)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			var ids []string
			after := ""
			for {
				list, err := tx.UnobservedNamespaces(ctx, store.Page{After: after, Limit: 2})
				if err != nil || len(list) == 0 {
					wantEqual(t, "unobserved", ids, []string{"ns_1", "ns_2", "ns_5"})
					return err
				}
				for _, n := range list {
					ids, after = append(ids, n.ID), n.ID
				}
			}
		})
	})
}

func names(list []store.Namespace) (out []string) {
	for _, n := range list {
		out = append(out, n.Name)
	}
	return out
}

func TestPeople_AreKeptAndFound(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			wantErr(t, "the same address", tx.InsertUser(ctx, user("usr_3", "one@example.com")), store.ErrExists)
			foreign := user("usr_4", "one@example.com")
			foreign.HomeTenant = "tn_b"
			u, err := tx.GetUser(ctx, "usr_1")
			wantEqual(t, "user", u, user("usr_1", "one@example.com"))
			u.Name, u.SeenAt = "New", at(4)
			if err := errors.Join(err, tx.InsertUser(ctx, foreign), tx.UpdateUser(ctx, u)); err != nil {
				return err
			}
			wantErr(t, "update nobody", tx.UpdateUser(ctx, user("usr_9", "x")), store.ErrNotFound)
			got, err := tx.GetUserByEmail(ctx, "one@example.com")
			wantEqual(t, "by address, without those of an identity provider", got, u)
			_, missing := tx.GetUserByEmail(ctx, "nobody@example.com")
			wantErr(t, "nobody", missing, store.ErrNotFound)
			access, accessErr := tx.ListAccess(ctx, "usr_1")
			wantEqual(t, "access", access, []store.Access{{Membership: membership("tn_a", "usr_1"), Tenant: tenant("tn_a", "acme")}})
			return errors.Join(err, accessErr)
		})
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			viewer := membership("tn_a", "usr_2")
			if err := tx.InsertMembership(ctx, viewer); err != nil {
				return err
			}
			wantErr(t, "a member twice", tx.InsertMembership(ctx, viewer), store.ErrExists)
			m, err := tx.GetMembership(ctx, "tn_a", "usr_2")
			wantEqual(t, "membership", m, viewer)
			stale := m
			m.ConnectionID = "sso_1"
			if err := errors.Join(err, tx.UpdateMembership(ctx, &m)); err != nil {
				return err
			}
			wantErr(t, "written at an old version", tx.UpdateMembership(ctx, &stale), store.ErrStale)
			n, err := tx.CountOwners(ctx, "tn_a")
			wantEqual(t, "owners", n, 1)
			list, listErr := tx.ListMembers(ctx, "tn_a", store.Page{After: "usr_1"})
			wantEqual(t, "members", list, []store.Member{{Membership: m, User: user("usr_2", "two@example.com")}})
			err = errors.Join(err, listErr, tx.DeleteMembership(ctx, "tn_a", "usr_2"))
			wantErr(t, "delete again", tx.DeleteMembership(ctx, "tn_a", "usr_2"), store.ErrNotFound)
			return err
		})
		wantErr(t, "members", err, nil)
	})
}

func TestInvitations_OnePerAddress(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		in := store.Invitation{TenantID: "tn_a", ID: "inv_1", Email: "x@example.com", Roles: []string{"role_viewer"}, Digest: "d1", InvitedBy: "one", CreatedAt: at(1), ExpiresAt: at(2)}
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			if err := tx.PutInvitation(ctx, in); err != nil {
				return err
			}
			in.ID, in.Digest = "inv_2", "d2"
			if err := tx.PutInvitation(ctx, in); err != nil {
				return err
			}
			_, err := tx.GetInvitation(ctx, "tn_a", "inv_1")
			wantErr(t, "the replaced one", err, store.ErrNotFound)
			got, err := tx.GetInvitation(ctx, "tn_a", "inv_2")
			wantEqual(t, "invitation", got, in)
			list, listErr := tx.ListInvitations(ctx, "tn_a", store.Page{})
			wantEqual(t, "list", list, []store.Invitation{in})
			return errors.Join(err, listErr)
		})
		wantErr(t, "invite", err, nil)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.GetInvitationByDigest(ctx, "d1")
			wantErr(t, "the replaced link", err, store.ErrNotFound)
			got, err := tx.GetInvitationByDigest(ctx, "d2")
			wantEqual(t, "by link", got, in)
			err = errors.Join(err, tx.DeleteInvitation(ctx, "tn_a", "inv_2"))
			wantErr(t, "delete again", tx.DeleteInvitation(ctx, "tn_a", "inv_2"), store.ErrNotFound)
			return err
		})
	})
}

func TestKeys_AreKeptAndFound(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			if err := errors.Join(tx.InsertKey(ctx, key("tn_a", "key_1")), tx.InsertKey(ctx, key("tn_a", "key_2"))); err != nil {
				return err
			}
			wantErr(t, "the same id", tx.InsertKey(ctx, key("tn_a", "key_1")), store.ErrExists)
			v, err := tx.GetKey(ctx, "tn_a", "key_1")
			wantEqual(t, "key", v, key("tn_a", "key_1"))
			stale := v
			v.Name, v.Versions, v.RevokedAt, v.UpdatedAt, v.Generation, v.NamespaceIDs = "n", nil, at(5), at(5), 2, nil
			if err := errors.Join(err, tx.UpdateKey(ctx, &v)); err != nil {
				return err
			}
			wantErr(t, "written at an old version", tx.UpdateKey(ctx, &stale), store.ErrStale)
			got, err := tx.GetKey(ctx, "tn_a", "key_1")
			wantEqual(t, "updated", got, v)
			living, livingErr := tx.ListKeys(ctx, "tn_a", false, store.Page{})
			wantEqual(t, "living", living, []store.Key{key("tn_a", "key_2")})
			all, allErr := tx.ListKeys(ctx, "tn_a", true, store.Page{})
			wantEqual(t, "all", all, []store.Key{v, key("tn_a", "key_2")})
			mine, mineErr := tx.KeysMadeBy(ctx, "tn_a", "usr_1", store.Page{})
			wantEqual(t, "of a user", mine, living)
			n, countErr := tx.CountKeys(ctx, "tn_a")
			wantEqual(t, "count", n, 1)
			return errors.Join(err, livingErr, allErr, mineErr, countErr, tx.ObserveKey(ctx, "tn_a", "key_1", 2))
		})
		wantErr(t, "keys", err, nil)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			wantErr(t, "an id of another tenant's key", tx.InsertKey(ctx, key("tn_b", "key_1")), store.ErrExists)
			got, err := tx.FindKey(ctx, "key_2")
			wantEqual(t, "of any tenant", got, key("tn_a", "key_2"))
			list, listErr := tx.UnobservedKeys(ctx, store.Page{})
			wantEqual(t, "unobserved", list, []store.Key{key("tn_a", "key_2")})
			return errors.Join(err, listErr)
		})
	})
}

func TestSessions_EndAloneTogetherAndByTime(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		session := func(digest, tenantID, userID string, expires time.Time) store.Session {
			return store.Session{TenantID: tenantID, Digest: digest, ID: "ses_" + digest, UserID: userID, Peer: "127.0.0.1", UserAgent: "test", CreatedAt: at(1), SeenAt: at(1), ExpiresAt: expires}
		}
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			for _, v := range []store.Session{session("1", "", "usr_1", at(10)), session("2", "tn_a", "usr_1", at(10)), session("3", "", "usr_2", at(5)), session("4", "", "usr_2", at(10))} {
				if err := tx.InsertSession(ctx, v); err != nil {
					return err
				}
			}
			wantErr(t, "the same cookie", tx.InsertSession(ctx, session("1", "", "usr_1", at(10))), store.ErrExists)
			err := tx.TouchSession(ctx, "1", at(3), at(10))
			got, getErr := tx.GetSession(ctx, "1")
			want := session("1", "", "usr_1", at(10))
			want.SeenAt = at(3)
			wantEqual(t, "session", got, want)
			n, beforeErr := tx.DeleteSessionsBefore(ctx, at(10))
			wantEqual(t, "expired", n, 1)
			n, ssoErr := tx.DeleteSessionsOfUser(ctx, "usr_1", "tn_a")
			wantEqual(t, "of the tenant's provider", n, 1)
			n, allErr := tx.DeleteSessionsOfUser(ctx, "usr_1", "")
			wantEqual(t, "the rest", n, 1)
			err = errors.Join(err, getErr, beforeErr, ssoErr, allErr, tx.DeleteSession(ctx, "4"))
			wantErr(t, "delete again", tx.DeleteSession(ctx, "4"), store.ErrNotFound)
			wantErr(t, "touch what is gone", tx.TouchSession(ctx, "4", at(1), at(2)), store.ErrNotFound)
			_, gone := tx.GetSession(ctx, "4")
			wantErr(t, "get what is gone", gone, store.ErrNotFound)
			return err
		})
	})
}

func TestSignups_AreVoidedByANewOne(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		signup := func(id string) store.Signup {
			return store.Signup{ID: id, Email: "x@example.com", TenantName: "acme", Digest: "d" + id, CodeDigest: "c", Peer: "p", CreatedAt: at(1), ExpiresAt: at(10)}
		}
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := errors.Join(tx.InsertSignup(ctx, signup("1")), tx.InsertSignup(ctx, signup("2"))); err != nil {
				return err
			}
			done := signup("2")
			done.Attempts, done.ConfirmedAt, done.TenantID = 3, at(2), "tn_a"
			if err := errors.Join(tx.UpdateSignup(ctx, done), tx.VoidSignups(ctx, "x@example.com", "acme", "p", at(3)), tx.VoidSignups(ctx, "x@example.com", "acme", "stranger", at(4))); err != nil {
				return err
			}
			wantErr(t, "update none", tx.UpdateSignup(ctx, signup("9")), store.ErrNotFound)
			voided, err := tx.GetSignup(ctx, "1")
			wantEqual(t, "voided", voided.ExpiresAt, at(3))
			got, linkErr := tx.GetSignupByDigest(ctx, "d2")
			wantEqual(t, "confirmed one", got, done)
			n, deleteErr := tx.DeleteSignupsBefore(ctx, at(4))
			wantEqual(t, "expired", n, 1)
			_, gone := tx.GetSignupByDigest(ctx, "d1")
			wantErr(t, "get what is gone", gone, store.ErrNotFound)
			return errors.Join(err, linkErr, deleteErr)
		})
	})
}

func TestTokens_WorkOnce(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		token := store.Token{Digest: "d", Purpose: "login", Subject: "usr_1", Data: "{}", CreatedAt: at(1), ExpiresAt: at(9)}
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.InsertToken(ctx, token); err != nil {
				return err
			}
			_, err := tx.UseToken(ctx, "d", "oidc", at(2))
			wantErr(t, "for another purpose", err, store.ErrNotFound)
			first, err := tx.UseToken(ctx, "d", "login", at(2))
			wantEqual(t, "first", first, token)
			second, secondErr := tx.UseToken(ctx, "d", "login", at(3))
			wantEqual(t, "second sees when it was used first", second.UsedAt, at(2))
			n, deleteErr := tx.DeleteTokensBefore(ctx, at(10))
			wantEqual(t, "expired", n, 1)
			return errors.Join(err, secondErr, deleteErr)
		})
	})
}

func TestConnections_AreDeletedWithTheirIdentities(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			id := store.Identity{TenantID: "tn_a", ConnectionID: "sso_1", Issuer: "i", Subject: "s", UserID: "usr_1", CreatedAt: at(1)}
			if err := errors.Join(tx.InsertConnection(ctx, connection("tn_a", "sso_1")), tx.InsertIdentity(ctx, id)); err != nil {
				return err
			}
			wantErr(t, "the same subject", tx.InsertIdentity(ctx, id), store.ErrExists)
			v, err := tx.GetConnection(ctx, "tn_a", "sso_1")
			wantEqual(t, "connection", v, connection("tn_a", "sso_1"))
			stale := v
			v.Enabled, v.GroupMappings, v.Tested, v.LastTest = false, nil, 2, ""
			if err := errors.Join(err, tx.UpdateConnection(ctx, &v)); err != nil {
				return err
			}
			wantErr(t, "written at an old version", tx.UpdateConnection(ctx, &stale), store.ErrStale)
			list, err := tx.ListConnections(ctx, "tn_a")
			wantEqual(t, "list", list, []store.Connection{v})
			id.VouchedEmail = "ada@example.com"
			updateErr := tx.UpdateIdentity(ctx, id)
			got, idErr := tx.GetIdentity(ctx, "tn_a", "sso_1", "i", "s")
			wantEqual(t, "identity", got, id)
			err = errors.Join(err, updateErr, idErr, tx.DeleteConnection(ctx, "tn_a", "sso_1"))
			_, gone := tx.GetIdentity(ctx, "tn_a", "sso_1", "i", "s")
			wantErr(t, "identity of a deleted connection", gone, store.ErrNotFound)
			wantErr(t, "delete again", tx.DeleteConnection(ctx, "tn_a", "sso_1"), store.ErrNotFound)
			return err
		})
		wantErr(t, "connections", err, nil)
		wantErr(t, "connections of any tenant", s.Service(t.Context(), func(tx *store.Tx) error {
			if err := tx.InsertConnection(t.Context(), connection("tn_b", "sso_2")); err != nil {
				return err
			}
			found, err := tx.FindConnection(t.Context(), "sso_2")
			wantEqual(t, "connection of any tenant", found, connection("tn_b", "sso_2"))
			_, none := tx.FindConnection(t.Context(), "sso_1")
			wantErr(t, "a deleted connection", none, store.ErrNotFound)
			return err
		}), nil)
	})
}

func TestAudit_IsListedNewestFirstAndFiltered(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		event := func(n int, action string) store.AuditEvent {
			return store.AuditEvent{TenantID: "tn_a", ID: "aud_" + string(rune('0'+n)), At: at(n), ActorType: "user", ActorID: "usr_1", Actor: "one", Action: action,
				TargetType: "key", TargetID: "key_" + action, Target: "t", RequestID: "r", Peer: "p", UserAgent: "bad\xff\x00agent", Changes: map[string]store.Change{"name": {Before: "a", After: "b"}}}
		}
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.InsertAudit(ctx, event(1, "key.create")), tx.InsertAudit(ctx, event(2, "key.revoke")), tx.InsertAudit(ctx, event(3, "member_x")))
		})
		wantErr(t, "insert", err, nil)
		for _, tc := range []struct {
			name string
			f    store.AuditFilter
			p    store.Page
			want []string
		}{
			{"all", store.AuditFilter{}, store.Page{}, []string{"aud_3", "aud_2", "aud_1"}},
			{"page", store.AuditFilter{}, store.Page{After: "aud_3", Limit: 1}, []string{"aud_2"}},
			{"prefix", store.AuditFilter{ActionPrefix: "key."}, store.Page{}, []string{"aud_2", "aud_1"}},
			{"a prefix is no pattern", store.AuditFilter{ActionPrefix: "member%"}, store.Page{}, nil},
			{"target", store.AuditFilter{TargetID: "key_key.revoke"}, store.Page{}, []string{"aud_2"}},
			{"actor", store.AuditFilter{ActorID: "usr_2"}, store.Page{}, nil},
			{"time", store.AuditFilter{After: at(2), Before: at(3)}, store.Page{}, []string{"aud_2"}},
		} {
			var got []string
			err := s.ReadTenant(t.Context(), "tn_a", func(tx *store.Tx) error {
				list, err := tx.ListAudit(t.Context(), "tn_a", tc.f, tc.p)
				for _, e := range list {
					got = append(got, e.ID)
					wantEqual(t, "what no database takes is replaced", e.UserAgent, "bad\uFFFD\uFFFDagent")
				}
				return err
			})
			wantErr(t, tc.name, err, nil)
			wantEqual(t, tc.name, got, tc.want)
		}
	})
}

func TestAnswers_TheFirstCounts(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		a := store.Answer{TenantID: "tn_a", Principal: "usr_1", Method: "m", RequestID: "r", Body: "b", Answer: "{}", CreatedAt: at(1)}
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			if err := tx.InsertAnswer(ctx, a); err != nil {
				return err
			}
			wantErr(t, "a second answer", tx.InsertAnswer(ctx, a), store.ErrExists)
			got, err := tx.GetAnswer(ctx, "tn_a", "usr_1", "m", "r")
			wantEqual(t, "answer", got, a)
			_, other := tx.GetAnswer(ctx, "tn_a", "usr_2", "m", "r")
			wantErr(t, "somebody else's", other, store.ErrNotFound)
			return err
		})
		wantErr(t, "answers", err, nil)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.DeleteAnswersBefore(ctx, at(2))
			wantEqual(t, "old ones", n, 1)
			return err
		})
	})
}

func TestOutbox_IsClaimedInOrderDeferredAndFinished(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.InsertOutbox(ctx, outbox("tn_b", "out_1", at(1))), tx.InsertOutbox(ctx, outbox("tn_a", "out_2", at(2))), tx.InsertOutbox(ctx, outbox("tn_a", "out_3", at(50))))
		})
		var rows []store.Outbox
		claim := func(holder string, now, till time.Time, want ...string) {
			t.Helper()
			service(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
				rows, err = tx.ClaimOutbox(ctx, holder, now, till, 10)
				return err
			})
			var ids []string
			for _, r := range rows {
				ids = append(ids, r.ID)
			}
			wantEqual(t, "claimed by "+holder, ids, want)
		}
		claim("x", at(10), at(20), "out_1", "out_2")
		mine := rows
		wantEqual(t, "row", mine[0], func() store.Outbox {
			o := outbox("tn_b", "out_1", at(1))
			o.Attempts, o.ClaimedBy, o.ClaimedTill = 1, "x", at(20)
			return o
		}())
		claim("y", at(19), at(40))
		claim("y", at(20), at(40), "out_1", "out_2")
		theirs := rows
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			wantErr(t, "finish what another one claimed", tx.FinishOutbox(ctx, mine[0]), store.ErrStale)
			wantErr(t, "defer what another one claimed", tx.DeferOutbox(ctx, mine[0], at(60), "late"), store.ErrStale)
			wantErr(t, "extend what another one claimed", tx.ExtendOutbox(ctx, mine[0], at(60)), store.ErrStale)
			return errors.Join(tx.ExtendOutbox(ctx, theirs[0], at(45)), tx.ExtendOutbox(ctx, theirs[1], at(45)))
		})
		claim("z", at(44), at(60))
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			err := errors.Join(tx.FinishOutbox(ctx, theirs[0]), tx.DeferOutbox(ctx, theirs[1], at(30), "refused"))
			wantErr(t, "finish twice", tx.FinishOutbox(ctx, theirs[0]), store.ErrNotFound)
			n, oldest, countErr := tx.CountOutbox(ctx, at(50))
			wantEqual(t, "waiting, without the one of a later day", n, 1)
			wantEqual(t, "due since, although it was deferred", oldest, at(2))
			n, oldest, noneErr := tx.CountOutbox(ctx, at(30))
			wantEqual(t, "waiting before that", n, 0)
			for before, want := range map[int]int{29: 1, 30: 0} {
				n, err := tx.CountParked(ctx, at(before))
				wantEqual(t, "parked", n, want)
				wantErr(t, "parked", err, nil)
			}
			for due, want := range map[int]bool{29: false, 30: true} {
				has, err := tx.HasOutbox(ctx, "tn_a", store.OutboxKey, "key_1", at(due))
				wantEqual(t, "has a row", has, want)
				wantErr(t, "has a row", err, nil)
			}
			for _, tenantID := range []string{"tn_b", "tn_x"} {
				has, err := tx.HasOutbox(ctx, tenantID, store.OutboxKey, "key_1", at(99))
				wantEqual(t, "has a row in "+tenantID, has, false)
				wantErr(t, "has a row", err, nil)
			}
			wantEqual(t, "since never", oldest, time.Time{})
			return errors.Join(err, countErr, noneErr)
		})
		claim("y", at(29), at(40))
		claim("y", at(30), at(40), "out_2")
		wantEqual(t, "why it failed", rows[0].LastError, "refused")
		wantEqual(t, "attempts", rows[0].Attempts, 3)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			mail, err := tx.ClaimOutbox(ctx, "z", at(60), at(70), 10, store.OutboxMail)
			wantEqual(t, "letters", len(mail), 0)
			keys, keysErr := tx.ClaimOutbox(ctx, "z", at(60), at(70), 10, store.OutboxMail, store.OutboxKey)
			wantEqual(t, "letters and keys", len(keys), 2)
			return errors.Join(err, keysErr)
		})
	})
}

func TestLease_TokenGrowsWithEveryHolder(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		take := func(holder string, now, till time.Time, wantHeld bool, wantToken int64) {
			t.Helper()
			service(t, s, func(ctx context.Context, tx *store.Tx) error {
				l, held, err := tx.TakeLease(ctx, "sweep", holder, now, till)
				if held != wantHeld || l.Token != wantToken || held && l.Holder != holder {
					t.Errorf("%s takes it: %+v, %v, want token %d, %v", holder, l, held, wantToken, wantHeld)
				}
				return err
			})
		}
		take("x", at(1), at(10), true, 1)
		take("y", at(2), at(12), false, 1)
		take("x", at(3), at(13), true, 1)  // Renewed.
		take("y", at(13), at(20), true, 2) // Expired.
		take("x", at(14), at(20), false, 2)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.ReleaseLease(ctx, "sweep", "x"), tx.ReleaseLease(ctx, "sweep", "y"))
		})
		take("y", at(15), at(20), true, 3) // Not the same tenure: something may have happened between.
		take("y", at(30), at(40), true, 4)
	})
}

func TestSettings_FirstValueStaysAndNumbersGrow(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.GetSetting(ctx, "key")
			wantErr(t, "none yet", err, store.ErrNotFound)
			if err := tx.InsertSetting(ctx, "key", "first", at(1)); err != nil {
				return err
			}
			wantErr(t, "second", tx.InsertSetting(ctx, "key", "second", at(1)), store.ErrExists)
			v, err := tx.GetSetting(ctx, "key")
			wantEqual(t, "setting", v, "first")
			a, aErr := tx.RaiseSetting(ctx, "gen", at(1))
			b, bErr := tx.RaiseSetting(ctx, "gen", at(1))
			wantEqual(t, "numbers", []int64{a, b}, []int64{1, 2})
			return errors.Join(err, aErr, bErr)
		})
	})
}

func TestRates_AreCountedByWindow(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			a, aErr := tx.CountRate(ctx, "x", at(1))
			b, bErr := tx.CountRate(ctx, "x", at(1))
			c, cErr := tx.CountRate(ctx, "x", at(2))
			wantEqual(t, "counts", []int{a, b, c}, []int{1, 2, 1})
			n, err := tx.DeleteRatesBefore(ctx, at(2))
			wantEqual(t, "old windows", n, 1)
			return errors.Join(aErr, bErr, cErr, err)
		})
	})
}

func TestPages_SkipAndRepeatNothingWhileRowsAreAdded(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.InsertTenant(ctx, tenant("tn_a", "acme")) })
		// Names that people and bytes order differently.
		start := []string{"B-x", "Ba", "a-b", "ab", "b", "b-a"}
		add := func(name string) {
			t.Helper()
			err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertNamespace(ctx, namespace("tn_a", "ns_"+name, name))
			})
			wantErr(t, "add "+name, err, nil)
		}
		for _, n := range start {
			add(n)
		}
		var got []string
		for after := ""; ; {
			var page []store.Namespace
			err := s.ReadTenant(t.Context(), "tn_a", func(tx *store.Tx) (err error) {
				page, err = tx.ListNamespaces(t.Context(), "tn_a", store.Page{After: after, Limit: 2})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got, after = append(got, names(page)...), page[len(page)-1].Name
			add("A" + after) // Before everything that comes.
		}
		wantEqual(t, "walked", got, start)
		if !slices.IsSorted(got) {
			t.Errorf("%v is not in the order of bytes", got)
		}
	})
}

// A tenant that changed ten thousand things at once must not keep another's key waiting:
// the key used to be claimed when all of them were.
func TestOutbox_ClaimsGoRoundTheTenants(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			for i := range 10_000 {
				if err := tx.InsertOutbox(ctx, outbox("tn_a", fmt.Sprintf("out_%05d", i), at(1))); err != nil {
					return err
				}
			}
			return errors.Join(tx.InsertOutbox(ctx, outbox("tn_b", "out_late", at(2))), tx.InsertOutbox(ctx, outbox("tn_c", "out_later", at(3))))
		})
		claim := func(holder string) (rows []store.Outbox) {
			service(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
				rows, err = tx.ClaimOutbox(ctx, holder, at(10), at(20), 100)
				return err
			})
			return rows
		}
		of := map[string]int{}
		first := claim("x")
		for _, r := range first {
			of[r.TenantID]++
		}
		wantEqual(t, "the first claim", of, map[string]int{"tn_a": 98, "tn_b": 1, "tn_c": 1})
		wantEqual(t, "a tenant's own order", first[0].ID+" "+first[97].ID, "out_00000 out_00097")
		second := claim("y")
		wantEqual(t, "the second claim", fmt.Sprint(len(second), " ", second[0].ID), "100 out_00098")
	})
}
