package sso

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// A tenant whose provider sends browsers on to another company's provider must not be handed
// the code that that one gives: with it, whoever has a sign-in of their own under way there
// would come in as somebody else (RFC 9700, 4.4).
func TestMixUp_ACodeOfAnotherTenantsProviderIsNotSpent(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	b := newBundle(t, w) // The company, with an honest provider.
	conn := b.enabled(nil)
	evil := &bundle{World: w, t: t, s: b.s, idp: newIDP(t, w.Now)}
	evil.tenant, evil.owner = w.Tenant(t, "evil", "mallory@evil.example")
	evil.ctx, _ = w.As(t, evil.tenant, evil.owner, permission.RoleOwner)
	evil.enabled(nil)

	attacker := b.browser()
	mine, err := url.Parse(attacker.depart())
	if err != nil {
		t.Fatal(err)
	}
	victim := b.browser()
	his, err := url.Parse(victim.get("/auth/oidc/start?tenant=evil").Header().Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	// The evil provider's page sends the browser on to the honest one, which knows the person.
	q := mine.Query()
	own := q.Get("state")
	q.Set("state", his.Query().Get("state"))
	mine.RawQuery = q.Encode()
	calls := evil.idp.tokenCalls
	checkRefusal(t, victim, victim.get(b.idp.authorize(mine.String()).String()), "doesn&#39;t come from")
	if evil.idp.tokenCalls != calls {
		t.Error("the code of the honest provider was given to the evil one")
	}
	// What it would have been good for.
	back := conn.GetRedirectUri() + "?" + url.Values{"code": {evil.idp.lastToken.Get("code")}, "state": {own}}.Encode()
	if page := attacker.get(back); page.Code == http.StatusSeeOther || attacker.session() != "" {
		t.Errorf("the attacker is in: %d", page.Code)
	}
	if !strings.Contains(conn.GetRedirectUri(), b.tenant.ID) {
		t.Errorf("the redirect URI %s isn't the tenant's own", conn.GetRedirectUri())
	}
}

const sharedURI = "http://corvo.test:8080/auth/oidc/callback"

// ofBefore makes an enabled connection one from before tenants had redirect URIs of their own.
func (b *bundle) ofBefore() *cloudv1.SsoConnection {
	b.t.Helper()
	id := b.enabled(nil).GetId()
	c := b.stored(id)
	c.SharedRedirect = true
	b.Service(b.t, func(ctx context.Context, tx *store.Tx) error { return tx.UpdateConnection(ctx, &c) })
	return b.shown(id)
}

func (b *bundle) shown(id string) *cloudv1.SsoConnection {
	b.t.Helper()
	res, err := b.s.ListSsoConnections(b.ctx, &cloudv1.ListSsoConnectionsRequest{})
	if err != nil || len(res.GetConnections()) != 1 || res.GetConnections()[0].GetId() != id {
		b.t.Fatal(res, err)
	}
	return res.GetConnections()[0]
}

// mustEnterBy signs somebody in and looks by which redirect URI they came back.
func (b *bundle) mustEnterBy(uri string) {
	b.t.Helper()
	b.mustEnter()
	if got := b.idp.lastToken.Get("redirect_uri"); got != uri {
		b.t.Errorf("people come back by %s, want %s", got, uri)
	}
}

func TestSharedRedirect_LastsUntilATestSignInSucceeded(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		conn, own := b.ofBefore(), b.s.URLs.RedirectURI(b.tenant.ID)
		if conn.GetRedirectUri() != own || conn.GetOldRedirectUri() != sharedURI {
			t.Errorf("shown are %s and %s", conn.GetRedirectUri(), conn.GetOldRedirectUri())
		}
		b.mustEnterBy(sharedURI)
		b.idp.with(func(p *idp) { p.change = func(c map[string]any) { delete(c, "nonce") } })
		if code, _ := b.try(conn); code == http.StatusOK || b.shown(conn.GetId()).GetOldRedirectUri() == "" {
			t.Errorf("a test that failed: %d, %v", code, b.shown(conn.GetId()))
		}
		b.idp.with(func(p *idp) { p.change = nil })
		b.mustEnterBy(sharedURI)
		if code, body := b.try(conn); code != http.StatusOK || b.idp.lastToken.Get("redirect_uri") != own {
			t.Errorf("the test came back by %s: %d\n%s", b.idp.lastToken.Get("redirect_uri"), code, body)
		}
		if got := b.shown(conn.GetId()); got.GetRedirectUri() != own || got.GetOldRedirectUri() != "" {
			t.Errorf("after the test %s and %s", got.GetRedirectUri(), got.GetOldRedirectUri())
		}
		b.mustEnterBy(own)
	})
}

