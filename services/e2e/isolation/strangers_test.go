package isolation

import (
	"crypto/ed25519"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

// strangers have no credential, an invented or forged one, or a valid one in the wrong
// place.
func (m *matrix) strangers(t *testing.T) {
	t.Helper()
	m.add("nobody", stranger, nil)
	m.add("malformed", stranger, bearer("corvo_dp_nonsense"))
	for _, k := range []apikey.Kind{apikey.DataPlane, apikey.Management, apikey.Personal, apikey.SCIM, apikey.Temporary} {
		invented, err := apikey.Generate(k)
		if err != nil {
			t.Fatal(err)
		}
		m.add("invented-"+string(k), stranger, bearer(invented.Reveal()))
	}
	m.add("invented-session", stranger, m.console("corvo_session=corvo_session_"+crockford(43)))
	m.add("invented-token", stranger, bearer(m.inventedToken(t)))
	for i, headers := range credible(m.own.tenant) {
		m.add([]string{"forged-identity", "forged-cell"}[i], stranger, headers)
	}
	m.otherNamespace(t)
	m.forgeries()
	m.misplaced()
}

// inventedToken has valid claims and is signed with an unknown key.
func (m *matrix) inventedToken(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := usertoken.Sign(private, usertoken.KeyID(public), usertoken.Claims{
		TenantID: m.own.id, NamespaceID: m.own.namespaces[0].id, UserID: "usr_" + crockford(26), Grants: permission.Here{All: celladmin.RoleSet([]string{"admin"})},
		IssuedAt: time.Now(), ExpiresAt: time.Now().Add(usertoken.Life),
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// otherNamespace: a token and a key for one namespace, used in another of the tenant.
func (m *matrix) otherNamespace(t *testing.T) {
	t.Helper()
	m.must(t, "NamespaceService/CreateNamespace", o{"tenant": ownName, "name": "staging"}, m.own.admin(), nil)
	_, text := m.key(t, m.own, m.own.admin(), "KEY_KIND_JOBS", o{"roles": []string{"admin"}, "namespaces": []string{"default"}})
	for _, c := range []credential{
		{name: "jobs-in-other-namespace", kind: jobs, headers: bearer(text)}, {name: "token-in-other-namespace", kind: token, headers: maps.Clone(m.find("token-owner").headers)},
	} {
		m.waitOpen(t, c)
		c.headers["X-Corvo-Namespace"] = "staging"
		m.add(c.name, stranger, c.headers).elsewhere = true
	}
}

// forgeries are a viewer's and a foreigner's keys with whole identities of the cell in
// front: they get what the key alone gets.
func (m *matrix) forgeries() {
	for _, name := range []string{"jobs-viewer", "foreign-jobs"} {
		c := *m.find(name)
		c.name += "+forged"
		headers := forged(m.own.tenant)
		delete(headers, "Connection")      // HTTP/2 has none.
		delete(headers, "X-Forwarded-For") // Each probe has an address of its own.
		delete(headers, "X-Corvo-Namespace")
		maps.Copy(headers, c.headers)
		c.headers = headers
		m.cast = append(m.cast, c)
	}
}

// misplaced are valid credentials of an owner, used as another kind.
func (m *matrix) misplaced() {
	cookie := m.find("session-owner").headers["Cookie"]
	_, secret, _ := strings.Cut(cookie, "=")
	job := strings.TrimPrefix(m.find("jobs-admin").headers["Authorization"], "Bearer ")
	browser := strings.TrimPrefix(m.find("token-owner").headers["Authorization"], "Bearer ")
	m.add("session-as-bearer", stranger, bearer(secret))
	m.add("session-as-key-cookie", stranger, m.console("corvo_api_key="+secret))
	m.add("token-as-key-cookie", stranger, m.console("corvo_api_key="+browser))
	m.add("token-as-session", stranger, m.console("corvo_session="+browser))
	m.add("jobs-as-session", stranger, m.console("corvo_session="+job))
	m.add("session-of-another-site", stranger, map[string]string{"Cookie": cookie, "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"})
	m.add("session-without-origin", stranger, map[string]string{"Cookie": cookie})
	m.add("two-sessions", stranger, m.console(cookie+"; "+cookie))
}

func (m *matrix) find(name string) *credential {
	for i := range m.cast {
		if m.cast[i].name == name {
			return &m.cast[i]
		}
	}
	panic(name)
}
