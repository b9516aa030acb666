package cell

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// forgetAll does what the leader does, as of the bench's clock, and returns the entries
// that it took.
func (b *bench) forgetAll() (entries int) {
	b.t.Helper()
	for {
		gone, err := b.machine.due(b.now(b.index + 1))
		if err != nil {
			b.t.Fatal(err)
		}
		if len(gone) == 0 {
			return entries
		}
		if len(gone) > forgetMax {
			b.t.Fatalf("%d records in one entry", len(gone))
		}
		if len(b.must(forgetChange(gone...))[0].GetForget().GetGone()) == 0 {
			b.t.Fatalf("due, but refused: %v", gone)
		}
		entries++
	}
}

// as writes a change set as one generation of the control plane.
func (b *bench) as(tenant int, generation uint64, changes ...*cellv1.Change) string {
	b.t.Helper()
	res := b.request(&cellv1.ApplyRequest{
		Changes: changes, Source: "control/tenant/" + tenantID(tenant), Generation: generation, Incarnation: "inc_a",
	})
	if refused, ok := res.(*fault.Error); ok {
		return refused.Reason
	}
	return ""
}

func sweptChange(n int) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_SweptNamespaceId{SweptNamespaceId: nsID(n)}}
}

func deletedTenant(n int, name string) *cellv1.Change {
	return tenantChange(&cellv1.Tenant{Id: tenantID(n), Name: name, Deleted: true})
}

func deletedNamespace(n, tenant int, name string) *cellv1.Change {
	return namespaceChange(&cellv1.Namespace{Id: nsID(n), TenantId: tenantID(tenant), Name: name, Deleted: true})
}

func revoked(k *cellv1.Key) *cellv1.Change {
	k = proto.CloneOf(k)
	k.Revoked = true
	return keyChange(k)
}

// Tenants and keys come and go for months, and only records deleted within the horizon
// are left.
func TestForget_DeletedRecordsDoNotFillTheCell(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(shardsChange(2, 3))
	const tenants, keysOf, days, perEntry = 20_000, 5, 200, 250
	most, generation := 0, uint64(0)
	for from := 0; from < tenants; from += perEntry {
		b.later = time.Duration(from) * (days * 24 * time.Hour / tenants)
		var made, ended []*cellv1.Change
		for n := from + 10; n < from+10+perEntry; n++ {
			name := fmt.Sprintf("tenant-%d", n)
			made = append(made, testTenant(n, name), testNamespace(n, n, "jobs"))
			ended = append(ended, deletedTenant(n, name), deletedNamespace(n, n, "jobs"), sweptChange(n))
			for k := range keysOf {
				key := testKey(n*keysOf+k, n)
				made = append(made, keyChange(key))
				if k > 0 { // One goes with its tenant.
					ended = append(ended, revoked(key))
				}
			}
		}
		generation++
		for _, changes := range [][]*cellv1.Change{made, ended} {
			if refused := b.as(from+10, generation, changes...); refused != "" {
				t.Fatal(refused)
			}
			generation++
		}
		b.forgetAll()
		v := b.machine.View()
		most = max(most, v.tenants.size+v.namespaces.size+v.keys.size)
	}
	// What 35 of 200 days brought, and an entry's more.
	if bound := tenants * (2 + keysOf) * 38 / days; most > bound {
		t.Errorf("the cell knew of %d at a time, want at most %d", most, bound)
	}
	b.later += celladmin.TombstonesKept
	b.forgetAll()
	left := bytes.Split(bytes.TrimSpace(b.dump()), []byte("\n"))
	if st := b.machine.View().State(); len(st.GetTenants())+len(st.GetNamespaces())+len(st.GetKeys()) > 0 || len(left) > 20 {
		t.Errorf("in the end %d rows are left: %s", len(left), bytes.Join(left[:min(20, len(left))], []byte("\n")))
	}
	t.Logf("%d entries; at most %d records at a time; %d rows in the end", b.index, most, len(left))
}

func TestForget_NotBeforeTheHorizonAndNotBeforeTheShardIsDone(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	key := testKey(1, 1)
	b.must(testNamespace(1, 1, "jobs"), keyChange(key))
	b.must(deletedNamespace(1, 1, "jobs"), revoked(key))
	deletedAt := b.now(b.index)
	b.later = celladmin.TombstonesKept - time.Second
	if n := b.forgetAll(); n != 0 {
		t.Errorf("%d entries before the horizon", n)
	}
	// Not even if an entry says so: only the time of the log counts.
	b.must(forgetChange(&cellv1.Gone{Id: key.GetId(), AtNs: deletedAt.UnixNano() - 1}))
	if _, known := b.machine.View().KeyByID(key.GetId()); !known {
		t.Error("a key was forgotten by a time that is not its own")
	}
	b.later = celladmin.TombstonesKept
	b.forgetAll()
	v := b.machine.View()
	if _, known := v.KeyByID(key.GetId()); known {
		t.Error("the key is still known")
	}
	if len(v.State().GetNamespaces()) != 1 {
		t.Error("a namespace that its shard has something of is forgotten")
	}
	ends := v.Ends()
	b.must(sweptChange(1))
	b.must(deletedNamespace(1, 1, "jobs")) // Said again, it stays swept.
	b.forgetAll()
	if v := b.machine.View(); len(v.State().GetNamespaces()) != 0 || v.Ends() == ends {
		t.Errorf("the namespace is still known: %v", v.State())
	}
	b.refused("NAMESPACE_NOT_FOUND", sweptChange(1))
	if n := b.forgetAll(); n != 0 {
		t.Errorf("%d entries without work", n)
	}
}

