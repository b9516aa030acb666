package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// missing reports whether a call found nothing, once a test is over.
func missing(what string, err error) error {
	if connect.CodeOf(err) == connect.CodeNotFound {
		return nil
	}
	return fmt.Errorf("%s is still there, or: %w", what, err)
}

// attribute takes a value out of the state.
func attribute(addr, name string, into *string) resource.TestCheckFunc {
	return func(st *terraform.State) error {
		*into = st.RootModule().Resources[addr].Primary.Attributes[name]
		return nil
	}
}

func TestServiceAccount_IsCreatedChangedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a, b := s.other(), name(t, "sa"), name(t, "sb")
	const addr = "corvo_service_account.this"
	hcl := func(name, more string) string {
		return block(s, "") + fmt.Sprintf("resource \"corvo_service_account\" \"this\" {\n  name = %q\n  %s\n}\n", name, more)
	}
	var id string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             resource.ComposeAggregateTestCheckFunc(o.accountGone(a), o.accountGone(b)),
		Steps: []resource.TestStep{
			{Config: hcl(a, `disabled = true`), Check: resource.ComposeAggregateTestCheckFunc(attribute(addr, "id", &id), resource.TestCheckResourceAttr(addr, "disabled", "true"))},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true, ImportStateId: a},
			{Config: hcl(b, `description = "deploys"`), ConfigPlanChecks: updates(addr), Check: resource.TestCheckResourceAttr(addr, "disabled", "false")},
			{Config: hcl(b, `force_destroy = true`), ConfigPlanChecks: updates(addr)},
			{
				PreConfig: func() { // Drift.
					_, err := o.accounts.UpdateServiceAccount(t.Context(), connect.NewRequest(&cloudv1.UpdateServiceAccountRequest{
						ServiceAccountId: id, Description: "theirs", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"description"}},
					}))
					if err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(b, `force_destroy = true`), ConfigPlanChecks: updates(addr), Check: resource.TestCheckResourceAttr(addr, "description", ""),
			},
			{
				PreConfig: func() { // It disappears.
					if _, err := o.accounts.DeleteServiceAccount(t.Context(), connect.NewRequest(&cloudv1.DeleteServiceAccountRequest{ServiceAccountId: id})); err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(b, `force_destroy = true`), ConfigPlanChecks: planned(addr, plancheck.ResourceActionCreate), Check: attribute(addr, "id", &id),
			},
			{
				PreConfig: func() { // Its keys end with it, as force_destroy says.
					if _, err := o.keys.CreateApiKey(t.Context(), connect.NewRequest(&cloudv1.CreateApiKeyRequest{Name: "k", Kind: cloudv1.KeyKind_KEY_KIND_JOBS, Owner: id})); err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(b, ``), ConfigPlanChecks: updates(addr),
			},
			{Config: block(s, ""), ExpectError: regexp.MustCompile(`(?s)force_destroy = true`)},
			{Config: hcl(b, `force_destroy = true`)},
		},
	})
}

func TestRole_IsCreatedChangedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a, b := s.other(), name(t, "ra"), name(t, "rb")
	const addr = "corvo_role.this"
	hcl := func(name, more string) string {
		return block(s, "") + fmt.Sprintf("resource \"corvo_role\" \"this\" {\n  name = %q\n  %s\n}\n", name, more)
	}
	var id string
	gone := func(*terraform.State) error {
		_, err := o.roles.GetRole(context.Background(), connect.NewRequest(&cloudv1.GetRoleRequest{Role: id}))
		return missing("role", err)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             gone,
		Steps: []resource.TestStep{
			{Config: hcl(a, `permissions = ["queue.read", "job.list"]`), Check: attribute(addr, "id", &id)},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true, ImportStateId: a},
			{ResourceName: addr, ImportState: true, ImportStateId: "producer", ExpectError: regexp.MustCompile(`every tenant has`)},
			{Config: hcl(b, `permissions = ["queue.read"]`), ConfigPlanChecks: updates(addr)},
			{Config: hcl(b, "permissions = [\"queue.read\", \"queue.pause\"]\ndescription = \"on call\""), ConfigPlanChecks: updates(addr)},
			{Config: hcl(b, `permissions = ["queue.fly"]`), ExpectError: regexp.MustCompile(`(?s)permissions.*queue\.fly`)},
			{
				PreConfig: func() {
					_, err := o.roles.UpdateRole(t.Context(), connect.NewRequest(&cloudv1.UpdateRoleRequest{
						RoleId: id, Permissions: []string{"job.list"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"permissions"}},
					}))
					if err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(b, `permissions = ["queue.read"]`), ConfigPlanChecks: updates(addr),
			},
			{
				PreConfig: func() {
					if _, err := o.roles.DeleteRole(t.Context(), connect.NewRequest(&cloudv1.DeleteRoleRequest{RoleId: id})); err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(b, `permissions = ["queue.read"]`), ConfigPlanChecks: planned(addr, plancheck.ResourceActionCreate), Check: attribute(addr, "id", &id),
			},
		},
	})
}

