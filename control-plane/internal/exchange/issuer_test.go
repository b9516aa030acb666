package exchange

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer signs tokens as GitHub does, really, and lets a test change one thing.
type issuer struct {
	t      testing.TB
	server *httptest.Server
	now    func() time.Time

	mu        sync.Mutex // Guards what follows.
	key       crypto.PrivateKey
	kid       string
	algorithm jose.SignatureAlgorithm
	published []jose.JSONWebKey
	reads     int // Of the key set.
	down      bool
	document  map[string]any
}

func newIssuer(t testing.TB, now func() time.Time) *issuer {
	t.Helper()
	i := &issuer{t: t, now: now}
	i.rotate("key-1")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		document := map[string]any{"issuer": i.url(), "jwks_uri": i.url() + "/keys"}
		maps.Copy(document, i.document)
		i.write(w, document)
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.reads++
		i.write(w, jose.JSONWebKeySet{Keys: i.published})
	})
	i.server = httptest.NewServer(mux)
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) url() string { return i.server.URL }

// read is how often the key set was read.
func (i *issuer) read() (n int) {
	i.with(func(i *issuer) { n = i.reads })
	return n
}

func (i *issuer) write(w http.ResponseWriter, v any) {
	if i.down {
		http.Error(w, "secret inside", http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(v) // The caller may have hung up.
}

// with changes the issuer while nothing is served.
func (i *issuer) with(f func(*issuer)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f(i)
}

// rotate signs with a new key and publishes it alone.
func (i *issuer) rotate(kid string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.with(func(i *issuer) {
		i.key, i.kid, i.algorithm = key, kid, jose.ES256
		i.published = []jose.JSONWebKey{{Key: key.Public(), KeyID: kid, Algorithm: "ES256", Use: "sig"}}
	})
}

// claims are those of a job in acme/web, as GitHub writes them.
func (i *issuer) claims(more map[string]any) map[string]any {
	now := i.now()
	c := map[string]any{
		"iss": i.url(), "aud": audience, "sub": "repo:acme/web:ref:refs/heads/main", "iat": now.Unix(), "nbf": now.Unix() - 300, "exp": now.Add(5 * time.Minute).Unix(),
		"jti": rand.Text(), "repository": "acme/web", "repository_owner_id": "1234", "ref": "refs/heads/main", "environment": "production",
	}
	for k, v := range more {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// token is a good one but for what more says; nil leaves a claim out.
func (i *issuer) token(more map[string]any) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return sign(i.t, i.algorithm, i.key, i.kid, nil, i.claims(more))
}

func sign(t testing.TB, algorithm jose.SignatureAlgorithm, key any, kid string, header map[jose.HeaderKey]any, claims any) string {
	t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: header}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, options)
	if err != nil {
		t.Fatal(err)
	}
	plain, ok := claims.([]byte)
	if !ok {
		if plain, err = json.Marshal(claims); err != nil {
			t.Fatal(err)
		}
	}
	signed, err := signer.Sign(plain)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unsigned is a token whose header says that it needs no signature.
func unsigned(algorithm string, claims map[string]any) string {
	plain, _ := json.Marshal(claims)
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(`{"alg":"`+algorithm+`","typ":"JWT"}`)) + "." + e.EncodeToString(plain) + "."
}

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
