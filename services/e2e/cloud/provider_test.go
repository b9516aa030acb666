package cloud_test

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

// provider is an OpenID provider that asks nobody for a password: whoever comes is the
// person it was told. (The real one is in e2e/keycloak.)
type provider struct {
	*httptest.Server
	key *rsa.PrivateKey

	mu     sync.Mutex // Guards the rest.
	email  string     // Is the subject too.
	nonces map[string]string
}

func startProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, nonces: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"response_types_supported": []string{"code"}, "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
			"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q, code := r.URL.Query(), rand.Text()
		p.mu.Lock()
		p.nonces[code] = q.Get("nonce")
		p.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusSeeOther)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		now := time.Now().Unix()
		answerJSON(w, map[string]any{"access_token": "none", "token_type": "Bearer", "expires_in": 60, "id_token": p.sign(map[string]any{
			"iss": p.URL, "aud": "corvo", "sub": p.email, "email": p.email, "email_verified": true, "nonce": p.nonces[r.FormValue("code")], "iat": now, "exp": now + 60,
		})})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) become(email string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.email = email
}

func (p *provider) sign(claims map[string]any) string {
	body, err := json.Marshal(claims)
	if err != nil {
		return ""
	}
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(`{"alg":"RS256","kid":"1","typ":"JWT"}`)) + "." + b64(body)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, digest[:])
	if err != nil {
		return ""
	}
	return text + "." + b64(signature)
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // The caller may be gone.
}
