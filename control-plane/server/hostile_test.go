package server

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

const (
	getTenant      = "/corvo.cloud.v1.TenantService/GetTenant"
	listNamespaces = "/corvo.cloud.v1.NamespaceService/ListNamespaces"
	createKey      = "/corvo.cloud.v1.ApiKeyService/CreateApiKey"
)

func TestHeaders_NothingFromOutsideIsBelieved(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a, b := s.newFixture(t, "tenant-a"), s.newFixture(t, "tenant-b")
	want := anonymous(s.call(t, getTenant, "{}", bearer(a.manage)...))
	for _, forged := range [][]string{
		{"X-Corvo-Tenant", b.TenantID}, {"X-Corvo-Namespace", b.NamespaceID}, {"X-Corvo-Principal", "root"}, {"X-Corvo-Role", "admin"},
		{"X-Corvo-Signature", "x"}, {"X-Corvo-Proxy-Stream", "1"}, {"X-Forwarded-Host", "tenant-b.localhost"}, {"X-Forwarded-For", "127.0.0.1"},
		{"X-Forwarded-User", "owner@tenant-b.test"}, {"Forwarded", "for=127.0.0.1;host=tenant-b"}, {"X-Original-Url", "/admin"}, {"X-API-Key", b.jobs.Reveal()},
		{"X-HTTP-Method-Override", "DELETE"}, {"Cookie", s.signIn(t, b.Email)},
	} {
		if got := anonymous(s.call(t, getTenant, "{}", append(bearer(a.manage), forged...)...)); got != want {
			t.Errorf("%s changes the answer to %s", forged[0], got)
		}
		if r := s.call(t, getTenant, "{}", forged...); r.status == http.StatusOK {
			t.Errorf("%s alone is accepted: %s", forged[0], r.body)
		}
	}
	// What a client claims about its address or request is in no audit row.
	s.call(t, "/corvo.cloud.v1.TenantService/UpdateTenant", `{"displayName":"x"}`, append(bearer(a.manage), "X-Forwarded-For", "6.6.6.6", "X-Request-Id", "forged", "Connect-Request-Id", "forged")...)
	log := s.call(t, "/corvo.cloud.v1.AuditService/ListAuditEvents", `{"action":"tenant.update"}`, bearer(a.manage)...)
	if !strings.Contains(log.body, "tenant.update") || strings.Contains(log.body, "6.6.6.6") || strings.Contains(log.body, "forged") {
		t.Errorf("audit: %s", log.body)
	}
}

// A misspelled setting would take the old one away: UpdateNamespace replaces all of retention.
func TestJSON_AMemberThatNobodyKnowsIsRefusedByName(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.newFixture(t, "tenant-a")
	const update, get = "/corvo.cloud.v1.NamespaceService/UpdateNamespace", "/corvo.cloud.v1.NamespaceService/GetNamespace"
	if r := s.call(t, update, `{"namespace":"default","retention":{"deadSeconds":"86400"},"updateMask":"retention"}`, bearer(a.manage)...); r.status != http.StatusOK {
		t.Fatalf("update: %d %s", r.status, r.body)
	}
	before := anonymous(s.call(t, get, `{"namespace":"default"}`, bearer(a.manage)...))
	r := s.call(t, update, `{"namespace":"default","retention":{"completedSeconds":"3600","deadSecond":"90"},"updateMask":"retention"}`, bearer(a.manage)...)
	if r.status != http.StatusBadRequest || !strings.Contains(r.body, "invalid_argument") || !strings.Contains(r.body, "deadSecond") {
		t.Errorf("a misspelled member: %d %s", r.status, r.body)
	}
	if after := anonymous(s.call(t, get, `{"namespace":"default"}`, bearer(a.manage)...)); after != before {
		t.Errorf("it changed %s to %s", before, after)
	}
	if r := s.call(t, get, `{"namespaceName":"default"}`, bearer(a.manage)...); r.status != http.StatusBadRequest || !strings.Contains(r.body, "namespaceName") {
		t.Errorf("an unknown member of a read: %d %s", r.status, r.body)
	}
}

func TestPageTokens_AreValidForTheirTenantOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a, b := s.newFixture(t, "tenant-a"), s.newFixture(t, "tenant-b")
	for _, p := range []*fixture{a, b} {
		p.namespace(t)
		p.namespace(t)
		p.jobsKey(t)
		p.user(t, viewer)
		p.user(t, viewer)
		p.invitation(t)
		p.invitation(t)
	}
	for _, rpc := range []string{
		listNamespaces, "/corvo.cloud.v1.ApiKeyService/ListApiKeys", "/corvo.cloud.v1.AuditService/ListAuditEvents",
		"/corvo.cloud.v1.MemberService/ListMembers", "/corvo.cloud.v1.MemberService/ListInvitations",
	} {
		token, _ := s.call(t, rpc, `{"pageSize":1}`, bearer(b.manage)...).json(t)["nextPageToken"].(string)
		if token == "" {
			t.Errorf("%s: no second page", rpc)
			continue
		}
		body := fmt.Sprintf(`{"pageSize":1,"pageToken":%q}`, token)
		if r := s.call(t, rpc, body, bearer(b.manage)...); r.status != http.StatusOK {
			t.Errorf("%s: its own token: %d %s", rpc, r.status, r.body)
		}
		r := s.call(t, rpc, body, bearer(a.manage)...)
		if r.status != http.StatusBadRequest || !strings.Contains(r.body, "page_token") {
			t.Errorf("%s: another tenant's token: %d %s", rpc, r.status, r.body)
		}
		for _, forged := range []string{token[:len(token)-1], flipped(token), "AAAA", "../..", strings.Repeat("A", 5000)} {
			if r := s.call(t, rpc, fmt.Sprintf(`{"pageSize":1,"pageToken":%q}`, forged), bearer(b.manage)...); r.status != http.StatusBadRequest {
				t.Errorf("%s: forged token %.20q: %d", rpc, forged, r.status)
			}
		}
	}
}

