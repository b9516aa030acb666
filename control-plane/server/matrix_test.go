package server

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

var update = flag.Bool("update", false, "rewrite testdata/matrix.txt")

// TestMatrix_WhoMayCallWhat calls every RPC of the API as everybody: in the caller's own
// tenant, in another tenant, and in the own one with the other's ids. The outcomes are
// compared with a table that is reviewed when it changes.
func TestMatrix_WhoMayCallWhat(t *testing.T) {
	t.Parallel()
	checkMatrix(t, newStage(t))
}

// TestMatrix_OnPostgreSQLToo is the same table over the other database, where row-level
// security has a say as well.
func TestMatrix_OnPostgreSQLToo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a PostgreSQL server")
	}
	t.Parallel()
	checkMatrix(t, newStageOn(t, cloudtest.Postgres(t)))
}

func checkMatrix(t *testing.T, s *stage) {
	t.Helper()
	m := newMatrix(t, s)
	builders := builders()
	var table strings.Builder
	table.WriteString("# RPC, tenant that the call is about, and what came of it as whom.\n" +
		"# own: the caller's tenant; foreign: another one; swap: the own one with ids of the other's things.\n" +
		"# Rewrite with: go test ./server -run TestMatrix -update\n")
	for _, rpc := range rpcs(t) {
		b, ok := builders[rpc.procedure]
		if !ok {
			t.Errorf("%s has no request in builders: say how it is called", rpc.procedure)
			continue
		}
		delete(builders, rpc.procedure)
		for _, about := range rpc.targets(b) {
			fmt.Fprintf(&table, "\n%s %s\n%s", strings.TrimPrefix(rpc.procedure, "/corvo.cloud.v1."), about, m.line(t, rpc, b, about))
		}
	}
	for p := range builders {
		t.Errorf("%s is not an RPC", p)
	}
	golden := filepath.Join("testdata", "matrix.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if table.String() != string(want) {
		t.Errorf("who may call what has changed; if it should have, run with -update and read the difference:\n%s", difference(string(want), table.String()))
	}
}

// difference lists lines that are in one text only.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	for _, l := range w {
		if !slices.Contains(g, l) {
			fmt.Fprintln(&out, "-", l)
		}
	}
	for _, l := range g {
		if !slices.Contains(w, l) {
			fmt.Fprintln(&out, "+", l)
		}
	}
	return out.String()
}

const (
	own     = "own"
	foreign = "foreign"
	swap    = "swap"
)

type rpc struct {
	procedure string
	// inTenant: the request names a tenant and the call needs a permission there.
	inTenant bool
	public   bool
}

// turn sorts calls last that end their own session: signing out, and signing in again.
func (r rpc) turn() int {
	switch {
	case r.public:
		return 2
	case strings.HasSuffix(r.procedure, "/Logout"):
		return 1
	}
	return 0
}

// rpcs lists the API from its descriptors, in order.
func rpcs(t *testing.T) (list []rpc) {
	t.Helper()
	protoregistry.GlobalFiles.RangeFilesByPackage("corvo.cloud.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				d := f.Services().Get(i).Methods().Get(j)
				p := proto.GetExtension(d.Options(), cloudv1.E_Permission).(cloudv1.Permission)
				r := rpc{procedure: fmt.Sprintf("/%s/%s", d.Parent().FullName(), d.Name())}
				r.public = p == cloudv1.Permission_PERMISSION_PUBLIC
				r.inTenant = !r.public && p != cloudv1.Permission_PERMISSION_SIGNED_IN && p != cloudv1.Permission_PERMISSION_OPERATOR
				list = append(list, r)
			}
		}
		return true
	})
	slices.SortFunc(list, func(a, b rpc) int {
		return cmp.Or(cmp.Compare(a.turn(), b.turn()), strings.Compare(a.procedure, b.procedure))
	})
	return list
}

func (r rpc) targets(b builder) []string {
	switch {
	case !r.inTenant:
		return []string{own}
	case !b.ids:
		return []string{own, foreign}
	}
	return []string{own, foreign, swap}
}

// matrix is two tenants with the same names for everything, and everybody who may call.
type matrix struct {
	*stage
	a, b       *fixture
	principals []principal
	unused     map[string]proto.Message // By tenant and RPC.
}

// principal is somebody who calls.
type principal struct {
	name    string
	headers []string
	// elsewhere: tenant a is not theirs.
	elsewhere bool
}

