package sso

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/members"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func TestLogin_MakesAUserOfThisTenantAlone(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		b.enabled(nil)
		b.idp.with(func(p *idp) { p.person["groups"] = []string{"x", "engineers", "admins"} })
		br := b.browser()
		page := br.get(b.idp.authorize(br.get("/auth/oidc/start?tenant=acme&next=/acme/jobs%3Fstate%3Ddead").Header().Get("Location")).String())
		if page.Code != http.StatusSeeOther || page.Header().Get("Location") != "/acme/jobs?state=dead" {
			t.Fatalf("%d to %q\n%s", page.Code, page.Header().Get("Location"), page.Body)
		}
		found, u, ok := br.found()
		if !ok || found.TenantID != b.tenant.ID || u.HomeTenant != b.tenant.ID || u.Email != "ada@idp.example" || u.Name != "Ada" {
			t.Errorf("session %+v of %+v", found, u)
		}
		if life := found.ExpiresAt.Sub(found.CreatedAt); life != session.LimitedLifeMax {
			t.Errorf("the session lives %s", life)
		}
		if got := b.role(u.ID); got != admin {
			t.Errorf("role %s: the first mapping that fits decides", got)
		}
		again := b.mustEnter()
		if _, same, _ := again.found(); same.ID != u.ID {
			t.Error("the second sign-in made another user")
		}
		if len(br.cookies) != 1 {
			t.Errorf("cookies are left: %v", br.cookies)
		}
		got := strings.Join(b.Audit(t, b.tenant.ID), " ")
		if want := "sso.create sso.update member.create session.create session.create"; got != want {
			t.Errorf("audit has %q, want %q", got, want)
		}
	})
}

// O1: the state is known, unused, fresh, and this browser's.
func TestState_IsOneTimeAndBoundToTheBrowser(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	br := b.browser()
	back := b.idp.authorize(br.depart())

	without := *back
	without.RawQuery = url.Values{"code": back.Query()["code"]}.Encode()
	checkRefusal(t, b.browser(), b.browser().get(without.String()), "state")

	made := *back
	made.RawQuery = url.Values{"code": back.Query()["code"], "state": {"made-up"}}.Encode()
	checkRefusal(t, b.browser(), b.browser().get(made.String()), "never started")

	stranger := b.browser()
	checkRefusal(t, stranger, stranger.get(back.String()), "another browser")
	// It is used up by that: nobody may try out browsers.
	checkRefusal(t, br, br.get(back.String()), "already finished")

	planted := b.browser()
	back = b.idp.authorize(planted.depart())
	for name := range planted.cookies {
		planted.cookies[name] = "a cookie of the attacker's choice"
	}
	checkRefusal(t, planted, planted.get(back.String()), "another browser")

	late := b.browser()
	back = b.idp.authorize(late.depart())
	b.Advance(flowLife)
	checkRefusal(t, late, late.get(back.String()), "longer than")
	if n := b.idp.tokenCalls; n != 1 { // That of the trial.
		t.Errorf("%d codes were exchanged", n)
	}
}

// O4: the address of the return works once, with a good code too.
func TestReturn_CannotBeReplayed(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	br := b.browser()
	to := br.depart()
	kept := map[string]string{}
	for k, v := range br.cookies {
		kept[k] = v
	}
	back := b.idp.authorize(to)
	if page := br.get(back.String()); page.Code != http.StatusSeeOther {
		t.Fatal(page.Body)
	}
	thief := b.browser()
	thief.cookies = kept
	checkRefusal(t, thief, thief.get(back.String()), "already finished")
	// A code that the provider has seen is refused there, and shown as that.
	br = b.browser()
	q := b.idp.authorize(br.depart())
	v := q.Query()
	v.Set("code", "code-1")
	q.RawQuery = v.Encode()
	checkRefusal(t, br, br.get(q.String()), "invalid_grant")
}