// A key that names a forgotten namespace can still be changed.
func TestForget_AKeyOutlivesANamespaceItNames(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	key := testKey(1, 1, 1)
	b.must(testNamespace(1, 1, "jobs"), keyChange(key))
	b.must(deletedNamespace(1, 1, "jobs"), sweptChange(1))
	b.later = celladmin.TombstonesKept
	b.forgetAll()
	key.Name = "renamed"
	b.must(keyChange(key))
	b.refused("NAMESPACE_NOT_FOUND", keyChange(testKey(2, 1, 1)))
}

func TestForget_AnOlderGenerationBringsNothingBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(shardsChange(2, 3))
	key := testKey(1, 3)
	made := []*cellv1.Change{testTenant(3, "initech"), testNamespace(1, 3, "jobs"), keyChange(key)}
	for generation, changes := range [][]*cellv1.Change{
		1: made, 5: {revoked(key)}, 6: {deletedNamespace(1, 3, "jobs"), sweptChange(1)}, 7: {deletedTenant(3, "initech")},
	} {
		if changes == nil {
			continue
		}
		if refused := b.as(3, uint64(generation), changes...); refused != "" {
			t.Fatal(refused)
		}
	}
	b.later = celladmin.TombstonesKept
	b.forgetAll()
	if st := b.machine.View().State(); len(st.GetTenants())+len(st.GetNamespaces())+len(st.GetKeys()) > 0 {
		t.Fatalf("still known: %v", st)
	}
	var known cellv1.GetIndexResponse
	if err := b.machine.readControl(&known); err != nil {
		t.Fatal(err)
	}
	if known.GetForgottenGeneration() != 7 {
		t.Errorf("the cell says that it forgot generation %d, want 7", known.GetForgottenGeneration())
	}
	for generation := range uint64(8) {
		if refused := b.as(3, generation, made...); refused != "STALE_GENERATION" {
			t.Errorf("generation %d: refused %q", generation, refused)
		}
	}
	// Another tenant's first generation is newer than all drawn before.
	if refused := b.as(4, 8, testTenant(4, "hooli")); refused != "" {
		t.Error(refused)
	}
}

// The shard of a namespace may be led elsewhere than the cell.
func TestSwept_ReachesTheLeaderAndIsSaidOnce(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	l := c.leader()
	req := &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(1, "acme"), testNamespace(1, 1, "jobs"), deletedNamespace(1, 1, "jobs")}}
	if _, err := applyOn(t.Context(), t, c, l.id, req); err != nil {
		t.Fatal(err)
	}
	f := c.follower()
	id, err := job.ParseNamespace(nsID(1))
	if err != nil {
		t.Fatal(err)
	}
	swept := func(n *testNode) bool {
		ns, known := n.cell.View().NamespaceByID(id)
		return known && ns.GetSwept()
	}
	eventually.True(t, patience, "the follower knows it", func() bool { _, known := f.cell.View().NamespaceByID(id); return known })
	if err := f.members.Swept(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, patience, "every node knows that it is swept", func() bool { return swept(f) && swept(c.leader()) })
	before := f.cell.View().Index()
	if err := f.members.Swept(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := f.members.Swept(t.Context(), job.Namespace{9}); err != nil {
		t.Errorf("one that nobody knows: %v", err)
	}
	if after := c.leader().cell.View().Index(); after != before {
		t.Errorf("an entry for nothing: %d, then %d", before, after)
	}
}

// wall is a clock that a test moves; the monotonic one goes with it.
type wall struct {
	start time.Time
	ahead atomic.Int64
}

func (w *wall) Now() (time.Time, time.Duration) {
	ahead := time.Duration(w.ahead.Load())
	return time.Now().Add(ahead), time.Since(w.start) + ahead
}

// The loop of the leader, with the log's own calendar.
func TestForget_TheLeaderEndsRecordsByTheCalendarOfTheLog(t *testing.T) {
	t.Parallel()
	clock := &wall{start: time.Now()}
	c := newTestCell(t, 1, func(c *testCell) { c.clock = clock })
	key := testKey(1, 1)
	req := &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(1, "acme"), keyChange(key), revoked(key)}}
	n := c.leader()
	if _, err := applyOn(t.Context(), t, c, n.id, req); err != nil {
		t.Fatal(err)
	}
	before := n.cell.View().Index()
	clock.ahead.Store(int64(celladmin.TombstonesKept - time.Hour))
	req = &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(1, "acme-2")}}
	if _, err := applyOn(t.Context(), t, c, n.id, req); err != nil {
		t.Fatal(err)
	}
	if _, known := n.cell.View().KeyByID(key.GetId()); !known || n.cell.View().Index() != before+1 {
		t.Fatalf("an entry too soon: %d, then %d, known %v", before, n.cell.View().Index(), known)
	}
	clock.ahead.Store(int64(celladmin.TombstonesKept))
	eventually.True(t, patience, "the key is forgotten", func() bool { _, known := n.cell.View().KeyByID(key.GetId()); return !known })
}
