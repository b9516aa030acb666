package keycloak_test

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// samlConnection makes a connection, a client of its metadata at the realm, and tells each of
// the other.
func samlConnection(t *testing.T, up *rig.Up) (*corvo, *realm, connection) {
	t.Helper()
	c := newTenant(t, up)
	r := newRealm(t)
	conn := c.sso("CreateSsoConnection", object{
		"name": "Keycloak", "type": "SSO_TYPE_SAML", "groupMappings": mappings,
		"saml": object{"signRequests": true, "wantEncrypted": true},
	})
	r.importClient(newBrowser(t).visit(conn.Details.Metadata).body)
	conn = c.readMetadata(r, conn.ID)
	return c, r, conn
}

// readMetadata has the connection read the realm's metadata, now.
func (c *corvo) readMetadata(r *realm, id string) connection {
	c.t.Helper()
	return c.sso("UpdateSsoConnection", object{
		"connectionId": id, "saml": object{"metadataUrl": r.issuer() + "/protocol/saml/descriptor"}, "updateMask": "saml.metadataUrl",
	})
}

// importClient makes a client of a service's metadata, as Keycloak's own page does.
func (r *realm) importClient(metadata string) {
	r.t.Helper()
	var client object
	r.call(http.MethodPost, r.admin("/client-description-converter"), metadata, &client)
	set, ok := client["attributes"].(object)
	if !ok {
		r.t.Fatalf("Keycloak reads our metadata as %v", client)
	}
	for name, want := range map[string]string{"saml.client.signature": "true", "saml.encrypt": "true"} {
		if set[name] != want {
			r.t.Errorf("Keycloak takes from our metadata %s=%v, want %s", name, set[name], want)
		}
	}
	maps.Copy(set, object{
		"saml.server.signature": "true", "saml.assertion.signature": "true", "saml.signature.algorithm": "RSA_SHA256",
		"saml_name_id_format": "persistent", "saml_force_name_id_format": "true", "saml_idp_initiated_sso_url_name": "corvo",
	})
	client["protocolMappers"] = []object{
		{"name": "groups", "protocol": "saml", "protocolMapper": "saml-group-membership-mapper",
			"config": object{"attribute.name": "groups", "attribute.nameformat": "Basic", "single": "false", "full.path": "false"}},
		{"name": "email", "protocol": "saml", "protocolMapper": "saml-user-property-mapper",
			"config": object{"user.attribute": "email", "attribute.name": "email", "attribute.nameformat": "Basic", "friendly.name": "email"}},
	}
	r.call(http.MethodPost, r.admin("/clients"), client, nil)
}

// set changes settings of a client, by its client id.
func (r *realm) set(clientID string, attributes object) {
	r.t.Helper()
	var all []object
	r.call(http.MethodGet, r.admin("/clients?clientId="+url.QueryEscape(clientID)), nil, &all)
	now, _ := all[0]["attributes"].(object)
	maps.Copy(now, attributes)
	id, _ := all[0]["id"].(string)
	r.call(http.MethodPut, r.admin("/clients/"+id), all[0], nil)
}

// Request and response are signed, the assertion is signed and encrypted, and the groups give
// the role.
func samlSignedAndEncryptedBothWays(t *testing.T, up *rig.Up) {
	c, r, conn := samlConnection(t, up)
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	b := c.wantIn("admin")
	if q := b.departed.Query(); q.Get("Signature") == "" || !strings.HasSuffix(q.Get("SigAlg"), "rsa-sha256") {
		t.Errorf("the request isn't signed with RSA-SHA256: %s", b.departed)
	}
	response := decoded(t, b.posted.Get("SAMLResponse"))
	if !strings.Contains(response, "EncryptedAssertion") || strings.Contains(response, "ada@example.com") || strings.Count(response, "SignatureValue>") < 2 {
		t.Errorf("the response isn't signed, or its assertion isn't encrypted:\n%s", response)
	}

	r.leave("admins")
	c.wantIn("viewer")
	r.leave("readers")
	c.wantOut(http.StatusForbidden, "none of your groups has a role here")
	if status, _ := c.who(b); status != http.StatusUnauthorized {
		t.Errorf("the session of before still gives %d", status)
	}
}

func decoded(t *testing.T, text string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	check(t, err)
	return string(raw)
}

