package acceptance

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

// every is what all resources must do alike; each is a row.
type every struct {
	kind string
	// first is how it is made, second and third what it is changed to. Without them, every
	// change replaces it.
	first, second, third map[string]any
	// imported: it is there already, and an import of this begins.
	imported string
	// etagged: what was decided on an older version is refused.
	etagged bool
	// unread is what an import can't bring back.
	unread []string
	// stays: destroying it leaves what it is about.
	stays bool
	// secrets are those in the configurations.
	secrets []string
}

// with is a configuration with some attributes changed.
func with(config map[string]any, changes map[string]any) map[string]any {
	out := maps.Clone(config)
	maps.Copy(out, changes)
	return out
}

// Every call of every resource is first refused, then made with its response lost, and then
// made again: the service is busy, and connections break. What comes out is as if nothing
// had been.
func TestEvery_ResourceIsKeptThroughABusyServiceAndLostAnswers(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	rows := everyResource(t, s)
	seen := map[string]bool{"corvo_tenant_settings": true, "corvo_spend_limit": true} // A tenant has one: their own tests do it.
	for _, row := range rows {
		seen[row.kind] = true
	}
	for kind := range speak(t, nil, "").schemas.ResourceSchemas {
		if !seen[kind] {
			t.Errorf("%s is in no row", kind)
		}
	}
	var running sync.WaitGroup // All at once: they mostly wait for the time to come back.
	for _, row := range rows {
		running.Go(func() { t.Run(row.kind, func(t *testing.T) { row.check(t, s) }) })
	}
	running.Wait()
}

func (e every) check(t *testing.T, s *service) {
	t.Helper()
	m := startFaultProxy(t, s)
	p, undisturbed := speak(t, s, m.URL), speak(t, s, "")
	busy(m)
	made := e.made(t, p)
	m.Decide(nil)
	p.settled(made, e.first)
	_, id := p.who(e.kind, made.identity)
	adopted, problem := undisturbed.adopt(e.kind, id, nil)
	if problem != "" {
		t.Fatal(problem)
	}
	e.same(t, p, made, adopted)
	was := made
	if e.second != nil {
		made = e.disturbed(t, m, p, made, e.second)
		p.settled(made, e.second)
		e.same(t, p, undisturbed.refresh(made), made)
	}
	if e.etagged {
		e.stale(t, undisturbed, was, made)
	}
	busy(m)
	p.destroy(made)
	m.Decide(nil)
	of := p.schemas.ResourceSchemas[e.kind].ValueType()
	old := made
	old.identity = nil // As Terraform 1.11 keeps it.
	for _, was := range []held{made, old} {
		if left := p.refresh(was); !e.stays && !p.read(of, left.state).IsNull() {
			t.Error("it is still there, or a refresh doesn't see that it is gone")
		}
	}
	for _, secret := range e.secrets {
		for _, kept := range []held{was, made, adopted} {
			if bytes.Contains(kept.state.MsgPack, []byte(secret)) {
				t.Error("a secret is in the state")
			}
		}
	}
}

// busy spoils the first three calls of each kind from now on.
func busy(m *faultProxy) {
	before := m.Calls()
	m.Decide(func(call string, nth int) faulttest.Fate {
		switch nth - before[call] {
		case 1:
			return faulttest.Fate{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "1"}}
		case 2:
			return faulttest.Fate{Status: http.StatusServiceUnavailable}
		case 3:
			return faulttest.Fate{Lose: true}
		}
		return faulttest.Fate{}
	})
}

func (e every) made(t *testing.T, p *protocol) held {
	t.Helper()
	if e.imported == "" {
		return p.apply(held{typeName: e.kind}, e.first)
	}
	found, problem := p.adopt(e.kind, e.imported, nil)
	if problem != "" {
		t.Fatal(problem)
	}
	return p.apply(found, e.first)
}

func (e every) disturbed(t *testing.T, m *faultProxy, p *protocol, was held, config map[string]any) held {
	t.Helper()
	busy(m)
	defer m.Decide(nil)
	plan := p.plan(was, config)
	for _, secret := range e.secrets {
		if bytes.Contains(plan.PlannedState.MsgPack, []byte(secret)) {
			t.Error("a secret is in the plan")
		}
	}
	return p.apply(was, config)
}

// same compares two states, but for what one of them can't know.
func (e every) same(t *testing.T, p *protocol, a, b held) {
	t.Helper()
	of := p.schemas.ResourceSchemas[e.kind].ValueType()
	differences, err := p.read(of, a.state).Diff(p.read(of, b.state))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		name, _ := d.Path.Steps()[0].(tftypes.AttributeName)
		if !strings.Contains(" "+strings.Join(e.unread, " ")+" ", " "+string(name)+" ") {
			t.Errorf("%s", d)
		}
	}
}

