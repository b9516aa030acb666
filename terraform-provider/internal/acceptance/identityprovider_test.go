package acceptance

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// identityProvider signs everybody in as one person, by OpenID Connect.
type identityProvider struct {
	*httptest.Server

	client, email string
	key           *rsa.PrivateKey
	mu            sync.Mutex
	nonces        map[string]string // Guarded by mu.
}

func startIdentityProvider(t *testing.T, client, email string) *identityProvider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &identityProvider{client: client, email: email, key: key, nonces: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"response_types_supported": []string{"code"}, "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{
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
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *identityProvider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	nonce := p.nonces[r.FormValue("code")]
	p.mu.Unlock()
	now, b64 := time.Now().Unix(), base64.RawURLEncoding.EncodeToString
	claims, _ := json.Marshal(map[string]any{ // Texts and numbers only.
		"iss": p.URL, "aud": p.client, "sub": p.email, "email": p.email, "email_verified": true, "nonce": nonce, "iat": now, "exp": now + 60,
	})
	text := b64([]byte(`{"alg":"RS256","kid":"1","typ":"JWT"}`)) + "." + b64(claims)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, digest[:])
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	answer(w, map[string]any{"access_token": "none", "token_type": "Bearer", "expires_in": 60, "id_token": text + "." + b64(signature)})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // The caller may be gone.
}

// tryOut is a person who is signed in to the console and tests a connection, as it is staged
// or else as it is.
func (s *service) tryOut(t *testing.T, connection string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser, email := &http.Client{Jar: jar}, name(t, "tester")+"@acme.test"
	o := s.other()
	must(o.members.CreateInvitation(t.Context(), connect.NewRequest(&cloudv1.CreateInvitationRequest{Email: email, Roles: []string{"admin"}})))(t)
	members := cloudv1connect.NewMemberServiceClient(browser, s.endpoint())
	eventually.NoError(t, startMax, "accept the invitation", func() error {
		err := error(connect.NewError(connect.CodeNotFound, nil))
		for _, token := range s.invitations(t, email) {
			_, err = members.AcceptInvitation(t.Context(), connect.NewRequest(&cloudv1.AcceptInvitationRequest{Token: token}))
		}
		return err
	})
	user := s.memberOf(t, email)
	t.Cleanup(func() { s.leave(t, user) })
	start := must(o.connections.StartTestLogin(t.Context(), connect.NewRequest(&cloudv1.StartTestLoginRequest{ConnectionId: connection})))(t)
	res, err := browser.Get(start.GetUrl())
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("test sign-in: %d %v", res.StatusCode, err)
	}
}
