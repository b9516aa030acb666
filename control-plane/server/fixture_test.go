package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/device"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/signup"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	owner  = permission.RoleOwner
	viewer = permission.RoleViewer
)

func roles() (all []string) {
	for _, r := range permission.Roles() {
		all = append(all, r.Name)
	}
	return all
}

// unlimited removes the rate limits, which the tests would exceed.
func (s *stage) unlimited() {
	s.signup.Limits, s.login.Limits, s.members.InvitationsPerHour, s.device.Limits = signup.Limits{}, ratelimit.EmailLimits{}, 0, device.Limits{}
	s.domains.VerifiesPerMinute = 0
}

// fixture is a tenant with one of everything that a call can be about. Everything is made
// fresh, since a call may end it.
type fixture struct {
	*stage
	Seed
	manage, jobs apikey.Key
	// gone: nothing that it names is anywhere.
	gone bool
}

func (s *stage) newFixture(t testing.TB, tenant string) *fixture {
	t.Helper()
	seed, manage, jobs := s.seed(t, tenant)
	return &fixture{stage: s, Seed: seed, manage: manage, jobs: jobs}
}

// nowhere is a fixture whose things do not exist.
func (p *fixture) nowhere() *fixture {
	gone := *p
	gone.gone = true
	return &gone
}

// in runs a transaction, unless nothing is to be made.
func (p *fixture) in(t testing.TB, f func(context.Context, *store.Tx) error) {
	t.Helper()
	if p.gone {
		return
	}
	if err := p.kit.Store.Service(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

func (p *fixture) id(k ids.Kind) string { return p.kit.IDs.New(k, p.kit.Now()) }

func (p *fixture) namespace(t testing.TB) string {
	n := store.Namespace{TenantID: p.TenantID, ID: p.id(ids.Namespace), CreatedAt: p.kit.Now(), UpdatedAt: p.kit.Now(), Version: 1, Generation: 1}
	n.Name = "n-" + strings.ToLower(n.ID[len(n.ID)-20:])
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertNamespace(ctx, n) })
	return n.ID
}

func (p *fixture) keyOf(t testing.TB, made apikey.Key, role string) store.Key {
	k := tenancy.NewFirstKey(made, seedKeyName, p.account(t, role), role).Key
	k.TenantID, k.CreatedAt, k.UpdatedAt, k.Version, k.Generation = p.TenantID, p.kit.Now(), p.kit.Now(), 1, 1
	return k
}

// account is a service account with a role in the whole tenant.
func (p *fixture) account(t testing.TB, role string) string {
	a := store.ServiceAccount{TenantID: p.TenantID, ID: p.id(ids.ServiceAccount), CreatedAt: p.kit.Now(), UpdatedAt: p.kit.Now(), Version: 1}
	a.Name = a.ID
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.InsertServiceAccount(ctx, a); err != nil {
			return err
		}
		return tx.InsertBinding(ctx, p.bindingOf(a.ID, role))
	})
	return a.ID
}

// bindingOf gives a fixed role in the whole tenant.
func (p *fixture) bindingOf(principalID, role string) store.Binding {
	return store.Binding{TenantID: p.TenantID, ID: p.id(ids.Binding), PrincipalID: principalID, RoleID: rights.FixedID(role), CreatedAt: p.kit.Now()}
}

func (p *fixture) insertKey(t testing.TB, role string, edit func(*store.Key)) apikey.Key {
	made := newKey(t, apikey.Management)
	k := p.keyOf(t, made, role)
	edit(&k)
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertKey(ctx, k) })
	return made
}

func (p *fixture) key(t testing.TB, role string) []string {
	return bearer(p.insertKey(t, role, func(*store.Key) {}))
}

// personalKey is a user's own.
func (p *fixture) personalKey(t testing.TB, role string) []string {
	made := newKey(t, apikey.Personal)
	k := p.keyOf(t, made, role)
	k.Kind, k.OwnerID = cloudv1.KeyKind_KEY_KIND_PERSONAL, p.user(t, role).ID
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertKey(ctx, k) })
	return bearer(made)
}

// narrowKey is an owner's that may only see members.
func (p *fixture) narrowKey(t testing.TB) []string {
	return bearer(p.insertKey(t, owner, func(k *store.Key) { k.Permissions = []string{"member.read"} }))
}