// stale: a second workspace, whose state is older, changes nothing and says so.
func (e every) stale(t *testing.T, p *protocol, older, now held) {
	t.Helper()
	_, problem := p.try(older, e.third)
	if !strings.Contains(problem, "plan again") {
		t.Errorf("a change based on an older state: %q", problem)
	}
	e.same(t, p, p.refresh(now), now)
}

// everyResource makes what the rows need, too.
func everyResource(t *testing.T, s *service) []every {
	t.Helper()
	o, n := s.other(), name(t, "every")
	url, _ := receiver(t)
	account := must(o.accounts.CreateServiceAccount(t.Context(), connect.NewRequest(&cloudv1.CreateServiceAccountRequest{Name: n + "-of"})))(t).GetServiceAccount().GetId()
	group := must(o.groups.CreateGroup(t.Context(), connect.NewRequest(&cloudv1.CreateGroupRequest{Name: n + "-of"})))(t).GetGroup().GetId()
	group2 := must(o.groups.CreateGroup(t.Context(), connect.NewRequest(&cloudv1.CreateGroupRequest{Name: n + "-all"})))(t).GetGroup().GetId()
	namespace := must(o.namespaces.CreateNamespace(t.Context(), connect.NewRequest(&cloudv1.CreateNamespaceRequest{Name: n + "-of"})))(t).GetNamespace().GetId()
	saml := &cloudv1.CreateSsoConnectionRequest{Name: n, Type: cloudv1.SsoType_SSO_TYPE_SAML, DefaultRole: "viewer"}
	connection := must(o.connections.CreateSsoConnection(t.Context(), connect.NewRequest(saml)))(t).GetConnection().GetId()
	domain := must(o.domains.CreateDomain(t.Context(), connect.NewRequest(&cloudv1.CreateDomainRequest{Name: n + "v.example.com"})))(t).GetDomain()
	theLab.dns.set(domain.GetTxtName(), domain.GetTxtValue())
	joined := n + "-joined@acme.test"
	user := s.join(t, joined)
	t.Cleanup(func() { s.leave(t, user) })
	leaver := n + "-leaver@acme.test"
	s.join(t, leaver)
	dp, dp2, scim, scim2 := newKey(t, apikey.DataPlane), newKey(t, apikey.DataPlane), newKey(t, apikey.SCIM), newKey(t, apikey.SCIM)
	named := func(suffix string) map[string]any { return map[string]any{"name": n + suffix} }
	key := with(named(""), map[string]any{"kind": "dp", "owner_id": account, "secret_wo": dp.Reveal(), "secret_wo_version": 1})
	token := map[string]any{"connection_id": connection, "secret_wo": scim.Reveal(), "secret_wo_version": 1}
	oidc := func(client string) map[string]any {
		return map[string]any{"oidc": map[string]any{"issuer": issuer(t), "client_id": client, "client_secret_wo": "hunter2-" + n}}
	}
	provider := with(named("-oidc"), oidc("one"))
	sink := with(named(""), map[string]any{"https": map[string]any{"url": url, "signing_secret_wo": "signs-" + n, "authorization_wo": "may-" + n}})
	trust := with(named(""), map[string]any{"service_account_id": account, "token_provider": "github", "conditions": map[string]any{"repository": []any{"acme/web"}}})
	queue := map[string]any{"namespace": namespace, "name": "mail"}
	return []every{
		{kind: "corvo_namespace", first: named("-n"), second: with(named("-n"), map[string]any{"labels": map[string]any{"a": "1"}}), third: with(named("-n"), map[string]any{"labels": map[string]any{"b": "1"}}), etagged: true},
		{kind: "corvo_queue", first: queue, second: with(queue, map[string]any{"max_concurrency": 3})},
		{kind: "corvo_service_account", first: named(""), second: with(named(""), map[string]any{"description": "two", "disabled": true}), third: with(named(""), map[string]any{"description": "three"}), etagged: true},
		{
			kind: "corvo_api_key", first: key, second: with(key, map[string]any{"secret_wo": dp2.Reveal(), "secret_wo_version": 2, "queues": []any{"mail.*"}}),
			unread: []string{"secret_wo_version"}, secrets: []string{dp.Reveal(), dp2.Reveal()},
		},
		{
			kind: "corvo_scim_token", first: token, second: with(token, map[string]any{"secret_wo": scim2.Reveal(), "secret_wo_version": 2}),
			unread: []string{"secret_wo_version"}, secrets: []string{scim.Reveal(), scim2.Reveal()},
		},
		{
			kind: "corvo_role", first: with(named(""), map[string]any{"permissions": []any{"job.list"}}), second: with(named("-b"), map[string]any{"permissions": []any{"queue.read"}, "description": "two"}),
			third: with(named("-c"), map[string]any{"permissions": []any{"job.list"}}), etagged: true,
		},
		{kind: "corvo_role_binding", first: map[string]any{"principal_id": account, "role": "producer", "namespace": namespace, "queues": "mail.*"}, unread: []string{"role"}},
		{kind: "corvo_group", first: named(""), second: with(named("-b"), map[string]any{"description": "two"}), third: named("-c"), etagged: true},
		{kind: "corvo_group_member", first: map[string]any{"group_id": group, "user_id": user}},
		{kind: "corvo_group_members", first: map[string]any{"group_id": group2, "user_ids": []any{user}}, second: map[string]any{"group_id": group2, "user_ids": []any{}}, stays: true},
		{kind: "corvo_member", first: map[string]any{"email": n + "@acme.test", "roles": []any{"viewer"}}, second: map[string]any{"email": n + "@acme.test", "roles": []any{"developer"}}},
		{
			kind: "corvo_member", imported: leaver, first: map[string]any{"email": leaver, "roles": []any{"viewer"}}, second: map[string]any{"email": leaver, "roles": []any{"developer", "auditor"}},
			third: map[string]any{"email": leaver, "roles": []any{"operator"}}, etagged: true,
		},
		{
			kind: "corvo_domain", first: named(".example.com"), second: with(named(".example.com"), map[string]any{"connection_id": connection}), etagged: true,
			third: with(named(".example.com"), map[string]any{"connection_id": "sso_00000000000000000000000000"}),
		},
		{kind: "corvo_domain_verification", first: map[string]any{"domain_id": domain.GetId()}, stays: true},
		{kind: "corvo_trust", first: trust, second: with(trust, map[string]any{"conditions": map[string]any{"repository": []any{"acme/api", "acme/web"}}, "key_life_seconds": 300}), third: with(trust, map[string]any{"key_life_seconds": 600}), etagged: true},
		{
			kind: "corvo_sso_connection", first: provider, second: with(provider, with(oidc("two"), map[string]any{"default_role": "viewer", "group_mappings": []any{map[string]any{"group": "ops", "role": "admin"}}})),
			third: with(provider, map[string]any{"groups_claim": "roles"}), etagged: true, secrets: []string{"hunter2-" + n},
		},
		{
			kind: "corvo_sso_connection", first: with(named("-saml"), map[string]any{"saml": map[string]any{}}),
			second: with(named("-saml"), map[string]any{"saml": map[string]any{"entity_id": "https://idp.example.com", "sso_url": "https://idp.example.com/sso", "want_encrypted": true}}),
			third:  with(named("-saml"), map[string]any{"saml": map[string]any{"name_attribute": "cn"}}), etagged: true,
		},
		{
			kind: "corvo_audit_sink", first: sink, second: with(sink, map[string]any{"format": "ocsf"}), third: with(sink, map[string]any{"enabled": false}), etagged: true,
			secrets: []string{"signs-" + n, "may-" + n},
		},
	}
}

