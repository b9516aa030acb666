package identity

import (
	"encoding/base64"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
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
		Principal: "key_AbCdEf012345", Roles: []string{"producer", "worker"}, Peer: "192.0.2.7",
		TenantURL: "https://acme.corvo.dev", PayloadBytesMax: 262144, RequestID: "req-1",
		ProxyStream: true, ExpiresAt: testNow.Add(LifeMax),
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
		"line feed in the name":    func(id *Identity) { id.TenantName = "a\nX-Corvo-Roles: admin" },
		"carriage return":          func(id *Identity) { id.RequestID = "a\rb" },
		"nul":                      func(id *Identity) { id.Namespace = "a\x00" },
		"trailing space":           func(id *Identity) { id.Principal = "a " },
		"not ascii":                func(id *Identity) { id.TenantName = "é" },
		"too long":                 func(id *Identity) { id.TenantURL = strings.Repeat("a", valueMax+1) },
		"comma in a role":          func(id *Identity) { id.Roles = []string{"viewer,admin"} },
		"empty role":               func(id *Identity) { id.Roles = []string{""} },
		"many roles":               func(id *Identity) { id.Roles = make([]string, rolesMax+1) },
		"negative payload maximum": func(id *Identity) { id.PayloadBytesMax = -1 },
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
	h["X-Corvo_Roles"] = []string{"folded"}
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

func TestAllows_IsTheWholeTable(t *testing.T) {
	t.Parallel()
	actions := []Action{Enqueue, Work, ReadJob, Read, Operate, Administer}
	want := map[string]string{ // One letter for each action, in order.
		"admin": "ewjroa", "operator": "ewjro-", "producer": "e-j---", "worker": "-wj---",
		"viewer": "--jr--", "readonly": "--jr--", "": "------", "owner": "------", "Admin": "------", "cell": "------",
	}
	for role, row := range want {
		for i, a := range actions {
			if got := Allows([]string{role}, a); got != (row[i] != '-') {
				t.Errorf("%q %v: %v", role, a, got)
			}
		}
		for _, a := range []Action{0, Administer + 1, 255} {
			if Allows([]string{role}, a) {
				t.Errorf("%q may do the unknown action %d", role, a)
			}
		}
	}
	if Allows(nil, Read) {
		t.Error("no role may read")
	}
	if !Allows([]string{"nobody", "viewer", "producer"}, Enqueue) {
		t.Error("roles should add up")
	}
}

// FuzzVerify: whatever stands in the headers, an identity comes out only if the
// same identity, signed again, gives the same headers.
func FuzzVerify(f *testing.F) {
	s := testSigner(f)
	h := signed(f, testIdentity())
	f.Add(h.Get(HeaderTenant), h.Get(HeaderRoles), h.Get(HeaderPayloadMax), h.Get(HeaderExpires), h.Get(HeaderProxyStream), h.Get(HeaderSignature), testPath)
	f.Add("", "", "", "", "", "", "")
	f.Add("a", ",", "-1", "9", "2", strings.Repeat("A", 43), "/")
	f.Fuzz(func(t *testing.T, tenant, roles, payload, expires, stream, signature, path string) {
		// The signature of exactly these values, so that decoding is reached.
		fs := fields{0: tenant, 5: roles, 8: payload, 10: expires, 11: stream}
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

func BenchmarkAllows(b *testing.B) {
	roles := []string{"producer", "worker"}
	b.ReportAllocs()
	for b.Loop() {
		if !Allows(roles, Work) {
			b.Fatal()
		}
	}
}

func TestLeastRole_AllowsItAndNobodyBelowDoes(t *testing.T) {
	t.Parallel()
	for a, want := range map[Action]string{
		Enqueue: RoleProducer, Work: RoleWorker, ReadJob: RoleViewer, Read: RoleViewer, Operate: RoleOperator, Administer: RoleAdmin,
	} {
		if got := LeastRole(a); got != want || !Allows([]string{got}, a) {
			t.Errorf("%s takes %s, want %s", a, got, want)
		}
	}
}