// Whatever ciphers Keycloak offers for assertions: those with OAEP are read, and PKCS #1 v1.5,
// which gives away what it decrypts, is refused.
func samlEveryCipherOfKeycloak(t *testing.T, up *rig.Up) {
	const oaep11, oaep, mgf = "http://www.w3.org/2009/xmlenc11#rsa-oaep", "http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p", "http://www.w3.org/2009/xmlenc11#mgf1sha256"
	const sha256, sha512 = "http://www.w3.org/2001/04/xmlenc#sha256", "http://www.w3.org/2001/04/xmlenc#sha512"
	c, r, conn := samlConnection(t, up)
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	for _, s := range []struct{ cipher, transport, digest, mask string }{
		{"http://www.w3.org/2009/xmlenc11#aes256-gcm", oaep11, sha256, mgf},
		{"http://www.w3.org/2009/xmlenc11#aes128-gcm", oaep11, sha512, mgf},
		{"http://www.w3.org/2009/xmlenc11#aes192-gcm", oaep, sha256, ""},
		{"http://www.w3.org/2001/04/xmlenc#aes256-cbc", oaep, "", ""},
		{"http://www.w3.org/2001/04/xmlenc#aes128-cbc", oaep, "", ""},
		{"http://www.w3.org/2001/04/xmlenc#aes128-cbc", "http://www.w3.org/2001/04/xmlenc#rsa-1_5", "", ""},
	} {
		r.set(conn.Details.EntityID, object{
			"saml.encryption.algorithm": s.cipher, "saml.encryption.keyAlgorithm": s.transport, "saml.encryption.digestMethod": s.digest,
			"saml.encryption.maskGenerationFunction": s.mask,
		})
		if strings.HasSuffix(s.transport, "rsa-1_5") {
			c.wantOut(http.StatusForbidden, "response isn't valid")
			continue
		}
		b := c.wantIn("admin")
		response := decoded(t, b.posted.Get("SAMLResponse"))
		for _, used := range []string{s.cipher, s.transport, s.digest, s.mask} {
			if !strings.Contains(response, used) {
				t.Errorf("Keycloak doesn't use %s:\n%s", used, response)
			}
		}
	}
}

// What an administrator may click in Keycloak: good forms of a response are taken, weak ones
// refused.
func samlEveryFormOfKeycloak(t *testing.T, up *rig.Up) {
	c, r, conn := samlConnection(t, up)
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	for _, s := range []struct {
		name    string
		set     object
		refused bool
	}{
		{name: "the response alone is signed", set: object{"saml.assertion.signature": "false"}},
		{name: "the assertion alone is signed", set: object{"saml.assertion.signature": "true", "saml.server.signature": "false"}},
		{name: "nothing is signed", set: object{"saml.assertion.signature": "false", "saml.server.signature": "false"}, refused: true},
		{name: "SHA-512", set: object{"saml.server.signature": "true", "saml.signature.algorithm": "RSA_SHA512"}},
		{name: "SHA-1", set: object{"saml.signature.algorithm": "RSA_SHA1"}, refused: true},
		{name: "another canonicalization", set: object{"saml.signature.algorithm": "RSA_SHA256", "saml_signature_canonicalization_method": "http://www.w3.org/2001/10/xml-exc-c14n#WithComments"}, refused: true},
		{name: "key by id", set: object{"saml_signature_canonicalization_method": "http://www.w3.org/2001/10/xml-exc-c14n#", "saml.server.signature.keyinfo.xmlSigKeyInfoKeyNameTransformer": "KEY_ID"}},
		{name: "key by subject", set: object{"saml.server.signature.keyinfo.xmlSigKeyInfoKeyNameTransformer": "CERT_SUBJECT"}},
		{name: "a hint in Extensions", set: object{"saml.server.signature.keyinfo.ext": "true"}},
		{name: "OneTimeUse", set: object{"saml.server.signature.keyinfo.ext": "false", "saml.onetimeuse.condition": "true"}},
		{name: "not encrypted", set: object{"saml.encrypt": "false"}, refused: true},
		{name: "transient subject", set: object{"saml.encrypt": "true", "saml_name_id_format": "transient"}, refused: true},
		{name: "without AuthnStatement", set: object{"saml_name_id_format": "persistent", "saml.authnstatement": "false"}, refused: true},
	} {
		r.set(conn.Details.EntityID, s.set)
		t.Log(s.name)
		if s.refused {
			c.wantOut(http.StatusForbidden, "")
		} else {
			c.wantIn("admin")
		}
	}
}

