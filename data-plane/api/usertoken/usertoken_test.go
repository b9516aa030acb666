package usertoken

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

type signer struct {
	private ed25519.PrivateKey
	public  ed25519.PublicKey
	id      string
}

func newSigner(t testing.TB) signer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{private, public, KeyID(public)}
}

func (s signer) keys(id string) ed25519.PublicKey {
	if id == s.id {
		return s.public
	}
	return nil
}

func testGrants() permission.Here {
	return permission.Here{
		All:  permission.Of(permission.JobRead),
		Some: []permission.InQueues{{Permissions: permission.Of(permission.QueuePause), Queues: []string{"email.*", "sms"}}},
	}
}

func claims() Claims {
	return Claims{
		TenantID: "tn_01J00000000000000000000001", NamespaceID: "ns_01J00000000000000000000002",
		UserID: "usr_01J00000000000000000000003", Grants: testGrants(),
		IssuedAt: noon.Add(7 * time.Millisecond), ExpiresAt: noon.Add(Life),
	}
}

func (s signer) sign(t testing.TB, c Claims) string {
	t.Helper()
	text, err := Sign(s.private, s.id, c)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestVerify_GivesWhatWasSigned(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	text := s.sign(t, claims())
	got, err := Verify(s.keys, text, noon.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	want := claims()
	want.KeyID = s.id
	got.IssuedAt, got.ExpiresAt = got.IssuedAt.UTC(), got.ExpiresAt.UTC()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !LooksLike(text) || LooksLike("corvo_dp_abc") || len(text) > 2048 {
		t.Errorf("a token of %d bytes, looks like one: %v", len(text), LooksLike(text))
	}
}

func TestVerify_LivesFromShortlyBeforeItsIssueToItsExpiry(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	text := s.sign(t, claims())
	for _, c := range []struct {
		after time.Duration
		want  error
	}{
		{-SkewMax, ErrFuture}, {-SkewMax + 7*time.Millisecond, nil}, {0, nil},
		{Life - time.Second, nil}, {Life, ErrExpired}, {time.Hour, ErrExpired},
	} {
		if _, err := Verify(s.keys, text, noon.Add(c.after)); !errors.Is(err, c.want) {
			t.Errorf("%v after its issue: %v, want %v", c.after, err, c.want)
		}
	}
}

// Somebody with as many patterns of queues as may travel gets a token that is accepted.
func TestSign_TheLargestGrantsFit(t *testing.T) {
	t.Parallel()
	s, c := newSigner(t), claims()
	c.Grants.Some = slices.Repeat([]permission.InQueues{{Permissions: permission.Of(permission.JobRead), Queues: []string{strings.Repeat("a", identity.PatternBytesMax/identity.GroupsMax)}}}, identity.GroupsMax)
	text := s.sign(t, c)
	if _, err := Verify(s.keys, text, noon); err != nil {
		t.Errorf("a token of %d bytes: %v", len(text), err)
	}
}

func TestSign_RefusesWhatVerifyWould(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	for name, spoil := range spoilt() {
		c := claims()
		spoil(&c)
		if _, err := Sign(s.private, s.id, c); !errors.Is(err, ErrClaims) {
			t.Errorf("%s: %v, want ErrClaims", name, err)
		}
	}
	if _, err := Sign(s.private, "k1", claims()); err == nil {
		t.Error("a key id of another form was accepted")
	}
	if _, err := Sign(nil, s.id, claims()); err == nil {
		t.Error("a nil key was accepted")
	}
}

func spoilt() map[string]func(*Claims) {
	return map[string]func(*Claims){
		"no tenant":        func(c *Claims) { c.TenantID = "" },
		"other prefix":     func(c *Claims) { c.TenantID = "ns_01J00000000000000000000001" },
		"short namespace":  func(c *Claims) { c.NamespaceID = "ns_1" },
		"no user":          func(c *Claims) { c.UserID = "" },
		"odd user":         func(c *Claims) { c.UserID = "usr_01J0000000000000000000000\n" },
		"no grants":        func(c *Claims) { c.Grants = permission.Here{} },
		"bad pattern":      func(c *Claims) { c.Grants = testGrants(); c.Grants.Some[0].Queues = []string{"a b"} },
		"too many groups":  func(c *Claims) { c.Grants.Some = slices.Repeat(testGrants().Some, identity.GroupsMax+1) },
		"lives too long":   func(c *Claims) { c.ExpiresAt = c.IssuedAt.Add(LifeMax + time.Second) },
		"expires at issue": func(c *Claims) { c.ExpiresAt = c.IssuedAt },
		"no times":         func(c *Claims) { c.IssuedAt = time.Time{} },
	}
}

// forge signs any header and claims with any method.
func forge(t testing.TB, method jwt.SigningMethod, key any, header, body map[string]any) string {
	t.Helper()
	token := &jwt.Token{Header: header, Claims: jwt.MapClaims(body), Method: method}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (s signer) header() map[string]any {
	return map[string]any{"alg": "EdDSA", "typ": typeName, "kid": s.id}
}

func body() map[string]any {
	c := claims()
	grants, err := identity.GrantsText(c.Grants)
	if err != nil {
		panic(err)
	}
	return map[string]any{
		"iss": issuer, "aud": audience, "sub": c.UserID, "tn": c.TenantID, "ns": c.NamespaceID, "grants": grants,
		"iat": c.IssuedAt.Unix(), "iat_ms": c.IssuedAt.UnixMilli(), "exp": c.ExpiresAt.Unix(),
	}
}

func TestVerify_ForgingIsKnownToWork(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	if _, err := Verify(s.keys, forge(t, jwt.SigningMethodEdDSA, s.private, s.header(), body()), noon); err != nil {
		t.Fatalf("the forger's own good token: %v", err)
	}
}

func TestVerify_OneFormOnlyHoweverWellSigned(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	for name, c := range map[string]struct {
		spoil func(header, body map[string]any)
		want  error
	}{
		"no type":           {func(h, _ map[string]any) { delete(h, "typ") }, ErrMalformed},
		"plain JWT":         {func(h, _ map[string]any) { h["typ"] = "JWT" }, ErrMalformed},
		"critical header":   {func(h, _ map[string]any) { h["crit"] = []string{"b64"} }, ErrMalformed},
		"key in the header": {func(h, _ map[string]any) { h["jwk"] = map[string]string{"kty": "OKP"} }, ErrMalformed},
		"no key id":         {func(h, _ map[string]any) { delete(h, "kid") }, ErrMalformed},
		"key id is a path":  {func(h, _ map[string]any) { h["kid"] = "../../dev/null" }, ErrMalformed},
		"key id is a list":  {func(h, _ map[string]any) { h["kid"] = []string{s.id} }, ErrMalformed},
		"another key":       {func(h, _ map[string]any) { h["kid"] = "tk_000000000000000000000000" }, ErrUnknownKey},
		"another issuer":    {func(_, b map[string]any) { b["iss"] = "corvo" }, ErrClaims},
		"another audience":  {func(_, b map[string]any) { b["aud"] = "corvo-control-plane" }, ErrClaims},
		"two audiences":     {func(_, b map[string]any) { b["aud"] = []string{audience, "x"} }, ErrClaims},
		"no audience":       {func(_, b map[string]any) { delete(b, "aud") }, ErrClaims},
		"no expiry":         {func(_, b map[string]any) { delete(b, "exp") }, ErrClaims},
		"no issue":          {func(_, b map[string]any) { delete(b, "iat") }, ErrClaims},
		"two issues":        {func(_, b map[string]any) { b["iat_ms"] = noon.UnixMilli() + 1000 }, ErrClaims},
		"no milliseconds":   {func(_, b map[string]any) { delete(b, "iat_ms") }, ErrClaims},
		"expiry is text":    {func(_, b map[string]any) { b["exp"] = "never" }, ErrMalformed},
		"expiry is huge":    {func(_, b map[string]any) { b["exp"] = 1e300 }, ErrClaims},
		"a day":             {func(_, b map[string]any) { b["exp"] = noon.Add(24 * time.Hour).Unix() }, ErrClaims},
		"not before":        {func(_, b map[string]any) { b["nbf"] = noon.Unix() }, ErrClaims},
		"roles of before":   {func(_, b map[string]any) { delete(b, "grants"); b["roles"] = []string{"admin"} }, ErrClaims},
		"grants of a cell":  {func(_, b map[string]any) { b["grants"] = "cell" }, ErrClaims},
		"grants are a list": {func(_, b map[string]any) { b["grants"] = []string{"admin"} }, ErrMalformed},
		"no tenant":         {func(_, b map[string]any) { delete(b, "tn") }, ErrClaims},
	} {
		h, b := s.header(), body()
		c.spoil(h, b)
		if _, err := Verify(s.keys, forge(t, jwt.SigningMethodEdDSA, s.private, h, b), noon); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestVerify_NoOtherAlgorithm(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	with := func(alg string) map[string]any { h := s.header(); h["alg"] = alg; return h }
	for name, text := range map[string]string{
		"none":                      forge(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, with("none"), body()),
		"HS256 over the public key": forge(t, jwt.SigningMethodHS256, []byte(s.public), with("HS256"), body()),
		"RS256":                     forge(t, jwt.SigningMethodRS256, rsaKey, with("RS256"), body()),
		"EdDSA by another":          forge(t, jwt.SigningMethodEdDSA, newSigner(t).private, s.header(), body()),
		"HS256 called EdDSA":        forge(t, jwt.SigningMethodHS256, []byte(s.public), s.header(), body()),
	} {
		if _, err := Verify(s.keys, text, noon); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	short := func(string) ed25519.PublicKey { return s.public[:31] }
	if _, err := Verify(short, s.sign(t, claims()), noon); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("a stored key of 31 bytes: %v", err)
	}
}

func TestVerify_ChangedTextIsRefused(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	text := s.sign(t, claims())
	for i := range len(text) {
		for _, c := range []byte("A.-=\x00") {
			if text[i] == c {
				continue
			}
			if changed := text[:i] + string(c) + text[i+1:]; verifies(s, changed) {
				t.Fatalf("byte %d as %q was accepted", i, c)
			}
		}
	}
	for _, changed := range []string{"", "..", text + "=", text + ".", " " + text, text + "\n", text[:len(text)-1], strings.Repeat("a", BytesMax+1)} {
		if verifies(s, changed) {
			t.Errorf("%q was accepted", changed)
		}
	}
}

func verifies(s signer, text string) bool {
	_, err := Verify(s.keys, text, noon)
	return err == nil
}

// FuzzVerify: no text makes the reader fail in another way than by refusing, and
// what it accepts is what one of ours says.
func FuzzVerify(f *testing.F) {
	s := newSigner(f)
	f.Add(s.sign(f, claims()))
	f.Add(forge(f, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, map[string]any{"alg": "none"}, body()))
	f.Add("eyJ.e30.")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Verify(s.keys, text, noon)
		if err != nil {
			return
		}
		if c.check() != nil || c.KeyID != s.id {
			t.Fatalf("accepted %+v", c)
		}
	})
}

// FuzzVerify_SignedBodies: a body that we never write, but signed by our key.
func FuzzVerify_SignedBodies(f *testing.F) {
	s := newSigner(f)
	good, err := json.Marshal(body())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"exp":1e999}`))
	f.Add([]byte(`null`))
	head, err := json.Marshal(s.header())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		enc := base64.RawURLEncoding
		text := enc.EncodeToString(head) + "." + enc.EncodeToString(body)
		text += "." + enc.EncodeToString(ed25519.Sign(s.private, []byte(text)))
		c, err := Verify(s.keys, text, noon)
		if err == nil && (c.check() != nil || !noon.Before(c.ExpiresAt)) {
			t.Fatalf("accepted %+v of %s", c, body)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	s := newSigner(b)
	text := s.sign(b, claims())
	for b.Loop() {
		if _, err := Verify(s.keys, text, noon); err != nil {
			b.Fatal(err)
		}
	}
}
