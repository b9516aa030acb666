package store_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/pgtest"
)

// rolesOfBefore is what a control plane of before had: role words as numbers.
const rolesOfBefore = `
INSERT INTO tenants (tenant_id, name, display_name, plan, cell, created_at, updated_at, version, generation) VALUES ('tn_01JD0000000000000000000001', 'acme', 'Acme', 'free', 'c', 1, 1, 1, 1);
INSERT INTO users (id, email, name, created_at) VALUES ('usr_01JD0000000000000000000001', 'ada@acme.test', '', 1), ('usr_01JD0000000000000000000002', 'bob@acme.test', '', 1);
INSERT INTO memberships (tenant_id, user_id, role, connection_id, created_at, version) VALUES
  ('tn_01JD0000000000000000000001', 'usr_01JD0000000000000000000001', 1, '', 1, 1), ('tn_01JD0000000000000000000001', 'usr_01JD0000000000000000000002', 6, 'sso_1', 1, 1);
INSERT INTO invitations (tenant_id, id, email, role, digest, invited_by, created_at, expires_at) VALUES ('tn_01JD0000000000000000000001', 'inv_1', 'x@acme.test', 4, 'd', 'ada', 1, 2);
INSERT INTO api_keys (tenant_id, id, name, kind, namespace_ids, roles, tenant_role, versions, expires_at, created_by, created_at, updated_at, version, generation, observed) VALUES
  ('tn_01JD0000000000000000000001', 'key_aIlOuZ012345', 'ci', 1, '["ns_1"]', '[3,4]', 0, '[]', 0, 'usr_1', 1, 1, 1, 1, 1),
  ('tn_01JD0000000000000000000001', 'key_AIlOuZ012346', 'ci', 2, '[]', '[]', 2, '[]', 0, 'usr_1', 1, 1, 1, 1, 1);
INSERT INTO sso_connections (tenant_id, id, name, issuer, client_id, client_secret, scopes, groups_claim, default_role, group_mappings, enabled, last_test, settings, created_at, updated_at, version) VALUES
  ('tn_01JD0000000000000000000001', 'sso_1', 'Okta', 'i', 'c', '', '[]', 'groups', 6, '[{"group":"ops","role":2}]', 1, '', 1, 1, 1, 1)`

// Whoever had a role before has the same now, by a binding; a key by its own service account.
func TestMigrate_RoleWordsBecomeBindings(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "control.db")
	pg := pgtest.Start(t)
	for name, kind := range map[string]struct {
		url string
		db  func(*testing.T) *sql.DB
	}{
		"sqlite":   {"sqlite:" + path, func(t *testing.T) *sql.DB { return raw(t, "sqlite", path) }},
		"postgres": {pg, func(t *testing.T) *sql.DB { return rawPostgres(t, pg) }},
	} {
		t.Run(name, func(t *testing.T) {
			before(t, kind.db(t), name)
			s := open(t, kind.url)
			service(t, s, func(ctx context.Context, tx *store.Tx) error {
				// A tenant of before plans were rows is subscribed to its own since it was made.
				const id = "tn_01JD0000000000000000000001"
				sub, err := tx.GetSubscription(ctx, id)
				if err != nil || sub.PlanVersion != 1 || sub.State != store.SubscriptionActive {
					t.Errorf("subscription %+v, %v", sub, err)
				}
				since := time.Unix(0, 1).UTC()
				changes, err := tx.SubscriptionChanges(ctx, id, since, since.Add(1))
				wantEqual(t, "plan since", changes, []store.SubscriptionChange{{TenantID: id, At: since, Plan: "free", PlanVersion: 1}})
				// Its provider knows the redirect URI that all tenants shared.
				conn, connErr := tx.GetConnection(ctx, id, "sso_1")
				if !conn.SharedRedirect {
					t.Error("a connection of before would have to come back by the tenant's own redirect URI")
				}
				return errors.Join(err, connErr, checkBindings(ctx, t, tx))
			})
		})
	}
}

// before makes the schema of before roles had bindings, with rows in it.
func before(t *testing.T, db *sql.DB, kind string) {
	t.Helper()
	const lastWithWords = 10
	if err := store.MigrateTo(t.Context(), db, kind == "postgres", lastWithWords); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if kind == "postgres" {
		_, err = tx.ExecContext(t.Context(), "SET LOCAL corvo.tenant = '*'")
	}
	for statement := range strings.SplitSeq(rolesOfBefore, ";\n") {
		if err == nil {
			_, err = tx.ExecContext(t.Context(), statement)
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func checkBindings(ctx context.Context, t *testing.T, tx *store.Tx) error {
	t.Helper()
	const tn = "tn_01JD0000000000000000000001"
	rolesOf := func(principal string) string {
		of, err := tx.BindingsOf(ctx, tn, principal)
		list := of[principal]
		var out []string
		for _, b := range list {
			out = append(out, b.RoleID+b.Source)
		}
		wantErr(t, "bindings", err, nil)
		return strings.Join(out, " ")
	}
	wantEqual(t, "the owner", rolesOf("usr_01JD0000000000000000000001"), "role_owner")
	wantEqual(t, "who came through a provider", rolesOf("usr_01JD0000000000000000000002"), "role_viewersso_1")
	for id, want := range map[string]string{"key_aIlOuZ012345": "role_producer role_worker", "key_AIlOuZ012346": "role_admin"} {
		k, err := tx.GetKey(ctx, tn, id)
		if err != nil {
			return err
		}
		wantEqual(t, "the key's account", rolesOf(k.OwnerID), want)
		a, err := tx.GetServiceAccount(ctx, tn, k.OwnerID)
		if err != nil || len(a.ID) != len("sa_")+26 || !strings.HasPrefix(a.Name, "ci (") {
			t.Errorf("account %+v, %v", a, err)
		}
		wantEqual(t, "told to the cell again", k.Generation > k.Observed, true)
	}
	i, err := tx.GetInvitation(ctx, tn, "inv_1")
	wantErr(t, "invitation", err, nil)
	wantEqual(t, "invitation", strings.Join(i.Roles, " "), "role_developer")
	c, err := tx.GetConnection(ctx, tn, "sso_1")
	wantEqual(t, "connection", []string{c.DefaultRole, string(c.GroupMappings[0].Role)}, []string{"role_viewer", "role_admin"})
	return err
}