// O2, O3, O15: what is sent to the provider.
func TestStart_SendsStateNonceS256AndTheOneRedirectAddress(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(func(r *cloudv1.CreateSsoConnectionRequest) { r.Scopes = []string{"groups", "email"} })
	seen := map[string]bool{}
	for range 2 {
		u, err := url.Parse(b.browser().depart())
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		if q.Get("code_challenge_method") != "S256" || q.Get("redirect_uri") != b.s.URLs.RedirectURI(b.tenant.ID) || q.Get("scope") != "openid email profile groups" {
			t.Errorf("asked with %v", q)
		}
		for _, k := range []string{"state", "nonce", "code_challenge"} {
			if len(q.Get(k)) < 43 || seen[q.Get(k)] {
				t.Errorf("%s %q is short, or not new", k, q.Get(k))
			}
			seen[q.Get(k)] = true
		}
		if strings.Contains(u.String(), url.QueryEscape(clientSecret)) {
			t.Error("the client secret went to the browser")
		}
	}
	b.mustEnter()
	if got := b.idp.lastToken; got.Get("code_verifier") == "" || got.Get("redirect_uri") != b.s.URLs.RedirectURI(b.tenant.ID) {
		t.Errorf("the code was exchanged with %v", got)
	}
}

// Every change is to a token that is signed well by the right key.
func TestToken_OneWrongClaimIsEnough(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	set := func(k string, v any) func(map[string]any) { return func(c map[string]any) { c[k] = v } }
	drop := func(k string) func(map[string]any) { return func(c map[string]any) { delete(c, k) } }
	now := func(d time.Duration) int64 { return b.Now().Add(d).Unix() }
	for name, tc := range map[string]struct {
		change func(map[string]any)
		words  string
	}{
		"O2 nonce missing":                    {drop("nonce"), "nonce"},
		"O2 nonce of another sign-in":         {set("nonce", "other"), "nonce"},
		"O5 audience is another client":       {set("aud", "other-client"), "(aud)"},
		"O5 audience begins like ours":        {set("aud", clientID+"-2"), "(aud)"},
		"O5 no audience":                      {drop("aud"), "(aud)"},
		"O5 two audiences without azp":        {set("aud", []string{clientID, "other"}), "azp"},
		"O5 two audiences, azp is the other":  {func(c map[string]any) { c["aud"], c["azp"] = []string{clientID, "other"}, "other" }, "azp"},
		"O5 one audience, azp is another":     {set("azp", "other"), "azp"},
		"O5 azp of a wrong type":              {set("azp", []string{clientID}), "wrong type"},
		"O7 issuer is another":                {set("iss", "https://idp.example"), "issuer"},
		"O7 issuer with a slash more":         {set("iss", b.idp.issuer()+"/"), "issuer"},
		"O9 expired beyond the skew":          {set("exp", now(-61*time.Second)), "expired"},
		"O9 without expiry":                   {drop("exp"), "expired"},
		"O9 issued in the future":             {set("iat", now(62*time.Second)), "future"},
		"O9 issued before the sign-in":        {set("iat", now(-62*time.Second)), "before"},
		"O9 without time of issue":            {drop("iat"), "when it was issued"},
		"O9 not valid yet":                    {set("nbf", now(62*time.Second)), "nbf"},
		"O14 at_hash of another access token": {set("at_hash", leftHalf("another")), "at_hash"},
		"no subject":                          {drop("sub"), "subject"},
		"subject of controls":                 {set("sub", "a\nb"), "subject"},
		"subject too long":                    {set("sub", strings.Repeat("a", 256)), "subject"},
		"groups of a wrong type":              {set("groups", 7), "list"},
		"groups of wrong types":               {set("groups", []any{"a", 7}), "list"},
		"too many groups":                     {set("groups", make([]string, groupsMax+1)), "list"},
		"O18 groups left out by the provider": {set("_claim_names", map[string]string{"groups": "src1"}), "too many"},
	} {
		b.idp.with(func(p *idp) {
			p.change = func(c map[string]any) {
				tc.change(c)
				if name == "O18 groups left out by the provider" {
					c["_claim_sources"] = map[string]any{"src1": map[string]string{"endpoint": "http://169.254.169.254/"}}
				}
			}
		})
		t.Run(name, func(t *testing.T) {
			sub := *b
			sub.t = t
			sub.mustRefuse(tc.words)
		})
	}
}