// elsewhereKey works from another network alone.
func (p *fixture) elsewhereKey(t testing.TB) []string {
	return bearer(p.insertKey(t, owner, func(k *store.Key) { k.CIDRs = []string{"192.0.2.0/24"} }))
}

func (p *fixture) revokedKey(t testing.TB) []string {
	return bearer(p.insertKey(t, owner, func(k *store.Key) { k.RevokedAt = p.kit.Now() }))
}

func (p *fixture) expiredKey(t testing.TB) []string {
	return bearer(p.insertKey(t, owner, func(k *store.Key) { k.ExpiresAt = p.kit.Now() }))
}

// jobsKey is a key that any developer may change.
func (p *fixture) jobsKey(t testing.TB) string {
	made := newKey(t, apikey.DataPlane)
	k := p.keyOf(t, made, permission.RoleWorker)
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertKey(ctx, k) })
	return made.ID()
}

// inNamespace is the session of a user with a role in one fresh namespace alone.
func (p *fixture) inNamespace(t testing.TB, role string) (cookie string) {
	u := p.user(t, "")
	b := p.bindingOf(u.ID, role)
	b.NamespaceID = p.namespace(t)
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertBinding(ctx, b) })
	return p.sessionOf(t, u, "")
}

func (p *fixture) role(t testing.TB) string {
	r := store.Role{TenantID: p.TenantID, ID: p.id(ids.Role), Permissions: []string{"job.list"}, CreatedAt: p.kit.Now(), UpdatedAt: p.kit.Now(), Version: 1}
	r.Name = r.ID
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertRole(ctx, r) })
	return r.ID
}

func (p *fixture) group(t testing.TB, members ...string) string {
	g := store.Group{TenantID: p.TenantID, ID: p.id(ids.Group), CreatedAt: p.kit.Now(), UpdatedAt: p.kit.Now(), Version: 1}
	g.Name = g.ID
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		err := tx.InsertGroup(ctx, g)
		for _, id := range members {
			err = errors.Join(err, tx.InsertGroupMember(ctx, store.GroupMember{TenantID: g.TenantID, GroupID: g.ID, UserID: id, CreatedAt: p.kit.Now()}))
		}
		return err
	})
	return g.ID
}

// trust gives keys of a worker.
func (p *fixture) trust(t testing.TB) string {
	v := store.Trust{
		TenantID: p.TenantID, ID: p.id(ids.Trust), AccountID: p.account(t, permission.RoleWorker), Provider: int64(cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB),
		Issuer: "https://token.actions.githubusercontent.com", Audience: "corvo", Conditions: []store.TrustCondition{{Claim: "repository", Values: []string{"acme/web"}}},
		KeyLife: time.Hour, CreatedAt: p.kit.Now(), UpdatedAt: p.kit.Now(), Version: 1,
	}
	v.Name = v.ID
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertTrust(ctx, v) })
	return v.ID
}

// binding gives somebody a role that any developer has.
func (p *fixture) binding(t testing.TB) string {
	b := p.bindingOf(p.account(t, viewer), permission.RoleWorker)
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertBinding(ctx, b) })
	return b.ID
}

func (p *fixture) user(t testing.TB, r string) store.User {
	u := store.User{ID: p.id(ids.User), CreatedAt: p.kit.Now()}
	u.Email = strings.ToLower(u.ID) + "@corvo.test"
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.InsertUser(ctx, u); err != nil {
			return err
		}
		if err := tx.InsertMembership(ctx, store.Membership{TenantID: p.TenantID, UserID: u.ID, CreatedAt: p.kit.Now(), Version: 1}); err != nil || r == "" {
			return err
		}
		return tx.InsertBinding(ctx, p.bindingOf(u.ID, r))
	})
	return u
}

// session signs a new user of a role in, by mail or by the provider of a tenant.
func (p *fixture) session(t testing.TB, r string, ssoTenantID string) (cookie string) {
	return p.sessionOf(t, p.user(t, r), ssoTenantID)
}

// sessionOf signs a user in; a tenant's id limits the session to that tenant.
func (p *fixture) sessionOf(t testing.TB, u store.User, onlyTenantID string) (cookie string) {
	t.Helper()
	var opened session.Opened
	p.in(t, func(ctx context.Context, tx *store.Tx) (err error) {
		opened, err = session.Open(ctx, tx, p.kit.IDs, p.kit.Now(), u.ID, onlyTenantID, "")
		return err
	})
	return "corvo_session=" + opened.Token
}