// A rotation that stops half way is finished by the next apply: the token that was replaced
// doesn't work for ever.
func TestSCIMToken_RotationThatStopsHalfWayIsFinished(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o := s.other()
	m := startFaultProxy(t, s)
	p := speak(t, s, m.URL)
	first, second := newKey(t, apikey.SCIM), newKey(t, apikey.SCIM)
	connection := must(o.connections.CreateSsoConnection(t.Context(), connect.NewRequest(&cloudv1.CreateSsoConnectionRequest{Name: name(t, "half"), Type: cloudv1.SsoType_SSO_TYPE_SAML})))(t).GetConnection().GetId()
	config := func(k apikey.Key, version int) map[string]any {
		return map[string]any{"connection_id": connection, "secret_wo": k.Reveal(), "secret_wo_version": version, "rotation_overlap": "0s"}
	}
	made := p.apply(held{typeName: "corvo_scim_token"}, config(first, 1))
	m.Decide(func(call string, _ int) (f faulttest.Fate) {
		if call == "RevokeScimToken" {
			f.Status = http.StatusForbidden
		}
		return f
	})
	half, problem := p.try(made, config(second, 2))
	if !strings.Contains(problem, "the next apply tries again") {
		t.Fatalf("%q", problem)
	}
	eventually.NoError(t, startMax, "both work", func() error { return syncs(s, true, first, second)(nil) })
	m.Decide(nil)
	done := p.apply(p.refresh(half), config(second, 2))
	if err := syncs(s, false, first)(nil); err != nil {
		t.Error(err)
	}
	p.settled(done, config(second, 2))
	p.destroy(done)
}
