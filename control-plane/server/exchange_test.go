package server

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const trustService = "/corvo.cloud.v1.TrustService/"

// cluster signs tokens of a Kubernetes cluster that nobody can reach.
func cluster(t *testing.T) (jwks string, token func(audience string) string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(set), func(audience string) string {
		now := time.Now()
		claims, err := json.Marshal(map[string]any{
			"iss": "https://kubernetes.default.svc", "aud": []string{audience}, "sub": "system:serviceaccount:prod:web", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": rand.Text(),
		})
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// The key of a token is one like others until it ends, but can't make itself last.
func TestExchange_TheKeyWorksHereUntilItsTrustIsGone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.newFixture(t, "acme")
	jwks, token := cluster(t)
	account := a.account(t, permission.RoleAdmin)
	made := s.call(t, trustService+"CreateTrust", marshal(t, &cloudv1.CreateTrustRequest{
		Name: "web", ServiceAccount: account, Provider: cloudv1.TrustProvider_TRUST_PROVIDER_KUBERNETES, Issuer: "https://kubernetes.default.svc", Jwks: jwks,
		Conditions: []*cloudv1.TrustCondition{{Claim: "sub", Values: []string{"system:serviceaccount:prod:web"}}},
	}), bearer(a.manage)...)
	if made.status != http.StatusOK {
		t.Fatal(made.body)
	}
	trust, _ := made.json(t)["trust"].(map[string]any)
	if trust["audience"] != s.http.URL+"/acme" {
		t.Errorf("audience %v", trust["audience"])
	}
	used := token(s.http.URL + "/acme")
	given := s.call(t, trustService+"ExchangeToken", marshal(t, &cloudv1.ExchangeTokenRequest{Tenant: "acme", Token: used}))
	if given.status != http.StatusOK {
		t.Fatal(given.body)
	}
	key, _ := given.json(t)["key"].(string)
	keyID, _ := given.json(t)["keyId"].(string)
	as := []string{"Authorization", "Bearer " + key}
	if !strings.HasPrefix(key, "corvo_tmp_") {
		t.Errorf("key %q", key)
	}
	if r := s.call(t, whoami, "{}", as...); r.status != http.StatusOK || !strings.Contains(r.body, keyID) {
		t.Errorf("who am I: %d %s", r.status, r.body)
	}
	const keys = "/corvo.cloud.v1.ApiKeyService/"
	if r := s.call(t, keys+"ListApiKeys", "{}", as...); r.status != http.StatusOK || strings.Contains(r.body, keyID) {
		t.Errorf("listed among lasting keys: %d %s", r.status, r.body)
	}
	if r := s.call(t, keys+"ListApiKeys", `{"showTemporary":true}`, as...); !strings.Contains(r.body, keyID) || !strings.Contains(r.body, "KEY_KIND_TEMPORARY") {
		t.Errorf("not listed with temporary ones: %d %s", r.status, r.body)
	}
	for call, body := range map[string]string{
		"UpdateApiKey": `{"keyId":"` + keyID + `","updateMask":"expiresAt"}`, "RotateApiKey": `{"keyId":"` + keyID + `"}`,
	} {
		if r := s.call(t, keys+call, body, as...); !strings.Contains(r.body, "KEY_TEMPORARY") {
			t.Errorf("%s of itself: %d %s", call, r.status, r.body)
		}
	}
	if r := s.call(t, keys+"CreateApiKey", `{"name":"lasting","kind":"KEY_KIND_MANAGEMENT","owner":"`+account+`"}`, as...); !strings.Contains(r.body, "expires_at") {
		t.Errorf("a key that lasts: %d %s", r.status, r.body)
	}
	// Its text under another kind is not its text.
	if r := s.call(t, whoami, "{}", "Authorization", "Bearer "+strings.Replace(key, "_tmp_", "_mg_", 1)); r.status != http.StatusUnauthorized {
		t.Errorf("as a management key: %d", r.status)
	}
	if strings.Contains(s.log.String(), used) || strings.Contains(s.log.String(), key) {
		t.Error("the token or its key is in the log")
	}
	id, _ := trust["id"].(string)
	if r := s.call(t, trustService+"DeleteTrust", `{"trustId":"`+id+`"}`, bearer(a.manage)...); r.status != http.StatusOK {
		t.Fatal(r.body)
	}
	if r := s.call(t, whoami, "{}", as...); r.status != http.StatusUnauthorized {
		t.Errorf("its trust is gone, and the key works: %d %s", r.status, r.body)
	}
}

// A stranger learns from no answer whether a tenant, a trust or a claim is what was wrong.
func TestExchange_EachRefusalIsTheSame(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.newFixture(t, "acme")
	a.trust(t)
	_, token := cluster(t)
	var first string
	for _, r := range []*cloudv1.ExchangeTokenRequest{
		{Tenant: "acme", Token: token("x")}, {Tenant: "nobody", Token: token("x")}, {Tenant: "acme", Token: "nonsense"}, {Tenant: "acme", Token: token("x"), Trust: "another"}, {Token: token("x")}, {},
	} {
		got := anonymous(s.call(t, trustService+"ExchangeToken", marshal(t, r)))
		if first == "" {
			first = got
		}
		if got != first || !strings.Contains(got, "TOKEN_NOT_ACCEPTED") {
			t.Errorf("%v: %s, want %s", r.GetTenant(), got, first)
		}
	}
}