func TestBody_LargeDeepAndStrange(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	_, manage, _ := s.seed(t, "acme")
	large := `{"name":"` + strings.Repeat("a", 2<<20) + `"}`
	for name, tc := range map[string]struct {
		body    string
		headers []string
		status  int
	}{
		"too large":             {large, bearer(manage), http.StatusTooManyRequests},
		"too large, of nobody":  {large, nil, http.StatusUnauthorized},
		"not JSON":              {"<xml/>", bearer(manage), http.StatusBadRequest},
		"nothing":               {"", bearer(manage), http.StatusBadRequest},
		"deep":                  {`{"name":` + strings.Repeat("[", 50000), bearer(manage), http.StatusBadRequest},
		"a number for a name":   {`{"name":7}`, bearer(manage), http.StatusBadRequest},
		"not UTF-8":             {"{\"name\":\"\xff\"}", bearer(manage), http.StatusBadRequest},
		"another protocol":      {"{}", append(bearer(manage), "Content-Type", "text/xml"), http.StatusUnsupportedMediaType},
		"a key of other people": {"{}", []string{"Authorization", "Bearer ghp_0123456789"}, http.StatusUnauthorized},
		"basic authentication":  {"{}", []string{"Authorization", "Basic YTpi"}, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			var r reply
			if name == "another protocol" {
				r = s.do(t, http.MethodPost, createKey, tc.body, tc.headers...)
			} else {
				r = s.call(t, createKey, tc.body, tc.headers...)
			}
			if r.status != tc.status {
				t.Errorf("%d %.200s, want %d", r.status, r.body, tc.status)
			}
		})
	}
}

func TestBody_ThatDecompressesToTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	_, manage, _ := s.seed(t, "acme")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(`{"name":"` + strings.Repeat("a", 64<<20) + `"}`))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	r := s.call(t, createKey, packed.String(), append(bearer(manage), "Content-Encoding", "gzip")...)
	if r.status != http.StatusTooManyRequests || !strings.Contains(r.body, "resource_exhausted") {
		t.Errorf("%d bytes that become 64 MiB: %d %.200s", packed.Len(), r.status, r.body)
	}
}

func TestPaths_UnknownOnesAreNotFound(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, path := range []string{
		"/corvo.cloud.v1.TenantService/NoSuch", "/corvo.cloud.v1.TenantService/", "/corvo.cloud.v2.TenantService/GetTenant", "/auth/nowhere",
		"/api/v1/queues", "/metrics", "/assets/../index.html/x", "/.git/config", "/..%2f..%2fetc%2fpasswd.txt",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if r := s.do(t, method, path, "{}", "Content-Type", "application/json"); r.status == http.StatusOK {
				t.Errorf("%s %s: %.80s", method, path, r.body)
			}
		}
	}
	r := s.do(t, http.MethodGet, "/acme/queues", "")
	if r.status != http.StatusOK || !strings.Contains(r.body, "Console") {
		t.Errorf("a page of the console: %d", r.status)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self';", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if !strings.HasPrefix(r.header.Get(name), want) {
			t.Errorf("%s: %q", name, r.header.Get(name))
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if r := s.do(t, http.MethodGet, path, ""); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := s.call(t, getTenant, "{}"); r.header.Get("Cache-Control") != "no-store" || r.header.Get("X-Request-Id") == "" {
		t.Errorf("headers of a refusal: %v", r.header)
	}
}

