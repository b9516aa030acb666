package isolation

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// kind is what a credential is valid for.
type kind int

const (
	stranger   kind = iota + 1 // Nothing: missing, invented, forged or used in the wrong place.
	jobs                       // A data-plane key.
	management                 // A key for both planes: of a service account, personal, or for a token of an issuer.
	token                      // A browser's token for one namespace.
	session                    // A console's cookie, or what the command line has of a person.
	scim                       // A directory's token.
)

// credential is a way to authenticate.
type credential struct {
	name    string
	kind    kind
	headers map[string]string
	// tenant is where it is valid; empty is the tenant that is asked about.
	tenant string
	// ended was valid once.
	ended bool
	// account is what an ended session still opens: a user's own account, without a tenant.
	account bool
	// foreign is valid, in another tenant.
	foreign bool
	// elsewhere asks for another namespace of its tenant.
	elsewhere bool
	// viewer may only read.
	viewer bool
}

const (
	ownName  = "demo"
	goneName = "gone"
)

var (
	tenantRoles    = []string{"owner", "admin", "billing", "developer", "auditor", "viewer"}
	namespaceRoles = []string{"admin", "operator", "producer", "worker", "viewer"}
	// machineRoles and personRoles are those of exchanged and of personal keys.
	machineRoles = []string{"admin", "developer", "viewer"}
	personRoles  = []string{"owner", "admin", "developer"}
)

func lookers(role string) bool { return role == "viewer" || role == "auditor" || role == "billing" }

func bearer(text string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + text}
}

// console is what a browser sends from a page of the service's own.
func (m *matrix) console(cookie string) map[string]string {
	return map[string]string{"Cookie": cookie, "Origin": m.fronts[0], "Sec-Fetch-Site": "same-origin"}
}

func (m *matrix) add(name string, k kind, headers map[string]string) *credential {
	m.cast = append(m.cast, credential{name: name, kind: k, headers: headers})
	return &m.cast[len(m.cast)-1]
}

// settle makes all credentials.
func (m *matrix) settle(t *testing.T) {
	t.Helper()
	m.issuer = rig.NewIssuer(t)
	m.own = m.signUp(t, ownName)
	m.keys(t)
	m.machines(t)
	m.people(t)
	m.foreigners(t)
	m.directories(t)
	m.endedKeys(t)
	m.endedMachines(t)
	m.endedPeople(t)
	m.endedTenant(t)
	m.strangers(t)
}

// signedUp is a tenant, with what its owner has.
type signedUp struct {
	*tenant

	jobs, management string
	// owner is a console's.
	owner map[string]string
}

// admin is the tenant's first management key.
func (s *signedUp) admin() map[string]string { return bearer(s.management) }

// signUp makes a tenant, and signs its owner in.
func (m *matrix) signUp(t *testing.T, name string) *signedUp {
	t.Helper()
	email := name + "-owner@example.com"
	done, err := rig.SignUp(m.ctx, m.front(), m.mailbox, email, name)
	if err != nil {
		t.Fatal(err)
	}
	of := &tenant{name: name, id: done.TenantID, namespaces: []*namespace{{name: "default", id: done.NamespaceID}}}
	return &signedUp{tenant: of, jobs: done.APIKey, management: done.Token, owner: m.console(m.signIn(t, email))}
}

// keys of every role.
func (m *matrix) keys(t *testing.T) {
	t.Helper()
	for _, role := range namespaceRoles {
		_, text := m.key(t, m.own, m.own.admin(), "KEY_KIND_JOBS", o{"roles": []string{role}})
		m.add("jobs-"+role, jobs, bearer(text)).viewer = role == "viewer"
	}
	for _, role := range tenantRoles {
		_, text := m.key(t, m.own, m.own.admin(), "KEY_KIND_MANAGEMENT", o{"roles": []string{role}})
		m.add("management-"+role, management, bearer(text)).viewer = lookers(role)
	}
}

// personal keys end with their owner's membership; those of a service account stay.
func (m *matrix) personal(t *testing.T, of *signedUp, as map[string]string) map[string]string {
	t.Helper()
	_, text := m.key(t, of, as, "KEY_KIND_PERSONAL", o{"owner": "me"})
	return bearer(text)
}

func (m *matrix) key(t *testing.T, of *signedUp, as map[string]string, kind string, with o) (id, text string) {
	t.Helper()
	in := o{"tenant": of.name, "name": "k-" + strings.ToLower(crockford(12)), "kind": kind}
	maps.Copy(in, with)
	var made struct {
		APIKey struct{ ID string } `json:"apiKey"`
		Secret string
	}
	m.must(t, "ApiKeyService/CreateApiKey", in, as, &made)
	return made.APIKey.ID, made.Secret
}

