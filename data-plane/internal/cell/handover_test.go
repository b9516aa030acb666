package cell

import (
	"context"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// leads counts the groups that a node leads.
func (n *testNode) leads() (count int) {
	for _, id := range n.members.local() {
		if g := n.members.group(id); g != nil && g.Leading() {
			count++
		}
	}
	return count
}

// takeAll makes one node lead every group.
func (c *testCell) takeAll(ctx context.Context, id string) {
	c.t.Helper()
	for _, g := range append([]uint32{GroupID}, testShards...) {
		eventually.True(c.t, patience, id+" to lead", func() bool {
			if c.nodes[id].members.group(g).Leading() {
				return true
			}
			_ = c.leader().members.TransferLeadership(ctx, g, id) // Tried again.
			return false
		})
	}
}

func TestKeepFit_LeadershipGivenAwayByAFullDiskDoesNotComeBack(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	ctx := testContext(t)
	c.takeAll(ctx, "node-1")
	watching, stop := context.WithCancel(ctx)
	defer stop()
	n := c.nodes["node-1"]
	n.health.Set(health.DiskFull, "98 % used")
	for _, n := range c.nodes {
		n.opened.Go(func() { n.members.KeepFit(watching) })
		n.opened.Go(func() { n.members.Spread(watching, 5*time.Millisecond) })
	}
	eventually.True(t, patience, "node-1 to lead nothing", func() bool { return n.leads() == 0 })
	for range 50 { // The balancer looks as often, and more.
		nodes := c.leader().members.Nodes(ctx)
		for _, g := range statusOf(nodes, "node-1").GetGroups() {
			if g.GetRole() == "leader" {
				t.Fatalf("node-1 leads group %d again", g.GetGroup())
			}
		}
	}
	// A requested transfer does not bring it back either.
	err := c.leader().members.TransferLeadership(ctx, GroupID, "node-1")
	if f := fault.As(err); f == nil || f.Reason != "NODE_UNFIT" {
		t.Errorf("transfer to a full node: %v, want NODE_UNFIT", err)
	}
	n.health.Clear(health.DiskFull)
	eventually.True(t, patience, "node-1 to lead again", func() bool {
		return c.leader().members.TransferLeadership(ctx, GroupID, "node-1") == nil
	})
	stop()
}

func TestKeepFit_TheLeastFullLeadsWhenAllAreFull(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	ctx := testContext(t)
	c.takeAll(ctx, "node-1")
	c.nodes["node-1"].health.Set(health.DiskFull, "")
	c.nodes["node-2"].health.Set(health.DiskFull, "")
	c.nodes["node-3"].health.Set(health.DiskTight, "")
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for _, n := range c.nodes {
		n.opened.Go(func() { n.members.KeepFit(watching) })
	}
	eventually.True(t, patience, "node-3 to lead everything", func() bool { return c.nodes["node-3"].leads() == 1+len(testShards) })
	stop()
}
