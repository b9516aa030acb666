package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/codes"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

const policyService = "/corvo.cloud.v1.PolicyService/"

// policyBuilders are the requests about the sign-in policy. The policy that they set keeps
// nobody out.
func policyBuilders() map[string]builder {
	return map[string]builder{
		"PolicyService/GetSignInPolicy": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.GetSignInPolicyRequest) }),
		"PolicyService/UpdateSignInPolicy": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.UpdateSignInPolicyRequest{Policy: &cloudv1.SignInPolicy{}, UpdateMask: mask("key_networks_required")}
		}),
		"PolicyService/ListKeysOutsidePolicy": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.ListKeysOutsidePolicyRequest) }),
		"PolicyService/CreateBreakGlassCodes": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.CreateBreakGlassCodesRequest) }),
		"PolicyService/UseBreakGlassCode": plain(func(_ testing.TB, p *fixture) proto.Message {
			return &cloudv1.UseBreakGlassCodeRequest{Tenant: p.TenantID, Code: p.breakGlassCode()}
		}),
	}
}

// breakGlassCode is one of the only good ones.
func (p *fixture) breakGlassCode() string {
	shown, digests := codes.New("break-glass", p.TenantID)
	_ = p.kit.Store.Service(context.Background(), func(tx *store.Tx) error { // Without it, the call is refused.
		return tx.PutBreakGlassCodes(context.Background(), p.TenantID, digests, p.kit.Now())
	})
	return shown[0]
}

// ssoUser is a user whom the tenant's provider made.
func (p *fixture) ssoUser(t testing.TB, connection, role string) store.User {
	t.Helper()
	u := store.User{ID: p.id(ids.User), HomeTenant: p.TenantID, CreatedAt: p.kit.Now()}
	u.Email = strings.ToLower(u.ID) + "@corvo.test"
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.InsertUser(ctx, u),
			tx.InsertMembership(ctx, store.Membership{TenantID: p.TenantID, UserID: u.ID, ConnectionID: connection, CreatedAt: p.kit.Now(), Version: 1}),
			tx.InsertBinding(ctx, p.bindingOf(u.ID, role)))
	})
	return u
}

// door is an enabled connection whose trial passed, that lets owners in.
func (p *fixture) door(t testing.TB) string {
	c := store.Connection{
		TenantID: p.TenantID, ID: p.id(ids.Connection), Name: "Test", Issuer: "https://idp.example.com", ClientID: "client", GroupsClaim: "groups",
		DefaultRole: rights.FixedID(viewer), GroupMappings: []store.GroupMapping{{Group: "owners", Role: store.RoleID(store.RoleOwner)}},
		Enabled: true, Settings: 1, Tested: 1, CreatedAt: p.kit.Now(), UpdatedAt: p.kit.Now(), Version: 1,
	}
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertConnection(ctx, c) })
	return c.ID
}

func (p *fixture) cliOf(t testing.TB, u store.User, onlyTenantID string) []string {
	t.Helper()
	return p.cliSince(t, u, onlyTenantID, p.kit.Now())
}

func (p *fixture) cliSince(t testing.TB, u store.User, onlyTenantID string, at time.Time) []string {
	t.Helper()
	var opened session.Opened
	p.in(t, func(ctx context.Context, tx *store.Tx) (err error) {
		approved := store.Session{UserID: u.ID, TenantID: onlyTenantID, ExpiresAt: at.Add(session.LimitedLifeMax)}
		opened, err = session.OpenCLI(ctx, tx, p.kit.IDs, at, approved, "test")
		return err
	})
	return []string{"Authorization", "Bearer " + opened.Token}
}

func (p *fixture) personalKeyOf(t testing.TB, u store.User) []string {
	t.Helper()
	made := newKey(t, apikey.Personal)
	k := p.keyOf(t, made, owner)
	k.Kind, k.OwnerID = cloudv1.KeyKind_KEY_KIND_PERSONAL, u.ID
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertKey(ctx, k) })
	return bearer(made)
}

func (r reply) reason() string {
	_, after, _ := strings.Cut(r.body, `"reason":"`)
	reason, _, _ := strings.Cut(after, `"`)
	return reason
}

func eachDatabase(t *testing.T, test func(*testing.T, *stage)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newStage(t))
	})
	t.Run("postgres", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a PostgreSQL server")
		}
		t.Parallel()
		test(t, newStageOn(t, cloudtest.Postgres(t)))
	})
}

// O21: single sign-on that is required is not gone around by anything that opened, or opens,
// a tenant to people who don't come that way.
func TestPolicy_O21NothingGoesAroundRequiredSSO(t *testing.T) {
	t.Parallel()
	eachDatabase(t, goAroundSSO)
}

