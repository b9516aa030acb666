package exchange

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
)

// ofBits looks like a public key: nothing was signed with it.
func ofBits(kid string, bits uint) jose.JSONWebKey {
	n := new(big.Int).Lsh(big.NewInt(1), bits)
	return jose.JSONWebKey{Key: &rsa.PublicKey{N: n.Sub(n, big.NewInt(1)), E: 65537}, KeyID: kid, Algorithm: "RS256", Use: "sig"}
}

func TestReadKeys_TakesRSAKeysThatAreCheapToVerifyBy(t *testing.T) {
	t.Parallel()
	for bits, good := range map[uint]bool{1024: false, 2047: false, 2048: true, 4096: true, 8192: true, 8193: false, 80_000: false} {
		raw := marshal(t, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{ofBits("one", bits)}})
		if keys, err := readKeys(raw); (err == nil) != good || (len(keys) == 1) != good {
			t.Errorf("%d bits: %d keys, %v", bits, len(keys), err)
		}
	}
}

// A key set's owner can give all its keys one id, and whoever calls names it.
func TestCheck_TriesFewKeysOfOneID(t *testing.T) {
	t.Parallel()
	key := rsaKey(t, 2048)
	signed, err := readToken(sign(t, jose.RS256, key, "one", nil, map[string]any{"iss": "a"}))
	if err != nil {
		t.Fatal(err)
	}
	var keys []jose.JSONWebKey
	for range sameIDMax - 1 {
		keys = append(keys, ofBits("one", 2048), ofBits("other", 2048))
	}
	right := jose.JSONWebKey{Key: key.Public(), KeyID: "one"}
	if err := check(signed, append(keys, right)); err != nil {
		t.Errorf("the last that counts: %v", err)
	}
	if err := check(signed, append(keys, ofBits("one", 2048), right)); err == nil {
		t.Error("one more was tried")
	}
}

func TestExchange_KeysAreReadOnlyForATokenThatFitsATrust(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.trust(func(r *cloudv1.CreateTrustRequest) { r.Cidrs = []string{"198.51.100.0/24"} })
	b.s = b.replica() // That has read nothing yet.
	for _, claims := range []map[string]any{{"aud": "https://elsewhere.example"}, {"exp": 1}, {"repository": "evil/web"}} {
		before := b.issuer.read()
		if _, err := b.exchange(b.issuer.token(claims)); err == nil {
			t.Errorf("%v was accepted", claims)
		}
		if n := b.issuer.read() - before; n > 0 {
			t.Errorf("%v: the keys were read %d times", claims, n)
		}
	}
	before := b.issuer.read()
	ctx, _ := cloudtest.Public(t, "203.0.113.9", "")
	if _, err := b.s.ExchangeToken(ctx, &cloudv1.ExchangeTokenRequest{Tenant: "acme", Token: b.issuer.token(nil)}); err == nil || b.issuer.read() > before {
		t.Errorf("from another network: %v, %d readings", err, b.issuer.read()-before)
	}
	b.accepted("a good token", b.issuer.token(nil))
}

// Whoever makes trusts could otherwise have each call without a credential verify by as many
// key sets as there may be trusts.
func TestExchange_AsksFewKeySetsInOneCall(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	good := b.issuer.published[0]
	paste := func(name string, keys ...jose.JSONWebKey) {
		raw, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		b.trust(func(r *cloudv1.CreateTrustRequest) { r.Name, r.Jwks = name, string(raw) })
	}
	for i := range keySetsMax {
		paste(fmt.Sprint("wrong-", i), ofBits(fmt.Sprint(i), 2048))
	}
	b.Advance(time.Second)
	paste("right", good)
	_, err := b.exchange(b.issuer.token(nil))
	b.refused("among too many", err, "name one trust")
	ctx, _ := cloudtest.Public(t, "198.51.100.7", "")
	if _, err := b.s.ExchangeToken(ctx, &cloudv1.ExchangeTokenRequest{Tenant: "acme", Trust: "right", Token: b.issuer.token(nil)}); err != nil {
		t.Errorf("by its name: %v", err)
	}
}

// Trusts of the same keys are one to ask, however many there are.
func TestExchange_ManyTrustsOfOneIssuerAskItOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	for i := range keySetsMax + 2 {
		b.trust(func(r *cloudv1.CreateTrustRequest) { r.Name = fmt.Sprint("web-", i) })
	}
	_, err := b.exchange(b.issuer.token(nil))
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
}

// Readings are shared, so whoever hangs up must not fail the next one who asks.
func TestIssuers_ACallerWhoHangsUpStopsNobodysReading(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.trust(nil)
	b.s = b.replica() // That has read nothing yet.
	token := b.issuer.token(nil)
	read, err := readToken(token)
	if err != nil {
		t.Fatal(err)
	}
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if err := b.s.issuers.verify(gone, b.tenant.ID, b.issuer.url(), "", read); err != nil {
		t.Errorf("the reading ended with its caller: %v", err)
	}
	b.accepted("of somebody who waits", token)
}
