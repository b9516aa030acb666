package cell

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

const refusedTenant = "tn_01JD0000000000000000000001"

// startRefused is a cell that has a tenant on every node.
func startRefused(t *testing.T, nodes int) *testCell {
	c := newTestCell(t, nodes)
	c.leader()
	index, err := c.admin().Apply(t.Context(), celladmin.TenantChange(&cellv1.Tenant{Id: refusedTenant, Name: "acme"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.nodes {
		eventually.True(t, patience, "every node has the tenant", func() bool { return n.cell.View().Index() >= index })
	}
	return c
}

// refusals is what any node tells after cursors; it moves the cursors.
func (c *testCell) refusals(cursors map[string]string) (all []*cellv1.Refusal, lines []string) {
	c.t.Helper()
	nodes, err := c.admin().Sightings(c.t.Context(), cursors)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, n := range nodes {
		for _, r := range n.GetRefusals() {
			all = append(all, r)
			lines = append(lines, fmt.Sprintf("%s: %s of %s at %s: %s%s on %q %d", n.GetNodeId(), r.GetPrincipal(), r.GetTenantId(), r.GetPeer(), r.GetPermission(), r.GetReason(), r.GetQueue(), r.GetTimes()))
		}
		cursors[n.GetNodeId()] = n.GetCursor()
	}
	slices.Sort(lines)
	return all, lines
}

func TestRefusals_AnyNodeTellsWhatEachRefusedAndWhatItsProxiesDid(t *testing.T) {
	t.Parallel()
	c := startRefused(t, 3)
	cursors := make(map[string]string)
	want := func(what string, lines ...string) (all []*cellv1.Refusal) {
		t.Helper()
		all, got := c.refusals(cursors)
		if !slices.Equal(got, lines) {
			t.Errorf("%s: %q, want %q", what, got, lines)
		}
		return all
	}
	want("nothing yet")
	own := Refusal{Tenant: refusedTenant, Namespace: job.Namespace{5}, Principal: "key_1", Permission: permission.JobEnqueue, Queue: "q"}
	before := time.Now()
	for range 3 {
		c.nodes["node-3"].cell.NoteRefusal(own, "192.0.2.1")
	}
	c.nodes["node-3"].cell.NoteRefusal(Refusal{Principal: "cell:x"}, "192.0.2.1") // Of no tenant.
	byProxy := &cellv1.Refusal{Id: "one", TenantId: refusedTenant, Peer: "198.51.100.0/24", Reason: "no key", Times: 2}
	for _, node := range []string{"node-1", "node-2"} {
		_, err := c.client(node).ReportSightings(t.Context(), connect.NewRequest(&cellv1.ReportSightingsRequest{Refusals: []*cellv1.Refusal{byProxy, {Id: "two", TenantId: "tn_unknown"}}}))
		if err != nil {
			t.Fatal(err)
		}
	}
	proxies := ` of ` + refusedTenant + ` at 198.51.100.0/24: no key on "" 2`
	nodes := `node-3: key_1 of ` + refusedTenant + ` at 192.0.2.1: job.enqueue on "q" 3`
	all := want("first", "node-1: "+proxies, "node-2: "+proxies, nodes)
	ids := map[string]int{}
	for _, r := range all {
		ids[r.GetId()]++
		if at := time.Unix(0, r.GetSinceNs()); r.GetPrincipal() == "key_1" && (at.Before(before) || time.Since(at) < 0 || r.GetNamespaceId() != own.Namespace.String()) {
			t.Errorf("told %v", r)
		}
	}
	if len(ids) != 2 || ids["one"] != 2 {
		t.Errorf("ids %v: what a proxy tells two nodes has one, and what a node refuses has its own", ids)
	}
	c.nodes["node-3"].cell.NoteRefusal(own, "192.0.2.1")
	want("more of the same within ten minutes")
	clear(cursors)
	again := want("to a reader without cursors", "node-1: "+proxies, "node-2: "+proxies, nodes)
	for _, r := range again {
		if ids[r.GetId()] == 0 {
			t.Errorf("%s is told with another id", r.GetId())
		}
	}
}

func TestRefusals_AreBoundedAndForgottenAfterAWeek(t *testing.T) {
	t.Parallel()
	c := startRefused(t, 1)
	one := c.nodes["node-1"].cell
	s, now := one.sightings, time.Now()
	s.now = func() time.Time { return now }
	told := func(n int) (list []*cellv1.Refusal) {
		for i := range n {
			list = append(list, &cellv1.Refusal{Id: fmt.Sprint(i), TenantId: refusedTenant})
		}
		return list
	}
	s.takeRefusals(one.View(), told(refusalsMax+5))
	cursor, seen := "", 0
	for more := true; more; {
		part := s.after(one.View(), cursor, sightingsPart)
		if len(part.GetRefusals()) > sightingsPart {
			t.Fatalf("%d in one answer", len(part.GetRefusals()))
		}
		if seen == 0 && part.GetRefusals()[0].GetId() != "5" {
			t.Errorf("the first is %s: the oldest are to go", part.GetRefusals()[0].GetId())
		}
		seen += len(part.GetRefusals())
		cursor, more = part.GetCursor(), part.GetMore()
	}
	if seen != refusalsMax {
		t.Errorf("%d are kept, want %d", seen, refusalsMax)
	}
	now = now.Add(refusalsKept + time.Second)
	s.takeOwn()
	if n := len(s.after(one.View(), "", sightingsPart).GetRefusals()); n != 0 {
		t.Errorf("%d are told after a week", n)
	}
	// A caller that makes up names leaves room for others.
	for i := range 2 * refusedKindsMax {
		one.NoteRefusal(Refusal{Tenant: refusedTenant, Queue: fmt.Sprint(i)}, "")
	}
	one.NoteRefusal(Refusal{Tenant: "tn_other"}, "")
	s.takeOwn()
	if n := len(s.after(one.View(), "", sightingsPart).GetRefusals()); n != refusedKindsMax+1 {
		t.Errorf("%d, want %d of one tenant and one of another", n, refusedKindsMax)
	}
}

func benchRefusal() (*Cell, Refusal) {
	return &Cell{sightings: newSightings()}, Refusal{Tenant: refusedTenant, Namespace: job.Namespace{5}, Principal: "key_000000000001", Permission: permission.JobEnqueue, Queue: strings.Repeat("q", 20)}
}

// Whoever is refused may call as often as it can.
func TestRefusals_NotingOneMoreAllocatesNothing(t *testing.T) { // Not in parallel: others allocate.
	c, r := benchRefusal()
	c.NoteRefusal(r, "192.0.2.1")
	if n := testing.AllocsPerRun(1000, func() { c.NoteRefusal(r, "192.0.2.1") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNoteRefusal(b *testing.B) {
	c, r := benchRefusal()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.NoteRefusal(r, "192.0.2.1")
		}
	})
}
