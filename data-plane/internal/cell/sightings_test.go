package cell

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

func (c *testCell) reportUse(node string, uses ...*cellv1.KeyUse) {
	c.t.Helper()
	if _, err := c.client(node).ReportSightings(c.t.Context(), connect.NewRequest(&cellv1.ReportSightingsRequest{Uses: uses})); err != nil {
		c.t.Fatal(err)
	}
}

// seen is what any node tells after cursors, a line for each use that a node was told; it
// moves the cursors.
func (c *testCell) seen(cursors map[string]string) (lines []string) {
	c.t.Helper()
	nodes, err := c.admin().Sightings(c.t.Context(), cursors)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, n := range nodes {
		for _, u := range n.GetUses() {
			lines = append(lines, fmt.Sprintf("%s: %s %x of %s at %d", n.GetNodeId(), u.GetKeyId(), u.GetDigest()[0], u.GetTenantId(), u.GetAtNs()))
		}
		cursors[n.GetNodeId()] = n.GetCursor()
	}
	slices.Sort(lines)
	return lines
}

func TestSightings_AnyNodeTellsWhatEachWasToldOnceAndNeverWhatIsOlder(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.leader()
	const tenant, key, other = "tn_01JD0000000000000000000001", "key_000000000001", "key_000000000009"
	old, fresh := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	use := func(key string, digest []byte, at int64) *cellv1.KeyUse {
		return &cellv1.KeyUse{KeyId: key, Digest: digest, AtNs: at, TenantId: "tn_someone_else"}
	}
	index, err := c.admin().Apply(t.Context(), celladmin.TenantChange(&cellv1.Tenant{Id: tenant, Name: "acme"}),
		celladmin.KeyChange(&cellv1.Key{Id: key, TenantId: tenant, Digests: [][]byte{old, fresh}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.nodes {
		eventually.True(t, patience, "every node has the key", func() bool { return n.cell.View().Index() >= index })
	}
	cursors := make(map[string]string)
	want := func(what string, lines ...string) {
		t.Helper()
		if got := c.seen(cursors); !slices.Equal(got, lines) {
			t.Errorf("%s: %q, want %q", what, got, lines)
		}
	}
	want("nothing yet")
	// Keys and secrets that the cell doesn't have are not kept: they would have no bound.
	c.reportUse("node-1", use(key, old, 5), use(other, old, 5), use(key, bytes.Repeat([]byte{3}, 32), 5))
	c.reportUse("node-2", use(key, old, 5), use(key, fresh, 6))
	want("first", "node-1: "+key+" 1 of "+tenant+" at 5", "node-2: "+key+" 1 of "+tenant+" at 5", "node-2: "+key+" 2 of "+tenant+" at 6")
	c.reportUse("node-1", use(key, old, 4), use(key, old, 5))
	want("older, and the same again")
	c.reportUse("node-1", use(key, old, 7))
	want("newer", "node-1: "+key+" 1 of "+tenant+" at 7")
	clear(cursors)
	want("to a reader without cursors", "node-1: "+key+" 1 of "+tenant+" at 7", "node-2: "+key+" 1 of "+tenant+" at 5", "node-2: "+key+" 2 of "+tenant+" at 6")
	cursors["node-1"] = "another run:9"
	want("to one with a cursor of another run", "node-1: "+key+" 1 of "+tenant+" at 7")
}

func TestSightings_AnAnswerIsBoundedAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 1)
	c.leader()
	const tenant = "tn_01JD0000000000000000000001"
	changes := []*cellv1.Change{celladmin.TenantChange(&cellv1.Tenant{Id: tenant, Name: "acme"})}
	var uses []*cellv1.KeyUse
	for i := range 5 {
		k := &cellv1.Key{Id: fmt.Sprintf("key_%012d", i), TenantId: tenant, Digests: [][]byte{bytes.Repeat([]byte{byte(i)}, 32)}}
		changes, uses = append(changes, celladmin.KeyChange(k)), append(uses, &cellv1.KeyUse{KeyId: k.GetId(), Digest: k.GetDigests()[0], AtNs: 1})
	}
	if _, err := c.admin().Apply(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	one := c.nodes["node-1"].cell
	one.sightings.take(one.View(), uses)
	var got []string
	cursor := ""
	for more := true; more; {
		part := one.sightings.after(one.View(), cursor, 2)
		for _, u := range part.GetUses() {
			got = append(got, u.GetKeyId())
		}
		if len(part.GetUses()) > 2 {
			t.Fatalf("%d in one answer", len(part.GetUses()))
		}
		cursor, more = part.GetCursor(), part.GetMore()
	}
	if !slices.IsSorted(got) || len(slices.Compact(got)) != len(uses) {
		t.Errorf("told %q", got)
	}
}
