package keycloak_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

const secret = "a client secret of the realm"

var mappings = []object{{"group": "admins", "role": "admin"}, {"group": "readers", "role": "viewer"}}

// oidcClient is a client as docs/people.md has people make it, PKCE demanded.
func oidcClient(c *corvo) object {
	return object{
		"clientId": "corvo", "secret": secret, "protocol": "openid-connect", "standardFlowEnabled": true, "directAccessGrantsEnabled": false,
		"redirectUris": []string{c.redirectURI()}, "attributes": object{"pkce.code.challenge.method": "S256"},
		"protocolMappers": []object{{
			"name": "groups", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper",
			"config": object{"claim.name": "groups", "full.path": "false", "id.token.claim": "true", "userinfo.token.claim": "true"},
		}},
	}
}

func oidcConnection(t *testing.T, up *rig.Up) (*corvo, *realm, connection) {
	t.Helper()
	c := newTenant(t, up)
	r := newRealm(t, oidcClient(c))
	conn := c.sso("CreateSsoConnection", object{
		"name": "Keycloak", "issuer": r.issuer(), "clientId": "corvo", "clientSecret": secret, "groupMappings": mappings,
	})
	return c, r, conn
}

// The groups of the token give the role, at every sign-in anew; in none, there is no way in.
func oidcRolesAreThoseOfTheGroupsAtEverySignIn(t *testing.T, up *rig.Up) {
	c, r, conn := oidcConnection(t, up)
	c.wantOut(http.StatusNotFound, "No company with this name uses single sign-on")
	c.wantTrial(conn.ID, "admin")
	if roles := c.roles(); roles != nil {
		t.Errorf("a test sign-in made Ada a member: %v", roles)
	}
	c.enable(conn.ID)
	first := c.wantIn("admin")

	r.leave("admins")
	second := c.wantIn("viewer")
	for name, b := range map[string]*browser{"the session of before": first, "the new one": second} {
		if status, answer := b.call(t.Context(), c.base, "SsoService/StartTestLogin", `{"tenant":"`+c.name+`","connectionId":"`+conn.ID+`"}`); status != http.StatusForbidden {
			t.Errorf("a viewer, by %s, may do what admins may: %d %s", name, status, answer)
		}
	}

	r.leave("readers")
	c.wantOut(http.StatusForbidden, "none of your groups has a role here")
	if roles := c.roles(); roles != nil {
		t.Errorf("in no group, Ada has %v", roles)
	}
	for _, b := range []*browser{first, second} {
		if status, _ := c.who(b); status != http.StatusUnauthorized {
			t.Errorf("a session of before still gives %d", status)
		}
	}
}

// The key set is read when a token names a key that isn't known, once, and not otherwise.
func oidcRolledKeysAreReadOnce(t *testing.T, up *rig.Up) {
	c, r, conn := oidcConnection(t, up)
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	c.wantIn("admin")
	before := r.keysAsked.Load()
	c.wantIn("admin")
	if got := r.keysAsked.Load(); got != before {
		t.Errorf("a key that is known is read again: %d times after %d", got, before)
	}
	r.addKey()
	r.forgetOldKeys()
	for range 3 {
		c.wantIn("admin")
	}
	if got := r.keysAsked.Load(); got != before+1 {
		t.Errorf("after the roll-over, the keys were read %d times, want once", got-before)
	}
}

// Whatever algorithm Keycloak signs with, but one with a shared secret.
func oidcEveryAlgorithmOfKeycloak(t *testing.T, up *rig.Up) {
	c, r, conn := oidcConnection(t, up)
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	for _, a := range []string{"ES256", "EdDSA"} { // Each by a key of its own; a third would be read after a minute.
		t.Log(a)
		r.set("corvo", object{"id.token.signed.response.alg": a})
		c.wantIn("admin")
	}
	r.set("corvo", object{"id.token.signed.response.alg": "PS256"})
	c.wantOut(http.StatusForbidden, "in again in a minute")
	r.set("corvo", object{"id.token.signed.response.alg": "HS256"})
	c.wantOut(http.StatusForbidden, "its signing algorithm isn't supported")

	t.Log("signed userinfo")
	r.set("corvo", object{"id.token.signed.response.alg": "RS256", "user.info.response.signature.alg": "RS256"})
	c.wantIn("admin")
}

// A wrong secret is told to whoever tries, and to people who sign in as not their fault.
func oidcAWrongSecretIsToldInWords(t *testing.T, up *rig.Up) {
	c, r, conn := oidcConnection(t, up)
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	c.sso("UpdateSsoConnection", object{"connectionId": conn.ID, "clientSecret": "wrong", "updateMask": "clientSecret"})
	p, found := c.try(conn.ID)
	const words = "doesn't accept the client ID and secret"
	if found.Succeeded || !strings.Contains(found.Problem, words) || !strings.Contains(text(p.body), words) {
		t.Errorf("test sign-in %+v\n%s", found, p)
	}
	c.wantIn("admin") // By the settings of before: the change is staged.

	// The realm's administrator makes a new one.
	var all []named
	r.call(http.MethodGet, r.admin("/clients?clientId=corvo"), nil, &all)
	var fresh struct {
		Value string `json:"value"`
	}
	r.call(http.MethodPost, r.admin("/clients/"+all[0].ID+"/client-secret"), nil, &fresh)
	c.wantOut(http.StatusBadGateway, words)
	c.sso("UpdateSsoConnection", object{"connectionId": conn.ID, "clientSecret": fresh.Value, "updateMask": "clientSecret"})
	c.wantTrial(conn.ID, "admin")
	c.sso("SwitchSsoConnection", object{"connectionId": conn.ID})
	c.wantIn("admin")
}

// A person who says no at the provider, and a code that is tried again, end in words.
func oidcACodeIsUsedOnce(t *testing.T, up *rig.Up) {
	c, _, conn := oidcConnection(t, up)
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	b := newBrowser(t)
	b.stopAt = strings.TrimPrefix(c.redirectURI(), c.base)
	came := b.visit(c.base + "/auth/oidc/start?tenant=" + c.name)
	if thief := newBrowser(t).visit(came.body); thief.status != http.StatusBadRequest && thief.status != http.StatusForbidden {
		t.Errorf("another browser brings the code: %s", thief)
	}
	if p := b.visit(came.body); p.status < 400 {
		t.Errorf("after another browser brought the code, its own: %s", p)
	}
}