func newMatrix(t *testing.T, s *stage) *matrix {
	t.Helper()
	s.unlimited()
	m := &matrix{stage: s, a: s.newFixture(t, "tenant-a"), b: s.newFixture(t, "tenant-b"), unused: map[string]proto.Message{}}
	add := func(name string, headers ...string) {
		m.principals = append(m.principals, principal{name: name, headers: headers})
	}
	add("nobody")
	add("jobs-key", bearer(m.a.jobs)...)
	add("bad-key", "Authorization", "Bearer "+flipped(m.a.manage.Reveal()))
	add("revoked-key", m.a.revokedKey(t)...)
	add("expired-key", m.a.expiredKey(t)...)
	add("expired-session", browser(m.a.expiredSession(t))...)
	add("cross-site-owner", "Cookie", m.a.session(t, owner, ""), "Sec-Fetch-Site", "cross-site")
	for _, r := range roles() {
		add("key-"+r, m.a.key(t, r)...)
	}
	for _, r := range roles() {
		add("user-"+r, browser(m.a.session(t, r, ""))...)
	}
	for _, r := range []string{owner, viewer} {
		add("personal-key-"+r, m.a.personalKey(t, r)...)
	}
	add("key-narrowed", m.a.narrowKey(t)...)
	add("key-elsewhere", m.a.elsewhereKey(t)...)
	add("user-no-role", browser(m.a.session(t, "", ""))...)
	add("user-admin-of-another-namespace", browser(m.a.inNamespace(t, permission.RoleAdmin))...)
	add("sso-viewer", browser(m.a.session(t, viewer, m.a.TenantID))...)
	add("cli-owner", "Authorization", "Bearer "+m.a.cliSession(t, owner, ""))
	add("cli-viewer", "Authorization", "Bearer "+m.a.cliSession(t, viewer, ""))
	add("half-open-owner", browser(m.a.halfOpenSession(t, owner))...)
	add("unproved-owner", browser(m.a.unprovedSession(t, owner))...)
	for name, h := range m.a.operators(t) {
		add(name, h...)
	}
	cli := m.a.cliSession(t, owner, "")
	add("cli-token-in-cookie", browser("corvo_session="+cli)...)
	_, cookie, _ := strings.Cut(m.a.session(t, owner, ""), "=")
	add("cookie-as-bearer", "Authorization", "Bearer "+cookie)
	for name, h := range map[string][]string{
		"other-owner-key":     bearer(m.b.manage),
		"other-owner-user":    browser(m.b.session(t, owner, "")),
		"sso-owner-elsewhere": browser(m.a.session(t, owner, m.b.TenantID)),
		"cli-owner-elsewhere": {"Authorization", "Bearer " + m.a.cliSession(t, owner, m.b.TenantID)},
	} {
		m.principals = append(m.principals, principal{name: name, headers: h, elsewhere: true})
	}
	return m
}

// line makes each call as everybody and gathers who got what.
func (m *matrix) line(t *testing.T, r rpc, b builder, about string) string {
	t.Helper()
	got := map[string][]string{}
	for _, p := range m.principals {
		if p.elsewhere && about != own {
			continue // Tenant b is no foreign one to them.
		}
		code := m.outcome(t, r, b, about, p)
		got[code] = append(got[code], p.name)
	}
	var out strings.Builder
	for _, code := range slices.Sorted(maps.Keys(got)) {
		names := got[code]
		slices.Sort(names)
		if len(names) == len(m.principals) {
			names = []string{"everybody"}
		}
		fmt.Fprintf(&out, "    %-20s %s\n", code, strings.Join(names, " "))
	}
	return out.String()
}

func (m *matrix) outcome(t *testing.T, r rpc, b builder, about string, p principal) string {
	t.Helper()
	of := m.a
	if about != own {
		of = m.b
	}
	request := m.request(t, r, b, of)
	if r.inTenant {
		named := of.Tenant
		if about == swap {
			named = m.a.Tenant
		}
		setTenant(request, named)
	}
	got := m.call(t, r.procedure, marshal(t, request), p.headers...)
	if got.status == http.StatusOK {
		delete(m.unused, of.Tenant+r.procedure) // What it was about may have ended.
	}
	if about == own || got.status == http.StatusOK {
		return m.code(t, got)
	}
	// Another tenant's things look like missing ones, to the last byte.
	if code := m.code(t, got); code != "not_found" {
		return code
	}
	nowhere := b.build(t, of.nowhere())
	setTenant(nowhere, "no-such-tenant")
	if about == swap {
		setTenant(nowhere, m.a.Tenant)
	}
	if missing := m.call(t, r.procedure, marshal(t, nowhere), p.headers...); anonymous(missing) != anonymous(got) {
		t.Errorf("%s %s as %s: another tenant's thing gives %s, a missing one %s", r.procedure, about, p.name, got.body, missing.body)
	}
	return "not_found"
}

// request is about something that no call has changed yet.
func (m *matrix) request(t *testing.T, r rpc, b builder, of *fixture) proto.Message {
	t.Helper()
	if m.unused[of.Tenant+r.procedure] == nil {
		m.unused[of.Tenant+r.procedure] = b.build(t, of)
	}
	return m.unused[of.Tenant+r.procedure]
}

var requestID = regexp.MustCompile(`req_[0-9A-Z]{26}`)

// anonymous is an answer without what differs from call to call. The detail is there a
// second time in binary form.
func anonymous(r reply) string {
	var m map[string]any
	if json.Unmarshal([]byte(r.body), &m) == nil {
		if details, ok := m["details"].([]any); ok {
			for _, d := range details {
				delete(d.(map[string]any), "value")
			}
		}
		if raw, err := json.Marshal(m); err == nil {
			r.body = string(raw)
		}
	}
	return fmt.Sprint(r.status, requestID.ReplaceAllString(r.body, "req"))
}

func (m *matrix) code(t *testing.T, r reply) string {
	t.Helper()
	if r.status == http.StatusOK {
		return "ok"
	}
	code, _ := r.json(t)["code"].(string)
	if code == "internal" || code == "" || code == "unknown" {
		t.Errorf("answer %d %s\n%s", r.status, r.body, m.log)
	}
	return code
}

func setTenant(m proto.Message, name string) {
	r := m.ProtoReflect()
	r.Set(r.Descriptor().Fields().ByName("tenant"), protoreflect.ValueOfString(name))
}

func marshal(t testing.TB, m proto.Message) string {
	t.Helper()
	raw, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
