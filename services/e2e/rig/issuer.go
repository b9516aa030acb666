package rig

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"
)

// IssuerURL and Audience are in the tokens of an Issuer.
const (
	IssuerURL = "https://cluster.example"
	Audience  = "https://corvo.example"
)

// Issuer signs tokens as a cluster does that the service can't reach: trusts have its keys.
type Issuer struct{ private ed25519.PrivateKey }

// NewIssuer has a key of its own.
func NewIssuer(t testing.TB) Issuer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	check(t, err)
	return Issuer{private}
}

// Keys is the key set as it is pasted into a trust.
func (i Issuer) Keys(t testing.TB) string {
	t.Helper()
	public, _ := i.private.Public().(ed25519.PublicKey)
	return string(must(json.Marshal(map[string]any{"keys": []any{
		map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig", "x": base64.RawURLEncoding.EncodeToString(public)},
	}}))(t))
}

// Token is one of a pod, which the service takes once.
func (i Issuer) Token(t testing.TB, subject string) string {
	t.Helper()
	part := func(v map[string]any) string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v))(t)) }
	now := time.Now()
	text := part(map[string]any{"alg": "EdDSA", "kid": "1"}) + "." + part(map[string]any{
		"iss": IssuerURL, "aud": Audience, "sub": subject, "iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(), "jti": rand.Text(),
	})
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(i.private, []byte(text)))
}
