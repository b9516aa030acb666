package isolation

import (
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// kind is what a credential is valid for.
type kind int

const (
	stranger   kind = iota + 1 // Nothing: missing, invented, forged or used in the wrong place.
	jobs                       // A data-plane key.
	management                 // A key of the control API.
	token                      // A browser's token for one namespace.
	session                    // A console's cookie.
	scim                       // A directory's token.
)

// credential is a way to authenticate.
type credential struct {
	name    string
	kind    kind
	headers map[string]string
	// ended was valid once.
	ended bool
	// foreign is valid, in another tenant.
	foreign bool
	// elsewhere asks for another namespace of its tenant.
	elsewhere bool
	// viewer may only read.
	viewer bool
}

var (
	tenantRoles    = []string{"owner", "admin", "billing", "developer", "auditor", "viewer"}
	namespaceRoles = []string{"admin", "operator", "producer", "worker", "viewer"}
)

// endsWithin is how long an ended credential may still work.
const endsWithin = time.Second

// expiresIn is long enough to see a key work before it expires.
const expiresIn = 4 * time.Second

func lookers(role string) bool { return role == "viewer" || role == "auditor" || role == "billing" }

func bearer(text string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + text}
}

// console is what a browser sends from a page of the service's own.
func (m *matrix) console(cookie string) map[string]string {
	return map[string]string{"Cookie": cookie, "Origin": m.up.API.URL, "Sec-Fetch-Site": "same-origin"}
}

func (m *matrix) add(name string, k kind, headers map[string]string) *credential {
	m.cast = append(m.cast, credential{name: name, kind: k, headers: headers})
	return &m.cast[len(m.cast)-1]
}

// settle makes all credentials.
func (m *matrix) settle(t *testing.T) {
	t.Helper()
	m.own = m.tenant(t, "demo", bearer(m.up.API.Token))
	owner := m.console(m.signIn(t, "", linkToken(m.up.SignInURL)))
	m.keys(t)
	m.people(t, owner)
	m.foreigners(t)
	m.directories(t)
	m.endedKeys(t)
	m.endedPeople(t)
	m.strangers(t)
}

func linkToken(link string) string {
	_, text, _ := strings.Cut(link, "#token=")
	return text
}

// tenant is what the forgeries need to know about a tenant.
func (m *matrix) tenant(t *testing.T, name string, as map[string]string) *tenant {
	t.Helper()
	var got struct {
		Tenant    struct{ ID string }
		Namespace struct{ ID string }
	}
	m.must(t, "TenantService/GetTenant", o{"tenant": name}, as, &got)
	m.must(t, "NamespaceService/GetNamespace", o{"tenant": name, "namespace": "default"}, as, &got)
	return &tenant{name: name, id: got.Tenant.ID, namespaces: []*namespace{{name: "default", id: got.Namespace.ID}}}
}

// keys of every role.
func (m *matrix) keys(t *testing.T) {
	t.Helper()
	admin := bearer(m.up.API.Token)
	for _, role := range namespaceRoles {
		_, text := m.jobsKey(t, role, admin, nil)
		m.add("jobs-"+role, jobs, bearer(text)).viewer = role == "viewer"
	}
	for _, role := range tenantRoles {
		_, text := m.managementKey(t, role, admin, nil)
		m.add("management-"+role, management, bearer(text)).viewer = lookers(role)
	}
}

// personal keys end with their owner's membership; those of a service account stay.
var personal = o{"owner": "me", "kind": "KEY_KIND_PERSONAL"}

func (m *matrix) jobsKey(t *testing.T, role string, as map[string]string, with o) (id, text string) {
	t.Helper()
	return m.key(t, as, o{"tenant": "demo", "name": "jobs-" + role, "kind": "KEY_KIND_JOBS", "roles": []string{role}}, with)
}

func (m *matrix) managementKey(t *testing.T, role string, as map[string]string, with o) (id, text string) {
	t.Helper()
	return m.key(t, as, o{"tenant": "demo", "name": "management-" + role, "kind": "KEY_KIND_MANAGEMENT", "roles": []string{role}}, with)
}

