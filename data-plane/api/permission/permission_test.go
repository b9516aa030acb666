package permission

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestList_NumbersRiseAndNamesAreSubjectAndVerb(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i, p := range infos {
		if i > 0 && infos[i-1].Permission >= p.Permission || p.Permission >= 128 || p.Permission < 10 {
			t.Errorf("%s has number %d after %d", p.Name, p.Permission, infos[max(i-1, 0)].Permission)
		}
		subject, verb, ok := strings.Cut(p.Name, ".")
		if !ok || subject == "" || verb == "" || seen[p.Name] || p.About == "" || p.Level < OfTenant || p.Level > OfQueue {
			t.Errorf("the row of %q: %+v", p.Name, p)
		}
		seen[p.Name] = true
		if got, ok := Named(p.Name); !ok || got != p.Permission || got.String() != p.Name || got.Level() != p.Level {
			t.Errorf("%s is found as %v", p.Name, got)
		}
	}
	if _, ok := Named("job.rule"); ok || Permission(3).Known() || Permission(3).Level() != 0 || Permission(200).Known() {
		t.Error("what is no permission is known")
	}
}

func TestSet_BytesAndNamesComeBack(t *testing.T) {
	t.Parallel()
	s := Of(TenantRead, JobEnqueue, EventRead)
	back, err := SetFrom(s.Bytes())
	if err != nil || back != s || s.Len() != 3 {
		t.Fatalf("%v became %v: %v", s.Names(), back.Names(), err)
	}
	named, unknown := SetOf(append(s.Names(), "job.rule"))
	if named != s || !slices.Equal(unknown, []string{"job.rule"}) {
		t.Errorf("names came back as %v, unknown %v", named.Names(), unknown)
	}
	if got := Of(Permission(10)).Bytes(); got[1] != 4 {
		t.Errorf("permission 10 is not bit 10: %v", got)
	}
	for _, b := range [][]byte{nil, make([]byte, 15), make([]byte, 17)} {
		if _, err := SetFrom(b); err == nil {
			t.Errorf("%d bytes are a set", len(b))
		}
	}
	if s.Has(200) || Everything().Has(0) || Everything().Has(2) || !Everything().Has(JobFetch) {
		t.Error("a set has what it should not, or lacks what it should have")
	}
	if OfLevel(OfQueue).Has(NamespaceRead) || !OfLevel(OfNamespace).Has(JobEnqueue) || OfLevel(OfNamespace).Has(TenantRead) {
		t.Error("levels are wrong")
	}
}

func TestPattern_WhatItMatchesAndCovers(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"*", "email", "email*", "email.*", "A-b_c.d*", strings.Repeat("a", 128)} {
		if err := CheckPattern(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "**", "*a", "a*b", ".a", "a b", "a/b", "ä", strings.Repeat("a", 129), "a\n"} {
		if CheckPattern(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, c := range []struct {
		a, b   string
		covers bool
		meet   string
	}{
		{"*", "email", true, "email"}, {"email*", "email", true, "email"}, {"email", "email*", false, "email"},
		{"email.*", "email*", false, "email.*"}, {"email*", "email.*", true, "email.*"}, {"a*", "b*", false, ""}, {"a", "b", false, ""}, {"*", "*", true, "*"},
	} {
		if got := covers(c.a, c.b); got != c.covers {
			t.Errorf("%q covers %q: %v", c.a, c.b, got)
		}
		if got := narrower(c.a, c.b); got != c.meet {
			t.Errorf("%q and %q meet in %q, want %q", c.a, c.b, got, c.meet)
		}
	}
}

// drawn is a random Grants over few names, so that places overlap often.
func drawn(r *rand.Rand) Grants {
	all := Everything().List()
	some := func(from []string) (out []string) {
		for _, v := range from {
			if r.IntN(3) == 0 {
				out = append(out, v)
			}
		}
		return out
	}
	g := make(Grants, r.IntN(4))
	for i := range g {
		for range 1 + r.IntN(4) {
			g[i].Permissions = g[i].Permissions.Or(Of(all[r.IntN(len(all))]))
		}
		g[i].Namespaces, g[i].Queues = some([]string{"ns_1", "ns_2"}), some([]string{"a", "ab*", "a*", "b*"})
	}
	return g
}

var (
	drawnNamespaces = []string{"ns_1", "ns_2", "ns_3"}
	drawnQueues     = []string{"a", "ab", "abc", "ac", "b", "ba", "c"}
)

// each calls f with every permission at every place there is.
func each(f func(p Permission, namespace, queue string)) {
	for _, p := range OfLevel(OfQueue).List() {
		for _, n := range drawnNamespaces {
			for _, q := range drawnQueues {
				f(p, n, q)
			}
		}
	}
}

func (g Grants) allows(p Permission, namespace, queue string) bool {
	h := g.At(namespace)
	return h.Queue(p, queue)
}

func TestNarrow_IsWhatBothAllow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		g, limits := drawn(r), drawn(r)
		for _, limit := range limits {
			narrow := g.Narrow(limit)
			if !g.Covers(narrow) {
				t.Fatalf("%+v narrowed by %+v is broader: %+v", g, limit, narrow)
			}
			each(func(p Permission, n, q string) {
				if want, got := g.allows(p, n, q) && (Grants{limit}).allows(p, n, q), narrow.allows(p, n, q); got != want {
					t.Fatalf("%+v narrowed by %+v: %v in %s/%s is %v", g, limit, p, n, q, got)
				}
			})
		}
	}
}

