// Package oidctest owns an OpenID provider that asks nobody for a password: whoever comes is
// the person it was told.
//
// It must not know who asks. Surprising: it takes any code that it gave, and any client secret;
// a real provider stands in e2e/keycloak.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Client is the id of the provider's one client.
const Client = "corvo"

// tokenLife is how long an ID token counts.
const tokenLife = time.Minute

// Provider signs everybody in as one person.
type Provider struct {
	*httptest.Server
	key *rsa.PrivateKey

	mu     sync.Mutex        // Guards the rest.
	email  string            // Is the subject too.
	nonces map[string]string // By code.
}

// Start runs a provider until the test ends, at first for the person with this address.
func Start(t testing.TB, email string) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{key: key, email: email, nonces: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.document)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// Become signs everybody in as somebody else from now on.
func (p *Provider) Become(email string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.email = email
}

func (p *Provider) document(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"response_types_supported": []string{"code"}, "id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q, code := r.URL.Query(), rand.Text()
	p.mu.Lock()
	p.nonces[code] = q.Get("nonce")
	p.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusSeeOther)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	nonce, known := p.nonces[r.FormValue("code")]
	email := p.email
	p.mu.Unlock()
	if !known {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	now := time.Now()
	token, err := p.sign(map[string]any{
		"iss": p.URL, "aud": Client, "sub": email, "email": email, "email_verified": true, "nonce": nonce, "iat": now.Unix(), "exp": now.Add(tokenLife).Unix(),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, map[string]any{"access_token": "none", "token_type": "Bearer", "expires_in": int(tokenLife.Seconds()), "id_token": token})
}

func (p *Provider) sign(claims map[string]any) (string, error) {
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(`{"alg":"RS256","kid":"1","typ":"JWT"}`)) + "." + b64(body)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, digest[:])
	return text + "." + b64(signature), err
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // The caller may be gone.
}
