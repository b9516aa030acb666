package change

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// What each record leaves behind: its entry in the audit log and what its cell is told.
func TestMake_LeavesTheEntryAndTheOutboxRowsOfItsRecord(t *testing.T) {
	t.Parallel()
	s := cloudtest.Store(t, cloudtest.SQLite(t), store.Options{})
	now := time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)
	k := kit.Kit{Store: s, IDs: ids.NewMaker(), Now: func() time.Time { return now }}
	tenant := store.Tenant{ID: "tn_1", Name: "acme", Plan: "free", Version: 1, Generation: 1}
	namespace := store.Namespace{TenantID: "tn_1", ID: "ns_1", Name: "orders", Version: 1, Generation: 1}
	user := store.User{ID: "usr_1", Email: "ada@acme.test"}
	member := store.Membership{TenantID: "tn_1", UserID: "usr_1", Version: 1}
	key := store.Key{TenantID: "tn_1", ID: "key_1", Name: "ci", Version: 1, Generation: 1, Versions: []store.KeyVersion{{}, {ExpiresAt: now.Add(time.Hour)}}}
	invitation := store.Invitation{TenantID: "tn_1", ID: "inv_1", Email: "bob@acme.test", Digest: "d"}
	connection := store.Connection{TenantID: "tn_1", ID: "sso_1", Name: "Staff", Version: 1}
	own := store.Role{TenantID: "tn_1", ID: "role_1", Name: "Nights", Version: 1}
	machine := store.ServiceAccount{TenantID: "tn_1", ID: "sa_1", Name: "ci", Version: 1}
	group := store.Group{TenantID: "tn_1", ID: "grp_1", Name: "Night shift", Version: 1}
	bound := Binding{
		Binding:   store.Binding{TenantID: "tn_1", ID: "bnd_1", PrincipalID: "grp_1", RoleID: "role_1", NamespaceID: "ns_1", Queues: "mail.*"},
		Principal: "Night shift", Role: "Nights", Namespace: "orders",
	}
	for _, step := range []struct {
		what   string
		record func() Record
		entry  string
		told   []string
	}{
		{"a tenant", func() Record { return InsertTenant(tenant) }, "tenant tn_1 acme", []string{"cell.tenant tn_1"}},
		{"its name for people", func() Record { return UpdateTenant(&tenant) }, "tenant tn_1 acme", nil},
		{"a namespace", func() Record { return InsertNamespace(namespace) }, "namespace ns_1 orders", []string{"cell.namespace ns_1"}},
		{"its labels", func() Record { return UpdateNamespace(&namespace) }, "namespace ns_1 orders", nil},
		{"its end", func() Record { return UpdateNamespace(&namespace).As("was").InCell() }, "namespace ns_1 was", []string{"cell.namespace ns_1"}},
		{"a member", func() Record { return InsertMember(member, user) }, "member usr_1 ada@acme.test", nil},
		{"a role", func() Record { return UpdateMember(&member, user, nil, nil) }, "member usr_1 ada@acme.test", []string{"cell.access tn_1", "cell.user usr_1"}},
		{"a member less", func() Record { return DeleteMember(member, user) }, "member usr_1 ada@acme.test", []string{"cell.access tn_1", "cell.user usr_1"}},
		{"an invitation", func() Record { return PutInvitation(invitation) }, "invitation inv_1 bob@acme.test", nil},
		{"a member by it", func() Record { return AcceptInvitation(invitation, member, user) }, "member usr_1 ada@acme.test", nil},
		{"a key", func() Record { return InsertKey(key) }, "key key_1 ci", []string{"cell.key key_1", "cell.key key_1 in 1h0m0s"}},
		{"its roles", func() Record { return UpdateKey(&key) }, "key key_1 ci", []string{"cell.key key_1", "cell.key key_1 in 1h0m0s"}},
		{"a role of one's own", func() Record { return InsertRole(own) }, "role role_1 Nights", nil},
		{"what it allows", func() Record { return UpdateRole(&own) }, "role role_1 Nights", []string{"cell.access tn_1", "cell.user tn_1"}},
		{"a machine", func() Record { return InsertServiceAccount(machine) }, "service_account sa_1 ci", nil},
		{"its end for now", func() Record { return UpdateServiceAccount(&machine) }, "service_account sa_1 ci", []string{"cell.access tn_1"}},
		{"a group", func() Record { return InsertGroup(group) }, "group grp_1 Night shift", nil},
		{"somebody in it", func() Record { return AddToGroup(group, "usr_1") }, "group grp_1 Night shift", []string{"cell.access tn_1", "cell.user usr_1"}},
		{"its role", func() Record { return InsertBinding(bound) }, "role_binding bnd_1 Nights for Night shift in orders for queues mail.*", []string{"cell.access tn_1", "cell.user tn_1"}},
		{"its role less", func() Record { return DeleteBinding(bound) }, "role_binding bnd_1 Nights for Night shift in orders for queues mail.*", []string{"cell.access tn_1", "cell.user tn_1"}},
		{"somebody out of it", func() Record { return RemoveFromGroup(group, "usr_1") }, "group grp_1 Night shift", []string{"cell.access tn_1", "cell.user usr_1"}},
		{"a group less", func() Record { return DeleteGroup(group) }, "group grp_1 Night shift", []string{"cell.access tn_1", "cell.user tn_1"}},
		{"a role less", func() Record { return DeleteRole(own) }, "role role_1 Nights", nil},
		{"a machine less", func() Record { return DeleteServiceAccount(machine) }, "service_account sa_1 ci", []string{"cell.access tn_1"}},
		{"a connection", func() Record { return InsertConnection(connection) }, "sso_connection sso_1 Staff", nil},
		{"its end for two", func() Record { return UpdateConnection(&connection).CutOff("usr_1", "usr_2") }, "sso_connection sso_1 Staff", []string{"cell.user usr_1", "cell.user usr_2"}},
		{"a connection less", func() Record { return DeleteConnection(connection) }, "sso_connection sso_1 Staff", nil},
	} {
		var entries []store.AuditEvent
		var rows []store.Outbox
		err := s.Service(access.With(t.Context(), access.Caller{}), func(tx *store.Tx) (err error) {
			if step.what == "a member" {
				err = tx.InsertUser(t.Context(), user)
			}
			if err := errors.Join(err, Make(t.Context(), k, tx, "thing.change", step.record(), nil)); err != nil {
				return err
			}
			if entries, err = tx.ListAudit(t.Context(), "tn_1", store.AuditFilter{}, store.Page{Limit: 1}); err != nil {
				return err
			}
			rows, err = tx.ClaimOutbox(t.Context(), "test", now.Add(time.Hour), now.Add(9*time.Hour), 10)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if e := entries[0]; fmt.Sprint(e.TargetType, " ", e.TargetID, " ", e.Target) != step.entry {
			t.Errorf("%s is in the log as %s %s %s, want %s", step.what, e.TargetType, e.TargetID, e.Target, step.entry)
		}
		var told []string
		for _, r := range rows {
			text := fmt.Sprint(r.Kind, " ", r.Subject)
			if r.DueAt.After(now) {
				text += " in " + r.DueAt.Sub(now).String()
			}
			told = append(told, text)
		}
		if !slices.Equal(told, step.told) {
			t.Errorf("%s: the cell is told %q, want %q", step.what, told, step.told)
		}
	}
	if namespace.Generation != 2 || key.Generation != 2 || !namespace.UpdatedAt.Equal(now) || !key.UpdatedAt.Equal(now) || tenant.Generation != 1 {
		t.Errorf("namespace %+v, key %+v, tenant %+v", namespace, key, tenant)
	}
}