func TestRoleBinding_IsCreatedReplacedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, ns := s.other(), name(t, "bound")
	const addr = "corvo_role_binding.this"
	head := block(s, "") + namespaceHCL(ns, ``) + fmt.Sprintf("resource \"corvo_service_account\" \"this\" {\n  name = %q\n}\n", name(t, "bound"))
	hcl := func(role, more string) string {
		return head + fmt.Sprintf("resource \"corvo_role_binding\" \"this\" {\n  principal_id = corvo_service_account.this.id\n  role = %q\n  %s\n}\n", role, more)
	}
	var id string
	replaced := planned(addr, plancheck.ResourceActionDestroyBeforeCreate)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy: func(*terraform.State) error {
			_, err := o.roles.GetRoleBinding(context.Background(), connect.NewRequest(&cloudv1.GetRoleBindingRequest{RoleBindingId: id}))
			return missing("binding", err)
		},
		Steps: []resource.TestStep{
			{Config: hcl("role_producer", `namespace = corvo_namespace.this.id`+"\n"+`queues = "mail.*"`), Check: resource.TestCheckResourceAttr(addr, "role_id", "role_producer")},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true},
			{Config: hcl("role_producer", `namespace = corvo_namespace.this.id`), ConfigPlanChecks: replaced},
			{Config: hcl("worker", `namespace = corvo_namespace.this.name`), ConfigPlanChecks: replaced},
			{Config: hcl("worker", ``), ConfigPlanChecks: replaced, Check: attribute(addr, "id", &id)},
			{
				PreConfig: func() {
					if _, err := o.roles.DeleteRoleBinding(t.Context(), connect.NewRequest(&cloudv1.DeleteRoleBindingRequest{RoleBindingId: id, AllowMissing: true})); err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl("worker", ``), ConfigPlanChecks: planned(addr, plancheck.ResourceActionCreate), Check: attribute(addr, "id", &id),
			},
			{Config: hcl("worker", `namespace = "nowhere"`), ExpectError: regexp.MustCompile(`(?s)"nowhere"\s+is\s+no\s+namespace`)},
		},
	})
}

// After an import the state has ids: a configuration with names means the same binding.
func TestRoleBinding_AnotherSpellingKeepsIt(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "spelled")
	account := must(s.other().accounts.CreateServiceAccount(t.Context(), connect.NewRequest(&cloudv1.CreateServiceAccountRequest{Name: n})))(t).GetServiceAccount().GetId()
	t.Cleanup(func() {
		must(s.other().accounts.DeleteServiceAccount(context.Background(), connect.NewRequest(&cloudv1.DeleteServiceAccountRequest{ServiceAccountId: account})))(t)
	})
	const addr = "corvo_role_binding.this"
	hcl := func(role, namespace string) string {
		return fmt.Sprintf("resource \"corvo_role_binding\" \"this\" {\n  principal_id = %q\n  role = %q\n  namespace = %q\n}\noutput \"id\" {\n  value = corvo_role_binding.this.id\n}\n", account, role, namespace)
	}
	first := newWorkspace(t, s, "", hcl("producer", "default"))
	first.apply()
	id := strings.TrimSpace(first.must("output", "-raw", "id"))
	second := newWorkspace(t, s, "", hcl("producer", "default"))
	second.must("import", "-no-color", "-input=false", addr, id)
	if said := second.apply(); !strings.Contains(said, "0 added, 1 changed, 0 destroyed") {
		t.Fatalf("names instead of ids:\n%s", said)
	}
	second.settled()
	second.write("main.tf", required+hcl("role_producer", "default"))
	if said := second.apply(); !strings.Contains(said, "0 added, 1 changed, 0 destroyed") {
		t.Fatalf("the id instead of the name:\n%s", said)
	}
	second.write("main.tf", required+hcl("worker", "default"))
	if said := second.apply(); !strings.Contains(said, "1 added, 0 changed, 1 destroyed") {
		t.Fatalf("another role:\n%s", said)
	}
	second.destroy()
}

