package identity

import (
	"encoding/base64"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

var (
	testNow    = time.Unix(1_800_000_000, 0)
	testSecret = []byte("0123456789abcdef0123456789abcdef")
)

const testPath = "/api/v1/enqueue"

func testSigner(t testing.TB) *Signer {
	t.Helper()
	s, err := NewSigner(cellsecret.Must(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testIdentity() Identity {
	return Identity{
		TenantID: "tn_01J", TenantName: "acme", NamespaceID: "ns_01J", Namespace: "default",
		Principal: "key_AbCdEf012345", Owner: "sa_01J", Grants: testGrants(), Peer: "192.0.2.7",
		TenantURL: "https://acme.corvo.dev", PayloadBytesMax: 262144, RequestID: "req-1",
		ProxyStream: true, ExpiresAt: testNow.Add(LifeMax),
	}
}

func testGrants() permission.Here {
	return permission.Here{
		All:  permission.Of(permission.JobRead, permission.QueueRead),
		Some: []permission.InQueues{{Permissions: permission.Of(permission.JobFetch), Queues: []string{"email.*", "sms"}}},
	}
}

func signed(t testing.TB, id Identity) http.Header {
	t.Helper()
	h := http.Header{}
	if err := testSigner(t).Sign(h, id, testPath); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestVerify_ReturnsWhatWasSigned(t *testing.T) {
	t.Parallel()
	for _, id := range []Identity{
		testIdentity(),
		CellPrincipal("proxy-1", testNow),
		{ExpiresAt: testNow},
	} {
		got, err := testSigner(t).Verify(signed(t, id), testPath, testNow)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, id) {
			t.Fatalf("got %+v\nwant %+v", got, id)
		}
	}
}

func TestVerify_AnyChangedHeaderIsRefused(t *testing.T) {
	t.Parallel()
	s := testSigner(t)
	base := signed(t, testIdentity())
	for _, name := range append([]string{HeaderSignature}, signedHeaders[:]...) {
		for what, change := range map[string]func(http.Header){
			"removed": func(h http.Header) { delete(h, name) },
			"changed": func(h http.Header) { h[name] = []string{h[name][0] + "1"} },
			"doubled": func(h http.Header) { h[name] = append(h[name], h[name][0]) },
		} {
			h := base.Clone()
			change(h)
			if _, err := s.Verify(h, testPath, testNow); err == nil {
				t.Errorf("%s %s was accepted", name, what)
			}
		}
	}
	h := base.Clone()
	if _, err := s.Verify(h, testPath+"/", testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("other path: %v", err)
	}
	if _, err := s.Verify(http.Header{HeaderProxyStream: {"1"}}, testPath, testNow); !errors.Is(err, ErrUnsigned) {
		t.Errorf("unsigned: %v", err)
	}
	other, err := NewSigner(cellsecret.Must([]byte("ffffffffffffffffffffffffffffffff")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Verify(h, testPath, testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("another cell's secret: %v", err)
	}
}

func TestVerify_MovingTextBetweenFieldsIsRefused(t *testing.T) {
	t.Parallel()
	h := signed(t, testIdentity())
	h[HeaderTenant], h[HeaderTenantName] = h[HeaderTenantName], h[HeaderTenant]
	if _, err := testSigner(t).Verify(h, testPath, testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("swapped fields: %v", err)
	}
	h = signed(t, testIdentity())
	h[HeaderTenant] = []string{h[HeaderTenant][0] + "\n4:acme"}
	delete(h, HeaderTenantName)
	if _, err := testSigner(t).Verify(h, testPath, testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("folded fields: %v", err)
	}
}

func TestVerify_HoldsTheExpiryWithinTheSkew(t *testing.T) {
	t.Parallel()
	s := testSigner(t)
	h := signed(t, testIdentity())
	expires := testIdentity().ExpiresAt
	for _, c := range []struct {
		now time.Time
		ok  bool
	}{
		{expires, true},
		{expires.Add(SkewMax), true},
		{expires.Add(SkewMax + time.Second), false},
		{expires.Add(-LifeMax - SkewMax), true},
		{expires.Add(-LifeMax - SkewMax - time.Second), false},
	} {
		_, err := s.Verify(h, testPath, c.now)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, ErrExpired) {
			t.Errorf("now %v: %v", c.now.Sub(expires), err)
		}
	}
}

func TestSign_RefusesWhatCannotTravel(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Identity){
		"line feed in the name":     func(id *Identity) { id.TenantName = "a\nX-Corvo-Grants: x" },
		"carriage return":           func(id *Identity) { id.RequestID = "a\rb" },
		"nul":                       func(id *Identity) { id.Namespace = "a\x00" },
		"trailing space":            func(id *Identity) { id.Principal = "a " },
		"not ascii":                 func(id *Identity) { id.TenantName = "é" },
		"too long":                  func(id *Identity) { id.TenantURL = strings.Repeat("a", valueMax+1) },
		"comma in a pattern":        func(id *Identity) { id.Grants.Some[0].Queues = []string{"a,b"} },
		"group without patterns":    func(id *Identity) { id.Grants.Some[0].Queues = nil },
		"group without a set":       func(id *Identity) { id.Grants.Some[0].Permissions = permission.Set{} },
		"many groups":               func(id *Identity) { id.Grants.Some = many(GroupsMax+1, 1) },
		"many patterns":             func(id *Identity) { id.Grants.Some = many(1, PatternsMax+1) },
		"long patterns":             func(id *Identity) { id.Grants.Some = long() },
		"a cell's part of a tenant": func(id *Identity) { id.Principal = "cell:x"; id.Grants = permission.Here{} },
		"a cell's part with grants": func(id *Identity) { *id = Identity{Principal: "cell:x", Grants: testGrants()} },
		"negative payload maximum":  func(id *Identity) { id.PayloadBytesMax = -1 },
	} {
		id := testIdentity()
		change(&id)
		h := http.Header{}
		if err := testSigner(t).Sign(h, id, testPath); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		if len(h) != 0 {
			t.Errorf("%s: headers were written: %v", name, h)
		}
	}
}

func many(groups, patterns int) (out []permission.InQueues) {
	for range groups {
		out = append(out, permission.InQueues{Permissions: permission.Of(permission.JobFetch), Queues: slices.Repeat([]string{"a*"}, patterns)})
	}
	return out
}

func long() []permission.InQueues {
	return []permission.InQueues{{Permissions: permission.Of(permission.JobFetch), Queues: slices.Repeat([]string{strings.Repeat("a", permission.QueueMax)}, PatternBytesMax/permission.QueueMax+1)}}
}

func TestGrants_TheLargestTravels(t *testing.T) {
	t.Parallel()
	id := testIdentity()
	id.Grants.Some = many(GroupsMax-1, 1)
	id.Grants.Some = append(id.Grants.Some, permission.InQueues{Permissions: permission.Of(permission.JobRead), Queues: []string{strings.Repeat("b", permission.QueueMax)}})
	got, err := testSigner(t).Verify(signed(t, id), testPath, testNow)
	if err != nil || !reflect.DeepEqual(got, id) {
		t.Fatalf("%v: %+v", err, got)
	}
	if most := len(signed(t, id).Get(HeaderGrants)); most > GrantsTextMax {
		t.Errorf("%d bytes, want at most %d", most, GrantsTextMax)
	}
}

func TestParseGrants_OneTextForOneRight(t *testing.T) {
	t.Parallel()
	const none, set = "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"
	for text, ok := range map[string]bool{
		"": true, set: true, none + ";" + set + "=a*,b": true, set + ";" + set + "=*;" + none[:20] + "AQ=q": true,
		none: false, set[:21]: false, set + "=": false, set[:21] + "R": false, // Bits that are no permission's.
		set + ";": false, set + ";" + set: false, set + ";" + set + "=": false, set + ";" + none + "=a": false,
		set + ";" + set + "=a,": false, set + ";" + set + "=a b": false, set + ";" + set + "=a=b": false, " " + set: false, set + "\n": false,
		"*": false, "cell": false, strings.Repeat("A", GrantsTextMax+1): false,
	} {
		if _, err := ParseGrants(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzParseGrants: what is read comes back as the same text, whatever it is.
func FuzzParseGrants(f *testing.F) {
	text, err := GrantsText(testGrants())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("")
	f.Add("AAAAAAAAAAAAAAAAAAAAAA;AAAAAAAAAAAAAAAAAAAAAQ=a*,b")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseGrants(text)
		if err != nil {
			return
		}
		if again, err := GrantsText(h); err != nil || again != text {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
		if len(text) > GrantsTextMax || (text == "") != h.None() {
			t.Fatalf("%q is taken as %+v", text, h)
		}
	})
}

func TestSign_LeavesNoHeaderOfAnEarlierIdentity(t *testing.T) {
	t.Parallel()
	h := signed(t, testIdentity())
	id := CellPrincipal("node-1", testNow)
	if err := testSigner(t).Sign(h, id, testPath); err != nil {
		t.Fatal(err)
	}
	got, err := testSigner(t).Verify(h, testPath, testNow)
	if err != nil || !reflect.DeepEqual(got, id) || !got.IsCell() {
		t.Fatalf("got %+v, %v", got, err)
	}
}

// A secret is replaced while everything runs: at each step of the rotation every process
// accepts what every other one signs, even if it is one step behind.
func TestSigner_ASecretIsReplacedInSteps(t *testing.T) {
	t.Parallel()
	before, after := []byte("the secret of before"), []byte("the secret of afterwards")
	steps := [][][]byte{{before}, {before, after}, {after, before}, {after}}
	for i := range steps {
		for _, j := range []int{i - 1, i, i + 1} {
			if j < 0 || j >= len(steps) {
				continue
			}
			from, to := cellsecret.Must(before), cellsecret.Must(before)
			signer, verifier := must(NewSigner(from))(t), must(NewSigner(to))(t) // They follow what comes.
			for _, r := range []func() (bool, error){func() (bool, error) { return from.Replace(steps[i]...) }, func() (bool, error) { return to.Replace(steps[j]...) }} {
				if _, err := r(); err != nil {
					t.Fatal(err)
				}
			}
			h := http.Header{}
			if err := signer.Sign(h, CellPrincipal("n1", testNow), testPath); err != nil {
				t.Fatal(err)
			}
			if _, err := verifier.Verify(h, testPath, testNow); err != nil {
				t.Errorf("signed at step %d, read at step %d: %v", i, j, err)
			}
			last := to.Status()[len(to.Status())-1]
			if used := last.LastUse.By == "n1"; used != (to.Now().IDs()[0] != from.Now().IDs()[0]) {
				t.Errorf("signed at step %d, read at step %d: use of the second secret %+v", i, j, last)
			}
		}
	}
	gone, accepts := cellsecret.Must(before), cellsecret.Must(after)
	h := http.Header{}
	if err := must(NewSigner(gone))(t).Sign(h, testIdentity(), testPath); err != nil {
		t.Fatal(err)
	}
	if _, err := must(NewSigner(accepts))(t).Verify(h, testPath, testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("the old secret, after the last step: %v", err)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestStripExternal_KeepsOnlyWhatCarriesNoAuthority(t *testing.T) {
	t.Parallel()
	h := signed(t, testIdentity())
	h["x-corvo-tenant"] = []string{"raw"}
	h["X_corvo_Tenant"] = []string{"folded"}
	h["X-Corvo_Grants"] = []string{"folded"}
	h["X-Corvo-"] = []string{""}
	h["X-Corvo-Clients"] = []string{"not client-"}
	keep := http.Header{
		HeaderIndex: {"7"}, "X-Corvo-Client-Name": {"corvo-go"}, "X-Corvo-Client-Version": {"1"},
		"Content-Type": {"text/plain"}, "X-Corvox": {"other"},
	}
	for k, v := range keep {
		h[k] = v
	}
	StripExternal(h)
	if !reflect.DeepEqual(h, keep) {
		t.Fatalf("left %v", h)
	}
}

// FuzzVerify: whatever stands in the headers, an identity comes out only if the
// same identity, signed again, gives the same headers.
func FuzzVerify(f *testing.F) {
	s := testSigner(f)
	h := signed(f, testIdentity())
	f.Add(h.Get(HeaderTenant), h.Get(HeaderGrants), h.Get(HeaderPayloadMax), h.Get(HeaderExpires), h.Get(HeaderProxyStream), h.Get(HeaderSignature), testPath)
	f.Add("", "", "", "", "", "", "")
	f.Add("a", ",", "-1", "9", "2", strings.Repeat("A", 43), "/")
	f.Fuzz(func(t *testing.T, tenant, grants, payload, expires, stream, signature, path string) {
		// The signature of exactly these values, so that decoding is reached.
		fs := fields{0: tenant, 5: grants, 8: payload, 10: expires, 11: stream}
		forged := http.Header{HeaderSignature: {signature}}
		honest := http.Header{}
		for i, name := range signedHeaders {
			if fs[i] != "" {
				forged[name] = []string{fs[i]}
				honest[name] = []string{fs[i]}
			}
		}
		_, macs := s.macs.Values()
		w := macs[0].Get().(*work)
		honest[HeaderSignature] = []string{base64.RawURLEncoding.EncodeToString(w.macOf(&fs, path))}
		for _, h := range []http.Header{forged, honest} {
			id, err := s.Verify(h, path, testNow)
			if err != nil {
				continue
			}
			again := http.Header{}
			if err := s.Sign(again, id, path); err != nil {
				t.Fatalf("verified but cannot be signed: %v", err)
			}
			if !reflect.DeepEqual(again, honest) {
				t.Fatalf("not canonical: %v\n%v", again, honest)
			}
		}
	})
}

func BenchmarkSign(b *testing.B) {
	s, id, h := testSigner(b), testIdentity(), http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Sign(h, id, testPath); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	s, h := testSigner(b), signed(b, testIdentity())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Verify(h, testPath, testNow); err != nil {
			b.Fatal(err)
		}
	}
}