// O9: clocks that differ a little do not lock a company out.
func TestToken_SkewOfAMinuteIsFine(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	for _, change := range []func(map[string]any){
		func(c map[string]any) {
			c["iat"], c["nbf"] = b.Now().Add(59*time.Second).Unix(), b.Now().Add(59*time.Second).Unix()
		},
		func(c map[string]any) {
			c["iat"], c["exp"] = b.Now().Add(-59*time.Second).Unix(), b.Now().Add(-59*time.Second).Unix()
		},
		func(c map[string]any) { c["aud"], c["azp"] = []string{"other", clientID}, clientID },
		func(c map[string]any) { delete(c, "at_hash") },
	} {
		b.idp.with(func(p *idp) { p.change = change })
		b.mustEnter()
	}
}

// O6: a token nobody signed, one "signed" with the public key, one by a key of its own.
func TestToken_SignatureIsTheProviders(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(b.idp.signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	inPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	inJSON, err := json.Marshal(b.idp.published[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, sign := range map[string]func(map[string]any) string{
		"none":                  unsigned,
		"HS256 by PEM":          func(c map[string]any) string { return b.idp.signedWith(jose.HS256, inPEM, "key-1", c) },
		"HS256 by JWK":          func(c map[string]any) string { return b.idp.signedWith(jose.HS256, inJSON, "key-1", c) },
		"another key, same kid": func(c map[string]any) string { return b.idp.signedWith(jose.ES256, other, "key-1", c) },
		"key in the header": func(c map[string]any) string {
			s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: other}, &jose.SignerOptions{EmbedJWK: true})
			if err != nil {
				return ""
			}
			plain, err := json.Marshal(c)
			if err != nil {
				return ""
			}
			jws, err := s.Sign(plain)
			if err != nil {
				return ""
			}
			text, err := jws.CompactSerialize()
			if err != nil {
				return ""
			}
			return text
		},
		"cut off":    func(c map[string]any) string { s := b.idp.signed(c); return s[:strings.LastIndexByte(s, '.')+1] },
		"no token":   func(map[string]any) string { return "" },
		"not a JWT":  func(map[string]any) string { return "a.b.c" },
		"two tokens": func(c map[string]any) string { s := b.idp.signed(c); return s + "." + s },
	} {
		b.idp.with(func(p *idp) { p.sign = sign })
		t.Run(name, func(t *testing.T) {
			sub := *b
			sub.t = t
			sub.mustRefuse("ID token")
		})
	}
}

// O7: the answer of one provider carried to another's sign-in.
func TestAnswer_NamesItsIssuer(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	calls := b.idp.tokenCalls
	come := func(iss string) (*browser, int, string) {
		br := b.browser()
		u := b.idp.authorize(br.depart())
		if iss != "-" {
			u.RawQuery += "&iss=" + url.QueryEscape(iss)
		}
		page := br.get(u.String())
		return br, page.Code, page.Body.String()
	}
	for _, iss := range []string{"https://honest.example", "", b.idp.issuer() + "/"} {
		if br, code, body := come(iss); code != http.StatusForbidden || br.session() != "" || !strings.Contains(body, "(iss)") {
			t.Errorf("iss %q: %d\n%s", iss, code, body)
		}
	}
	if b.idp.tokenCalls != calls {
		t.Error("a foreign code was sent to this provider")
	}
	if _, code, body := come(b.idp.issuer()); code != http.StatusSeeOther {
		t.Errorf("the right one: %d\n%s", code, body)
	}
	b.idp.with(func(p *idp) {
		p.document = func(d map[string]any) { d["authorization_response_iss_parameter_supported"] = true }
	})
	b.Advance(freshFor) // The document is read again.
	if _, code, body := come("-"); code != http.StatusForbidden || !strings.Contains(body, "(iss)") {
		t.Errorf("promised and missing: %d\n%s", code, body)
	}
}

// O8: a new key is found at once; unknown ones do not make us read for ever.
func TestKeys_AreReadAgainButNotForEver(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	b.mustEnter()
	b.idp.rotate("key-2")
	b.mustEnter()
	before := b.idp.keyReads
	b.idp.with(func(p *idp) {
		p.sign = func(c map[string]any) string {
			return p.signedWith(jose.ES256, p.signer, fmt.Sprint("kid-", time.Now().UnixNano()), c)
		}
	})
	for range 10 {
		b.mustRefuse("signature")
	}
	if n := b.idp.keyReads - before; n > keyFetchesBurst {
		t.Errorf("the key set was read %d times for 10 unknown keys", n)
	}
	b.mustRefuse("sign in again in a minute") // Its key may be one that we have not read yet.
	// What was read stays good meanwhile.
	b.idp.with(func(p *idp) { p.sign = nil })
	b.mustEnter()
	b.idp.rotate("key-3")
	b.Advance(keyFetchEvery)
	b.mustEnter()
}

// Keys that can't be read say nothing about a token.
func TestKeys_ThatCannotBeReadAreTheProvidersProblem(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	b.mustEnter()
	b.idp.rotate("key-2")
	b.idp.with(func(p *idp) { p.keysDown = true })
	br := b.browser()
	page := br.login()
	checkRefusal(t, br, page, "Can&#39;t read the provider&#39;s keys")
	if page.Code != http.StatusBadGateway || strings.Contains(page.Body.String(), "signature") {
		t.Errorf("without keys: %d\n%s", page.Code, page.Body)
	}
	b.idp.with(func(p *idp) { p.keysDown = false })
	b.mustEnter()
}

// O10, O20: an address is nobody's proof. Whoever had it here before stays another user.
func TestIdentity_IsNeverFoundByAddress(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		b.enabled(nil)
		victim := b.Member(t, b.tenant.ID, "victim@acme.example", owner)
		b.idp.with(func(p *idp) {
			p.person = map[string]any{"sub": "mallory", "email": "victim@acme.example", "email_verified": true}
		})
		_, mallory, ok := b.mustEnter().found()
		if !ok || mallory.ID == victim.ID || b.role(mallory.ID) != viewer || b.role(victim.ID) != owner {
			t.Errorf("mallory is %+v with role %s", mallory, b.role(mallory.ID))
		}
		b.idp.with(func(p *idp) { p.person["sub"] = "mallory-2" })
		if _, second, _ := b.mustEnter().found(); second.ID == mallory.ID {
			t.Error("two subjects with one address became one user")
		}
		b.Service(t, func(ctx context.Context, tx *store.Tx) error {
			u, err := tx.GetUserByEmail(ctx, "victim@acme.example")
			if u.ID != victim.ID {
				t.Errorf("by mail the address is %s's now", u.ID)
			}
			return err
		})
	})
}

