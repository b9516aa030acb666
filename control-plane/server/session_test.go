package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const whoami = "/corvo.cloud.v1.AuthService/GetCurrentIdentity"

// signIn opens a session through a one-time link and gives its cookie.
func (s *stage) signIn(t testing.TB, email string) (cookie string) {
	t.Helper()
	link, err := s.SignInLink(t.Context(), email)
	if err != nil {
		t.Fatal(err)
	}
	_, token, ok := strings.Cut(link, "#token=")
	if !ok {
		t.Fatalf("link %s has no token in its fragment", link)
	}
	r := s.call(t, "/corvo.cloud.v1.AuthService/FinishLogin", fmt.Sprintf(`{"token":%q}`, token))
	if r.status != http.StatusOK {
		t.Fatalf("FinishLogin: %d %s", r.status, r.body)
	}
	set := r.header.Values("Set-Cookie")
	if len(set) != 1 {
		t.Fatalf("%d cookies are set: %v", len(set), set)
	}
	cookie, attributes, _ := strings.Cut(set[0], ";")
	for _, want := range []string{"HttpOnly", "SameSite=Lax", "Path=/"} {
		if !strings.Contains(attributes, want) {
			t.Errorf("cookie %s lacks %s", attributes, want)
		}
	}
	return cookie
}

// browser is the headers of the console's own calls.
func browser(cookie string) []string {
	return []string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}
}

// A key of a person's own may be narrowed to reading one queue; it must not leave a tenant in
// their name, nor end their sessions.
func TestSession_APersonalKeyIsNone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := s.newFixture(t, "acme")
	u := p.user(t, viewer)
	key, cookie := p.personalKeyOf(t, u), p.sessionOf(t, u, "")
	_, code := p.deviceCodes(t)
	for call, body := range map[string]string{
		"SessionService/ListSessions":        `{}`,
		"SessionService/RevokeOtherSessions": `{}`,
		"SessionService/LeaveTenant":         fmt.Sprintf(`{"tenant":%q}`, p.TenantID),
		"AuthService/Logout":                 `{"everywhere":true}`,
		"AuthService/PreviewDeviceLogin":     fmt.Sprintf(`{"userCode":%q}`, code),
		"AuthService/DenyDeviceLogin":        fmt.Sprintf(`{"userCode":%q}`, code),
		"FactorService/ListFactors":          `{}`,
		"FactorService/StartTotp":            `{}`,
		"FactorService/StartProof":           `{}`,
	} {
		r := s.call(t, "/corvo.cloud.v1."+call, body, key...)
		if !slices.Contains([]string{"NO_SESSION", "NEEDS_BROWSER"}, r.reason()) {
			t.Errorf("%s: %d %s", call, r.status, r.body)
		}
	}
	for caller, headers := range map[string][]string{"the person": browser(cookie), "the key, for what it is there for": key} {
		if r := s.call(t, whoami, "{}", headers...); r.status != http.StatusOK || !strings.Contains(r.body, p.TenantID) {
			t.Errorf("%s: %d %s", caller, r.status, r.body)
		}
	}
}

// Whoever finds an open browser must not make themselves a way in that stays.
func TestStepUp_WhoeverGivesOrTakesRightsIsAsked(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := s.newFixture(t, "acme")
	has := p.userWithFactor(t, owner)
	stale, proved := p.sessionOf(t, has, ""), p.sessionOf(t, has, "")
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.ProveSession(ctx, seal.Digest(strings.TrimPrefix(proved, "corvo_session=")), p.kit.Now())
	})
	personal := p.personalKeyOf(t, has)
	for _, call := range []string{
		"MemberService/UpdateMember", "MemberService/RemoveMember", "MemberService/CreateInvitation",
		"RoleService/CreateRole", "RoleService/UpdateRole", "RoleService/DeleteRole", "RoleService/CreateRoleBinding", "RoleService/DeleteRoleBinding",
		"GroupService/DeleteGroup", "GroupService/AddGroupMembers", "GroupService/RemoveGroupMembers", "ServiceAccountService/CreateServiceAccount",
		"ApiKeyService/CreateApiKey", "ApiKeyService/UpdateApiKey", "ApiKeyService/RotateApiKey",
		"DirectoryService/CreateScimToken", "DirectoryService/UpdateScimToken",
	} {
		for name, tc := range map[string]struct {
			headers []string
			asked   bool
		}{
			"a session that showed it long ago": {browser(stale), true},
			"a program's session":               {p.cliOf(t, has, ""), true},
			"a personal key":                    {personal, true},
			"a session that showed it now":      {browser(proved), false},
			"somebody who has none":             {browser(p.session(t, owner, "")), false},
			"a service account's key":           {bearer(p.manage), false},
		} {
			r := s.call(t, "/corvo.cloud.v1."+call, `{"tenant":"acme"}`, tc.headers...)
			if asked := r.reason() == "STEP_UP_REQUIRED"; asked != tc.asked {
				t.Errorf("%s, %s: %d %s", call, name, r.status, r.body)
			}
		}
	}
	if r := s.call(t, "/corvo.cloud.v1.ApiKeyService/CreateApiKey", `{"tenant":"acme"}`, personal...); !strings.Contains(r.body, "use a service account's key") {
		t.Errorf("a personal key is not told the way out: %s", r.body)
	}
}

