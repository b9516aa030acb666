package principals

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// stage is a service over a world, with a tenant, its owner and a namespace.
type stage struct {
	*cloudtest.World
	*Service
	tenant store.Tenant
	owner  store.User
	ns     store.Namespace
}

func newStage(t *testing.T, w *cloudtest.World) *stage {
	t.Helper()
	st := &stage{World: w, Service: &Service{Kit: w.Kit, ObserveWait: time.Millisecond}}
	st.Service.Await = func(context.Context, string, func(*store.Tx) (bool, error)) (bool, error) { return true, nil }
	st.tenant, st.owner = w.Tenant(t, "acme", "ada@example.com")
	st.ns = store.Namespace{TenantID: st.tenant.ID, ID: "ns_01JD0000000000000000000001", Name: "orders", Labels: map[string]string{}, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertNamespace(ctx, st.ns) })
	return st
}

// as is a call by a member, with the rights that the member has now.
func (st *stage) as(t *testing.T, u store.User) context.Context {
	t.Helper()
	ctx, _ := st.As(t, st.tenant, u, permission.RoleViewer)
	c := access.From(ctx)
	st.World.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
		c.Rights, err = rights.Of(ctx, tx, st.tenant.ID, u.ID)
		return err
	})
	return access.With(ctx, c)
}

func (st *stage) bind(t *testing.T, ctx context.Context, principal, role string, scope *cloudv1.Scope) *cloudv1.RoleBinding {
	t.Helper()
	res, err := st.CreateRoleBinding(ctx, &cloudv1.CreateRoleBindingRequest{PrincipalId: principal, Role: role, Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetRoleBinding()
}

// allowed reports what Explain says.
func (st *stage) allowed(t *testing.T, principal, what, namespace, queue string) bool {
	t.Helper()
	res, err := st.Explain(st.as(t, st.owner), &cloudv1.ExplainRequest{PrincipalId: principal, Permission: what, Scope: &cloudv1.Scope{Namespace: namespace, Queues: queue}})
	if err != nil {
		t.Fatal(err)
	}
	if res.GetAllowed() != strings.HasPrefix(res.GetReason(), "Yes") {
		t.Errorf("%v: %s", res.GetAllowed(), res.GetReason())
	}
	return res.GetAllowed()
}

func TestBindings_GiveARoleAtTheirPlaceAlone(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		bob := w.Member(t, st.tenant.ID, "bob@example.com", permission.RoleBilling)
		ctx := st.as(t, st.owner)
		b := st.bind(t, ctx, bob.ID, permission.RoleAdmin, &cloudv1.Scope{Namespace: "orders", Queues: "mail.*"})
		if again := st.bind(t, ctx, bob.ID, "role_admin", &cloudv1.Scope{Namespace: st.ns.ID, Queues: "mail.*"}); again.GetId() != b.GetId() {
			t.Error("the same role twice is two bindings")
		}
		for _, q := range []struct {
			permission, namespace, queue string
			want                         bool
		}{
			{"job.enqueue", "orders", "mail.welcome", true}, {"job.enqueue", "orders", "sms", false}, {"job.enqueue", "orders", "", false},
			{"job.enqueue", "", "mail.welcome", false}, {"namespace.update", "orders", "", false}, {"member.invite", "", "", false}, {"billing.read", "", "", true},
		} {
			if got := st.allowed(t, bob.ID, q.permission, q.namespace, q.queue); got != q.want {
				t.Errorf("%s in %q for %q: %v", q.permission, q.namespace, q.queue, got)
			}
		}
		if _, err := st.DeleteRoleBinding(ctx, &cloudv1.DeleteRoleBindingRequest{RoleBindingId: b.GetId()}); err != nil {
			t.Fatal(err)
		}
		if st.allowed(t, bob.ID, "job.enqueue", "orders", "mail.welcome") {
			t.Error("a role that was taken away still counts")
		}
	})
}

// A key's record holds so many places; what is beyond would be lost without a word.
func TestBindings_OfAMachineFitIntoACell(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		ctx := st.as(t, st.owner)
		a, err := st.CreateServiceAccount(ctx, &cloudv1.CreateServiceAccountRequest{Name: "ci"})
		if err != nil {
			t.Fatal(err)
		}
		give := func(n int) error {
			_, err := st.CreateRoleBinding(ctx, &cloudv1.CreateRoleBindingRequest{
				PrincipalId: a.GetServiceAccount().GetId(), Role: permission.RoleWorker, Scope: &cloudv1.Scope{Namespace: "orders", Queues: fmt.Sprintf("q%d", n)},
			})
			return err
		}
		for n := range celladmin.GrantQueuesMax {
			if err := give(n); err != nil {
				t.Fatal(err)
			}
		}
		err = give(celladmin.GrantQueuesMax)
		if f, ok := fault.As(err); !ok || len(f.Fields) != 1 || f.Fields[0].Name != "scope" {
			t.Errorf("one place too many: %v", err)
		}
		res, err := st.ListRoleBindings(ctx, &cloudv1.ListRoleBindingsRequest{PrincipalId: a.GetServiceAccount().GetId(), PageSize: 100})
		if err != nil || len(res.GetRoleBindings()) != celladmin.GrantQueuesMax {
			t.Errorf("%d bindings, %v", len(res.GetRoleBindings()), err)
		}
	})
}