// TestSecrets_AreInNoLogAndNoAuditRow uses every kind of secret with the log at its most
// verbose level.
func TestSecrets_AreInNoLogAndNoAuditRow(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.unlimited()
	p := s.newFixture(t, "acme")
	secrets := map[string]string{"seeded management key": p.manage.Reveal(), "seeded key": p.jobs.Reveal()}
	keep := func(what, text string) {
		if len(text) < 20 {
			t.Fatalf("%s: %q is no secret", what, text)
		}
		secrets[what] = text
	}
	cookie := s.signIn(t, p.Email)
	keep("session", strings.TrimPrefix(cookie, "corvo_session="))
	me := browser(cookie)
	made := s.call(t, createKey, `{"name":"ci","kind":"KEY_KIND_JOBS","roles":["worker"],"requestId":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}`, me...).json(t)
	keep("made key", made["secret"].(string))
	id := made["apiKey"].(map[string]any)["id"].(string)
	keep("rotated key", s.call(t, "/corvo.cloud.v1.ApiKeyService/RotateApiKey", fmt.Sprintf(`{"keyId":%q,"overlapSeconds":60}`, id), me...).json(t)["secret"].(string))
	keep("token for jobs", s.call(t, "/corvo.cloud.v1.AuthService/MintToken", `{"namespace":"default"}`, me...).json(t)["token"].(string))
	_, invited := p.invitation(t)
	keep("invitation", invited)
	s.call(t, "/corvo.cloud.v1.MemberService/AcceptInvitation", fmt.Sprintf(`{"token":%q}`, invited))
	signup := p.started(t)
	keep("sign-up", signup)
	confirmed := s.call(t, "/corvo.cloud.v1.SignupService/Confirm", fmt.Sprintf(`{"token":%q}`, signup))
	keep("first key", confirmed.json(t)["apiKey"].(string))
	keep("first management key", confirmed.json(t)["token"].(string))
	link := p.loginToken(t)
	keep("sign-in link", link)
	s.call(t, "/corvo.cloud.v1.AuthService/FinishLogin", fmt.Sprintf(`{"token":%q}`, link))
	s.call(t, "/corvo.cloud.v1.AuthService/FinishLogin", fmt.Sprintf(`{"token":%q}`, link)) // Used: refused.

	// Secrets in the wrong places.
	bad := newKey(t, apikey.Management)
	keep("unknown key", bad.Reveal())
	s.call(t, whoami, "{}", bearer(bad)...)
	s.call(t, whoami, "{}", append(bearer(p.manage), "User-Agent", "tool/"+p.manage.Reveal())...)
	s.call(t, "/corvo.cloud.v1.TenantService/UpdateTenant", fmt.Sprintf(`{"displayName":%q}`, "key "+bad.Reveal()), append(me, "User-Agent", bad.Reveal())...)
	if r := s.call(t, createKey, fmt.Sprintf(`{"name":%q,"kind":"KEY_KIND_JOBS","roles":["worker"]}`, bad.Reveal()), me...); r.status != http.StatusBadRequest {
		t.Errorf("a secret as a name: %d %s", r.status, r.body)
	}
	s.do(t, http.MethodGet, whoami+"?connect=v1&encoding=json&message="+url.QueryEscape(`{}`)+"&key="+bad.Reveal(), "")

	if !strings.Contains(s.log.String(), "GetCurrentIdentity") {
		t.Fatal("the log was not caught")
	}
	audit := s.call(t, "/corvo.cloud.v1.AuditService/ListAuditEvents", `{"pageSize":1000}`, bearer(p.manage)...)
	if events, _ := audit.json(t)["events"].([]any); len(events) < 8 {
		t.Fatalf("%d audit events", len(events))
	}
	for what, secret := range secrets {
		// The part that is secret: of a key what follows its public id.
		tail := secret[len(secret)-20:]
		if strings.Contains(s.log.String(), tail) {
			t.Errorf("%s stands in the log", what)
		}
		if strings.Contains(audit.body, tail) {
			t.Errorf("%s stands in the audit log", what)
		}
	}
	repeated := s.call(t, createKey, `{"name":"ci","kind":"KEY_KIND_JOBS","roles":["worker"],"requestId":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}`, me...)
	if strings.Contains(repeated.body, `"secret"`) || !strings.Contains(repeated.body, id) {
		t.Errorf("the repeated call shows %s", repeated.body)
	}
}

// FuzzJSON throws texts at every RPC: whatever comes, the answer is a refusal that says
// what is wrong, or a success, and never an internal error.
func FuzzJSON(f *testing.F) {
	s := newStage(f)
	s.unlimited()
	p := s.newFixture(f, "acme")
	s.newFixture(f, "other")
	all := builders()
	var names []string
	for name := range all {
		names = append(names, name)
	}
	for i, name := range names {
		f.Add(i, marshal(f, all[name].build(f, p)))
	}
	for i := range names {
		f.Add(i, `{"tenant":"acme","namespace":"\u0000","keyId":"key_\ud800","name":"`+strings.Repeat("é", 100)+`","pageSize":-2147483648}`)
		f.Add(i, `{"tenant":"other","updateMask":"a.b,,*","labels":{"":""},"expiresAt":"9999-12-31T23:59:59.999999999Z","overlapSeconds":"9223372036854775807"}`)
		f.Add(i, `{"after":"0001-01-01T00:00:00Z","before":"9999-12-31T23:59:59Z","pageToken":"AA==","digest":"////","email":"@","role":99,"kind":-1}`)
	}
	f.Fuzz(func(t *testing.T, which int, body string) {
		name := names[uint(which)%uint(len(names))]
		r := s.call(t, name, body, bearer(p.manage)...)
		var answer map[string]any
		if err := json.Unmarshal([]byte(r.body), &answer); err != nil || r.status >= http.StatusInternalServerError && answer["code"] != "unavailable" {
			t.Fatalf("%s %q: %d %s", name, body, r.status, r.body)
		}
	})
}
