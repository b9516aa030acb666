package server

import (
	"net/http"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

func headers(pairs ...string) http.Header {
	h := make(http.Header)
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestOrigin_OnlyOurOwnPagesMayUseACookie(t *testing.T) {
	t.Parallel()
	const public = "https://app.corvo.test"
	for _, tc := range []struct {
		name         string
		h            http.Header
		cookie, open bool // May use a cookie; may make a public call.
	}{
		{"our page", headers("Sec-Fetch-Site", "same-origin", "Origin", public), true, true},
		{"typed by hand", headers("Sec-Fetch-Site", "none"), true, true},
		{"old browser, our page", headers("Origin", public), true, true},
		{"another site", headers("Sec-Fetch-Site", "cross-site", "Origin", "https://evil.test"), false, false},
		{"another site with our origin forged beside it", headers("Sec-Fetch-Site", "cross-site", "Origin", public), false, false},
		{"a tenant's host beside ours", headers("Sec-Fetch-Site", "same-site", "Origin", "https://evil.corvo.test"), false, false},
		{"old browser, another site", headers("Origin", "https://evil.test"), false, false},
		{"a frame without origin", headers("Origin", "null"), false, false},
		{"origin with a longer port", headers("Origin", public+"0"), false, false},
		{"a program", headers(), false, true},
	} {
		if got := sameOrigin(tc.h, public); got != tc.cookie {
			t.Errorf("%s: cookie taken: %v, want %v", tc.name, got, tc.cookie)
		}
		if got := foreignSite(tc.h, public) == nil; got != tc.open {
			t.Errorf("%s: public call taken: %v, want %v", tc.name, got, tc.open)
		}
	}
}

func TestMatches_TakesLivingSecretsOnly(t *testing.T) {
	t.Parallel()
	now := time.Now()
	key := func() apikey.Key {
		k, err := apikey.Generate(apikey.Management)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	a, b := key(), key()
	version := func(k apikey.Key, till time.Time) store.KeyVersion {
		d := k.Digest()
		return store.KeyVersion{Digest: d[:], ExpiresAt: till}
	}
	never := time.Time{}
	for name, tc := range map[string]struct {
		versions []store.KeyVersion
		want     bool
	}{
		"the only one":           {[]store.KeyVersion{version(a, never)}, true},
		"the older one":          {[]store.KeyVersion{version(a, now.Add(time.Second)), version(b, never)}, true},
		"the newer one":          {[]store.KeyVersion{version(b, now.Add(time.Second)), version(a, never)}, true},
		"one that has ended":     {[]store.KeyVersion{version(a, now), version(b, never)}, false},
		"another one":            {[]store.KeyVersion{version(b, never)}, false},
		"none, of unknown keys":  {nil, false},
		"an empty digest":        {[]store.KeyVersion{{}}, false},
		"a digest that is short": {[]store.KeyVersion{{Digest: version(a, never).Digest[:31]}}, false},
	} {
		if got := matches(tc.versions, a, now); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