func (m *matrix) key(t *testing.T, as map[string]string, in, with o) (id, text string) {
	t.Helper()
	maps.Copy(in, with)
	if in["owner"] != nil {
		delete(in, "roles") // They are those of the owner.
	}
	var made struct {
		APIKey struct{ ID string } `json:"apiKey"`
		Secret string
	}
	m.must(t, "ApiKeyService/CreateApiKey", in, as, &made)
	return made.APIKey.ID, made.Secret
}

// people of every role, each with the session and the token of a browser; and one whose
// session began with an invitation and is good in this tenant only, although its owner is
// an admin of the other one, too.
func (m *matrix) people(t *testing.T, owner map[string]string) {
	t.Helper()
	for _, role := range tenantRoles {
		as := owner
		if role != "owner" {
			as, _ = m.member(t, role, role)
		}
		m.add("session-"+role, session, as).viewer = lookers(role)
		m.add("token-"+role, token, bearer(m.mint(t, "demo", as))).viewer = lookers(role)
	}
	_, invited := m.member(t, "guest", "viewer")
	m.add("session-invited-viewer", session, invited).viewer = true
}

// member invites somebody, who accepts and then signs in by mail: a session of the whole
// account, and the one that began with the invitation.
func (m *matrix) member(t *testing.T, name, role string) (whole, invited map[string]string) {
	t.Helper()
	email := name + "@example.com"
	m.must(t, "MemberService/CreateInvitation", o{"tenant": "demo", "email": email, "roles": []string{role}}, bearer(m.up.API.Token), nil)
	answer := m.must(t, "MemberService/AcceptInvitation", o{"token": m.emailLink(t, email, "corvo_invite_"), "name": name}, nil, nil)
	return m.console(m.signIn(t, email, "")), m.console(sessionOf(t, answer))
}

// signIn follows the email to an address, or an existing link.
func (m *matrix) signIn(t *testing.T, email, link string) (cookie string) {
	t.Helper()
	if link == "" {
		m.must(t, "AuthService/StartLogin", o{"email": email}, nil, nil)
		link = m.emailLink(t, email, "corvo_login_")
	}
	return sessionOf(t, m.must(t, "AuthService/FinishLogin", o{"token": link}, nil, nil))
}

func sessionOf(t *testing.T, a answer) string {
	t.Helper()
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == "corvo_session" && c.Value != "" {
			return c.Name + "=" + c.Value
		}
	}
	t.Fatalf("no session in the answer: %s", a.body)
	return ""
}

// emailLink waits for an email whose link has a token of that kind.
func (m *matrix) emailLink(t *testing.T, email, prefix string) string {
	t.Helper()
	for {
		mails, err := rig.Mails(m.ctx, m.up.MailboxURL)
		if err != nil {
			t.Fatal(err)
		}
		for _, mail := range mails {
			_, after, ok := strings.Cut(mail.Text, "#token="+prefix)
			if ok && len(mail.To) > 0 && mail.To[0] == email {
				return prefix + strings.Fields(after)[0]
			}
		}
		m.pause(t)
	}
}

func (m *matrix) pause(t *testing.T) {
	t.Helper()
	m.wait(t, 5*time.Millisecond)
}

func (m *matrix) mint(t *testing.T, tenant string, as map[string]string) string {
	t.Helper()
	var minted struct{ Token string }
	m.must(t, "AuthService/MintToken", o{"tenant": tenant, "namespace": "default"}, as, &minted)
	return minted.Token
}

// foreigners are the other tenant's own. The guest is invited there, too.
func (m *matrix) foreigners(t *testing.T) {
	t.Helper()
	done, err := m.up.SignUp(m.ctx, "bravo@example.com", victimName)
	if err != nil {
		t.Fatal(err)
	}
	m.other = m.tenant(t, victimName, bearer(done.Token))
	as := m.console(m.signIn(t, "bravo@example.com", ""))
	m.add("foreign-jobs", jobs, bearer(done.APIKey)).foreign = true
	m.add("foreign-management", management, bearer(done.Token)).foreign = true
	m.add("foreign-session", session, as).foreign = true
	m.add("foreign-token", token, bearer(m.mint(t, victimName, as))).foreign = true
	m.add("foreign-session-invited", session, m.guestElsewhere(t, done.Token)).foreign = true
}