func TestGroups_GiveTheirRolesToWhoIsInThem(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		bob := w.Member(t, st.tenant.ID, "bob@example.com", permission.RoleBilling)
		ctx := st.as(t, st.owner)
		g, err := st.CreateGroup(ctx, &cloudv1.CreateGroupRequest{Name: "Night shift"})
		if err != nil {
			t.Fatal(err)
		}
		id := g.GetGroup().GetId()
		st.bind(t, ctx, id, permission.RoleOperator, nil)
		w.Outbox(t)
		added, err := st.AddGroupMembers(ctx, &cloudv1.AddGroupMembersRequest{GroupId: id, UserIds: []string{bob.ID, bob.ID}})
		if err != nil || added.GetGroup().GetMembers() != 1 {
			t.Fatalf("%v, %v", added, err)
		}
		if rows := w.Outbox(t); len(rows) != 2 || rows[0].Kind != store.OutboxAccess || rows[1].Subject != bob.ID {
			t.Errorf("the cell is told %+v", rows)
		}
		if !st.allowed(t, bob.ID, "queue.pause", "orders", "") {
			t.Error("the group's role does not count")
		}
		who, err := st.ListWhoCan(ctx, &cloudv1.ListWhoCanRequest{Permission: "queue.pause"})
		if err != nil || len(who.GetPrincipals()) != 2 || strings.Join(who.GetPrincipals()[1].GetGroups(), " ") != "Night shift" {
			t.Errorf("%v, %v", who, err)
		}
		_, err = st.AddGroupMembers(ctx, &cloudv1.AddGroupMembersRequest{GroupId: id, UserIds: []string{"usr_01JD0000000000000000000009"}})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		if _, err := st.RemoveGroupMembers(ctx, &cloudv1.RemoveGroupMembersRequest{GroupId: id, UserIds: []string{bob.ID}}); err != nil {
			t.Fatal(err)
		}
		if st.allowed(t, bob.ID, "queue.pause", "orders", "") {
			t.Error("who left the group has its role")
		}
		if _, err := st.DeleteGroup(ctx, &cloudv1.DeleteGroupRequest{GroupId: id}); err != nil {
			t.Fatal(err)
		}
	})
}

// Whoever changes a connection must hold what its people hold, so a role that is given to one
// of them takes the connection from admins, and whoever gives it hears so.
func TestNotices_TellOfAConnectionThatAdminsCanNoLongerChange(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		ctx := st.as(t, st.owner)
		for _, name := range []string{"Okta", "Entra"} {
			c := store.Connection{
				TenantID: st.tenant.ID, ID: "sso_" + name, Name: name, DefaultRole: rights.FixedID(permission.RoleViewer), CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1,
			}
			w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertConnection(ctx, c) })
		}
		through := func(email, connection string) store.User {
			u := w.Member(t, st.tenant.ID, email, permission.RoleViewer)
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				m, err := tx.GetMembership(ctx, st.tenant.ID, u.ID)
				if err != nil {
					return err
				}
				m.ConnectionID = connection
				return tx.UpdateMembership(ctx, &m)
			})
			return u
		}
		bob, eve, mail := through("bob@example.com", "sso_Okta"), through("eve@example.com", "sso_Entra"), w.Member(t, st.tenant.ID, "mail@example.com", permission.RoleViewer)
		give := func(u store.User, role string) []string {
			res, err := st.CreateRoleBinding(ctx, &cloudv1.CreateRoleBindingRequest{PrincipalId: u.ID, Role: role})
			if err != nil {
				t.Fatal(err)
			}
			return res.GetNotices()
		}
		for i, tc := range []struct {
			user  store.User
			role  string
			wants string
		}{
			{bob, permission.RoleAdmin, ""}, {mail, permission.RoleOwner, ""}, {bob, permission.RoleOwner, "Okta"}, {bob, permission.RoleOwner, ""},
		} {
			got := give(tc.user, tc.role)
			if told := strings.Join(got, " "); (tc.wants == "") != (told == "") || !strings.Contains(told, tc.wants) {
				t.Errorf("%d: %s as %s: %q", i, tc.user.Email, tc.role, told)
			}
		}
		g, err := st.CreateGroup(ctx, &cloudv1.CreateGroupRequest{Name: "Chiefs"})
		if err != nil {
			t.Fatal(err)
		}
		st.bind(t, ctx, g.GetGroup().GetId(), permission.RoleOwner, nil)
		added, err := st.AddGroupMembers(ctx, &cloudv1.AddGroupMembersRequest{GroupId: g.GetGroup().GetId(), UserIds: []string{eve.ID}})
		if err != nil || len(added.GetNotices()) != 1 || !strings.Contains(added.GetNotices()[0], "Entra") {
			t.Errorf("by a group: %v, %v", added, err)
		}
	})
}

