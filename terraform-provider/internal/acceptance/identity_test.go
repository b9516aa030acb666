package acceptance

import (
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

func TestIdentity_OfEveryResourceIsTenantAndID(t *testing.T) {
	t.Parallel()
	p := speak(t, nil, "")
	want := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"tenant_id": tftypes.String, "id": tftypes.String}}
	for name := range p.schemas.ResourceSchemas {
		if got := p.identities[name].ValueType(); !got.Equal(want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A state that was written before there were identities gets one by the next refresh.
func TestIdentity_IsGivenByCreationRefreshAndImport(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	p := speak(t, s, "")
	const kind = "corvo_service_account"
	made := p.apply(held{typeName: kind}, map[string]any{"name": name(t, "who"), "description": "", "disabled": false, "force_destroy": false})
	defer p.destroy(made)
	tenant, id := p.who(kind, made.identity)
	if !strings.HasPrefix(tenant, "tn_") || !strings.HasPrefix(id, "sa_") {
		t.Fatalf("%s %s", tenant, id)
	}
	old := made
	old.identity = nil
	for _, was := range []held{made, old} {
		if gotTenant, gotID := p.who(kind, p.refresh(was).identity); gotTenant != tenant || gotID != id {
			t.Errorf("refreshed: %s %s", gotTenant, gotID)
		}
	}
	changed := p.apply(old, map[string]any{"name": name(t, "who2"), "description": "", "disabled": false, "force_destroy": false})
	if gotTenant, gotID := p.who(kind, changed.identity); gotTenant != tenant || gotID != id {
		t.Errorf("changed: %s %s", gotTenant, gotID)
	}
	for _, of := range []string{tenant, ""} { // Without a tenant it is the token's.
		found, problem := p.adopt(kind, "", p.identity(kind, of, id))
		if gotTenant, gotID := p.who(kind, found.identity); problem != "" || gotTenant != tenant || gotID != id {
			t.Errorf("imported: %s %s %s", gotTenant, gotID, problem)
		}
	}
	if _, problem := p.adopt(kind, "", p.identity(kind, "tn_00000000000000000000000000", id)); !strings.Contains(problem, "another tenant") {
		t.Errorf("a foreign identity: %q", problem)
	}
}

// A rotated key has another id, so it is the identity of the same resource that changes.
func TestIdentity_FollowsARotation(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	p := speak(t, s, "")
	first, second := newKey(t, apikey.DataPlane), newKey(t, apikey.DataPlane)
	config := func(k apikey.Key, version int) map[string]any {
		return map[string]any{
			"name": "turns", "kind": "dp", "roles": []any{"viewer"}, "rotation_overlap": "0s",
			"secret_wo": k.Reveal(), "secret_wo_version": version,
		}
	}
	made := p.apply(held{typeName: "corvo_api_key"}, config(first, 1))
	turned := p.apply(made, config(second, 2))
	defer p.destroy(turned)
	_, before := p.who("corvo_api_key", made.identity)
	if _, after := p.who("corvo_api_key", turned.identity); before != first.ID() || after != second.ID() {
		t.Errorf("%s, then %s", before, after)
	}
}

// What terraform query finds is what an import of its identity gives.
func TestList_OfEveryKindGivesWhatAnImportDoes(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, n, p := s.other(), name(t, "listed"), speak(t, s, "")
	url, _ := receiver(t)
	account := must(o.accounts.CreateServiceAccount(t.Context(), connect.NewRequest(&cloudv1.CreateServiceAccountRequest{Name: n})))(t).GetServiceAccount()
	namespace := must(o.namespaces.CreateNamespace(t.Context(), connect.NewRequest(&cloudv1.CreateNamespaceRequest{Name: n})))(t).GetNamespace()
	defer p.destroy(p.apply(held{typeName: "corvo_queue"}, map[string]any{"namespace": namespace.GetId(), "name": "mail"}))
	members := must(o.members.ListMembers(t.Context(), connect.NewRequest(&cloudv1.ListMembersRequest{})))(t).GetMembers()
	trust := &cloudv1.CreateTrustRequest{
		Name: n, ServiceAccount: account.GetId(), Provider: cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB, Conditions: []*cloudv1.TrustCondition{{Claim: "repository", Values: []string{"acme/web"}}},
	}
	sink := &cloudv1.CreateAuditSinkRequest{
		Name: n, Format: cloudv1.AuditFormat_AUDIT_FORMAT_NATIVE, Target: &cloudv1.CreateAuditSinkRequest_Https{Https: &cloudv1.HttpsAuditSink{Url: url, SigningSecret: "0123456789abcdef"}},
	}
	binding := &cloudv1.CreateRoleBindingRequest{PrincipalId: account.GetId(), Role: "producer", Scope: &cloudv1.Scope{Namespace: n}}
	key := &cloudv1.CreateApiKeyRequest{Name: n, Kind: cloudv1.KeyKind_KEY_KIND_JOBS, Owner: account.GetId()}
	mine := map[string]string{
		"corvo_namespace": namespace.GetId(), "corvo_queue": namespace.GetId() + "/mail", "corvo_service_account": account.GetId(), "corvo_member": strings.ToLower(members[0].GetEmail()),
		"corvo_api_key":        must(o.keys.CreateApiKey(t.Context(), connect.NewRequest(key)))(t).GetApiKey().GetId(),
		"corvo_role":           must(o.roles.CreateRole(t.Context(), connect.NewRequest(&cloudv1.CreateRoleRequest{Name: n, Permissions: []string{"job.list"}})))(t).GetRole().GetId(),
		"corvo_role_binding":   must(o.roles.CreateRoleBinding(t.Context(), connect.NewRequest(binding)))(t).GetRoleBinding().GetId(),
		"corvo_group":          must(o.groups.CreateGroup(t.Context(), connect.NewRequest(&cloudv1.CreateGroupRequest{Name: n})))(t).GetGroup().GetId(),
		"corvo_trust":          must(o.trusts.CreateTrust(t.Context(), connect.NewRequest(trust)))(t).GetTrust().GetId(),
		"corvo_domain":         must(o.domains.CreateDomain(t.Context(), connect.NewRequest(&cloudv1.CreateDomainRequest{Name: n + ".example.com"})))(t).GetDomain().GetId(),
		"corvo_audit_sink":     must(o.audit.CreateAuditSink(t.Context(), connect.NewRequest(sink)))(t).GetSink().GetId(),
		"corvo_sso_connection": must(o.connections.CreateSsoConnection(t.Context(), connect.NewRequest(&cloudv1.CreateSsoConnectionRequest{Name: n, Type: cloudv1.SsoType_SSO_TYPE_SAML})))(t).GetConnection().GetId(),
	}
	filters := map[string]map[string]any{
		"corvo_queue": {"namespace": n}, "corvo_api_key": {"owner_id": account.GetId()}, "corvo_role_binding": {"principal_id": account.GetId()}, "corvo_trust": {"service_account_id": account.GetId()},
	}
	for kind := range p.schemas.ListResourceSchemas {
		found, err := p.list(kind, 0, filters[kind])
		result := found[mine[kind]]
		if err != nil || result == nil || result.DisplayName == "" {
			t.Errorf("%s lists %d, without %q: %v", kind, len(found), mine[kind], err)
			continue
		}
		if filters[kind] != nil && len(found) != 1 {
			t.Errorf("%s lists %d for the filter", kind, len(found))
		}
		imported, problem := p.adopt(kind, "", result.Identity)
		of := p.schemas.ResourceSchemas[kind].ValueType()
		if problem != "" {
			t.Errorf("%s: %s", kind, problem)
			continue
		}
		if differences, err := p.read(of, imported.state).Diff(p.read(of, result.Resource)); err != nil || len(differences) > 0 {
			t.Errorf("%s: an import differs from the list: %v %v", kind, differences, err)
		}
	}
	if some, err := p.list("corvo_service_account", 1, nil); err != nil || len(some) != 1 {
		t.Errorf("limited to one: %d %v", len(some), err)
	}
	if _, err := p.list("corvo_queue", 0, map[string]any{"namespace": "nobody"}); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("queues of no namespace: %v", err)
	}
	must(o.audit.DeleteAuditSink(t.Context(), connect.NewRequest(&cloudv1.DeleteAuditSinkRequest{SinkId: mine["corvo_audit_sink"]})))(t) // Its receiver goes with this test.
	if len(mine) != len(p.schemas.ListResourceSchemas) {
		t.Errorf("%d kinds are listed, and %d tested", len(p.schemas.ListResourceSchemas), len(mine))
	}
}

// must gives the message of a response.
func must[M any](res *connect.Response[M], err error) func(*testing.T) *M {
	return func(t *testing.T) *M {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg
	}
}
