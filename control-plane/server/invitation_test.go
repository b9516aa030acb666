package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	acceptInvitation  = "/corvo.cloud.v1.MemberService/AcceptInvitation"
	previewInvitation = "/corvo.cloud.v1.MemberService/PreviewInvitation"
)

// invitationFor is the token of an invitation's mail to an address.
func (p *fixture) invitationFor(t testing.TB, email string) string {
	t.Helper()
	token, digest := seal.NewToken("corvo_invite_")
	i := store.Invitation{
		TenantID: p.TenantID, ID: p.id(ids.Invitation), Roles: []string{rights.FixedID(viewer)}, Email: email, Digest: digest, InvitedBy: "the owner",
		CreatedAt: p.kit.Now(), ExpiresAt: p.kit.Now().Add(time.Hour),
	}
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.PutInvitation(ctx, i) })
	return token
}

// cookieOf is the session cookie that an answer sets; empty for none.
func cookieOf(r reply) string {
	for _, set := range r.header.Values("Set-Cookie") {
		if cookie, _, _ := strings.Cut(set, ";"); strings.HasPrefix(cookie, "corvo_session=") {
			return cookie
		}
	}
	return ""
}

// The attack: whoever holds a viewer's invitation made an owner's key in another tenant
// of the invited user.
func TestInvitation_LinkOpensNoAccountThatIsThere(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.unlimited()
	victim, inviting := s.newFixture(t, "victim"), s.newFixture(t, "inviting")
	token := inviting.invitationFor(t, victim.Email)
	stolen := s.call(t, acceptInvitation, fmt.Sprintf(`{"token":%q}`, token))
	if cookie := cookieOf(stolen); cookie != "" {
		made := s.call(t, createKey, `{"tenant":"victim","name":"stolen","kind":"KEY_KIND_MANAGEMENT","roles":["owner"]}`, browser(cookie)...)
		t.Fatalf("the link signs its holder in; making an owner's key in the victim's tenant: %d %s", made.status, made.body)
	}
	if stolen.status == http.StatusOK || !strings.Contains(stolen.body, "SIGN_IN_FIRST") {
		t.Fatalf("%d %s", stolen.status, stolen.body)
	}
	// Not in the session of somebody else, nor in one that another tenant's invitation opened.
	for name, cookie := range map[string]string{
		"another user":      s.signIn(t, inviting.Email),
		"a limited session": victim.limitedSession(t),
	} {
		if r := s.call(t, acceptInvitation, fmt.Sprintf(`{"token":%q}`, token), browser(cookie)...); !strings.Contains(r.body, "SIGN_IN_FIRST") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	// The account's owner accepts in the existing session, and keeps it.
	own := s.signIn(t, victim.Email)
	r := s.call(t, acceptInvitation, fmt.Sprintf(`{"token":%q}`, token), browser(own)...)
	if r.status != http.StatusOK || cookieOf(r) != "" {
		t.Fatalf("%d %s, cookie %q", r.status, r.body, cookieOf(r))
	}
	if me := s.call(t, whoami, "{}", browser(own)...); !strings.Contains(me.body, `"inviting"`) || !strings.Contains(me.body, `"victim"`) {
		t.Errorf("after accepting: %s", me.body)
	}
}

// limitedSession is a session of the fixture's owner that is valid in another tenant only.
func (p *fixture) limitedSession(t testing.TB) string {
	t.Helper()
	var u store.User
	p.in(t, func(ctx context.Context, tx *store.Tx) (err error) {
		u, err = tx.GetUserByEmail(ctx, p.Email)
		return err
	})
	return p.sessionOf(t, u, p.id(ids.Tenant))
}

func TestInvitation_NewAccountEntersTheInvitingTenantOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.unlimited()
	inviting := s.newFixture(t, "inviting")
	const email = "new@people.test"
	r := s.call(t, acceptInvitation, fmt.Sprintf(`{"token":%q}`, inviting.invitationFor(t, email)))
	cookie := cookieOf(r)
	if r.status != http.StatusOK || cookie == "" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	// The address's owner makes a tenant of their own afterwards; the link's holder sees none of it.
	token, digest := seal.NewToken("corvo_signup_")
	inviting.in(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertSignup(ctx, store.Signup{
			ID: inviting.id(ids.Signup), Email: email, TenantName: "mine", Digest: digest, CodeDigest: "x", CreatedAt: s.kit.Now(), ExpiresAt: s.kit.Now().Add(30 * time.Minute),
		})
	})
	confirmed := s.call(t, "/corvo.cloud.v1.SignupService/Confirm", fmt.Sprintf(`{"token":%q}`, token))
	if confirmed.status != http.StatusOK {
		t.Fatalf("%d %s", confirmed.status, confirmed.body)
	}
	own := cookieOf(confirmed)
	if me := s.call(t, whoami, "{}", browser(cookie)...); !strings.Contains(me.body, `"inviting"`) || strings.Contains(me.body, `"mine"`) {
		t.Errorf("the link's holder sees %s", me.body)
	}
	if r := s.call(t, createKey, `{"tenant":"mine","name":"stolen","kind":"KEY_KIND_JOBS","roles":["worker"]}`, browser(cookie)...); r.status != http.StatusNotFound {
		t.Errorf("the link's holder in the tenant made later: %d %s", r.status, r.body)
	}
	// Signing out everywhere does not reach further than the session either.
	if r := s.call(t, "/corvo.cloud.v1.AuthService/Logout", `{"everywhere":true}`, browser(cookie)...); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	if me := s.call(t, whoami, "{}", browser(own)...); me.status != http.StatusOK {
		t.Errorf("the owner's session was ended by the link's holder: %d", me.status)
	}
}