// A change that waits is tried by the tenant's own, which its client may know and that of the
// live settings not.
func TestSharedRedirect_OfLiveSettingsLastsUntilTheSwitch(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	conn, own := b.ofBefore(), b.s.URLs.RedirectURI(b.tenant.ID)
	if _, err := b.update(conn, "client_secret", func(r *cloudv1.UpdateSsoConnectionRequest) { r.ClientSecret = clientSecret }); err != nil {
		t.Fatal(err)
	}
	if code, body := b.try(conn); code != http.StatusOK {
		t.Fatalf("%d\n%s", code, body)
	}
	b.mustEnterBy(sharedURI)
	res, err := b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: conn.GetId()})
	if err != nil || res.GetConnection().GetOldRedirectUri() != "" {
		t.Fatal(res, err)
	}
	b.mustEnterBy(own)
}

// Each flow comes back by the one URI that it named, if its connection may still use that.
func TestRedirect_OfAnotherFlowIsRefused(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	conn := b.ofBefore()
	const words = "redirect URI"
	comeBack := func(by string) {
		t.Helper()
		br := b.browser()
		back := b.idp.authorize(br.depart())
		calls := b.idp.tokenCalls
		page := br.get(by + "?" + back.RawQuery)
		checkRefusal(t, br, page, words)
		if b.idp.tokenCalls != calls {
			t.Errorf("by %s, the code was sent", by)
		}
	}
	own := b.s.URLs.RedirectURI(b.tenant.ID)
	comeBack(own)
	// One that a control plane of before began, of a connection that has moved meanwhile.
	late := b.browser()
	back := b.idp.authorize(late.depart())
	if code, body := b.try(conn); code != http.StatusOK {
		t.Fatalf("%d\n%s", code, body)
	}
	checkRefusal(t, late, late.get(back.String()), words)
	comeBack(sharedURI)
	comeBack(b.s.URLs.RedirectURI("tn_other"))
	comeBack(b.s.URLs.RedirectURI(b.tenant.Name))
}

// A test sign-in shows something only if it comes back by the tenant's own.
func TestRedirect_ATrialComesBackByTheTenantsOwnOnly(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	conn := b.ofBefore()
	res, err := b.s.StartTestLogin(b.ctx, &cloudv1.StartTestLoginRequest{ConnectionId: conn.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	br := b.browser()
	br.signIn(b.owner.ID, "")
	back := b.idp.authorize(br.get(res.GetUrl()).Header().Get("Location"))
	if page := br.get(sharedURI + "?" + back.RawQuery); page.Code == http.StatusOK || b.shown(conn.GetId()).GetOldRedirectUri() == "" {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

// A change that was tried by a control plane of before came back by the shared one, and is switched
// with it: the provider may know no other.
func TestSharedRedirect_OfAChangeThatWasTriedWithIt(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	conn := b.ofBefore()
	if _, err := b.update(conn, "client_secret", func(r *cloudv1.UpdateSsoConnectionRequest) { r.ClientSecret = clientSecret }); err != nil {
		t.Fatal(err)
	}
	c := b.stored(conn.GetId())
	var change map[string]any
	if err := json.Unmarshal([]byte(c.Staged), &change); err != nil {
		t.Fatal(err)
	}
	change["tested"] = change["settings"]
	text, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	c.Staged = string(text)
	b.Service(b.t, func(ctx context.Context, tx *store.Tx) error { return tx.UpdateConnection(ctx, &c) })
	res, err := b.s.SwitchSsoConnection(b.ctx, &cloudv1.SwitchSsoConnectionRequest{ConnectionId: conn.GetId()})
	if err != nil || res.GetConnection().GetOldRedirectUri() == "" {
		t.Fatalf("%v: %v", res.GetConnection(), err)
	}
	b.mustEnterBy(sharedURI)
}