// guestElsewhere: the invited session stays in the tenant of its invitation.
func (m *matrix) guestElsewhere(t *testing.T, management string) map[string]string {
	t.Helper()
	m.must(t, "MemberService/CreateInvitation", o{"tenant": victimName, "email": "elsewhere@example.com", "roles": []string{"admin"}}, bearer(management), nil)
	answer := m.must(t, "MemberService/AcceptInvitation", o{"token": m.emailLink(t, "elsewhere@example.com", "corvo_invite_"), "name": "guest"}, nil, nil)
	invited := m.console(sessionOf(t, answer))
	// From here on they are an admin of this tenant as well, in other sessions.
	m.must(t, "MemberService/CreateInvitation", o{"tenant": "demo", "email": "elsewhere@example.com", "roles": []string{"admin"}}, bearer(m.up.API.Token), nil)
	whole := m.console(m.signIn(t, "elsewhere@example.com", ""))
	m.must(t, "MemberService/AcceptInvitation", o{"token": m.letterIn(t, "elsewhere@example.com", "demo")}, whole, nil)
	return invited
}

// letterIn is the token of the invitation into one of several tenants.
func (m *matrix) letterIn(t *testing.T, email, tenant string) string {
	t.Helper()
	for {
		var shown struct{ Tenant string }
		link := m.emailLink(t, email, "corvo_invite_") // The newest first.
		if a := m.call(t, "MemberService/PreviewInvitation", o{"token": link}, nil); a.status == http.StatusOK &&
			json.Unmarshal([]byte(a.body), &shown) == nil && shown.Tenant == tenant {
			return link
		}
		m.pause(t)
	}
}

// endedKeys were valid until a moment ago.
func (m *matrix) endedKeys(t *testing.T) {
	t.Helper()
	admin := bearer(m.up.API.Token)
	makers := map[string]func(*testing.T, string, map[string]string, o) (string, string){"jobs": m.jobsKey, "management": m.managementKey}
	for _, kind := range []string{"jobs", "management"} {
		soon := time.Now().Add(expiresIn)
		_, text := makers[kind](t, "admin", admin, o{"expiresAt": soon.Format(time.RFC3339Nano)})
		m.endedBy(t, "expired-"+kind, bearer(text), func() { m.wait(t, time.Until(soon)) })
		id, text := makers[kind](t, "admin", admin, nil)
		m.endedBy(t, "revoked-"+kind, bearer(text), func() { m.must(t, "ApiKeyService/RevokeApiKey", o{"tenant": "demo", "keyId": id}, admin, nil) })
		id, text = makers[kind](t, "admin", admin, nil)
		m.endedBy(t, "rotated-out-"+kind, bearer(text), func() { m.must(t, "ApiKeyService/RotateApiKey", o{"tenant": "demo", "keyId": id}, admin, nil) })
	}
}

func (m *matrix) wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-m.ctx.Done():
		t.Fatal(m.ctx.Err())
	}
}

// endedPeople are a removed member with all their credentials, one who is no longer an
// admin, and one who signed out everywhere.
func (m *matrix) endedPeople(t *testing.T) {
	t.Helper()
	admin := bearer(m.up.API.Token)
	whole, invited := m.member(t, "removed", "admin")
	_, job := m.jobsKey(t, "admin", whole, personal)
	_, manage := m.managementKey(t, "admin", whole, personal)
	all := map[string]map[string]string{
		"removed-session": whole, "removed-session-invited": invited, "removed-token": bearer(m.mint(t, "demo", whole)),
		"removed-jobs": bearer(job), "removed-management": bearer(manage),
	}
	m.endedTogether(t, all, func() {
		m.must(t, "MemberService/RemoveMember", o{"tenant": "demo", "userId": m.userID(t, "removed")}, admin, nil)
	})

	demoted, _ := m.member(t, "demoted", "admin")
	m.endedBy(t, "demoted-token", bearer(m.mint(t, "demo", demoted)), func() {
		m.must(t, "MemberService/UpdateMember", o{"tenant": "demo", "userId": m.userID(t, "demoted"), "roles": []string{"viewer"}}, admin, nil)
	})

	left, _ := m.member(t, "left", "admin")
	all = map[string]map[string]string{"signed-out-session": left, "signed-out-token": bearer(m.mint(t, "demo", left))}
	m.endedTogether(t, all, func() { m.must(t, "AuthService/Logout", o{"everywhere": true}, left, nil) })
}

