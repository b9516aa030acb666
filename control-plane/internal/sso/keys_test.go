package sso

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
)

const exponent = 65537

// hugeKey is a key of 9,689 bits that nobody has to wait for: a known prime is all it is made
// of, so that it can be signed with, though anybody else could, too.
func hugeKey() *rsa.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), 9689)
	return &rsa.PublicKey{N: n.Sub(n, big.NewInt(1)), E: exponent}
}

// signedHuge signs by PKCS #1 v1.5 with hugeKey.
func signedHuge(t *testing.T, kid string, claims map[string]any) string {
	t.Helper()
	plain, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	e := base64.RawURLEncoding
	text := e.EncodeToString([]byte(fmt.Sprintf(`{"alg":"RS256","kid":%q}`, kid))) + "." + e.EncodeToString(plain)
	key := hugeKey()
	one := big.NewInt(1)
	d := new(big.Int).ModInverse(big.NewInt(exponent), new(big.Int).Sub(key.N, one))
	sum := sha256.Sum256([]byte(text))
	// RFC 8017, 9.2: the prefix says that it is a SHA-256.
	info := append([]byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}, sum[:]...)
	padded := append([]byte{0, 1}, strings.Repeat("\xff", key.Size()-len(info)-3)...)
	padded = append(append(padded, 0), info...)
	signature := new(big.Int).Exp(new(big.Int).SetBytes(padded), d, key.N).FillBytes(make([]byte, key.Size()))
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature); err != nil {
		t.Fatal(err)
	}
	return text + "." + e.EncodeToString(signature)
}

func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeys_OutsideOfTheBoundsCountNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	strong, weak := rsaKey(t, 2048), rsaKey(t, 1024)
	b.idp.with(func(p *idp) {
		for kid, key := range map[string]any{"strong": strong.Public(), "weak": weak.Public(), "huge": hugeKey()} {
			p.published = append(p.published, jose.JSONWebKey{Key: key, KeyID: kid, Algorithm: "RS256", Use: "sig"})
		}
	})
	b.enabled(nil)
	b.idp.with(func(p *idp) {
		p.sign = func(c map[string]any) string { return p.signedWith(jose.RS256, strong, "strong", c) }
	})
	b.mustEnter()
	b.idp.with(func(p *idp) {
		p.sign = func(c map[string]any) string { return p.signedWith(jose.RS256, weak, "weak", c) }
	})
	b.mustRefuse("signature")
	b.idp.with(func(p *idp) { p.sign = func(c map[string]any) string { return signedHuge(t, "huge", c) } })
	b.mustRefuse("signature")
}

// What the library reads of userinfo may be signed, too, by the same keys.
func TestKeys_OfSignedUserinfoAreBoundedToo(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.idp.with(func(p *idp) {
		p.published = append(p.published, jose.JSONWebKey{Key: hugeKey(), KeyID: "huge", Algorithm: "RS256", Use: "sig"})
		p.userinfo = map[string]any{"sub": "subject-1", "groups": []string{"admins"}}
	})
	b.enabled(nil)
	b.idp.with(func(p *idp) { p.signUserinfo = func(c map[string]any) string { return p.signed(c) } })
	b.mustEnter()
	b.idp.with(func(p *idp) {
		p.signUserinfo = func(c map[string]any) string { return signedHuge(t, "huge", c) }
	})
	b.mustRefuse("userinfo")
}

func TestKeySet_IsCutToWhatIsCheapToVerifyBy(t *testing.T) {
	t.Parallel()
	good := jose.JSONWebKey{Key: rsaKey(t, 2048).Public(), KeyID: "good"}
	text, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	many := strings.Repeat(","+string(text), sameIDMax+5)[1:]
	others := ""
	for i := range keysMax + 5 {
		others += fmt.Sprintf(`,{"kty":"EC","kid":"%d"}`, i)
	}
	huge := base64.RawURLEncoding.EncodeToString(hugeKey().N.Bytes())
	n := base64.RawURLEncoding.EncodeToString(good.Key.(*rsa.PublicKey).N.Bytes())
	for name, tc := range map[string]struct {
		set  string
		want int
	}{
		"a good one":                    {string(text), 1},
		"many of one id":                {many, sameIDMax},
		"many":                          {others[1:], keysMax},
		"two sizes":                     {`{"kty":"RSA","e":"AQAB","N":"` + n + `","n":"` + huge + `"}`, 0},
		"two sizes the other way":       {`{"kty":"RSA","e":"AQAB","n":"` + huge + `","N":"` + n + `"}`, 0},
		"no size":                       {`{"kty":"RSA","e":"AQAB"}`, 0},
		"a size that isn't base64":      {`{"kty":"RSA","e":"AQAB","n":"!"}`, 0},
		"no key":                        {`7`, 0},
		"padded, with zeros before it":  {`{"kty":"RSA","e":"AQAB","n":"` + base64.URLEncoding.EncodeToString(append(make([]byte, 2000), 1)) + `"}`, 0},
		"one that isn't RSA, of no use": {`{"kty":"oct","k":"AAAA"}`, 1},
	} {
		raw, err := cheapKeys([]byte(`{"keys":[` + tc.set + `]}`))
		var got struct{ Keys []json.RawMessage }
		if err == nil {
			err = json.Unmarshal(raw, &got)
		}
		if err != nil || len(got.Keys) != tc.want {
			t.Errorf("%s: %d keys, %v, want %d", name, len(got.Keys), err, tc.want)
		}
	}
	if _, err := cheapKeys([]byte(`[]`)); err == nil {
		t.Error("a list was taken for a key set")
	}
}

func TestToken_OfAnUnreasonableLengthIsNotRead(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.enabled(nil)
	b.idp.with(func(p *idp) { p.change = func(c map[string]any) { c["x"] = strings.Repeat("a", idTokenMax/2) } })
	b.mustEnter()
	b.idp.with(func(p *idp) { p.change = func(c map[string]any) { c["x"] = strings.Repeat("a", idTokenMax) } })
	b.mustRefuse("more than 32 KB")
}

// Readings are shared, so whoever hangs up must not fail the next one who asks.
func TestProvider_ABrowserThatLeavesStopsNobodysReading(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	conn := b.stored(b.enabled(nil).GetId())
	b.Advance(goodFor) // What was read is of no use any more.
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := b.s.providers.get(gone, b.tenant.ID, conn.ID, conn.Settings, conn.Issuer, false); err != nil {
		t.Errorf("the reading ended with its browser: %v", err)
	}
	b.mustEnter()
}