func TestCovers_WhoCoversMayAllThatTheOtherMay(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	covered := 0
	for range 2000 {
		g, other := drawn(r), drawn(r)
		if !g.Covers(other) {
			continue
		}
		covered++
		each(func(p Permission, n, q string) {
			if other.allows(p, n, q) && !g.allows(p, n, q) {
				t.Fatalf("%+v covers %+v, but not %v in %s/%s", g, other, p, n, q)
			}
		})
		if other.Anywhere(TenantRead) && !g.Anywhere(TenantRead) {
			t.Fatalf("%+v covers %+v", g, other)
		}
	}
	if covered < 100 {
		t.Fatalf("only %d pairs said anything", covered)
	}
}

func TestCompact_OneFormForOneRight(t *testing.T) {
	t.Parallel()
	a := Grants{{Of(JobRead), []string{"ns_2", "ns_1"}, nil}, {Of(JobEnqueue), []string{"ns_1", "ns_2", "ns_1"}, nil}, {}, {Of(TenantRead), nil, nil}}
	b := Grants{{Of(TenantRead), nil, nil}, {Of(JobEnqueue, JobRead), []string{"ns_1", "ns_2"}, nil}}
	if got := a.Compact(); !reflect.DeepEqual(got, b) {
		t.Errorf("got %+v", got)
	}
}

func TestAt_WhatIsOfTheTenantIsNothingInANamespace(t *testing.T) {
	t.Parallel()
	g := Grants{{Of(TenantRead, NamespaceRead, JobRead), []string{"ns_1"}, []string{"a*"}}, {Of(TenantUpdate, QueueRead, NamespaceUpdate), nil, nil}}
	h := g.At("ns_1")
	for p, want := range map[Permission]bool{TenantRead: false, NamespaceRead: false, JobRead: false, TenantUpdate: false, QueueRead: true, NamespaceUpdate: true} {
		if got := h.Everywhere(p); got != want {
			t.Errorf("%v in all of the namespace: %v", p, got)
		}
	}
	if !h.Queue(JobRead, "ab") || h.Queue(JobRead, "b") || !h.Somewhere(JobRead) || h.Somewhere(TenantRead) {
		t.Errorf("%+v", h)
	}
	if other := g.At("ns_2"); other.Somewhere(JobRead) || other.None() {
		t.Errorf("in another namespace: %+v", other)
	}
	if !g.Tenant(TenantUpdate) || g.Tenant(TenantRead) || !g.Namespace(QueueRead, "ns_9") || g.Namespace(JobRead, "ns_1") {
		t.Error("the tenant's or the namespace's rights are wrong")
	}
}

// A decision must not allocate and takes some nanoseconds, also with many patterns.
func BenchmarkHere_Queue(b *testing.B) {
	h := Here{All: Of(QueueRead), Some: []InQueues{{Of(JobFetch), []string{"a.*", "b.*", "c.*"}}, {Of(JobEnqueue), []string{"d.*", "email.*"}}}}
	b.ReportAllocs()
	for b.Loop() {
		if !h.Queue(JobEnqueue, "email.welcome") {
			b.Fatal()
		}
	}
}

func TestHere_ADecisionDoesNotAllocate(t *testing.T) {
	h := Here{All: Of(QueueRead), Some: []InQueues{{Of(JobFetch), []string{"a.*", "b.*"}}, {Of(JobEnqueue), []string{"email.*"}}}}
	if n := testing.AllocsPerRun(100, func() { _ = h.Queue(JobEnqueue, "email.welcome") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is held at a place is nothing beside or above it.
func TestPlaces_HoldNothingAboveThem(t *testing.T) {
	t.Parallel()
	everything := Everything()
	inNamespace := Grants{{Permissions: everything, Namespaces: []string{"ns_a"}}}
	inQueues := Grants{{Permissions: everything, Queues: []string{"mail.*"}}}
	for name, wrong := range map[string]bool{
		"a namespace gives the tenant":            inNamespace.Tenant(MemberInvite),
		"queues give the tenant":                  inQueues.Tenant(MemberInvite),
		"queues give the namespace":               inQueues.Namespace(QueuePause, "ns_a"),
		"a namespace covers the tenant":           inNamespace.Covers(Grants{{Permissions: everything}}),
		"queues cover the tenant":                 inQueues.Covers(Grants{{Permissions: Of(JobEnqueue)}}),
		"queues cover a namespace":                inQueues.Covers(Grants{{Permissions: Of(JobEnqueue), Namespaces: []string{"ns_a"}}}),
		"queues of a namespace cover those of it": inNamespace.Covers(Grants{{Permissions: everything, Queues: []string{"mail.*"}}}),
	} {
		if wrong {
			t.Error(name)
		}
	}
	narrowed := Grants{{Permissions: everything}}.Narrow(Grant{Permissions: everything, Queues: []string{"mail.*"}})
	if len(narrowed) != 1 || narrowed[0].Permissions != everything.At(OfQueue) {
		t.Errorf("narrowed to queues: %v", narrowed[0].Permissions.Names())
	}
}
