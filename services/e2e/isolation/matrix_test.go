package isolation

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
	"golang.org/x/sync/errgroup"
)

var update = flag.Bool("update", false, "rewrite testdata/matrix.txt")

const (
	// entriesAtOnce keeps the service busy and its answers quick.
	entriesAtOnce = 6
	// nowhere is a tenant that does not exist, with a name as long as those that are asked about.
	nowhere = "nope"
)

// matrix is one whole service, every kind of caller, and every entry point. Each credential is
// tried at the two fronts in turns.
type matrix struct {
	*service
	issuer     rig.Issuer
	own, other *signedUp
	cast       []credential
	probes     map[string]probe
	entries    []entry
	ctx        context.Context // The test's own.
}

// Every entry point of the service is tried with every credential. The outcomes are compared
// with a table that is reviewed when it changes; the laws hold whatever the table says.
func TestMatrix_ACredentialOpensItsOwnEntriesOnly(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	t.Cleanup(cancel)
	m := &matrix{ctx: ctx, service: startService(t)}
	m.settle(t)
	m.entries = m.allEntries(t)
	first := m.try(t, func(e entry) bool { return !e.last })
	m.restart(t)
	for _, name := range core {
		if !slices.ContainsFunc(m.entries, func(e entry) bool { return e.name == name }) {
			t.Errorf("there is no entry %s", name)
		}
	}
	for i, line := range m.try(t, func(e entry) bool { return slices.Contains(core, e.name) }) {
		if line != "" && line != first[i] {
			t.Errorf("after a restart of every process:\n%s\nbefore:\n%s", line, first[i])
		}
	}
	for i, line := range m.try(t, func(e entry) bool { return e.last }) {
		first[i] += line
	}
	if !t.Failed() {
		compareGolden(t, tableHead+strings.Join(first, ""))
	}
}

// core are the entries that are tried again after a restart: some of each side that read and
// some that change, over each protocol.
var core = []string{
	"data GET /api/v1/queues", "data POST /api/v1/enqueue", "data POST /api/v1/fetch", "data GET /api/v1/events", "data DELETE /api/v1/queues/{name}",
	"data POST /corvo.v1.WorkerService/StreamLifecycle", "data gRPC /corvo.v1.WorkerService/StreamLifecycle", "data gRPC /corvo.v1.WorkerService/Enqueue",
	"control POST TenantService/GetTenant", "control GET TenantService/GetTenant", "control gRPC MemberService/ListMembers", "control POST ApiKeyService/CreateApiKey",
	"control POST AuthService/MintToken", "control POST AuthService/GetCurrentIdentity", "control POST TrustService/CreateTrust", "control gRPC AuditService/ExportAuditLog",
	"directory GET /Users", "directory GET /Groups/{id}", "node POST /api/v1/enqueue", "closed POST /corvo.cell.v1.CellService/ListAudit",
}

// try sends some of the requests with every credential, and gives the row of each. Those that
// end sessions, or change what others may do, go one after the other.
func (m *matrix) try(t *testing.T, which func(entry) bool) []string {
	t.Helper()
	lines := make([]string, len(m.entries))
	var working errgroup.Group
	working.SetLimit(entriesAtOnce)
	for i, d := range m.entries {
		switch {
		case !which(d):
		case d.last:
			lines[i] = m.line(t, i, d)
		default:
			working.Go(func() error { lines[i] = m.line(t, i, d); return nil })
		}
	}
	_ = working.Wait() // What went wrong is the test's.
	return lines
}

const tableHead = `# Every entry point of the service, and what each credential gets there in its own tenant.
# "ok" is any 2xx. A refusal for what was asked (400, 404 of a job) was let in.
# Rewrite with: go test ./e2e/isolation -run TestMatrix -update
`

