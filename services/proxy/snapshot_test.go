package proxy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// TestSnapshot_ChangesOneByOneEqualTheWholeState runs random changes three ways:
// one by one, in batches, and through a whole state now and then. An old snapshot
// never changes.
func TestSnapshot_ChangesOneByOneEqualTheWholeState(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	one, batched, rebuilt := &snapshot{}, &snapshot{}, &snapshot{}
	var batch []*cellv1.Change
	var frozen *snapshot
	var frozenText string
	for i := range uint64(2000) {
		c := randomChange(rng)
		one = one.with([]*cellv1.Change{c}, i+1)
		batch = append(batch, c)
		if rng.IntN(10) > 0 {
			continue
		}
		batched = batched.with(batch, i+1)
		rebuilt = snapshotOf(rebuilt.with(batch, i+1).state())
		batch = nil
		want := text(t, one)
		if got := text(t, batched); got != want {
			t.Fatalf("step %d: batched\n%s\nwant\n%s", i, got, want)
		}
		if got := text(t, rebuilt); got != want {
			t.Fatalf("step %d: rebuilt\n%s\nwant\n%s", i, got, want)
		}
		checkNames(t, one)
		if frozen == nil {
			frozen, frozenText = one, want
		}
	}
	if text(t, frozen) != frozenText {
		t.Fatal("an old snapshot changed")
	}
	if one.keys.size == 0 || one.tenants.size == 0 || len(one.tokens.keys) == 0 || len(one.tokens.cuts) == 0 {
		t.Fatal("nothing was tested")
	}
}

func text(t *testing.T, s *snapshot) string {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.state())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkNames: every name leads to a live namespace of that name.
func checkNames(t *testing.T, s *snapshot) {
	t.Helper()
	for id, tenant := range s.tenants.all {
		for name, ns := range tenant.byName {
			if ns.GetName() != name || ns.GetDeleted() || ns.GetTenantId() != id || tenant.byID[ns.GetId()] != ns {
				t.Fatalf("%s: %q leads to %v", id, name, ns)
			}
		}
		for id, ns := range tenant.byID {
			if ns.GetId() != id || tenant.byName[ns.GetName()] == nil {
				t.Fatalf("namespace %v has no name", ns)
			}
		}
	}
}

func randomChange(rng *rand.Rand) *cellv1.Change {
	tenant := fmt.Sprintf("tn_%d", rng.IntN(5))
	switch rng.IntN(7) {
	case 0:
		return &cellv1.Change{Change: &cellv1.Change_Tenant{Tenant: &cellv1.Tenant{Id: tenant, Name: tenant, Deleted: rng.IntN(4) == 0}}}
	case 1:
		// An id always belongs to one tenant and keeps its name, as the cell checks.
		n := rng.IntN(4)
		return &cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: &cellv1.Namespace{
			Id: fmt.Sprintf("ns_%s_%d", tenant, n), TenantId: tenant, Name: fmt.Sprintf("n%d", n), Deleted: rng.IntN(3) == 0, Shard: 2,
		}}}
	case 2:
		return &cellv1.Change{Change: &cellv1.Change_Node{Node: &cellv1.Node{Id: fmt.Sprintf("n%d", rng.IntN(4)), ApiUrl: "http://h:1"}}}
	case 3:
		return &cellv1.Change{Change: &cellv1.Change_RemoveNodeId{RemoveNodeId: fmt.Sprintf("n%d", rng.IntN(4))}}
	case 4:
		return &cellv1.Change{Change: &cellv1.Change_TokenKey{TokenKey: &cellv1.TokenKey{Id: fmt.Sprintf("tk_%d", rng.IntN(4)), Deleted: rng.IntN(3) == 0}}}
	case 5:
		// Close together: forgetting is another test's subject.
		return cutoffChange(tenant, fmt.Sprintf("usr_%d", rng.IntN(3)), time.Unix(100, rng.Int64N(1000)))
	default:
		return keyChange(&cellv1.Key{Id: fmt.Sprintf("key_%d", rng.IntN(40)), TenantId: tenant, Revoked: rng.IntN(2) == 0})
	}
}