func TestGroup_IsCreatedChangedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a, b := s.other(), name(t, "ga"), name(t, "gb")
	const addr = "corvo_group.this"
	hcl := func(name, more string) string {
		return block(s, "") + fmt.Sprintf("resource \"corvo_group\" \"this\" {\n  name = %q\n  %s\n}\n", name, more)
	}
	var id string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy: func(*terraform.State) error {
			_, err := o.groups.GetGroup(context.Background(), connect.NewRequest(&cloudv1.GetGroupRequest{Group: id}))
			return missing("group", err)
		},
		Steps: []resource.TestStep{
			{Config: hcl(a, `description = "answers"`), Check: attribute(addr, "id", &id)},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true, ImportStateId: a},
			{Config: hcl(b, ``), ConfigPlanChecks: updates(addr)},
			{
				PreConfig: func() {
					_, err := o.groups.UpdateGroup(t.Context(), connect.NewRequest(&cloudv1.UpdateGroupRequest{
						GroupId: id, Name: a, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}},
					}))
					if err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(b, ``), ConfigPlanChecks: updates(addr),
			},
			{
				PreConfig: func() {
					if _, err := o.groups.DeleteGroup(t.Context(), connect.NewRequest(&cloudv1.DeleteGroupRequest{GroupId: id})); err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(b, ``), ConfigPlanChecks: planned(addr, plancheck.ResourceActionCreate), Check: attribute(addr, "id", &id),
			},
		},
	})
}

// accept takes the invitation that was mailed to an address, the newest of several, and
// gives the id of the new member.
func (s *service) accept(t *testing.T, email string) (userID string) {
	t.Helper()
	eventually.True(t, startMax, "accept an invitation to "+email, func() bool {
		return slices.ContainsFunc(s.invitations(t, email), func(token string) bool {
			_, err := s.anybody().AcceptInvitation(t.Context(), connect.NewRequest(&cloudv1.AcceptInvitationRequest{Token: token}))
			return err == nil
		})
	})
	return s.memberOf(t, email)
}

// invitations are the tokens in the mails to an address.
func (s *service) invitations(t *testing.T, email string) (tokens []string) {
	t.Helper()
	res, err := http.Get(s.env["CORVO_MAILBOX_URL"] + "/messages")
	if err != nil {
		t.Fatal(err)
	}
	var mails []struct {
		To   []string
		Text string
	}
	err = json.NewDecoder(res.Body).Decode(&mails)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for _, m := range mails {
		if _, token, ok := strings.Cut(m.Text, "#token="); ok && len(m.To) > 0 && m.To[0] == email {
			tokens = append(tokens, strings.Fields(token)[0])
		}
	}
	return tokens
}

// join makes a member of the tenant, and gives their id.
func (s *service) join(t *testing.T, email string) (userID string) {
	t.Helper()
	o := s.other()
	if _, err := o.members.CreateInvitation(t.Context(), connect.NewRequest(&cloudv1.CreateInvitationRequest{Email: email, Roles: []string{"viewer"}})); err != nil {
		t.Fatal(err)
	}
	return s.accept(t, email)
}