// The provider gets a new key: both certificates are stored, then it switches, then the old
// one goes. Nobody is kept out at any step.
func samlTheCertificateIsRolledWithoutAGap(t *testing.T, up *rig.Up) {
	c, r, conn := samlConnection(t, up)
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	old := conn.SAML.Certificates

	next := r.addPassiveKey()
	c.sso("UpdateSsoConnection", object{"connectionId": conn.ID, "saml": object{"certificates": append(slices.Clone(old), next)}, "updateMask": "saml.certificates"})
	c.wantTrial(conn.ID, "admin")
	if got := c.sso("SwitchSsoConnection", object{"connectionId": conn.ID}); len(got.Details.Certificates) != len(old)+1 {
		t.Errorf("%d certificates are stored, want %d", len(got.Details.Certificates), len(old)+1)
	}
	c.wantIn("admin")

	r.forgetOldKeys() // The passive one is all that is left, so it signs.
	r.activate()
	c.wantIn("admin")

	c.sso("UpdateSsoConnection", object{"connectionId": conn.ID, "saml": object{"certificates": []string{next}}, "updateMask": "saml.certificates"})
	c.wantTrial(conn.ID, "admin")
	c.sso("SwitchSsoConnection", object{"connectionId": conn.ID})
	c.wantIn("admin")

	// A key that nobody told us of.
	r.addKey()
	c.wantOut(http.StatusForbidden, "response isn't valid")
}

// addPassiveKey makes a key that does not sign yet, and gives its certificate.
func (r *realm) addPassiveKey() string {
	r.t.Helper()
	r.call(http.MethodPost, r.admin("/components"), object{
		"name": "rolled passive", "providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider",
		"config": object{"priority": []string{"1"}, "enabled": []string{"true"}, "active": []string{"false"}, "algorithm": []string{"RS256"}, "keySize": []string{"2048"}},
	}, nil)
	var all struct {
		Keys []struct {
			Status, Use, Algorithm, Certificate string
		} `json:"keys"`
	}
	r.call(http.MethodGet, r.admin("/keys"), nil, &all)
	for _, k := range all.Keys {
		if k.Status == "PASSIVE" && k.Algorithm == "RS256" {
			raw, err := base64.StdEncoding.DecodeString(k.Certificate)
			check(r.t, err)
			return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
		}
	}
	r.t.Fatalf("no passive key in %+v", all)
	return ""
}

// activate has the passive key sign.
func (r *realm) activate() {
	r.t.Helper()
	var all []object
	r.call(http.MethodGet, r.admin("/components?type=org.keycloak.keys.KeyProvider"), nil, &all)
	for _, k := range all {
		if k["name"] == "rolled passive" {
			config, _ := k["config"].(object)
			config["active"] = []string{"true"}
			id, _ := k["id"].(string)
			r.call(http.MethodPut, r.admin("/components/"+id), k, nil)
		}
	}
}

// A response is good once, in the browser that asked, unchanged.
func samlAResponseIsUsedOnce(t *testing.T, up *rig.Up) {
	c, _, conn := samlConnection(t, up)
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	b := c.wantIn("admin")
	for name, fields := range map[string]url.Values{
		"again":              b.posted,
		"without RelayState": {"SAMLResponse": b.posted["SAMLResponse"]},
	} {
		for who, from := range map[string]*browser{"the same browser": b, "another browser": newBrowser(t)} {
			if p := from.post(b.postedTo, fields); p.status < 400 {
				t.Errorf("posted %s by %s: %s", name, who, p)
			}
		}
	}

	thief := newBrowser(t)
	b = newBrowser(t)
	b.stopAt = "/auth/saml/finish"
	came := b.visit(c.base + "/auth/oidc/start?tenant=" + c.name)
	if p := thief.visit(came.body); p.status < 400 {
		t.Errorf("another browser brings the ticket: %s", p)
	}
	if p := b.visit(came.body); p.status < 400 {
		t.Errorf("after another browser brought the ticket, its own: %s", p)
	}
}