// cliSession is the token of a program that a new user of a role approved.
func (p *fixture) cliSession(t testing.TB, r string, onlyTenantID string) (token string) {
	t.Helper()
	u := p.user(t, r)
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		approved := store.Session{UserID: u.ID, TenantID: onlyTenantID, ExpiresAt: p.kit.Now().Add(session.LimitedLifeMax)}
		opened, err := session.OpenCLI(ctx, tx, p.kit.IDs, p.kit.Now(), approved, "test")
		token = opened.Token
		return err
	})
	return token
}

// halfOpenSession is that of somebody who has not shown their second factor.
func (p *fixture) halfOpenSession(t testing.TB, r string) (cookie string) {
	t.Helper()
	u := p.userWithFactor(t, r)
	var opened session.Opened
	p.in(t, func(ctx context.Context, tx *store.Tx) (err error) {
		opened, err = session.OpenByMail(ctx, tx, p.kit.IDs, p.kit.Now(), u.ID, "", "{}")
		return err
	})
	return "corvo_session=" + opened.Token
}

// unprovedSession is that of somebody who has shown their second factor too long ago.
func (p *fixture) unprovedSession(t testing.TB, r string) (cookie string) {
	t.Helper()
	return p.sessionOf(t, p.userWithFactor(t, r), "")
}

func (p *fixture) userWithFactor(t testing.TB, r string) store.User {
	u := p.user(t, r)
	p.giveFactor(t, u, p.kit.Now())
	return u
}

func (p *fixture) giveFactor(t testing.TB, u store.User, at time.Time) {
	t.Helper()
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertFactor(ctx, store.Factor{ID: p.id(ids.Factor), UserID: u.ID, Kind: store.FactorPasskey, Credential: "{}", CreatedAt: at, ConfirmedAt: at})
	})
}

// deviceCodes begin a device login.
func (p *fixture) deviceCodes(t testing.TB) (device, user string) {
	t.Helper()
	if p.gone {
		return "corvo_device_none", "WDJB-MJHT"
	}
	started, err := p.device.StartDeviceLogin(t.Context(), &cloudv1.StartDeviceLoginRequest{ClientName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return started.GetDeviceCode(), started.GetUserCode()
}

func (p *fixture) expiredSession(t testing.TB) (cookie string) {
	u := p.user(t, owner)
	token, digest := seal.NewToken("corvo_session_")
	long := p.kit.Now().Add(-2 * session.LifeMax)
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertSession(ctx, store.Session{
			Digest: digest, ID: p.id(ids.Session), UserID: u.ID, Kind: store.SessionBrowser, CreatedAt: long, SeenAt: p.kit.Now(), ExpiresAt: long.Add(session.LifeMax),
		})
	})
	return "corvo_session=" + token
}

func (p *fixture) invitation(t testing.TB) (id, token string) {
	token, digest := seal.NewToken("corvo_invitation_")
	i := store.Invitation{
		TenantID: p.TenantID, ID: p.id(ids.Invitation), Roles: []string{rights.FixedID(viewer)}, Digest: digest, InvitedBy: "the owner",
		CreatedAt: p.kit.Now(), ExpiresAt: p.kit.Now().Add(time.Hour),
	}
	i.Email = strings.ToLower(i.ID) + "@corvo.test"
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.PutInvitation(ctx, i) })
	return i.ID, token
}

func (p *fixture) connection(t testing.TB) string { return p.connectionWith(t, "") }

// stagedConnection has a change that was tried.
func (p *fixture) stagedConnection(t testing.TB) string {
	return p.connectionWith(t, `{"issuer":"https://idp.example.com","client_id":"client","groups_claim":"groups","settings":2,"tested":2}`)
}

func (p *fixture) connectionWith(t testing.TB, staged string) string {
	c := store.Connection{
		TenantID: p.TenantID, ID: p.id(ids.Connection), Name: "Test", Issuer: issuer(t), ClientID: "client", GroupsClaim: "groups",
		DefaultRole: rights.FixedID(viewer), CreatedAt: p.kit.Now(), UpdatedAt: p.kit.Now(), Version: 1, Settings: 1, Staged: staged,
	}
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertConnection(ctx, c) })
	return c.ID
}