func (s *service) memberOf(t *testing.T, email string) (userID string) {
	t.Helper()
	o := s.other()
	res, err := o.members.ListMembers(t.Context(), connect.NewRequest(&cloudv1.ListMembersRequest{PageSize: 200}))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range res.Msg.GetMembers() {
		if m.GetEmail() == email {
			return m.GetUserId()
		}
	}
	t.Fatalf("%s is no member", email)
	return ""
}

func (s *service) leave(t *testing.T, userID string) {
	t.Helper()
	if _, err := s.other().members.RemoveMember(context.Background(), connect.NewRequest(&cloudv1.RemoveMemberRequest{UserId: userID})); err != nil {
		t.Error(err)
	}
}

func TestGroupMember_AddsOneAndGroupMembersAreAllOfThem(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o := s.other()
	ada, bob := s.join(t, name(t, "ada")+"@acme.test"), s.join(t, name(t, "bob")+"@acme.test")
	defer s.leave(t, ada)
	defer s.leave(t, bob)
	const one, all = "corvo_group_member.this", "corvo_group_members.this"
	head := block(s, "") + fmt.Sprintf("resource \"corvo_group\" \"this\" {\n  name = %q\n}\n", name(t, "grp"))
	member := func(user string) string {
		return head + fmt.Sprintf("resource \"corvo_group_member\" \"this\" {\n  group_id = corvo_group.this.id\n  user_id = %q\n}\n", user)
	}
	members := func(users ...string) string {
		return head + fmt.Sprintf("resource \"corvo_group_members\" \"this\" {\n  group_id = corvo_group.this.id\n  user_ids = [%s]\n}\n", strings.Join(users, ", "))
	}
	quoted := func(text string) string { return fmt.Sprintf("%q", text) }
	var group string
	change := func(add bool, users ...string) func() {
		return func() {
			var err error
			if add {
				_, err = o.groups.AddGroupMembers(t.Context(), connect.NewRequest(&cloudv1.AddGroupMembersRequest{GroupId: group, UserIds: users}))
			} else {
				_, err = o.groups.RemoveGroupMembers(t.Context(), connect.NewRequest(&cloudv1.RemoveGroupMembersRequest{GroupId: group, UserIds: users}))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	has := func(want int) resource.TestCheckFunc {
		return func(*terraform.State) error {
			res, err := o.groups.GetGroup(t.Context(), connect.NewRequest(&cloudv1.GetGroupRequest{Group: group}))
			if err == nil && int(res.Msg.GetGroup().GetMembers()) != want {
				err = fmt.Errorf("the group has %d members, want %d", res.Msg.GetGroup().GetMembers(), want)
			}
			return err
		}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{Config: member(ada), Check: resource.ComposeTestCheckFunc(attribute("corvo_group.this", "id", &group), has(1))},
			{ResourceName: one, ImportState: true, ImportStateVerify: true},
			{PreConfig: change(true, bob), Config: member(ada), ConfigPlanChecks: planned(one, plancheck.ResourceActionNoop), Check: has(2)},
			{PreConfig: change(false, ada), Config: member(ada), ConfigPlanChecks: planned(one, plancheck.ResourceActionCreate), Check: has(2)},
			{Config: member(bob), ConfigPlanChecks: planned(one, plancheck.ResourceActionDestroyBeforeCreate), Check: has(1)},
			{Config: head},
			{Config: members(quoted(ada), quoted(bob)), Check: has(2)},
			{ResourceName: all, ImportState: true, ImportStateIdFunc: func(*terraform.State) (string, error) { return group, nil }, ImportStateVerify: true},
			{Config: members(quoted(bob)), ConfigPlanChecks: updates(all), Check: has(1)},
			{PreConfig: change(true, ada), Config: members(quoted(bob)), ConfigPlanChecks: updates(all), Check: has(1)},
			{Config: members(), ConfigPlanChecks: updates(all), Check: has(0)},
			{PreConfig: change(true, ada), Config: head, Check: has(0)},
		},
	})
}

// An invitation becomes a member under the same resource.
func TestMember_IsInvitedJoinsChangesRolesAndIsRemoved(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o := s.other()
	const addr = "corvo_member.this"
	email := name(t, "eve") + "@acme.test"
	hcl := func(email, roles string) string {
		return block(s, "") + fmt.Sprintf("resource \"corvo_member\" \"this\" {\n  email = %q\n  roles = [%s]\n}\n", email, roles)
	}
	var id, user string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy: func(*terraform.State) error {
			res, err := o.members.ListMembers(context.Background(), connect.NewRequest(&cloudv1.ListMembersRequest{PageSize: 200}))
			if err != nil {
				return err
			}
			for _, m := range res.Msg.GetMembers() {
				if m.GetEmail() == email {
					return fmt.Errorf("%s is still a member", email)
				}
			}
			return nil
		},
		Steps: []resource.TestStep{
			{
				Config: hcl(email, `"viewer"`),
				Check: resource.ComposeAggregateTestCheckFunc(attribute(addr, "id", &id), resource.TestCheckResourceAttr(addr, "status", "invited"),
					resource.TestCheckNoResourceAttr(addr, "user_id")),
			},
			{ResourceName: addr, ImportState: true, ImportStateId: email, ImportStateVerify: true},
			{Config: hcl(email, `"developer"`), ConfigPlanChecks: updates(addr), Check: attribute(addr, "id", &id)},
			{
				PreConfig: func() {
					if _, err := o.members.RevokeInvitation(t.Context(), connect.NewRequest(&cloudv1.RevokeInvitationRequest{InvitationId: id})); err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(email, `"developer"`), ConfigPlanChecks: planned(addr, plancheck.ResourceActionCreate),
			},
			{
				PreConfig: func() { user = s.accept(t, email) },
				Config:    hcl(strings.ToUpper(email), `"developer"`),
				Check:     resource.ComposeAggregateTestCheckFunc(resource.TestCheckResourceAttr(addr, "status", "member"), attribute(addr, "user_id", &user)),
			},
			{Config: hcl(email, `"viewer", "role_billing"`), ConfigPlanChecks: updates(addr)},
			{ResourceName: addr, ImportState: true, ImportStateId: email, ImportStateVerify: true, ImportStateVerifyIgnore: []string{"roles"}},
			{
				PreConfig: func() {
					if _, err := o.members.UpdateMember(t.Context(), connect.NewRequest(&cloudv1.UpdateMemberRequest{UserId: user, Roles: []string{"auditor"}})); err != nil {
						t.Fatal(err)
					}
				},
				Config: hcl(email, `"viewer"`), ConfigPlanChecks: updates(addr),
			},
			{Config: hcl(email, `"pilot"`), ExpectError: regexp.MustCompile(`(?s)roles.*pilot`)},
		},
	})
}