func goAroundSSO(t *testing.T, s *stage) {
	p := s.newFixture(t, "acme")
	door := p.door(t)
	mailed, byProvider := p.user(t, owner), p.ssoUser(t, door, owner)
	newcomer := p.user(t, owner)
	_, token := p.invitation(t)
	code := p.breakGlassCode()
	get := func(headers ...string) reply {
		return s.call(t, policyService+"GetSignInPolicy", `{"tenant":"acme"}`, headers...)
	}
	before := p.sessionOf(t, mailed, "")
	if r := get(browser(before)...); r.status != http.StatusOK || strings.Contains(r.body, "requireSsoNeeds") {
		t.Fatalf("before: %d %s", r.status, r.body)
	}
	// The holder turns it on and is out.
	r := s.call(t, policyService+"UpdateSignInPolicy", `{"tenant":"acme","policy":{"requireSso":true},"updateMask":"requireSso"}`, browser(before)...)
	if r.status != http.StatusOK {
		t.Fatalf("turn on: %d %s", r.status, r.body)
	}
	viewerOnly := p.user(t, viewer)
	for name, headers := range map[string][]string{
		"a session by magic link, from before":            browser(before),
		"a session by magic link, from after":             browser(p.sessionOf(t, mailed, "")),
		"a session by magic link through the sign-in":     browser(s.signIn(t, mailed.Email)),
		"a session of an invitation":                      browser(p.sessionOf(t, newcomer, p.TenantID)),
		"a program's session, approved in such a one":     p.cliOf(t, mailed, ""),
		"a program's session, approved by an invited one": p.cliOf(t, newcomer, p.TenantID),
		"a personal key":                                  p.personalKeyOf(t, mailed),
		"a session with a second factor":                  browser(p.unprovedSession(t, owner)),
	} {
		r := get(headers...)
		if r.status != http.StatusForbidden || r.reason() != "SSO_REQUIRED" || !strings.Contains(r.body, "/auth/oidc/start?tenant=acme") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		if r := s.call(t, "/corvo.cloud.v1.AuthService/MintToken", fmt.Sprintf(`{"tenant":"acme","namespace":%q}`, p.NamespaceID), headers...); r.reason() != "SSO_REQUIRED" {
			t.Errorf("%s reads jobs: %d %s", name, r.status, r.body)
		}
	}
	for name, call := range map[string]string{
		"an invitation's preview": "/corvo.cloud.v1.MemberService/PreviewInvitation",
		"accepting an invitation": "/corvo.cloud.v1.MemberService/AcceptInvitation",
	} {
		if r := s.call(t, call, fmt.Sprintf(`{"token":%q}`, token)); r.reason() != "SSO_REQUIRED" || r.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	for name, tc := range map[string]struct {
		headers []string
		reason  string
	}{
		"a code, by one who is no owner":      {browser(p.sessionOf(t, viewerOnly, "")), "OWNERS_ONLY"},
		"a code, in an invitation's session":  {browser(p.sessionOf(t, newcomer, p.TenantID)), "SIGN_IN_BY_EMAIL"},
		"a code, with a personal key":         {p.personalKeyOf(t, mailed), "SIGN_IN_BY_EMAIL"},
		"a code, with a management key":       {bearer(p.manage), "SIGN_IN_BY_EMAIL"},
		"a code, of a stranger":               {browser(s.newFixture(t, "other"+strings.ToLower(p.id(ids.Tenant)[20:])).session(t, owner, "")), "NOT_FOUND"},
		"a code, without a fresh factor":      {browser(p.unprovedSession(t, owner)), "STEP_UP_REQUIRED"},
		"a code, in a half-open session":      {browser(p.halfOpenSession(t, owner)), "SECOND_FACTOR_REQUIRED"},
		"turning it off, by magic link":       {browser(before), "SSO_REQUIRED"},
		"turning it off, with a personal key": {p.personalKeyOf(t, mailed), "SSO_REQUIRED"},
	} {
		call, body := "UseBreakGlassCode", fmt.Sprintf(`{"tenant":"acme","code":%q}`, code)
		if strings.HasPrefix(name, "turning") {
			call, body = "UpdateSignInPolicy", `{"tenant":"acme","policy":{},"updateMask":"requireSso"}`
		}
		if r := s.call(t, policyService+call, body, tc.headers...); r.status == http.StatusOK || r.reason() != tc.reason {
			t.Errorf("%s: %d %s, want %s", name, r.status, r.body, tc.reason)
		}
	}
	for name, headers := range map[string][]string{
		"a session by single sign-on":         browser(p.sessionOf(t, byProvider, p.TenantID)),
		"a program's session approved there":  p.cliOf(t, byProvider, p.TenantID),
		"a personal key of one who came so":   p.personalKeyOf(t, byProvider),
		"a service account's management key":  bearer(p.manage),
		"a service account's key of any role": p.key(t, viewer),
	} {
		if r := get(headers...); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	// The door stays.
	manage := bearer(p.manage)
	for call, body := range map[string]string{
		"UpdateSsoConnection": fmt.Sprintf(`{"tenant":"acme","connectionId":%q,"updateMask":"enabled"}`, door),
		"DeleteSsoConnection": fmt.Sprintf(`{"tenant":"acme","connectionId":%q}`, door),
	} {
		if r := s.call(t, "/corvo.cloud.v1.SsoService/"+call, body, manage...); r.reason() != "SSO_REQUIRED_BY_POLICY" {
			t.Errorf("%s: %d %s", call, r.status, r.body)
		}
	}
	// A code lets its session in, and no other, once.
	in, other := p.sessionOf(t, mailed, ""), p.sessionOf(t, mailed, "")
	use := fmt.Sprintf(`{"tenant":"acme","code":%q}`, strings.ToUpper(strings.ReplaceAll(code, "-", " ")))
	if r := s.call(t, policyService+"UseBreakGlassCode", use, browser(in)...); r.status != http.StatusOK {
		t.Fatalf("a code: %d %s", r.status, r.body)
	}
	if r := get(browser(in)...); r.status != http.StatusOK || !strings.Contains(r.body, `"breakGlassCodesLeft":9`) {
		t.Errorf("by code: %d %s", r.status, r.body)
	}
	if r := get(browser(other)...); r.reason() != "SSO_REQUIRED" {
		t.Errorf("another session: %d %s", r.status, r.body)
	}
	if r := s.call(t, policyService+"UseBreakGlassCode", use, browser(other)...); r.reason() != "WRONG_CODE" {
		t.Errorf("the same code again: %d %s", r.status, r.body)
	}
	if r := s.call(t, policyService+"UpdateSignInPolicy", `{"tenant":"acme","policy":{},"updateMask":"requireSso"}`, browser(in)...); r.status != http.StatusOK {
		t.Errorf("turn off: %d %s", r.status, r.body)
	}
	if r := get(browser(other)...); r.status != http.StatusOK {
		t.Errorf("after: %d %s", r.status, r.body)
	}
}

// Somebody without a second factor, where one is required, can set one up and nothing else.
func TestPolicy_RequiredSecondFactorLetsOneSetItUpAndNoMore(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := s.newFixture(t, "acme")
	door := p.door(t)
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertSignInPolicy(ctx, store.SignInPolicy{TenantID: p.TenantID, RequireSecondFactor: true, Version: 1})
	})
	bare, has := p.user(t, owner), p.user(t, owner)
	older := p.cliSince(t, has, "", p.kit.Now().Add(-2*time.Hour))
	p.giveFactor(t, has, p.kit.Now().Add(-time.Hour))
	younger := p.cliOf(t, has, "") // Its approval asked for the factor.
	proved := p.sessionOf(t, has, "")
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		found, err := session.Find(ctx, tx, strings.TrimPrefix(proved, "corvo_session="), p.kit.Now())
		return errors.Join(err, tx.ProveSession(ctx, found.Digest, p.kit.Now()))
	})
	for name, tc := range map[string]struct {
		headers []string
		reason  string
	}{
		"a session without one":          {browser(p.sessionOf(t, bare, "")), "SECOND_FACTOR_SETUP_REQUIRED"},
		"a program's session":            {p.cliOf(t, bare, ""), "SECOND_FACTOR_SETUP_REQUIRED"},
		"a personal key":                 {p.personalKeyOf(t, bare), "SECOND_FACTOR_SETUP_REQUIRED"},
		"an invitation's session":        {browser(p.sessionOf(t, bare, p.TenantID)), "SECOND_FACTOR_SETUP_REQUIRED"},
		"a session older than it":        {browser(p.sessionOf(t, has, "")), "SESSION_ENDED"},
		"a program's session, older":     {older, "SECOND_FACTOR_REQUIRED"},
		"a program's session that's new": {younger, ""},
		"a session that showed it":       {browser(proved), ""},
		"a personal key of one with it":  {p.personalKeyOf(t, has), ""},
		"single sign-on, without one":    {browser(p.sessionOf(t, p.ssoUser(t, door, viewer), p.TenantID)), ""},
		"a service account, without one": {bearer(p.manage), ""},
	} {
		if r := s.call(t, policyService+"GetSignInPolicy", `{"tenant":"acme"}`, tc.headers...); r.reason() != tc.reason {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	// Shown once, the older one is as good as a new one.
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.ProveSession(ctx, seal.Digest(strings.TrimPrefix(older[1], "Bearer ")), p.kit.Now())
	})
	if r := s.call(t, policyService+"GetSignInPolicy", `{"tenant":"acme"}`, older...); r.status != http.StatusOK {
		t.Errorf("the older one, proved: %d %s", r.status, r.body)
	}
	if r := s.call(t, "/corvo.cloud.v1.FactorService/StartTotp", `{}`, browser(p.sessionOf(t, bare, ""))...); r.status != http.StatusOK {
		t.Errorf("set one up: %d %s", r.status, r.body)
	}
}