// lastEmail takes the newest email to an address out of the outbox.
func (s *stage) lastEmail(t testing.TB, to string) (msg mail.Message) {
	t.Helper()
	err := s.kit.Store.Service(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.ClaimOutbox(t.Context(), "test", s.kit.Now(), s.kit.Now(), 1000)
		for _, row := range rows {
			if row.Kind != store.OutboxMail {
				continue
			}
			m, err := mail.Take(s.kit.Seal, row)
			if err != nil {
				return err
			}
			if m.To == to {
				msg = m
			}
		}
		return err
	})
	if err != nil || msg.To != to {
		t.Fatalf("no email to %s: %v", to, err)
	}
	return msg
}

func tokenIn(t testing.TB, m mail.Message) string {
	t.Helper()
	_, after, ok := strings.Cut(m.Text, "#token=")
	if !ok {
		t.Fatalf("no link in the email:\n%s", m.Text)
	}
	return strings.Fields(after)[0]
}

func TestInvitation_AccountJoinsByASignInLinkToItsAddress(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.unlimited()
	victim, inviting := s.newFixture(t, "victim"), s.newFixture(t, "inviting")
	token := inviting.invitationFor(t, victim.Email)
	seen := s.call(t, previewInvitation, fmt.Sprintf(`{"token":%q}`, token))
	if m := seen.json(t); m["tenant"] != "inviting" || m["email"] != victim.Email || m["hasAccount"] != true || fmt.Sprint(m["roles"]) != "[viewer]" {
		t.Errorf("preview %s", seen.body)
	}
	// Whatever address is given with it, the link goes to the invited one.
	asked := s.call(t, "/corvo.cloud.v1.AuthService/StartLogin", fmt.Sprintf(`{"email":"mallory@evil.test","invitation":%q}`, token))
	if asked.status != http.StatusOK {
		t.Fatalf("%d %s", asked.status, asked.body)
	}
	link := tokenIn(t, s.lastEmail(t, victim.Email))
	if r := s.call(t, "/corvo.cloud.v1.AuthService/PreviewLogin", fmt.Sprintf(`{"token":%q}`, link)); r.json(t)["joins"] != "inviting" {
		t.Errorf("preview %s", r.body)
	}
	in := s.call(t, "/corvo.cloud.v1.AuthService/FinishLogin", fmt.Sprintf(`{"token":%q}`, link))
	if in.status != http.StatusOK || in.json(t)["joined"] != "inviting" {
		t.Fatalf("%d %s", in.status, in.body)
	}
	if me := s.call(t, whoami, "{}", browser(cookieOf(in))...); !strings.Contains(me.body, `"inviting"`) || !strings.Contains(me.body, `"victim"`) {
		t.Errorf("after signing in: %s", me.body)
	}
	if r := s.call(t, acceptInvitation, fmt.Sprintf(`{"token":%q}`, token)); !strings.Contains(r.body, "LINK_UNKNOWN") {
		t.Errorf("the invitation is good again: %d %s", r.status, r.body)
	}
}