// What refers to a member stays when the member's roles change.
func TestMember_StaysTheSameWhenItsRolesChange(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	email := name(t, "mia") + "@acme.test"
	hcl := func(email, roles string) string {
		return block(s, "") + fmt.Sprintf(`
resource "corvo_member" "this" {
  email = %q
  roles = [%s]
}
resource "corvo_group" "this" { name = %q }
`, email, roles, strings.ToLower(email))
	}
	const more = `
resource "corvo_role_binding" "this" {
  principal_id = corvo_member.this.user_id
  role         = "role_producer"
  namespace    = "default"
}
resource "corvo_group_member" "this" {
  group_id = corvo_group.this.id
  user_id  = corvo_member.this.id
}
`
	stay := func() resource.ConfigPlanChecks {
		return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
			plancheck.ExpectResourceAction("corvo_member.this", plancheck.ResourceActionUpdate), plancheck.ExpectResourceAction("corvo_role_binding.this", plancheck.ResourceActionNoop),
			plancheck.ExpectResourceAction("corvo_group_member.this", plancheck.ResourceActionNoop),
		}}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{Config: hcl(email, `"viewer"`)},
			{PreConfig: func() { s.accept(t, email) }, Config: hcl(email, `"viewer"`) + more},
			{Config: hcl(email, `"developer"`) + more, ConfigPlanChecks: stay()},
			{Config: hcl(strings.ToUpper(email), `"developer"`) + more, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: stay().PreApply[:2]}},
		},
	})
}