// One provider for two tenants: the same subject is two users, with nothing in common.
func TestIdentity_OfAnotherTenantIsAnotherUser(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	first := b.mustEnter()
	_, inAcme, _ := first.found()
	other := *b
	other.tenant, other.owner = b.Tenant(t, "other", "owner@other.example")
	other.ctx, _ = b.As(t, other.tenant, other.owner, owner)
	other.enabled(nil)
	br := b.browser()
	page := br.get(b.idp.authorize(br.get("/auth/oidc/start?tenant=other").Header().Get("Location")).String())
	found, inOther, ok := br.found()
	if !ok || inOther.ID == inAcme.ID || found.TenantID != other.tenant.ID || inOther.HomeTenant != other.tenant.ID {
		t.Errorf("%d: %+v, %+v", page.Code, found, inOther)
	}
	if other.role(inAcme.ID) != nobody || b.role(inOther.ID) != nobody {
		t.Error("a user stands in the other tenant")
	}
}

// O18: groups decide at every sign-in.
func TestRole_FollowsTheGroups(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		conn := b.enabled(nil)
		thousand := make([]string, 1000)
		for i := range thousand {
			thousand[i] = fmt.Sprint("group-", i)
		}
		var u store.User
		for _, tc := range []struct {
			groups any
			want   string
		}{
			{[]string{"engineers"}, developer}, {[]string{}, viewer}, {nil, viewer}, {append(slices.Clone(thousand), "admins"), admin},
			{[]string{"Admins", "admins ", "owner"}, viewer}, {"engineers", developer},
		} {
			b.idp.with(func(p *idp) { p.person["groups"] = tc.groups })
			_, u, _ = b.mustEnter().found()
			if got := b.role(u.ID); got != tc.want {
				t.Errorf("groups %.60v: role %s, want %s", tc.groups, got, tc.want)
			}
		}
		// A claim named role gives nothing.
		b.idp.with(func(p *idp) { p.person["role"], p.person["groups"] = "owner", nil })
		br := b.mustEnter()
		if got := b.role(u.ID); got != viewer {
			t.Errorf("a claim named role made %s", got)
		}
		b.Outbox(t)
		// Without a default role the way is closed, and what was open is shut.
		if _, err := b.update(conn, "default_role", func(r *cloudv1.UpdateSsoConnectionRequest) {}); err != nil {
			t.Fatal(err)
		}
		b.mustRefuse("Ask your administrator")
		if got := b.role(u.ID); got != nobody {
			t.Errorf("still %s", got)
		}
		if _, _, ok := br.found(); ok {
			t.Error("the session of somebody without groups lives on")
		}
		// Their tokens are cut off; the tenant's keys are computed again.
		rows := b.Outbox(t)
		if !slices.ContainsFunc(rows, func(o store.Outbox) bool { return o.Kind == store.OutboxUser && o.Subject == u.ID }) {
			t.Errorf("the cell is told %+v", rows)
		}
		b.idp.with(func(p *idp) { p.person["sub"] = "stranger" })
		b.mustRefuse("Ask your administrator")
		b.Service(t, func(ctx context.Context, tx *store.Tx) error {
			if _, err := tx.GetIdentity(ctx, b.tenant.ID, conn.GetId(), b.idp.issuer(), "stranger"); err == nil {
				t.Error("somebody without a role was made a user")
			}
			return nil
		})
	})
}

