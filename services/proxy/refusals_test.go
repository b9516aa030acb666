package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

// toldRefusals is what a node was told of refusals, and forgets it.
func (u *upstream) toldRefusals() []*cellv1.Refusal {
	u.state.mu.Lock()
	defer u.state.mu.Unlock()
	told := u.refusals
	u.refusals = nil
	return told
}

// refused is a line for each refusal that the first node is told of.
func (r *rig) refused() (lines []string) {
	r.proxy.tellOnce(r.t.Context())
	for _, told := range r.up[0].toldRefusals() {
		name := map[string]string{r.acme.id: "acme", r.beta.id: "beta"}[told.GetTenantId()]
		lines = append(lines, fmt.Sprintf("%s: %s%s at %s: %s %d", name, told.GetPrincipal(), prefixed("shown ", told.GetKeyId()), told.GetPeer(), told.GetReason(), told.GetTimes()))
	}
	slices.Sort(lines)
	return lines
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// Whose key it is learns which one, and whose URL it is only that somebody came.
func TestRefusals_WhoIsToldWhat(t *testing.T) {
	t.Parallel()
	const network = "127.0.0.0/24"
	change := func(f func(k *cellv1.Key)) func(*rig) {
		return func(r *rig) {
			k := proto.CloneOf(r.acme.record)
			f(k)
			r.apply(keyChange(k))
		}
	}
	revoked := change(func(k *cellv1.Key) { k.Revoked = true })
	acme := func(r *rig) func(*http.Request) { return withKey(r.acme.key) }
	wrong := func(r *rig) func(*http.Request) { return withKey(withID(r.t, generate(r.t), r.acme.key)) }
	unknown := func(r *rig) func(*http.Request) { return withKey(generate(r.t)) }
	for name, c := range map[string]struct {
		before func(*rig)
		path   string
		edit   func(*rig) func(*http.Request)
		lines  []string
	}{
		"a good key":                           {nil, "/t/acme", acme, nil},
		"revoked":                              {revoked, "/t/acme", acme, []string{"acme: shown KEY at 127.0.0.1: revoked 1"}},
		"revoked, as the control plane does":   {change(func(k *cellv1.Key) { k.Revoked, k.Digests = true, nil }), "/t/acme", acme, []string{"acme: shown KEY at " + network + ": revoked 1"}},
		"revoked, at no tenant's URL":          {revoked, "", acme, []string{"acme: shown KEY at 127.0.0.1: revoked 1"}},
		"revoked, at another tenant's URL":     {revoked, "/t/beta", acme, []string{"acme: shown KEY at 127.0.0.1: revoked 1", "beta:  at " + network + ": unknown key 1"}},
		"expired":                              {change(func(k *cellv1.Key) { k.NotAfterNs = 1 }), "/t/acme", acme, []string{"acme: shown KEY at 127.0.0.1: expired 1"}},
		"replaced":                             {change(func(k *cellv1.Key) { k.DigestEndsNs = []int64{1} }), "/t/acme", acme, []string{"acme: shown KEY at 127.0.0.1: replaced secret 1"}},
		"from another address":                 {change(func(k *cellv1.Key) { k.Cidrs = []string{"10.0.0.0/8"} }), "/t/acme", acme, []string{"acme: KEY at 127.0.0.1: address not allowed 1"}},
		"without a role":                       {change(func(k *cellv1.Key) { k.Grants = nil }), "/t/acme", acme, []string{"acme: KEY at 127.0.0.1: no role 1"}},
		"another tenant's URL":                 {nil, "/t/beta", acme, []string{"acme: KEY at 127.0.0.1: URL of another tenant 1", "beta:  at " + network + ": unknown key 1"}},
		"a URL of nobody":                      {nil, "/t/nobody", acme, []string{"acme: KEY at 127.0.0.1: URL of another tenant 1"}},
		"a namespace that isn't there":         {nil, "/t/acme", func(r *rig) func(*http.Request) { return both(acme(r), header("X-Corvo-Namespace", "x")) }, []string{"acme: KEY at 127.0.0.1: no such namespace 1"}},
		"a wrong secret":                       {nil, "/t/acme", wrong, []string{"acme: shown KEY at " + network + ": wrong secret 1"}},
		"a wrong secret, at no tenant's URL":   {nil, "", wrong, []string{"acme: shown KEY at " + network + ": wrong secret 1"}},
		"a wrong secret, at another's URL":     {nil, "/t/beta", wrong, []string{"acme: shown KEY at " + network + ": wrong secret 1", "beta:  at " + network + ": unknown key 1"}},
		"a stranger":                           {nil, "/t/acme", unknown, []string{"acme:  at " + network + ": unknown key 1"}},
		"a stranger at nobody's URL":           {nil, "", unknown, nil},
		"a stranger at a URL that isn't there": {nil, "/t/nobody", unknown, nil},
		"no key":                               {nil, "/t/acme", func(*rig) func(*http.Request) { return nil }, []string{"acme:  at " + network + ": no key 1"}},
		"no key that can be read":              {nil, "/t/acme", func(*rig) func(*http.Request) { return header("X-API-Key", "corvo_dp_x") }, []string{"acme:  at " + network + ": unknown key 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, rigOptions{})
			if c.before != nil {
				c.before(r)
			}
			if a := r.ask(r.http1, http.MethodGet, c.path+"/api/v1/queues", "", c.edit(r)); (a.status == http.StatusOK) != (name == "a good key") {
				t.Fatalf("%d %s", a.status, a.body)
			}
			got := strings.ReplaceAll(strings.Join(r.refused(), "\n"), r.acme.key.ID(), "KEY")
			if want := strings.Join(c.lines, "\n"); got != want {
				t.Errorf("told\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A browser's token ends every few minutes and is renewed: that is no news.
func TestRefusals_TokensOfPeople(t *testing.T) {
	t.Parallel()
	r, m := startRig(t, rigOptions{}), newMint(t)
	r.apply(m.change())
	ask := func(path, token string) {
		t.Helper()
		if a := r.ask(r.http1, http.MethodGet, path+"/api/v1/queues", "", withToken(token)); a.status == http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	ask("/t/acme", m.token(r.acme, "default", func(c *usertoken.Claims) {
		c.IssuedAt, c.ExpiresAt = c.IssuedAt.Add(-time.Hour), c.IssuedAt.Add(-time.Hour+time.Minute)
	}))
	if got := r.refused(); len(got) != 0 {
		t.Errorf("of one that ended, told %q", got)
	}
	ask("/t/beta", m.token(r.acme, "default", nil))
	want := []string{"acme: user:" + testUser + " at 127.0.0.1: URL of another tenant 1", "beta:  at 127.0.0.0/24: unknown key 1"}
	if got := r.refused(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	ask("/t/acme", newMint(t).token(r.acme, "default", nil))
	if got, want := r.refused(), []string{"acme:  at 127.0.0.0/24: invalid token 1"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestRefusals_TwoNodesAreToldTheSameOnceAndAgainUntilOneTakesIt(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{nodes: 2})
	forgetful := func(yes bool) {
		r.state.mu.Lock()
		defer r.state.mu.Unlock()
		for _, u := range r.up {
			u.forgetful = yes
		}
	}
	ask := func() { r.ask(r.http1, http.MethodGet, "/t/acme/api/v1/queues", "", nil) }
	ask()
	forgetful(true)
	r.proxy.tellOnce(t.Context())
	first := r.proxy.refusals.take()
	r.proxy.refusals.back(first)
	forgetful(false)
	r.proxy.tellOnce(t.Context())
	a, b := r.up[0].toldRefusals(), r.up[1].toldRefusals()
	if len(first) != 1 || len(a) != 1 || len(b) != 1 || a[0].GetId() != b[0].GetId() || a[0].GetId() != first[0].GetId() {
		t.Errorf("told %v and %v, want both %v", a, b, first)
	}
	ask()
	r.proxy.tellOnce(t.Context())
	if a := r.up[0].toldRefusals(); len(a) != 0 {
		t.Errorf("told at once: %v", a)
	}
}

// A log of one tenant is not filled by strangers, and they hide nobody's refusals.
func TestRefusals_StrangersAreBoundedForEachTenant(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	p := r.proxy
	for i := range 3 * strangersMax {
		for _, tenant := range []string{"acme", "beta"} {
			q := httptest.NewRequest(http.MethodGet, "/t/"+tenant+"/api/v1/queues", nil)
			q.RemoteAddr = fmt.Sprintf("10.0.%d.1:1", i)
			addr, _ := parseAddress(q, testDomain, "http")
			if _, ref := p.authenticate(q, addr); ref != refuseNoKey {
				t.Fatal(ref)
			}
		}
	}
	if got := r.refused(); len(got) != 2*strangersMax {
		t.Errorf("%d are told, want %d of each", len(got), strangersMax)
	}
	revoked := proto.CloneOf(r.acme.record)
	revoked.Revoked = true
	r.apply(keyChange(revoked))
	r.ask(r.http1, http.MethodGet, "/t/acme/api/v1/queues", "", withKey(r.acme.key))
	if got := r.refused(); len(got) != 1 {
		t.Errorf("told %q", got)
	}
}

func TestNames_AreThoseOfTenantsThatAreAlive(t *testing.T) {
	t.Parallel()
	tenant := func(id, name string, deleted bool) *cellv1.Change {
		return &cellv1.Change{Change: &cellv1.Change_Tenant{Tenant: &cellv1.Tenant{Id: id, Name: name, Deleted: deleted}}}
	}
	s := new(snapshot)
	for i, step := range []struct {
		changes []*cellv1.Change
		want    string // Of acme.
	}{
		{[]*cellv1.Change{tenant("tn_1", "acme", false)}, "tn_1"},
		{[]*cellv1.Change{tenant("tn_1", "acme", true)}, ""},
		{[]*cellv1.Change{tenant("tn_2", "acme", false)}, "tn_2"},
		{[]*cellv1.Change{tenant("tn_1", "acme", true)}, "tn_2"},
		{[]*cellv1.Change{{Change: &cellv1.Change_Forget{Forget: &cellv1.Forget{Gone: []*cellv1.Gone{{Id: "tn_1"}}}}}}, "tn_2"},
		{[]*cellv1.Change{tenant("tn_2", "renamed", false)}, ""},
	} {
		s = s.with(step.changes, uint64(i+1))
		if got := s.named(address{pathTenant: "acme"}); got != step.want {
			t.Errorf("step %d: acme is %q, want %q", i, got, step.want)
		}
	}
}

func BenchmarkNoteRefusal(b *testing.B) {
	p, keys := benchProxy(b, 100)
	p.refusals = newRefusals(time.Now)
	for name, k := range map[string]*http.Request{"no key": nil, "known": withKeyOf(keys[5].Reveal()), "wrong": withKeyOf(withID(b, generate(b), keys[5]).Reveal()), "unknown": withKeyOf(generate(b).Reveal())} {
		b.Run(name, func(b *testing.B) {
			r := k
			if r == nil {
				r = httptest.NewRequest("POST", "/t/tenant-5/api/v1/fetch", nil)
			}
			addr, _ := parseAddress(r, testDomain, "http")
			cred, ref := p.read(r)
			c, ref2 := caller{}, ref
			if ref == nil {
				c, ref2 = p.view.current().judge(cred, addr, nil, p.now())
			}
			b.ReportAllocs()
			for b.Loop() {
				p.noteRefusal(r, cred, &c, addr, ref2)
			}
		})
	}
}

func withKeyOf(key string) *http.Request {
	r := httptest.NewRequest("POST", "/t/tenant-5/api/v1/fetch", nil)
	r.Header.Set("X-API-Key", key)
	return r
}