// From the tile at the provider: refused unless allowed; then a person has to agree.
func samlFromTheProvidersPage(t *testing.T, up *rig.Up) {
	c, r, conn := samlConnection(t, up)
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	tile := r.issuer() + "/protocol/saml/clients/corvo"
	if p := newBrowser(t).visit(tile); p.status < 400 {
		t.Errorf("from the tile, not allowed: %s", p)
	}
	c.sso("UpdateSsoConnection", object{"connectionId": conn.ID, "saml": object{"allowIdpInitiated": true}, "updateMask": "saml.allowIdpInitiated"})
	c.wantTrial(conn.ID, "admin")
	c.sso("SwitchSsoConnection", object{"connectionId": conn.ID})
	b := newBrowser(t)
	p := b.visit(tile)
	if p.status != http.StatusOK || !strings.Contains(text(p.body), "Continue only if this is you") || !strings.Contains(p.body, "ada@example.com") {
		t.Fatalf("from the tile: %s", p)
	}
	if status, _ := c.who(b); status != http.StatusUnauthorized {
		t.Errorf("before anybody agreed, the browser is signed in: %d", status)
	}
	_, link, _ := strings.Cut(p.body, `href="/auth/saml/finish`)
	link, _, _ = strings.Cut(link, `"`)
	in := b.visit(c.base + "/auth/saml/finish" + strings.ReplaceAll(link, "&amp;", "&"))
	if status, answer := c.who(b); status != http.StatusOK || !strings.Contains(answer, "ada@example.com") {
		t.Errorf("after Continue: %d %s\n%s", status, answer, in)
	}
	if again := b.post(b.postedTo, b.posted); again.status < 400 || !strings.Contains(text(again.body), "already used") {
		t.Errorf("the same response again: %s", again)
	}
}

// Signing out at the provider, whose metadata of us was told of a logout address by hand,
// ends no session here, and Keycloak is told so.
func samlLogoutIsRefused(t *testing.T, up *rig.Up) {
	c, r, conn := samlConnection(t, up)
	slo := strings.TrimSuffix(conn.Details.ACS, "/acs") + "/slo"
	r.set(conn.Details.EntityID, object{"saml_single_logout_service_url_redirect": slo, "saml_single_logout_service_url_post": slo})
	c.wantTrial(conn.ID, "admin")
	c.enable(conn.ID)
	for name, binding := range map[string]object{"redirect": {"saml.force.post.binding": "false"}, "post": {"saml.force.post.binding": "true"}} {
		r.set(conn.Details.EntityID, binding)
		b := c.wantIn("admin")
		p := b.visit(r.issuer() + "/protocol/openid-connect/logout")
		if strings.Contains(p.body, "kc-logout") { // It asks whether one means it.
			to, fields := form(t, p)
			fields.Set("confirmLogout", "Logout")
			p = b.step(b.client, http.MethodPost, to, fields, "same-origin")
			if p.status >= 300 && p.status < 400 {
				p = b.visit(p.body)
			} else if strings.Contains(p.body, `name="SAMLRequest"`) {
				to, fields = form(t, p)
				if !strings.Contains(decoded(t, fields.Get("SAMLRequest")), "LogoutRequest") {
					t.Errorf("by %s: no logout request in %v", name, fields)
				}
				p = b.post(to, fields)
			}
		}
		if p.status != http.StatusForbidden || !strings.Contains(text(p.body), "Single logout isn't supported") || !strings.HasSuffix(p.url.Path, "/slo") {
			t.Errorf("by %s, Keycloak asks for logout and gets %s", name, p)
		}
		if raw := p.url.Query().Get("SAMLRequest"); raw != "" && !strings.Contains(inflated(t, raw), "LogoutRequest") {
			t.Errorf("by %s: no logout request in %s", name, inflated(t, raw))
		}
		if status, answer := c.who(b); status != http.StatusOK {
			t.Errorf("by %s: the session here is gone: %d %s", name, status, answer)
		}
	}
}

func inflated(t *testing.T, text string) string {
	t.Helper()
	raw, err := io.ReadAll(flate.NewReader(bytes.NewReader([]byte(decoded(t, text)))))
	check(t, err)
	return string(raw)
}