// What no golden file can be updated to say otherwise.
func TestLaws_NobodyGrantsMoreThanTheyHold(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	st := newStage(t, w)
	adm := w.Member(t, st.tenant.ID, "adm@example.com", permission.RoleAdmin)
	own, ctx := st.as(t, st.owner), st.as(t, adm)
	_, err := st.CreateRoleBinding(ctx, &cloudv1.CreateRoleBindingRequest{PrincipalId: adm.ID, Role: permission.RoleOwner})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = st.CreateRole(ctx, &cloudv1.CreateRoleRequest{Name: "King", Permissions: []string{"tenant.delete"}})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	role, err := st.CreateRole(own, &cloudv1.CreateRoleRequest{Name: "Ender", Permissions: []string{"tenant.delete", "tenant.read"}})
	if err != nil {
		t.Fatal(err)
	}
	id := role.GetRole().GetId()
	_, err = st.UpdateRole(ctx, &cloudv1.UpdateRoleRequest{RoleId: id, Permissions: []string{"tenant.read"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"permissions"}}})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = st.DeleteRole(ctx, &cloudv1.DeleteRoleRequest{RoleId: id})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = st.CreateServiceAccount(ctx, &cloudv1.CreateServiceAccountRequest{Name: "x", Roles: []string{"Ender"}})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	g, err := st.CreateGroup(own, &cloudv1.CreateGroupRequest{Name: "Enders"})
	if err != nil {
		t.Fatal(err)
	}
	b := st.bind(t, own, g.GetGroup().GetId(), id, nil)
	_, err = st.AddGroupMembers(ctx, &cloudv1.AddGroupMembersRequest{GroupId: g.GetGroup().GetId(), UserIds: []string{adm.ID}})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = st.DeleteRoleBinding(ctx, &cloudv1.DeleteRoleBindingRequest{RoleBindingId: b.GetId()})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = st.DeleteRole(own, &cloudv1.DeleteRoleRequest{RoleId: id})
	cloudtest.Refused(t, err, "ROLE_IN_USE")
}

func TestLaws_TheLastOwnerStays(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		ctx := st.as(t, st.owner)
		list, err := st.ListRoleBindings(ctx, &cloudv1.ListRoleBindingsRequest{PrincipalId: st.owner.ID})
		if err != nil || len(list.GetRoleBindings()) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		_, err = st.DeleteRoleBinding(ctx, &cloudv1.DeleteRoleBindingRequest{RoleBindingId: list.GetRoleBindings()[0].GetId()})
		cloudtest.Refused(t, err, "LAST_OWNER")
	})
}