func TestAccessSources_SayWhatThereIs(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o := s.other()
	key := newKey(t, apikey.DataPlane)
	n := name(t, "seen")
	config := block(s, "") + strings.ReplaceAll(`
resource "corvo_service_account" "this" { name = "NAME" }
resource "corvo_api_key" "this" {
  name              = "NAME"
  kind              = "dp"
  owner_id          = corvo_service_account.this.id
  queues            = ["mail.*"]
  secret_wo         = "SECRET"
  secret_wo_version = 1
}
resource "corvo_trust" "this" {
  name               = "NAME"
  service_account_id = corvo_service_account.this.id
  token_provider     = "github"
  conditions         = { repository = ["acme/web"] }
}
resource "corvo_group" "this" { name = "NAME" }
resource "corvo_domain" "this" { name = "NAME.example.com" }
resource "corvo_sso_connection" "this" {
  name = "NAME"
  saml = {}
}
data "corvo_members" "this" {}
resource "corvo_group_member" "this" {
  group_id = corvo_group.this.id
  user_id  = data.corvo_members.this.members[0].user_id
}

data "corvo_role" "this" { name = "role_producer" }
data "corvo_roles" "this" {}
data "corvo_permissions" "this" {}
data "corvo_service_account" "this" { name = corvo_service_account.this.name }
data "corvo_service_accounts" "this" { depends_on = [corvo_service_account.this] }
data "corvo_api_keys" "this" {
  owner_id   = corvo_service_account.this.id
  depends_on = [corvo_api_key.this]
}
data "corvo_member" "this" { email = upper(data.corvo_members.this.members[0].email) }
data "corvo_group" "this" {
  name       = corvo_group.this.id
  depends_on = [corvo_group_member.this]
}
data "corvo_groups" "this" { depends_on = [corvo_group.this] }
data "corvo_trust" "this" { name = corvo_trust.this.name }
data "corvo_trusts" "this" {
  service_account_id = corvo_service_account.this.id
  depends_on         = [corvo_trust.this]
}
data "corvo_sso_connection" "this" { name = corvo_sso_connection.this.name }
data "corvo_domain" "this" { name = corvo_domain.this.name }
data "corvo_audit_head" "this" {}
data "corvo_plan" "this" {}
`, "NAME", n)
	same := func(source, attribute, address string) resource.TestCheckFunc {
		return resource.TestCheckResourceAttrPair("data."+source+".this", attribute, address, "id")
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{{
			Config: strings.Replace(config, "SECRET", key.Reveal(), 1),
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr("data.corvo_role.this", "id", "role_producer"), resource.TestCheckResourceAttr("data.corvo_role.this", "name", "role_producer"), // As it was asked.
				resource.TestCheckTypeSetElemAttr("data.corvo_role.this", "permissions.*", "job.enqueue"),
				resource.TestCheckResourceAttr("data.corvo_roles.this", "roles.0.name", "owner"),
				resource.TestCheckTypeSetElemNestedAttrs("data.corvo_permissions.this", "permissions.*", map[string]string{"name": "job.enqueue", "level": "queue"}),
				same("corvo_service_account", "id", "corvo_service_account.this"),
				resource.TestCheckTypeSetElemNestedAttrs("data.corvo_service_accounts.this", "service_accounts.*", map[string]string{"name": n, "disabled": "false"}),
				resource.TestCheckResourceAttr("data.corvo_api_keys.this", "api_keys.#", "1"),
				resource.TestCheckTypeSetElemNestedAttrs("data.corvo_api_keys.this", "api_keys.*", map[string]string{"id": key.ID(), "kind": "dp", "owner": n, "queues.0": "mail.*"}),
				resource.TestCheckResourceAttrPair("data.corvo_member.this", "user_id", "data.corvo_members.this", "members.0.user_id"),
				same("corvo_group", "id", "corvo_group.this"), resource.TestCheckResourceAttr("data.corvo_group.this", "user_ids.#", "1"),
				resource.TestCheckTypeSetElemNestedAttrs("data.corvo_groups.this", "groups.*", map[string]string{"name": n}),
				same("corvo_trust", "id", "corvo_trust.this"), resource.TestCheckResourceAttr("data.corvo_trust.this", "conditions.repository.0", "acme/web"),
				resource.TestCheckResourceAttr("data.corvo_trusts.this", "trusts.#", "1"), same("corvo_trusts", "trusts.0.id", "corvo_trust.this"),
				same("corvo_sso_connection", "id", "corvo_sso_connection.this"), resource.TestCheckResourceAttr("data.corvo_sso_connection.this", "type", "saml"),
				resource.TestCheckResourceAttr("data.corvo_sso_connection.this", "scim_endpoint_url", s.endpoint()+"/scim/v2"),
				o.isInTheLog("data.corvo_audit_head.this"),
				resource.TestCheckResourceAttr("data.corvo_plan.this", "name", "unlimited"), resource.TestCheckResourceAttr("data.corvo_plan.this", "entitlements.namespaces_max", "2000"),
				resource.TestCheckNoResourceAttr("data.corvo_plan.this", "entitlements.members_max"), resource.TestCheckResourceAttr("data.corvo_plan.this", "state", "active"),
				same("corvo_domain", "id", "corvo_domain.this"), resource.TestCheckResourceAttr("data.corvo_domain.this", "verified", "false"),
			),
		}},
	})
}