func TestRole_LastOwnerKeepsIt(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.idp.with(func(p *idp) { p.person["groups"] = []string{"owners"} })
	b.enabled(func(r *cloudv1.CreateSsoConnectionRequest) {
		r.DefaultRole, r.GroupMappings = nobody, []*cloudv1.GroupMapping{{Group: "owners", Role: owner}}
	})
	_, u, _ := b.mustEnter().found()
	b.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.DeleteMembership(ctx, b.tenant.ID, b.owner.ID)
	})
	b.idp.with(func(p *idp) { p.person["groups"] = nil })
	b.mustEnter()
	if got := b.role(u.ID); got != owner {
		t.Errorf("the last owner became %s", got)
	}
}

func TestGroups_AreFoundWhereProvidersPutThem(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(func(r *cloudv1.CreateSsoConnectionRequest) { r.GroupsClaim = "realm_access.roles" })
	b.idp.with(func(p *idp) { p.person["realm_access"] = map[string]any{"roles": []string{"admins"}} })
	_, u, _ := b.mustEnter().found()
	if got := b.role(u.ID); got != admin {
		t.Errorf("nested: %s", got)
	}
	b.idp.with(func(p *idp) {
		delete(p.person, "realm_access")
		p.userinfo = map[string]any{"sub": "subject-1", "realm_access.roles": []string{"engineers"}}
	})
	b.Advance(freshFor)
	b.mustEnter()
	if got := b.role(u.ID); got != developer {
		t.Errorf("from userinfo: %s", got)
	}
	b.idp.with(func(p *idp) { p.userinfo["sub"] = "somebody-else" })
	b.mustRefuse("another person")
}

// O19: whatever session the browser had is gone after the sign-in.
func TestLogin_PlantedSessionEnds(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	br := b.browser()
	br.signIn(b.owner.ID, "")
	planted := br.session()
	if page := br.login(); page.Code != http.StatusSeeOther {
		t.Fatal(page.Body)
	}
	old := b.browser()
	old.cookies = map[string]string{"corvo_session": planted}
	if _, _, ok := old.found(); ok || br.session() == planted {
		t.Error("the planted session lives on")
	}
}