func TestSession_IsForTheConsoleAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	seed, manage, jobs := s.seed(t, "acme")
	cookie := s.signIn(t, seed.Email)
	r := s.call(t, whoami, "{}", browser(cookie)...)
	if r.status != http.StatusOK || !strings.Contains(r.body, seed.Email) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for name, tc := range map[string]struct {
		headers []string
		status  int
		reason  string
	}{
		"no proof of origin":                {[]string{"Cookie", cookie}, http.StatusForbidden, "CROSS_SITE"},
		"another site":                      {[]string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, http.StatusForbidden, "CROSS_SITE"},
		"another site, forged host":         {[]string{"Cookie", cookie, "Origin", "http://evil.test", "X-Forwarded-Host", "evil.test"}, http.StatusForbidden, "CROSS_SITE"},
		"our origin":                        {[]string{"Cookie", cookie, "Origin", s.http.URL}, http.StatusOK, ""},
		"two cookies of the name":           {[]string{"Cookie", cookie + "; " + cookie, "Sec-Fetch-Site", "same-origin"}, http.StatusUnauthorized, "UNAUTHENTICATED"},
		"a bad cookie":                      {browser("corvo_session=x"), http.StatusUnauthorized, "SESSION_ENDED"},
		"nothing":                           {nil, http.StatusUnauthorized, "UNAUTHENTICATED"},
		"a good key beside a bad cookie":    {append(browser("corvo_session=x"), bearer(manage)...), http.StatusOK, ""},
		"a bad key beside a good cookie":    {append(browser(cookie), "Authorization", "Bearer corvo_mg_x"), http.StatusUnauthorized, "UNAUTHENTICATED"},
		"a key for jobs":                    {bearer(jobs), http.StatusUnauthorized, "KEY_FOR_JOBS"},
		"two keys":                          {append(bearer(manage), bearer(manage)...), http.StatusUnauthorized, "UNAUTHENTICATED"},
		"the key in the data plane's place": {[]string{"X-API-Key", manage.Reveal()}, http.StatusUnauthorized, "UNAUTHENTICATED"},
	} {
		r := s.call(t, whoami, "{}", tc.headers...)
		if r.status != tc.status || tc.reason != "" && !strings.Contains(r.body, `"reason":"`+tc.reason+`"`) {
			t.Errorf("%s: %d %s, want %d %s", name, r.status, r.body, tc.status, tc.reason)
		}
		if r.status == http.StatusUnauthorized && r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", name)
		}
	}
}

func TestSession_AFormOfAnotherSiteCannotCall(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	seed, _, _ := s.seed(t, "acme")
	cookie := s.signIn(t, seed.Email)
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		// Whatever a browser claims as its origin: a form cannot send JSON.
		r := s.do(t, http.MethodPost, "/corvo.cloud.v1.AuthService/Logout", "{}", append(browser(cookie), "Content-Type", contentType)...)
		if r.status == http.StatusOK {
			t.Errorf("content type %q: %d %s", contentType, r.status, r.body)
		}
	}
	if r := s.do(t, http.MethodGet, "/corvo.cloud.v1.AuthService/Logout?connect=v1&encoding=json&message=%7B%7D", "", browser(cookie)...); r.status != http.StatusMethodNotAllowed {
		t.Errorf("a GET that changes something: %d %s", r.status, r.body)
	}
	if r := s.do(t, http.MethodGet, whoami+"?connect=v1&encoding=json&message=%7B%7D", "", browser(cookie)...); r.status != http.StatusOK {
		t.Errorf("a GET that only reads: %d %s", r.status, r.body)
	}
	// Signing a browser in as somebody else's choice is an attack, too.
	r := s.call(t, "/corvo.cloud.v1.AuthService/FinishLogin", `{"token":"x"}`, "Sec-Fetch-Site", "cross-site")
	if r.status != http.StatusForbidden {
		t.Errorf("sign-in by another site: %d %s", r.status, r.body)
	}
}

func TestSession_LogoutEndsItEverywhereOnDemand(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	seed, _, _ := s.seed(t, "acme")
	here, there := s.signIn(t, seed.Email), s.signIn(t, seed.Email)
	r := s.call(t, "/corvo.cloud.v1.AuthService/Logout", "{}", browser(here)...)
	if set := r.header.Get("Set-Cookie"); r.status != http.StatusOK || !strings.Contains(set, "Max-Age=0") {
		t.Errorf("%d %q", r.status, set)
	}
	if r := s.call(t, whoami, "{}", browser(here)...); r.status != http.StatusUnauthorized {
		t.Errorf("after logout: %d", r.status)
	}
	if r := s.call(t, whoami, "{}", browser(there)...); r.status != http.StatusOK {
		t.Errorf("the other browser: %d", r.status)
	}
	if r := s.call(t, "/corvo.cloud.v1.AuthService/Logout", `{"everywhere":true}`, browser(there)...); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := s.call(t, whoami, "{}", browser(there)...); r.status != http.StatusUnauthorized {
		t.Errorf("after logout everywhere: %d", r.status)
	}
}