func TestLaws_ForeignIsLikeNowhere(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	st := newStage(t, w)
	ctx := st.as(t, st.owner)
	g, err := st.CreateGroup(ctx, &cloudv1.CreateGroupRequest{Name: "Ours"})
	if err != nil {
		t.Fatal(err)
	}
	other, eve := w.Tenant(t, "other", "eve@example.com")
	foreign, _ := w.As(t, other, eve, permission.RoleOwner)
	for name, call := range map[string]func() error{
		"group": func() error {
			_, err := st.GetGroup(foreign, &cloudv1.GetGroupRequest{Group: g.GetGroup().GetId()})
			return err
		},
		"by name": func() error { _, err := st.GetGroup(foreign, &cloudv1.GetGroupRequest{Group: "Ours"}); return err },
		"principal": func() error {
			_, err := st.Explain(foreign, &cloudv1.ExplainRequest{PrincipalId: st.owner.ID, Permission: "job.list"})
			return err
		},
		"namespace": func() error {
			_, err := st.Explain(foreign, &cloudv1.ExplainRequest{Permission: "job.list", Scope: &cloudv1.Scope{Namespace: st.ns.ID}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { cloudtest.Refused(t, call(), "NOT_FOUND") })
	}
	_, err = st.CreateRoleBinding(foreign, &cloudv1.CreateRoleBindingRequest{PrincipalId: st.owner.ID, Role: permission.RoleViewer})
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
}

func TestServiceAccounts_ADisabledOneMayNothingAndOneWithKeysStays(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		ctx := st.as(t, st.owner)
		res, err := st.CreateServiceAccount(ctx, &cloudv1.CreateServiceAccountRequest{Name: "ci", Roles: []string{permission.RoleProducer}})
		if err != nil || strings.Join(res.GetServiceAccount().GetRoles(), " ") != permission.RoleProducer {
			t.Fatalf("%v, %v", res, err)
		}
		id := res.GetServiceAccount().GetId()
		_, err = st.CreateServiceAccount(ctx, &cloudv1.CreateServiceAccountRequest{Name: "ci"})
		cloudtest.Refused(t, err, "NAME_TAKEN")
		key := store.Key{TenantID: st.tenant.ID, ID: "key_000000000001", Name: "k", OwnerID: id, Queues: []string{"mail.*"}, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertKey(ctx, key) })
		if !st.allowed(t, key.ID, "job.enqueue", "orders", "mail.x") || st.allowed(t, key.ID, "job.enqueue", "orders", "sms") {
			t.Error("a key may not what its account may, narrowed")
		}
		_, err = st.DeleteServiceAccount(ctx, &cloudv1.DeleteServiceAccountRequest{ServiceAccountId: id})
		cloudtest.Refused(t, err, "HAS_KEYS")
		off := &cloudv1.UpdateServiceAccountRequest{ServiceAccountId: id, Disabled: true, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"disabled"}}}
		if _, err := st.UpdateServiceAccount(ctx, off); err != nil {
			t.Fatal(err)
		}
		if st.allowed(t, key.ID, "job.enqueue", "orders", "mail.x") {
			t.Error("the key of a disabled account works")
		}
		if _, err := st.DeleteServiceAccount(ctx, &cloudv1.DeleteServiceAccountRequest{ServiceAccountId: id, RevokeKeys: true}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(w.Audit(t, st.tenant.ID), " "); got != "service_account.create service_account.update key.revoke service_account.delete" {
			t.Errorf("audit has %s", got)
		}
	})
}

func TestReview_ListsEverybodyInPagesAndWhatIsUnused(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	st := newStage(t, w)
	for _, name := range []string{"b", "c"} {
		w.Member(t, st.tenant.ID, name+"@example.com", permission.RoleViewer)
	}
	ctx := st.as(t, st.owner)
	sa, err := st.CreateServiceAccount(ctx, &cloudv1.CreateServiceAccountRequest{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	key := store.Key{TenantID: st.tenant.ID, ID: "key_000000000001", Name: "k", OwnerID: sa.GetServiceAccount().GetId(), CreatedAt: w.Now(), UpdatedAt: w.Now(), LastUsedAt: w.Now().Add(95 * 24 * time.Hour), Version: 1, Generation: 1}
	// A temporary key stands in no list; what its trust did lately is its account's doing.
	passing := key
	passing.ID, passing.Kind, passing.LastUsedAt = "key_000000000002", cloudv1.KeyKind_KEY_KIND_TEMPORARY, time.Time{}
	bot, err := st.CreateServiceAccount(ctx, &cloudv1.CreateServiceAccountRequest{Name: "deploy"})
	if err != nil {
		t.Fatal(err)
	}
	trust := store.Trust{TenantID: st.tenant.ID, ID: "trust_1", Name: "web", AccountID: bot.GetServiceAccount().GetId(), CreatedAt: w.Now(), LastUsedAt: key.LastUsedAt, Version: 1}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.InsertKey(ctx, key), tx.InsertKey(ctx, passing), tx.InsertTrust(ctx, trust))
	})
	w.Advance(100 * 24 * time.Hour)
	var got []string
	for token := ""; ; {
		res, err := st.ListAccessReview(ctx, &cloudv1.ListAccessReviewRequest{PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range res.GetPrincipals() {
			text := p.GetType() + " " + p.GetPrincipal()
			if p.GetUnused() {
				text += " unused"
			}
			got = append(got, text)
		}
		if token = res.GetNextPageToken(); token == "" {
			break
		}
	}
	if want := "user ada@example.com unused, user b@example.com unused, user c@example.com unused, service_account ci, service_account deploy, key k"; strings.Join(got, ", ") != want {
		t.Errorf("got %s", strings.Join(got, ", "))
	}
}

func TestExplain_SomebodyElseTakesThePermissionToReview(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	st := newStage(t, w)
	bob := w.Member(t, st.tenant.ID, "bob@example.com", permission.RoleViewer)
	ctx := st.as(t, bob)
	_, err := st.Explain(ctx, &cloudv1.ExplainRequest{PrincipalId: st.owner.ID, Permission: "job.list"})
	cloudtest.Refused(t, err, "PERMISSION_DENIED")
	if res, err := st.Explain(ctx, &cloudv1.ExplainRequest{Permission: "job.list"}); err != nil || !res.GetAllowed() || len(res.GetBindings()) != 1 {
		t.Errorf("%v, %v", res, err)
	}
	_, err = st.Explain(ctx, &cloudv1.ExplainRequest{Permission: "job.rule"})
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
}