// isInTheLog finds the entry of a head, with its hash.
func (o other) isInTheLog(addr string) resource.TestCheckFunc {
	return func(st *terraform.State) error {
		said := st.RootModule().Resources[addr].Primary.Attributes
		res, err := o.audit.ListAuditEvents(context.Background(), connect.NewRequest(&cloudv1.ListAuditEventsRequest{PageSize: 200}))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(res.Msg.GetEvents(), func(e *cloudv1.AuditEvent) bool {
			return fmt.Sprint(e.GetSeq()) == said["seq"] && e.GetHash() == said["hash"] && e.GetHash() != ""
		}) {
			return fmt.Errorf("no entry is %s with %s", said["seq"], said["hash"])
		}
		return nil
	}
}

func TestAccessSources_SayWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	asked := map[string]string{"role": "name", "service_account": "name", "member": "email", "group": "name", "trust": "name", "sso_connection": "name", "domain": "name"}
	var config strings.Builder
	for source, by := range asked {
		fmt.Fprintf(&config, "data \"corvo_%s\" \"this\" { %s = \"nobody\" }\n", source, by)
	}
	said, code := newWorkspace(t, s, "", config.String()).run("plan", "-no-color")
	for source := range asked {
		if want := "Couldn't read corvo_" + source + " nobody: not found"; code != 1 || !strings.Contains(said, want) {
			t.Errorf("want %q in:\n%s", want, said)
		}
	}
}

// A resource that gets another address in the configuration is the same.
func TestAccess_MovedResourcesStay(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "moved")
	config := func(address, moved string) string {
		return block(s, "") + strings.NewReplacer("NAME", n, "ADDRESS", address).Replace(`
resource "corvo_service_account" "ADDRESS" { name = "NAME" }
resource "corvo_role" "ADDRESS" {
  name        = "NAME"
  permissions = ["job.list"]
}
resource "corvo_role_binding" "ADDRESS" {
  principal_id = corvo_service_account.ADDRESS.id
  role         = corvo_role.ADDRESS.id
}
`) + moved
	}
	var moves strings.Builder
	var stays []plancheck.PlanCheck
	for _, kind := range []string{"corvo_service_account", "corvo_role", "corvo_role_binding"} {
		fmt.Fprintf(&moves, "moved {\n  from = %s.old\n  to   = %s.new\n}\n", kind, kind)
		stays = append(stays, plancheck.ExpectResourceAction(kind+".new", plancheck.ResourceActionNoop))
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{Config: config("old", "")},
			{Config: config("new", moves.String()), ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: stays}},
		},
	})
}
