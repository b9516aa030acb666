package sso

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	clientID     = "corvo-client"
	clientSecret = "a client secret that must never be shown"
)

// idp is an OpenID provider for attacks: it does all that a good one does, with good
// signatures, and lets a test change one thing.
type idp struct {
	t      *testing.T
	server *httptest.Server
	now    func() time.Time

	mu sync.Mutex // Guards what follows.
	// The signing key and the ones that are published.
	signer    *ecdsa.PrivateKey
	kid       string
	published []jose.JSONWebKey
	codes     map[string]grant
	// secret is the one that the client must show.
	secret string
	// Claims of whoever signs in, beside the protocol's own.
	person map[string]any
	// change is applied to the id token's claims; sign replaces signing.
	change func(claims map[string]any)
	sign   func(claims map[string]any) string
	// document is applied to the discovery document, answer to the token endpoint's.
	document func(map[string]any)
	answer   func(map[string]any)
	// userinfo is served if it is set.
	userinfo map[string]any
	// signUserinfo, if set, makes a signed answer of it.
	signUserinfo func(claims map[string]any) string
	// Counted calls.
	keyReads, tokenCalls, documentReads, codesMade int
	// lastToken are the parameters of the last call of the token endpoint.
	lastToken url.Values
	down      bool
	keysDown  bool
}

// grant is what a code stands for.
type grant struct{ nonce, challenge, redirectURI string }

func newIDP(t *testing.T, now func() time.Time) *idp {
	t.Helper()
	p := &idp{t: t, now: now, secret: clientSecret, codes: map[string]grant{}, person: map[string]any{"sub": "subject-1", "email": "ada@idp.example", "name": "Ada"}}
	p.rotate("key-1")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.serveDocument)
	mux.HandleFunc("GET /keys", p.serveKeys)
	mux.HandleFunc("POST /token", p.serveToken)
	mux.HandleFunc("GET /userinfo", p.serveUserinfo)
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	return p
}

func (p *idp) issuer() string { return p.server.URL }

// with changes the provider while nothing is served.
func (p *idp) with(f func(*idp)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// rotate signs with a new key and publishes it alone.
func (p *idp) rotate(kid string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signer, p.kid = key, kid
	p.published = []jose.JSONWebKey{{Key: key.Public(), KeyID: kid, Algorithm: "ES256", Use: "sig"}}
}

func (p *idp) serveDocument(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.documentReads++
	if p.down {
		http.Error(w, "secret inside of the provider", http.StatusServiceUnavailable)
		return
	}
	doc := map[string]any{
		"issuer": p.issuer(), "authorization_endpoint": p.issuer() + "/authorize", "token_endpoint": p.issuer() + "/token",
		"jwks_uri": p.issuer() + "/keys", "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256", "RS256"}, "code_challenge_methods_supported": []string{"S256"},
	}
	if p.userinfo != nil {
		doc["userinfo_endpoint"] = p.issuer() + "/userinfo"
	}
	if p.document != nil {
		p.document(doc)
	}
	p.write(w, doc)
}

func (p *idp) serveKeys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keyReads++
	if p.keysDown {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	p.write(w, jose.JSONWebKeySet{Keys: p.published})
}

func (p *idp) serveUserinfo(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer access-token" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if p.signUserinfo != nil {
		w.Header().Set("Content-Type", "application/jwt")
		_, _ = w.Write([]byte(p.signUserinfo(p.userinfo))) // The caller may have hung up.
		return
	}
	p.write(w, p.userinfo)
}

// authorize is the person at the provider saying yes: from the address that the browser
// was sent to, to the one it is sent back to.
func (p *idp) authorize(to string) *url.URL {
	p.t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		p.t.Fatal(err)
	}
	q := u.Query()
	if q.Get("client_id") != clientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" {
		p.t.Fatalf("the provider was asked with %v", q)
	}
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.codesMade++
	code := fmt.Sprintf("code-%d", p.codesMade)
	p.codes[code] = grant{nonce: q.Get("nonce"), challenge: q.Get("code_challenge"), redirectURI: q.Get("redirect_uri")}
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	return back
}

func (p *idp) serveToken(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokenCalls++
	w.Header().Set("Content-Type", "application/json")
	if err := r.ParseForm(); err != nil {
		p.t.Error(err)
	}
	p.lastToken = r.PostForm
	id, secret, _ := r.BasicAuth()
	if id != url.QueryEscape(clientID) || secret != url.QueryEscape(p.secret) {
		w.WriteHeader(http.StatusUnauthorized)
		p.write(w, map[string]any{"error": "invalid_client", "error_description": "<script>wrong secret</script>"})
		return
	}
	g, ok := p.codes[r.PostForm.Get("code")]
	delete(p.codes, r.PostForm.Get("code"))
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge || r.PostForm.Get("redirect_uri") != g.redirectURI {
		w.WriteHeader(http.StatusBadRequest)
		p.write(w, map[string]any{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{
		"iss": p.issuer(), "aud": clientID, "nonce": g.nonce, "iat": p.now().Unix(), "exp": p.now().Add(5 * time.Minute).Unix(),
		"at_hash": leftHalf("access-token"),
	}
	for k, v := range p.person {
		claims[k] = v
	}
	if p.change != nil {
		p.change(claims)
	}
	token := ""
	if p.sign != nil {
		token = p.sign(claims)
	} else {
		token = p.signed(claims)
	}
	answer := map[string]any{"access_token": "access-token", "token_type": "Bearer", "expires_in": 300, "id_token": token}
	if p.answer != nil {
		p.answer(answer)
	}
	p.write(w, answer)
}

// leftHalf is the at_hash of an access token (OpenID Connect Core, 3.1.3.6).
func leftHalf(accessToken string) string {
	sum := sha256.Sum256([]byte(accessToken))
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}

func (p *idp) signed(claims map[string]any) string {
	return p.signedWith(jose.ES256, p.signer, p.kid, claims)
}

func (p *idp) signedWith(alg jose.SignatureAlgorithm, key crypto.PrivateKey, kid string, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	plain, err := json.Marshal(claims)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	jws, err := signer.Sign(plain)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		p.t.Error(err)
	}
	return text
}

// unsigned is a token whose header says that it needs no signature.
func unsigned(claims map[string]any) string {
	plain, err := json.Marshal(claims)
	if err != nil {
		return ""
	}
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + e.EncodeToString(plain) + "."
}

func (p *idp) write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // The caller may have hung up.
}