// auditSink is one that takes everything. It is the only one of its tenant.
func (p *fixture) auditSink(t testing.TB) string {
	secret, err := p.kit.Seal.Seal(seal.AuditSink, []byte(`{"signing":"sixteen characters"}`))
	if err != nil {
		t.Fatal(err)
	}
	v := store.AuditSink{TenantID: p.TenantID, ID: p.id(ids.AuditSink), Format: 1, Target: `{"https":{"url":"` + siem(t) + `"}}`, Secret: secret, Version: 1}
	v.Name = v.ID
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.ListAuditSinks(ctx, p.TenantID)
		for _, old := range all {
			err = errors.Join(err, tx.DeleteAuditSink(ctx, p.TenantID, old.ID))
		}
		return errors.Join(err, tx.InsertAuditSink(ctx, v))
	})
	return v.ID
}

// domain is one that nobody has verified. It is the only one of its tenant.
func (p *fixture) domain(t testing.TB) string {
	v := store.Domain{TenantID: p.TenantID, ID: p.id(ids.Domain), Token: "token", CreatedAt: p.kit.Now(), UpdatedAt: p.kit.Now(), Version: 1}
	v.Name = domainName(v.ID)
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.ListDomains(ctx, p.TenantID)
		for _, old := range all {
			err = errors.Join(err, tx.DeleteDomain(ctx, p.TenantID, old.ID))
		}
		return errors.Join(err, tx.InsertDomain(ctx, v))
	})
	return v.ID
}

func domainName(id string) string { return strings.ToLower(id[len(id)-20:]) + ".example.com" }

// siem takes whatever it is sent.
func siem(t testing.TB) string {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	return server.URL
}

// issuer is an identity provider that has nothing but its discovery document.
func issuer(t testing.TB) string {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/jwks" {
			_, _ = fmt.Fprint(w, `{"keys":[]}`) // The caller may be gone.
			return
		}
		_, _ = fmt.Fprintf(w, `{"issuer":%[1]q,"authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/t","jwks_uri":"%[1]s/jwks",
			"response_types_supported":["code"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["RS256"],
			"code_challenge_methods_supported":["S256"]}`, s.URL) // The caller may be gone.
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// flipped changes the last character of a text.
func flipped(text string) string {
	last := byte('0')
	if text[len(text)-1] == last {
		last = '1'
	}
	return text[:len(text)-1] + string(last)
}

// builder makes the request of an RPC about something fresh of a fixture.
type builder struct {
	build func(testing.TB, *fixture) proto.Message
	// ids: the request names a thing of the tenant.
	ids bool
}

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

// about is a builder of a request that names a thing.
func about(build func(testing.TB, *fixture) proto.Message) builder {
	return builder{build: build, ids: true}
}

func plain(build func(testing.TB, *fixture) proto.Message) builder { return builder{build: build} }

