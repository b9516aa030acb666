package exchange

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func ec384(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Whatever conditions are accepted for GitHub, a token of another owner passes none of them.
func FuzzConditions_NoOtherOwnerPasses(f *testing.F) {
	for _, seed := range [][3]string{
		{"repository", "acme/web", "acme/web-evil"}, {"repository", "acme/*", "acme-evil/web"}, {"repository", "acme*", "acme-evil/web"}, {"sub", "repo:acme/*", "repo:acme-evil/x"},
		{"repository_owner", "acme", "acme"}, {"repository", "/*", "/x"}, {"repository", "*", ""}, {"ref", "refs/heads/main", "refs/heads/main"}, {"sub", "repo:*", "repo:evil/x"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, claim, value, name string) {
		conditions := []store.TrustCondition{{Claim: claim, Values: []string{value}}}
		if len(checkConditions(conditions)) > 0 || pinned(cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB, githubIssuer, conditions) != "" {
			return
		}
		// The owner evil, of whatever repository: GitHub writes these claims, and names have
		// no slash or colon.
		name = strings.Map(func(r rune) rune {
			if r == '/' || r == ':' {
				return '-'
			}
			return r
		}, name)
		claims := map[string]any{
			"repository": "evil/" + name, "repository_owner": "evil", "repository_owner_id": "666", "repository_id": "667", "sub": "repo:evil/" + name + ":ref:refs/heads/main",
		}
		if unmet(conditions, claims) == "" && !strings.Contains(value, "evil") && !strings.Contains(value, "66") {
			t.Errorf("%s = %q lets evil/%s in", claim, value, name)
		}
	})
}

// A pattern matches what an expression for it would.
func FuzzFits(f *testing.F) {
	for _, seed := range [][2]string{{"acme/web", "acme/web"}, {"acme/*", "acme/web"}, {"a*", "A"}, {"*", ""}, {"", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		want := pattern == value
		if n := len(pattern); n > 0 && pattern[n-1] == '*' {
			want = len(value) >= n-1 && value[:n-1] == pattern[:n-1]
		}
		if fits(pattern, value) != want {
			t.Errorf("fits(%q, %q) = %t", pattern, value, !want)
		}
	})
}

// What a stranger sends is read or refused, and says nothing in the refusal.
func FuzzReadToken(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sign(f, "ES256", key, "1", nil, map[string]any{"iss": "a", "aud": []string{"b"}, "exp": 1.5, "nbf": "x", "jti": "y"}))
	f.Add(unsigned("none", map[string]any{"iss": "a"}))
	f.Add("a.b.c")
	f.Add("..")
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := readToken(raw)
		if err != nil {
			if text := err.Error(); len(text) > 100 || !utf8.ValidString(text) {
				t.Errorf("refused with %q", text)
			}
			return
		}
		if len(raw) > tokenMax || got.algorithm == "" || got.digest == "" || len(got.signed.Signatures) != 1 {
			t.Errorf("%q was read as %+v", raw, got)
		}
		_ = got.timely(time.Unix(1_800_000_000, 0))
		if got.isFor("audience") && !strings.Contains(string(got.signed.UnsafePayloadWithoutVerification()), "aud") {
			t.Error("an audience from nowhere")
		}
		if again, err := readToken(raw); err != nil || again.digest != got.digest {
			t.Error("read twice, it is two tokens")
		}
	})
}

func FuzzReadKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AAAA"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys, err := readKeys(raw)
		if (err == nil) != (len(keys) > 0) {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		for _, k := range keys {
			if !k.IsPublic() {
				t.Error("a key that isn't public")
			}
		}
	})
}
