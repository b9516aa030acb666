package isolation

import (
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

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
		"tenant": of.name, "name": name, "serviceAccount": name, "provider": "TRUST_PROVIDER_KUBERNETES", "issuer": rig.IssuerURL, "audience": rig.Audience,
		"jwks": m.issuer.Keys(t), "conditions": []o{{"claim": "sub", "values": []string{subject}}},
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
	c.m.must(t, "TrustService/ExchangeToken", o{"tenant": c.of.name, "token": c.m.issuer.Token(t, c.subject)}, nil, &k)
	return k
}

// machines have keys of some minutes, for tokens of an issuer.
func (m *matrix) machines(t *testing.T) {
	t.Helper()
	for _, role := range machineRoles {
		m.add("exchanged-"+role, management, bearer(m.machine(t, m.own, role).exchange(t))).viewer = lookers(role)
	}
}