// people of every role, each with the session and the token of a browser, some with a personal
// key and a command line; and one whose session began with an invitation and is good in this
// tenant only, although its owner is an admin of the other one, too.
func (m *matrix) people(t *testing.T) {
	t.Helper()
	for _, role := range tenantRoles {
		as := m.own.owner
		if role != "owner" {
			as, _ = m.member(t, m.own, role, role)
		}
		m.add("session-"+role, session, as).viewer = lookers(role)
		m.add("token-"+role, token, bearer(m.mint(t, m.own, as))).viewer = lookers(role)
		if slices.Contains(personRoles, role) {
			m.add("personal-"+role, management, m.personal(t, m.own, as))
		}
	}
	// A viewer can't make keys; the key of somebody who became one is a viewer's.
	turned, _ := m.member(t, m.own, "turned", "admin")
	m.add("personal-viewer", management, m.personal(t, m.own, turned)).viewer = true
	m.become(t, "turned", "viewer")
	m.add("terminal-owner", session, m.terminal(t, m.own.owner))
	_, invited := m.member(t, m.own, "guest", "viewer")
	m.add("session-invited-viewer", session, invited).viewer = true
}

// member invites somebody, who accepts and then signs in by mail: a session of the whole
// account, and the one that began with the invitation.
func (m *matrix) member(t *testing.T, of *signedUp, name, role string) (whole, invited map[string]string) {
	t.Helper()
	email := name + "@example.com"
	m.must(t, "MemberService/CreateInvitation", o{"tenant": of.name, "email": email, "roles": []string{role}}, of.admin(), nil)
	answer := m.must(t, "MemberService/AcceptInvitation", o{"token": m.emailLink(t, email, "corvo_invite_"), "name": name}, nil, nil)
	return m.console(m.signIn(t, email)), m.console(sessionOf(t, answer))
}

// signIn follows the email to an address.
func (m *matrix) signIn(t *testing.T, email string) (cookie string) {
	t.Helper()
	m.must(t, "AuthService/StartLogin", o{"email": email}, nil, nil)
	return sessionOf(t, m.must(t, "AuthService/FinishLogin", o{"token": m.emailLink(t, email, "corvo_login_")}, nil, nil))
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

// terminal signs a command line in; the person approves it in a console.
func (m *matrix) terminal(t *testing.T, as map[string]string) map[string]string {
	t.Helper()
	var device struct{ DeviceCode, UserCode, Token string }
	m.must(t, "AuthService/StartDeviceLogin", o{"clientName": "corvo"}, nil, &device)
	m.must(t, "AuthService/ApproveDeviceLogin", o{"userCode": device.UserCode}, as, nil)
	m.must(t, "AuthService/PollDeviceLogin", o{"deviceCode": device.DeviceCode}, nil, &device)
	return bearer(device.Token)
}

func (m *matrix) mint(t *testing.T, of *signedUp, as map[string]string) string {
	t.Helper()
	var minted struct{ Token string }
	m.must(t, "AuthService/MintToken", o{"tenant": of.name, "namespace": "default"}, as, &minted)
	return minted.Token
}

// foreigners are the other tenant's own. A guest of theirs is a member here, too.
func (m *matrix) foreigners(t *testing.T) {
	t.Helper()
	m.other = m.signUp(t, victimName)
	foreign := func(name string, k kind, headers map[string]string) {
		m.add("foreign-"+name, k, headers).foreign = true
	}
	foreign("jobs", jobs, bearer(m.other.jobs))
	foreign("management", management, m.other.admin())
	foreign("personal", management, m.personal(t, m.other, m.other.owner))
	foreign("exchanged", management, bearer(m.machine(t, m.other, "admin").exchange(t)))
	foreign("session", session, m.other.owner)
	foreign("terminal", session, m.terminal(t, m.other.owner))
	foreign("token", token, bearer(m.mint(t, m.other, m.other.owner)))
	foreign("session-invited", session, m.guestElsewhere(t))
}

// guestElsewhere: the invited session stays in the tenant of its invitation.
func (m *matrix) guestElsewhere(t *testing.T) map[string]string {
	t.Helper()
	whole, invited := m.member(t, m.other, "elsewhere", "admin")
	// From here on they are an admin of this tenant as well, in other sessions.
	m.must(t, "MemberService/CreateInvitation", o{"tenant": ownName, "email": "elsewhere@example.com", "roles": []string{"admin"}}, m.own.admin(), nil)
	m.must(t, "MemberService/AcceptInvitation", o{"token": m.letterIn(t, "elsewhere@example.com", ownName)}, whole, nil)
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