// builders says how every RPC is called so that a caller with the permission succeeds.
func builders() map[string]builder {
	all := map[string]builder{
		"TenantService/GetTenant": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.GetTenantRequest) }),
		"TenantService/UpdateTenant": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.UpdateTenantRequest{DisplayName: "Some name"}
		}),
		"BillingService/GetBilling": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.GetBillingRequest{} }),
		"BillingService/UpdateBilling": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.UpdateBillingRequest{Emails: []string{"money@acme.test"}}
		}),
		"BillingService/StartCheckout": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.StartCheckoutRequest{Plan: "team"} }),
		"BillingService/OpenPortal":    plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.OpenPortalRequest{} }),
		"BillingService/ListInvoices":  plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListInvoicesRequest{} }),
		"PlanService/ListPlans":        plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListPlansRequest{} }),
		"PlanService/GetSubscription":  plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.GetSubscriptionRequest{} }),
		"PlanService/ChangePlan": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.ChangePlanRequest{Plan: "free", ValidateOnly: true}
		}),
		"PlanService/CancelPlanChange": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.CancelPlanChangeRequest{} }),
		"NamespaceService/CreateNamespace": plain(func(_ testing.TB, p *fixture) proto.Message {
			return &cloudv1.CreateNamespaceRequest{Name: "n-" + strings.ToLower(p.id(ids.Namespace)[9:])}
		}),
		"NamespaceService/GetNamespace": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.GetNamespaceRequest{Namespace: p.namespace(t)}
		}),
		"NamespaceService/ListNamespaces": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListNamespacesRequest{PageSize: 1} }),
		"NamespaceService/UpdateNamespace": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateNamespaceRequest{Namespace: p.namespace(t), UpdateMask: mask("labels")}
		}),
		"NamespaceService/DeleteNamespace": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.DeleteNamespaceRequest{Namespace: p.namespace(t)}
		}),
		"ApiKeyService/CreateApiKey": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.CreateApiKeyRequest{
				Name: "k", Kind: cloudv1.KeyKind_KEY_KIND_JOBS, Roles: []string{permission.RoleWorker},
				Namespaces: []string{p.namespace(t)},
			}
		}),
		"ApiKeyService/GetApiKey": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.GetApiKeyRequest{KeyId: p.jobsKey(t)}
		}),
		"ApiKeyService/ListApiKeys": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListApiKeysRequest{PageSize: 1} }),
		"ApiKeyService/UpdateApiKey": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateApiKeyRequest{KeyId: p.jobsKey(t), Name: "new", UpdateMask: mask("name")}
		}),
		"ApiKeyService/RotateApiKey": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.RotateApiKeyRequest{KeyId: p.jobsKey(t)}
		}),
		"ApiKeyService/RevokeApiKey": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.RevokeApiKeyRequest{KeyId: p.jobsKey(t)}
		}),
		"AuditService/ListAuditEvents": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ListAuditEventsRequest{PageSize: 1} }),
		"AuditService/ExportAuditLog":  plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.ExportAuditLogRequest{PageSize: 1} }),
		"AuditService/ListAuditKeys":   plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.ListAuditKeysRequest) }),
		"AuditService/CreateAuditSink": plain(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.CreateAuditSinkRequest{Name: p.id(ids.AuditSink), Target: &cloudv1.CreateAuditSinkRequest_Https{
				Https: &cloudv1.HttpsAuditSink{Url: siem(t), SigningSecret: "sixteen characters"},
			}}
		}),
		"AuditService/GetAuditSink": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.GetAuditSinkRequest{SinkId: p.auditSink(t)}
		}),
		"AuditService/ListAuditSinks": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.ListAuditSinksRequest) }),
		"AuditService/UpdateAuditSink": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateAuditSinkRequest{SinkId: p.auditSink(t), UpdateMask: mask("enabled")}
		}),
		"AuditService/DeleteAuditSink": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.DeleteAuditSinkRequest{SinkId: p.auditSink(t)}
		}),
		"AuditService/TestAuditSink": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.TestAuditSinkRequest{SinkId: p.auditSink(t)}
		}),
		"DomainService/CreateDomain": plain(func(t testing.TB, p *fixture) proto.Message {
			p.domain(t) // Takes those of before away.
			return &cloudv1.CreateDomainRequest{Name: domainName(p.id(ids.Domain))}
		}),
		"DomainService/GetDomain":   about(func(t testing.TB, p *fixture) proto.Message { return &cloudv1.GetDomainRequest{DomainId: p.domain(t)} }),
		"DomainService/FindSignIn":  plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.FindSignInRequest{Email: "ada@example.com"} }),
		"DomainService/ListDomains": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.ListDomainsRequest) }),
		"DomainService/VerifyDomain": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.VerifyDomainRequest{DomainId: p.domain(t)}
		}),
		"DomainService/UpdateDomain": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateDomainRequest{DomainId: p.domain(t), UpdateMask: mask("connection_id")}
		}),
		"DomainService/DeleteDomain": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.DeleteDomainRequest{DomainId: p.domain(t)}
		}),
		"AuthService/GetCurrentIdentity": plain(func(testing.TB, *fixture) proto.Message {
			return new(cloudv1.GetCurrentIdentityRequest)
		}),
		"AuthService/MintToken": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.MintTokenRequest{Namespace: p.namespace(t)}
		}),
	}
	for name, b := range peopleBuilders() {
		all[name] = b
	}
	for name, b := range usageBuilders() {
		all[name] = b
	}
	for name, b := range operatorBuilders() {
		all[name] = b
	}
	for name, b := range policyBuilders() {
		all[name] = b
	}
	for name, b := range accessBuilders() {
		all[name] = b
	}
	out := make(map[string]builder, len(all))
	for name, b := range all {
		out["/corvo.cloud.v1."+name] = b
	}
	return out
}