// Another site must not sign a browser in as a user of its own choice.
func TestStart_FromAnotherSiteAsksFirst(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	br := b.browser()
	br.headers.Set("Sec-Fetch-Site", "cross-site")
	page := br.get("/auth/oidc/start?tenant=acme&next=/acme")
	if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), "Continue") || len(br.cookies) != 0 {
		t.Fatalf("%d\n%s", page.Code, page.Body)
	}
	br.headers.Set("Sec-Fetch-Site", "same-origin")
	if page := br.get("/auth/oidc/start?tenant=acme"); page.Code != http.StatusSeeOther {
		t.Errorf("our own page: %d", page.Code)
	}
}

func TestNext_StaysOnThisOrigin(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{
		"": "/", "/": "/", "/acme/jobs?state=dead&x=//y#z": "/acme/jobs?state=dead&x=//y#z",
		"//evil.example": "/", "/\\evil.example": "/", "\\\\evil.example": "/", "https://evil.example": "/", "javascript:alert(1)": "/",
		"/\t/evil.example": "/", "/\n/evil.example": "/", "/ /evil": "/", "evil": "/", "/%5c%5cevil.example": "/", "/%2f/evil.example": "/",
		"/%zz": "/", "/" + strings.Repeat("a", nextMax): "/", "///evil.example": "/",
	} {
		if got := safeNext(next); got != want {
			t.Errorf("safeNext(%q) = %q, want %q", next, got, want)
		}
	}
}

func FuzzNext(f *testing.F) {
	f.Add("/acme")
	f.Add("//evil.example")
	f.Fuzz(func(t *testing.T, next string) {
		base, err := url.Parse("https://corvo.example/auth/oidc/callback")
		if err != nil {
			t.Fatal(err)
		}
		to, err := base.Parse(safeNext(next))
		if err != nil || to.Host != "corvo.example" || to.Scheme != "https" || strings.HasPrefix(to.Path, "//") || strings.ContainsAny(to.Path, "\\\r\n\t") {
			t.Errorf("%q leads to %v, %v", next, to, err)
		}
	})
}

func TestAnswer_ErrorsOfProvidersAreTextOnly(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	come := func(q url.Values) {
		t.Helper()
		br := b.browser()
		u, err := url.Parse(br.depart())
		if err != nil {
			t.Fatal(err)
		}
		q.Set("state", u.Query().Get("state"))
		page := br.get("/auth/oidc/callback?" + q.Encode())
		checkRefusal(t, br, page, "provider")
		if body := page.Body.String(); strings.Contains(body, "evil") || strings.Contains(body, "alert") {
			t.Errorf("what a stranger wrote is shown:\n%s", body)
		}
	}
	come(url.Values{"error": {"access_denied"}, "error_description": {"call evil.example"}})
	come(url.Values{"error": {"<script>alert(1)</script>"}, "error_description": {"<img src=//evil.example>"}})
	come(url.Values{"error": {"server_error"}})
	come(url.Values{})
}

func TestStart_UnknownTenantAndNoSSOLookAlike(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.create(nil) // Not enabled.
	var pages []string
	for _, q := range []string{"tenant=acme", "tenant=nobody", "tenant=", "tenant=acme&connection=sso_x", "tenant=acme&test=0"} {
		page := b.browser().get("/auth/oidc/start?" + q)
		if page.Code != http.StatusNotFound {
			t.Errorf("%s: %d", q, page.Code)
		}
		pages = append(pages, page.Body.String())
	}
	for _, p := range pages {
		if p != pages[0] {
			t.Errorf("the pages differ:\n%s\n%s", p, pages[0])
		}
	}
	if csp := b.browser().get("/auth/oidc/start").Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("content policy %q", csp)
	}
	if css := b.browser().get("/auth/style.css"); css.Code != http.StatusOK || !strings.HasPrefix(css.Header().Get("Content-Type"), "text/css") {
		t.Errorf("style: %d %s", css.Code, css.Header().Get("Content-Type"))
	}
}