// Login CSRF: a link that somebody else asked for, sent on, would sign a browser in as
// its sender. Only the browser that asked is told that it did.
func TestLinks_SayWhoseAccountAndWhichBrowserAsked(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.unlimited()
	attacker := s.newFixture(t, "attacker")
	started := func(r reply) string {
		t.Helper()
		for _, set := range r.header.Values("Set-Cookie") {
			if cookie, attributes, _ := strings.Cut(set, ";"); strings.HasPrefix(cookie, "corvo_started=") && strings.Contains(attributes, "HttpOnly") {
				return cookie
			}
		}
		t.Fatalf("no cookie says that this browser began: %v", r.header)
		return ""
	}
	for name, tc := range map[string]struct{ start, body, to, preview string }{
		"sign-in": {"AuthService/StartLogin", fmt.Sprintf(`{"email":%q}`, attacker.Email), attacker.Email, "AuthService/PreviewLogin"},
		"sign-up": {"SignupService/Start", `{"email":"mallory@evil.test","tenant":"bait"}`, "mallory@evil.test", "SignupService/PreviewConfirm"},
	} {
		r := s.call(t, "/corvo.cloud.v1."+tc.start, tc.body)
		if r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, r.status, r.body)
		}
		token := tokenIn(t, s.lastEmail(t, tc.to))
		if strings.Contains(r.body, token) {
			t.Errorf("%s: whoever asks for an email is given its token", name)
		}
		// The browser of somebody who asked for an email of their own at the same time.
		other := started(s.call(t, "/corvo.cloud.v1.AuthService/StartLogin", `{"email":"victim@people.test"}`))
		for cookie, want := range map[string]any{started(r): true, other: nil, "corvo_started=x": nil, "a=b": nil} {
			got := s.call(t, "/corvo.cloud.v1."+tc.preview, fmt.Sprintf(`{"token":%q}`, token), "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
			if m := got.json(t); m["email"] != tc.to || m["startedHere"] != want {
				t.Errorf("%s, cookie %.16s…: %s, want startedHere %v", name, cookie, got.body, want)
			}
			if cookieOf(got) != "" {
				t.Errorf("%s: looking signs in", name)
			}
		}
	}
}

// The inviter sees every response about the invitation; the token is in the email alone.
func TestInvitation_InviterNeverSeesTheToken(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.unlimited()
	p := s.newFixture(t, "acme")
	made := s.call(t, "/corvo.cloud.v1.MemberService/CreateInvitation", `{"email":"new@people.test","roles":["viewer"]}`, bearer(p.manage)...)
	token := tokenIn(t, s.lastEmail(t, "new@people.test"))
	listed := s.call(t, "/corvo.cloud.v1.MemberService/ListInvitations", `{}`, bearer(p.manage)...)
	audit := s.call(t, "/corvo.cloud.v1.AuditService/ListAuditEvents", `{}`, bearer(p.manage)...)
	for _, r := range []reply{made, listed, audit} {
		if r.status != http.StatusOK || strings.Contains(r.body, token) || strings.Contains(r.body, seal.Digest(token)) {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}