// line is the row of one entry in the table, and checks the laws on the way.
func (m *matrix) line(t *testing.T, number int, d entry) string {
	got, in := make(map[string][]string), make(map[string]bool)
	for i, c := range m.cast {
		o := m.outcome(t, d, c, m.fronts[(number+i)%len(m.fronts)])
		got[o.String()] = append(got[o.String()], c.name)
		in[c.name] = !o.refused()
		if broken := lawBroken(d, c, o); broken != "" {
			t.Errorf("%s with %s: %s: %s: %.300s", d.name, c.name, o, broken, o.body)
		}
		if t.Context().Err() != nil {
			return ""
		}
	}
	if d.side == data {
		sameRoles(t, d, in)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", d.name)
	for _, code := range slices.Sorted(maps.Keys(got)) {
		names := got[code]
		if len(names) == len(m.cast) {
			names = []string{"everybody"}
		}
		fmt.Fprintf(&b, "    %-26s %s\n", code, strings.Join(names, " "))
	}
	return b.String()
}

// outcome asks, and compares the answer to a foreigner, and to whose tenant was deleted, with
// that about a tenant that does not exist.
func (m *matrix) outcome(t *testing.T, d entry, c credential, front string) outcome {
	tenant := cmp.Or(c.tenant, ownName)
	o := m.ask(t, d, c, tenant, front)
	if !c.foreign && c.tenant == "" || !d.ofTenant {
		return o
	}
	missing := m.ask(t, d, c, nowhere, front)
	if got, want := o.plain(tenant), missing.plain(nowhere); got != want {
		t.Errorf("%s with %s: another's tenant and none differ\nanother's:\n%s\nnone:\n%s", d.name, c.name, got, want)
	}
	return o
}

// lawBroken says which law an outcome breaks, if any. Rewriting the table does not change
// the laws.
func lawBroken(d entry, c credential, o outcome) string {
	switch {
	case o.status >= http.StatusInternalServerError || o.status == http.StatusTooManyRequests:
		return "no answer to the question"
	case d.side == page:
		return "" // The same for everybody, and holds nothing of a tenant.
	case d.side == closed || d.side == inside:
		if !o.refused() && !o.nothing() {
			return "an entry that no credential opened"
		}
		return ""
	case d.public:
		return ""
	case c.kind == stranger || c.ended && (d.ofTenant || !c.account) || c.foreign && d.ofTenant:
		// Another tenant's things look like missing ones; see outcome.
		if !o.refused() && !(o.nothing() && (d.side == control || d.side == directory || c.elsewhere)) {
			return "neither a stranger, a foreigner nor an ended credential gets in"
		}
		return ""
	}
	return lawOfSide(d, c, o)
}

// lawOfSide is for credentials that are valid somewhere.
func lawOfSide(d entry, c credential, o outcome) string {
	switch {
	case d.side == directory && c.kind != scim && o.status != http.StatusUnauthorized:
		return "the SCIM door takes tokens of directories only"
	case d.side != directory && c.kind == scim && o.status != http.StatusUnauthorized:
		return "a directory's token opens the SCIM door only"
	case d.side == control && (c.kind == jobs || c.kind == token) && o.status != http.StatusUnauthorized:
		return "the control API takes sessions and management keys only"
	case d.side == data && c.kind == session && o.status != http.StatusUnauthorized:
		return "a session cookie does not open the data plane"
	case c.viewer && d.changes && !o.refused() && !pays(c, d):
		return "whoever only reads changes nothing"
	}
	return ""
}

// pays: the role billing only reads, but for the plan and how it is paid.
func pays(c credential, d entry) bool {
	return strings.HasSuffix(c.name, "-billing") && slices.ContainsFunc([]string{"PlanService/", "BillingService/", "UsageService/"}, func(s string) bool { return strings.Contains(d.name, s) })
}

// sameRoles: at the tenant's URL a key for both planes may do what its role may do in a browser,
// and nothing beyond.
func sameRoles(t *testing.T, d entry, in map[string]bool) {
	t.Helper()
	for _, role := range tenantRoles {
		for _, kind := range []string{"management-", "personal-", "exchanged-"} {
			if got, there := in[kind+role]; there && got != in["token-"+role] && !d.public {
				t.Errorf("%s: %s%s gets in: %v; the browser token of this role: %v", d.name, kind, role, got, in["token-"+role])
			}
		}
	}
}

func compareGolden(t *testing.T, table string) {
	t.Helper()
	golden := filepath.Join("testdata", "matrix.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if table != string(want) {
		t.Errorf("what a credential may call has changed; if it should have, run with -update and read the difference:\n%s", difference(string(want), table))
	}
}

// difference lists the rows that differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n\n"), strings.Split(got, "\n\n")
	var out strings.Builder
	for _, e := range w {
		if !slices.Contains(g, e) {
			fmt.Fprintf(&out, "- %s\n", strings.TrimSpace(e))
		}
	}
	for _, e := range g {
		if !slices.Contains(w, e) {
			fmt.Fprintf(&out, "+ %s\n", strings.TrimSpace(e))
		}
	}
	return out.String()
}
