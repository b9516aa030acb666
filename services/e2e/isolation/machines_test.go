package isolation

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// issuer signs tokens as a cluster does that the service can't reach: trusts have its keys.
type issuer struct{ private ed25519.PrivateKey }

const (
	issuerURL = "https://cluster.example"
	audience  = "https://corvo.example"
)

func newIssuer(t *testing.T) issuer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{private}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// keys is the key set as it is pasted into a trust.
func (i issuer) keys(t *testing.T) string {
	t.Helper()
	public, _ := i.private.Public().(ed25519.PublicKey)
	raw, err := json.Marshal(o{"keys": []o{{"kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig", "x": base64.RawURLEncoding.EncodeToString(public)}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// token is one of a pod, good for once.
func (i issuer) token(t *testing.T, subject string) string {
	t.Helper()
	now := time.Now()
	text := encoded(t, o{"alg": "EdDSA", "kid": "1"}) + "." + encoded(t, o{
		"iss": issuerURL, "aud": audience, "sub": subject, "iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(), "jti": rand.Text(),
	})
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(i.private, []byte(text)))
}

// machine is a service account with a trust, whose tokens are exchanged for keys.
type machine struct {
	m                       *matrix
	of                      *signedUp
	account, trust, subject string
}

func (m *matrix) machine(t *testing.T, of *signedUp, role string) *machine {
	t.Helper()
	name := "m-" + strings.ToLower(crockford(12))
	var made struct {
		ServiceAccount, Trust struct{ ID string }
	}
	m.must(t, "ServiceAccountService/CreateServiceAccount", o{"tenant": of.name, "name": name, "roles": []string{role}}, of.admin(), &made)
	subject := "system:serviceaccount:prod:" + name
	m.must(t, "TrustService/CreateTrust", o{
		"tenant": of.name, "name": name, "serviceAccount": name, "provider": "TRUST_PROVIDER_KUBERNETES", "issuer": issuerURL, "audience": audience,
		"jwks": m.issuer.keys(t), "conditions": []o{{"claim": "sub", "values": []string{subject}}},
	}, of.admin(), &made)
	return &machine{m: m, of: of, account: made.ServiceAccount.ID, trust: made.Trust.ID, subject: subject}
}

// exchange gives a key for a new token.
func (c *machine) exchange(t *testing.T) string {
	t.Helper()
	return c.exchanged(t).Key
}

type exchangedKey struct{ Key, KeyID string }

func (c *machine) exchanged(t *testing.T) (k exchangedKey) {
	t.Helper()
	c.m.must(t, "TrustService/ExchangeToken", o{"tenant": c.of.name, "token": c.m.issuer.token(t, c.subject)}, nil, &k)
	return k
}

// machines have keys of some minutes, for tokens of an issuer.
func (m *matrix) machines(t *testing.T) {
	t.Helper()
	for _, role := range machineRoles {
		m.add("exchanged-"+role, management, bearer(m.machine(t, m.own, role).exchange(t))).viewer = lookers(role)
	}
}