func TestStart_SeveralConnectionsAreOffered(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	one := b.enabled(nil)
	two := b.enabled(func(r *cloudv1.CreateSsoConnectionRequest) { r.Name = "<b>Partners</b>" })
	page := b.browser().get("/auth/oidc/start?tenant=acme")
	body := page.Body.String()
	if page.Code != http.StatusOK || !strings.Contains(body, one.GetId()) || !strings.Contains(body, two.GetId()) || strings.Contains(body, "<b>") {
		t.Errorf("%d\n%s", page.Code, body)
	}
	if page := b.browser().get("/auth/oidc/start?tenant=acme&connection=" + two.GetId()); page.Code != http.StatusSeeOther {
		t.Errorf("%d", page.Code)
	}
}

// A provider that is down for a while locks nobody out who needs only what was read.
func TestProvider_LastGoodDocumentServes(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	b.mustEnter()
	b.idp.with(func(p *idp) { p.down = true })
	b.Advance(freshFor)
	b.mustEnter()
	reads := b.idp.documentReads
	b.mustEnter()
	if b.idp.documentReads != reads {
		t.Error("a provider that is down is asked again at once")
	}
	b.Advance(goodFor)
	page := b.browser().get("/auth/oidc/start?tenant=acme")
	if page.Code != http.StatusBadGateway || strings.Contains(page.Body.String(), "secret inside") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

func TestLogin_ChangedOrDisabledMeanwhileEnds(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	conn := b.enabled(nil)
	br := b.browser()
	back := b.idp.authorize(br.depart())
	if _, err := b.update(conn, "enabled", func(*cloudv1.UpdateSsoConnectionRequest) {}); err != nil {
		t.Fatal(err)
	}
	checkRefusal(t, br, br.get(back.String()), "was changed")
	b.enable(conn)
	back = b.idp.authorize(br.depart())
	if _, err := b.s.DeleteSsoConnection(b.ctx, &cloudv1.DeleteSsoConnectionRequest{ConnectionId: conn.GetId()}); err != nil {
		t.Fatal(err)
	}
	checkRefusal(t, br, br.get(back.String()), "was changed")
}

func TestStart_FloodIsStopped(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	b.s.StartsPerMinute = 3
	b.Advance(time.Minute)
	for range 3 {
		b.browser().depart()
	}
	if page := b.browser().get("/auth/oidc/start?tenant=acme"); page.Code != http.StatusTooManyRequests || page.Header().Get("Retry-After") == "" {
		t.Errorf("%d, %v", page.Code, page.Header())
	}
}

// Somebody whom an admin removed came back as a member with the next sign-in.
func TestLogin_RemovedPersonStaysOutUntilInvited(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		b.enabled(nil)
		_, u, _ := b.mustEnter().found()
		m := members.New(members.Needs{Kit: b.Kit})
		if _, err := m.RemoveMember(b.ctx, &cloudv1.RemoveMemberRequest{UserId: u.ID}); err != nil {
			t.Fatal(err)
		}
		b.mustRefuse("removed from acme")
		// Nor as another user of the same address, whom the provider calls by another name.
		b.idp.with(func(p *idp) { p.person["sub"] = "subject-2" })
		b.mustRefuse("removed from acme")
		if _, err := m.CreateInvitation(b.ctx, &cloudv1.CreateInvitationRequest{Email: u.Email, Roles: []string{viewer}}); err != nil {
			t.Fatal(err)
		}
		b.idp.with(func(p *idp) { p.person["sub"] = "subject-1" })
		// Nor by an address that the provider doesn't vouch for, be it the one that was invited.
		b.idp.with(func(p *idp) { p.person["email_verified"] = false })
		b.mustRefuse("email_verified")
		b.idp.with(func(p *idp) { delete(p.person, "email_verified") })
		if _, again, ok := b.mustEnter().found(); !ok || again.ID != u.ID {
			t.Errorf("came back as %+v", again)
		}
		// Whoever comes back by an invitation of somebody else is still out.
		if _, err := m.RemoveMember(b.ctx, &cloudv1.RemoveMemberRequest{UserId: u.ID}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.CreateInvitation(b.ctx, &cloudv1.CreateInvitationRequest{Email: "bob@idp.example", Roles: []string{viewer}}); err != nil {
			t.Fatal(err)
		}
		b.idp.with(func(p *idp) { p.person["email"], p.person["email_verified"] = "bob@idp.example", false })
		b.mustRefuse("removed from acme")
	})
}