func (m *matrix) userID(t *testing.T, name string) string {
	t.Helper()
	var list struct {
		Members []struct{ UserID, Email string }
	}
	m.must(t, "MemberService/ListMembers", o{"tenant": "demo", "pageSize": 100}, bearer(m.up.API.Token), &list)
	for _, one := range list.Members {
		if one.Email == name+"@example.com" {
			return one.UserID
		}
	}
	t.Fatalf("no member %s", name)
	return ""
}

func (m *matrix) endedBy(t *testing.T, name string, headers map[string]string, end func()) {
	t.Helper()
	m.endedTogether(t, map[string]map[string]string{name: headers}, end)
}

// endedTogether ends working credentials, and measures how long they still work.
func (m *matrix) endedTogether(t *testing.T, all map[string]map[string]string, end func()) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		headers := all[name]
		for m.tryOne(t, name, headers) >= http.StatusBadRequest { // Until every proxy has the key.
			m.pause(t)
		}
	}
	end()
	began := time.Now()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		headers := all[name]
		for m.tryOne(t, name, headers) < http.StatusBadRequest {
			if late := time.Since(began); late > endsWithin {
				t.Errorf("%s still works after %s", name, late)
				break
			}
			m.pause(t)
		}
		c := m.add(name, endedKind(name), headers)
		c.ended = true
	}
	t.Logf("%d ended within %s", len(all), time.Since(began).Round(time.Millisecond))
}

func endedKind(name string) kind {
	for text, k := range map[string]kind{"-session": session, "token": token, "jobs": jobs, "-management": management, "-scim": scim} {
		if strings.Contains(name, text) {
			return k
		}
	}
	panic(name)
}

// tryOne repeats a request that the credential was allowed.
func (m *matrix) tryOne(t *testing.T, name string, headers map[string]string) int {
	t.Helper()
	switch endedKind(name) {
	case session, management:
		return m.call(t, "TenantService/GetTenant", o{"tenant": "demo"}, headers).status
	default:
		q := request{method: "GET", base: m.up.API.URL, path: "/t/demo/api/v1/queues", headers: headers}
		if endedKind(name) == scim {
			q = elsewhere(request{method: "GET", base: m.up.API.URL, path: scimPath + "/Users", headers: headers})
		}
		a, err := q.send(m.ctx)
		if err != nil {
			t.Fatal(err)
		}
		return a.status
	}
}

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
	for i, headers := range credible(m.own) {
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
	admin := bearer(m.up.API.Token)
	m.must(t, "NamespaceService/CreateNamespace", o{"tenant": "demo", "name": "staging"}, admin, nil)
	_, text := m.jobsKey(t, "admin", admin, o{"namespaces": []string{"default"}})
	all := map[string]map[string]string{"jobs-in-other-namespace": bearer(text), "token-in-other-namespace": maps.Clone(m.find("token-owner").headers)}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for m.tryOne(t, name, all[name]) >= http.StatusBadRequest { // Until every proxy has the key.
			m.pause(t)
		}
		headers := all[name]
		headers["X-Corvo-Namespace"] = "staging"
		m.add(name, stranger, headers).elsewhere = true
	}
}

// forgeries are a viewer's and a foreigner's keys with whole identities of the cell in
// front: they get what the key alone gets.
func (m *matrix) forgeries() {
	for _, name := range []string{"jobs-viewer", "foreign-jobs"} {
		c := *m.find(name)
		c.name += "+forged"
		headers := forged(m.own)
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

// must calls the control API and fails unless it succeeds.
func (m *matrix) must(t *testing.T, procedure string, in o, as map[string]string, out any) answer {
	t.Helper()
	a := m.call(t, procedure, in, as)
	if a.status != http.StatusOK {
		t.Fatalf("%s: %d %s", procedure, a.status, a.body)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(a.body), out); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func (m *matrix) call(t *testing.T, procedure string, in o, as map[string]string) answer {
	t.Helper()
	a, err := elsewhere(request{method: "POST", base: m.up.API.URL, path: "/corvo.cloud.v1." + procedure, body: in, headers: as}).send(m.ctx)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
