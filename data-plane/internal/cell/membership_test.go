package cell

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// ready waits until every shard has a leader that a node knows.
func (c *testCell) ready() {
	c.t.Helper()
	c.leader()
	eventually.True(c.t, patience, "leaders of all groups", func() bool {
		for _, id := range append([]uint32{GroupID}, testShards...) {
			if c.shardLeader(id) == "" {
				return false
			}
		}
		return true
	})
}

// shardLeader is the running node that leads a shard.
func (c *testCell) shardLeader(id uint32) string {
	for _, n := range c.nodes {
		if !n.up {
			continue
		}
		if g := n.members.group(id); g != nil && g.Leading() {
			return n.id
		}
	}
	return ""
}

// membersOf is a group's membership as its leader sees it.
func (c *testCell) membersOf(id uint32) group.Status {
	c.t.Helper()
	var st group.Status
	eventually.True(c.t, patience, fmt.Sprintf("a leader of group %d", id), func() bool {
		leader := c.shardLeader(id)
		if leader != "" {
			st = c.nodes[leader].members.group(id).Status()
		}
		return leader != ""
	})
	return st
}

func addNode(ctx context.Context, c *testCell, by string, n *cellv1.Node) (bool, error) {
	res, err := c.client(by).AddNode(ctx, connect.NewRequest(&cellv1.AddNodeRequest{Node: n}))
	if err != nil {
		return false, Fault(err)
	}
	return res.Msg.GetAdded(), nil
}

// addNodePatiently asks again when a loaded machine changed leaders in the middle.
func addNodePatiently(ctx context.Context, c *testCell, by string, n *cellv1.Node) (bool, error) {
	for begun := false; ; begun = true {
		added, err := addNode(ctx, c, by, n)
		if err == nil {
			return begun || added, nil
		}
		if ctx.Err() != nil || !again(err) {
			return false, err
		}
	}
}

func removeNode(ctx context.Context, c *testCell, by, id string) error {
	if _, err := c.client(by).RemoveNode(ctx, connect.NewRequest(&cellv1.RemoveNodeRequest{NodeId: id})); err != nil {
		return Fault(err)
	}
	return nil
}

func TestAddNode_BecomesAVoterOfEveryGroup(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	ctx := testContext(t)
	if _, err := c.leader().cell.Apply(ctx, &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(1, "acme")}}); err != nil {
		t.Fatal(err)
	}
	member := c.follower().id
	joining := c.prepare("node-4")
	c.start("node-4", nil)
	added, err := addNodePatiently(ctx, c, member, joining.record())
	if err != nil || !added {
		t.Fatalf("added %v, %v", added, err)
	}
	for _, id := range append([]uint32{GroupID}, testShards...) {
		if st := c.membersOf(id); !slices.Contains(st.Voters, "node-4") || len(st.Voters) != 4 {
			t.Errorf("group %d has voters %v", id, st.Voters)
		}
	}
	eventually.True(t, patience, "the tenant on the new node", func() bool {
		_, ok := joining.cell.View().TenantByName("acme")
		return ok
	})
	if added, err := addNode(ctx, c, "node-1", joining.record()); err != nil || added {
		t.Errorf("repeated: added %v, %v", added, err)
	}
}

func TestAddNode_OneThatIsNotThereStaysALearnerAndIsResumed(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	joining := c.prepare("node-4")
	// Its listener is open, but nobody answers.
	short, cancel := context.WithTimeout(testContext(t), time.Second)
	defer cancel()
	if _, err := addNode(short, c, c.leader().id, joining.record()); err == nil {
		t.Fatal("added a node that is not there")
	}
	if st := c.membersOf(GroupID); slices.Contains(st.Voters, "node-4") || !slices.Contains(st.Learners, "node-4") {
		t.Fatalf("voters %v, learners %v", st.Voters, st.Learners)
	}
	// The direct request of a vote is refused by the group's leader, too.
	err := c.leader().members.change(testContext(t), GroupID, cellv1.GroupAction_GROUP_ACTION_PROMOTE, "node-4")
	if f := fault.As(err); f == nil || f.Reason != reasonNotCaughtUp {
		t.Errorf("promotion: %v", err)
	}
	c.start("node-4", nil)
	c.added(joining)
	for _, id := range append([]uint32{GroupID}, testShards...) {
		if st := c.membersOf(id); !slices.Contains(st.Voters, "node-4") {
			t.Errorf("group %d has voters %v", id, st.Voters)
		}
	}
}

// added repeats the call for a node until it succeeds.
func (c *testCell) added(joining *testNode) {
	c.t.Helper()
	ctx, by := testContext(c.t), c.follower().id
	eventually.True(c.t, patience, "the repeated call to succeed", func() bool {
		_, err := addNode(ctx, c, by, joining.record())
		if err != nil && !again(err) {
			c.t.Fatal(err)
		}
		return err == nil
	})
}

func TestAddNode_ResumedAfterItsLeaderDied(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	ctx := testContext(t)
	joining := c.prepare("node-4")
	leader, by := c.leader(), c.follower().id
	first := make(chan error, 1)
	go func() {
		_, err := addNode(ctx, c, by, joining.record())
		first <- err
	}()
	eventually.True(t, patience, "node-4 to be a learner", func() bool {
		return slices.Contains(leader.cell.Group().Status().Learners, "node-4")
	})
	c.kill(leader.id)
	<-first
	c.ready()
	if st := c.membersOf(GroupID); slices.Contains(st.Voters, "node-4") {
		t.Fatal("a node that never ran has a vote")
	}
	c.start("node-4", nil)
	c.added(joining)
	for _, id := range append([]uint32{GroupID}, testShards...) {
		if st := c.membersOf(id); !slices.Contains(st.Voters, "node-4") || len(st.Voters) != 4 {
			t.Errorf("group %d has voters %v", id, st.Voters)
		}
	}
}

func TestAnnounce_NodeThatMovedIsFoundAgain(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	ctx := testContext(t)
	moved := c.follower().id
	old := c.nodes[moved].record()
	c.kill(moved)
	c.restartElsewhere(moved)
	n := c.nodes[moved]
	if err := n.members.Announce(ctx, n.record()); err != nil {
		t.Fatal(err)
	}
	for _, other := range c.nodes {
		eventually.True(t, patience, "the new address on "+other.id, func() bool {
			got, _ := other.cell.View().NodeByID(moved)
			return got.GetApiUrl() == n.record().GetApiUrl() && got.GetApiUrl() != old.GetApiUrl()
		})
	}
	// Nothing to say: no entry.
	before := c.leader().cell.View().Index()
	if err := n.members.Announce(ctx, n.record()); err != nil {
		t.Fatal(err)
	}
	if after := c.leader().cell.View().Index(); after != before {
		t.Errorf("an unchanged record was written again, %d after %d", after, before)
	}
}

func TestAnnounce_RemovedNodeIsRefused(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	ctx := testContext(t)
	gone := c.follower()
	if err := removeNode(ctx, c, c.leader().id, gone.id); err != nil {
		t.Fatal(err)
	}
	record := gone.record()
	record.RaftAddress = "127.0.0.1:1"
	if err := gone.members.announce(ctx, record); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("got %v", err)
	}
}

func TestRemoveNode_EvenTheLeaderLeavesEveryGroup(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	ctx := testContext(t)
	gone := c.leader().id
	by := c.follower().id
	if err := removeNode(ctx, c, by, gone); err != nil {
		t.Fatal(err)
	}
	for _, id := range append([]uint32{GroupID}, testShards...) {
		eventually.True(t, patience, fmt.Sprintf("group %d without %s", id, gone), func() bool {
			st := c.membersOf(id)
			return len(st.Voters) == 2 && !slices.Contains(st.Voters, gone)
		})
	}
	if _, ok := c.leader().cell.View().NodeByID(gone); ok {
		t.Error("the record is still there")
	}
	if err := removeNode(ctx, c, by, gone); err != nil {
		t.Errorf("repeated: %v", err)
	}
	if _, err := addNode(ctx, c, by, c.nodes[gone].record()); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("the old id came back: %v", err)
	}
	if err := removeNode(ctx, c, by, "node-9"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("unknown node: %v", err)
	}
}

func TestRemoveNode_RefusedWithoutAReachableQuorumAfterwards(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	down := c.follower().id
	c.kill(down)
	c.ready()
	leader := c.leader()
	other := c.follower().id
	if err := removeNode(testContext(t), c, leader.id, other); fault.CodeOf(err) != fault.Conflict {
		t.Fatalf("removing %s while %s is down: %v", other, down, err)
	}
	if st := c.membersOf(GroupID); len(st.Voters) != 3 {
		t.Errorf("voters %v", st.Voters)
	}
	// The one that is down may go.
	if err := removeNode(testContext(t), c, leader.id, down); err != nil {
		t.Fatal(err)
	}
}

func TestTransferLeadership_ByAnyNode(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	ctx := testContext(t)
	for _, id := range append([]uint32{GroupID}, testShards...) {
		from := c.membersOf(id).Leader
		for _, to := range []string{"node-1", "node-2", "node-3"} {
			if to == from {
				continue
			}
			_, err := c.client("node-1").TransferLeadership(ctx, connect.NewRequest(&cellv1.TransferLeadershipRequest{Group: id, ToNodeId: to}))
			if err != nil {
				t.Fatalf("group %d to %s: %v", id, to, Fault(err))
			}
			eventually.True(t, patience, fmt.Sprintf("%s to lead group %d", to, id), func() bool { return c.shardLeader(id) == to })
			break
		}
	}
	_, err := c.client("node-1").TransferLeadership(ctx, connect.NewRequest(&cellv1.TransferLeadershipRequest{Group: 99}))
	if f := Fault(err); f.Code != fault.NotFound {
		t.Errorf("unknown group: %v", err)
	}
	_, err = c.client("node-1").TransferLeadership(ctx, connect.NewRequest(&cellv1.TransferLeadershipRequest{Group: 2, ToNodeId: "node-9"}))
	if f := Fault(err); f.Code != fault.Conflict {
		t.Errorf("unknown node: %v", err)
	}
}

func TestListNodes_TellsWhoIsDown(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	down := c.follower().id
	c.kill(down)
	by := c.leader().id
	res, err := c.client(by).ListNodes(testContext(t), connect.NewRequest(&cellv1.ListNodesRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Msg.GetNodes()) != 3 {
		t.Fatalf("%d nodes", len(res.Msg.GetNodes()))
	}
	for _, s := range res.Msg.GetNodes() {
		id := s.GetNode().GetId()
		switch {
		case s.GetReachable() == (id == down):
			t.Errorf("%s: reachable %v", id, s.GetReachable())
		case id == down && s.GetError() == "":
			t.Errorf("%s: no error told", id)
		case id != down && len(s.GetGroups()) != 1+len(testShards):
			t.Errorf("%s: groups %v", id, s.GetGroups())
		}
	}
}

func TestSpread_MovesLeadersApart(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]time.Duration{"while it serves": 20 * time.Millisecond, "soon after the start": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestCell(t, 3)
			c.ready()
			ctx := testContext(t)
			for _, id := range testShards {
				if c.membersOf(id).Leader == "node-1" {
					continue
				}
				if err := c.leader().members.TransferLeadership(ctx, id, "node-1"); err != nil {
					t.Fatal(err)
				}
				eventually.True(t, patience, "node-1 to lead", func() bool { return c.shardLeader(id) == "node-1" })
			}
			if c.leader().members.Even(ctx) {
				t.Error("one node leads both shards, and that is called even")
			}
			spreading, stop := context.WithCancel(ctx)
			defer stop()
			began := time.Now()
			for _, n := range c.nodes {
				n.opened.Go(func() { n.members.Spread(spreading, every) })
			}
			eventually.True(t, patience, "the shards to have two leaders", func() bool {
				a, b := c.shardLeader(2), c.shardLeader(3)
				return a != "" && b != "" && a != b
			})
			eventually.True(t, patience, "all nodes to know", func() bool { return c.leader().members.Even(ctx) })
			t.Log("even after", time.Since(began))
		})
	}
}

func TestNextMove_OnlyTowardsEven(t *testing.T) {
	t.Parallel()
	voters := []string{"a", "b", "c"}
	// leads describes a cell in which each shard is led by the node of that letter.
	picture := func(leads string, change func(node string, g *cellv1.GroupStatus)) []*cellv1.NodeStatus {
		var nodes []*cellv1.NodeStatus
		for _, v := range voters {
			s := &cellv1.NodeStatus{Node: &cellv1.Node{Id: v}, Reachable: true}
			for i, l := range leads {
				g := &cellv1.GroupStatus{Group: uint32(i + 2), Role: "follower", Voters: voters, CommitIndex: 1000}
				if string(l) == v {
					g.Role = "leader"
				}
				if change != nil {
					change(v, g)
				}
				s.Groups = append(s.Groups, g)
			}
			nodes = append(nodes, s)
		}
		return nodes
	}
	shards := []uint32{2, 3, 4, 5}
	for name, x := range map[string]struct {
		leads  string
		change func(string, *cellv1.GroupStatus)
		want   leaderMove
	}{
		"even":            {"abca", nil, leaderMove{}},
		"one too many":    {"aabc", nil, leaderMove{}},
		"two and nothing": {"aacc", nil, leaderMove{4, "c", "b"}},
		"all on one":      {"cccc", nil, leaderMove{2, "c", "a"}},
		"no vote there": {"cccc", func(_ string, g *cellv1.GroupStatus) {
			g.Voters = []string{"b", "c"}
		}, leaderMove{2, "c", "b"}},
		"far behind": {"cccc", func(n string, g *cellv1.GroupStatus) {
			if n == "a" || n == "b" && g.GetGroup() == 2 {
				g.CommitIndex = 10
			}
		}, leaderMove{3, "c", "b"}},
		"learner": {"cccc", func(n string, g *cellv1.GroupStatus) {
			if n != "c" {
				g.Role = "learner"
			}
		}, leaderMove{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := nextMove(picture(x.leads, x.change), shards)
			if got != x.want || ok != (x.want != leaderMove{}) {
				t.Errorf("got %v %v, want %v", got, ok, x.want)
			}
		})
	}
	full := picture("cccc", nil)
	full[0].Causes = []*cellv1.HealthCause{{Reason: string(health.DiskFull)}}
	if got, ok := nextMove(full, shards); !ok || got.to != "b" {
		t.Errorf("moved %v, want to b: a's disk is full", got)
	}
	full[1].Causes = []*cellv1.HealthCause{{Reason: string(health.DiskTight)}}
	if got, ok := nextMove(full, shards); ok {
		t.Errorf("moved %v: only c has room", got)
	}
	down := picture("ccc", nil)
	down[0].Reachable, down[1].Reachable = false, false
	if got, ok := nextMove(down, shards); ok {
		t.Errorf("moved to a node that is down: %v", got)
	}
}

// TestAddNode_FromASnapshot: the log no longer reaches back, so the joining node is
// sent the state; its view and its watchers must move to it.
func TestAddNode_FromASnapshot(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	ctx := testContext(t)
	last := uint64(0)
	for i := range 5 {
		res, err := applyOn(ctx, t, c, "node-1", &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(i+1, fmt.Sprintf("tenant-%d", i+1))}})
		if err != nil {
			t.Fatal(err)
		}
		last = res.GetIndex()
	}
	for _, n := range c.nodes {
		if err := n.cell.Group().WaitApplied(ctx, last); err != nil {
			t.Fatal(err)
		}
		if err := n.cell.Group().Snapshot(); err != nil {
			t.Fatal(err)
		}
		if err := n.log(GroupID).DeleteRange(1, last); err != nil {
			t.Fatal(err)
		}
	}
	joining := c.prepare("node-4")
	c.start("node-4", nil)
	watching, stop := context.WithCancel(ctx)
	r := &recorder{seen: make(map[string]int)}
	done := make(chan error, 1)
	go func() { done <- joining.cell.Watch(watching, 0, r.take) }()
	if _, err := addNode(ctx, c, "node-1", joining.record()); err != nil {
		t.Fatal(err)
	}
	end, err := applyOn(ctx, t, c, "node-1", &cellv1.ApplyRequest{Changes: []*cellv1.Change{testTenant(6, "tenant-6")}})
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, patience, "the watcher to catch up", func() bool { return r.position() >= end.GetIndex() })
	stop()
	<-done
	if first, err := joining.log(GroupID).FirstIndex(); err != nil || first <= last {
		t.Errorf("the log of the new node starts at %d, not after %d: no snapshot was sent (%v)", first, last, err)
	}
	for i := range 6 {
		if name := fmt.Sprintf("tenant-%d", i+1); r.seen[name] != 1 {
			t.Errorf("%s was seen %d times", name, r.seen[name])
		}
	}
	// What was installed is what a restart finds.
	c.kill("node-4")
	c.restart("node-4")
	eventually.True(t, patience, "the restarted node to have everything", func() bool {
		return len(c.nodes["node-4"].cell.State().GetTenants()) == 6
	})
}

func TestChangeGroup_RefusesWhatWouldHarm(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.ready()
	leader, follower := c.leader(), c.follower()
	call := func(n *testNode, action cellv1.GroupAction, node string) *fault.Error {
		_, err := c.client(n.id).ChangeGroup(testContext(t), connect.NewRequest(&cellv1.ChangeGroupRequest{Group: GroupID, Action: action, NodeId: node}))
		if err == nil {
			return &fault.Error{}
		}
		return Fault(err)
	}
	for name, x := range map[string]struct {
		node   *testNode
		action cellv1.GroupAction
		id     string
		reason string
	}{
		"not the leader":     {follower, cellv1.GroupAction_GROUP_ACTION_ADD_LEARNER, "node-9", "LEADER_UNAVAILABLE"},
		"no such action":     {leader, cellv1.GroupAction_GROUP_ACTION_UNSPECIFIED, "node-9", "VALIDATION_ERROR"},
		"not an id":          {leader, cellv1.GroupAction_GROUP_ACTION_ADD_LEARNER, "a b", "VALIDATION_ERROR"},
		"no id":              {leader, cellv1.GroupAction_GROUP_ACTION_ADD_LEARNER, "", "VALIDATION_ERROR"},
		"promoted unknown":   {leader, cellv1.GroupAction_GROUP_ACTION_PROMOTE, "node-9", reasonNotCaughtUp},
		"transfer to nobody": {leader, cellv1.GroupAction_GROUP_ACTION_TRANSFER, "node-9", "NOT_A_VOTER"},
		"removed nobody":     {leader, cellv1.GroupAction_GROUP_ACTION_REMOVE, "node-9", ""},
		"learner once more":  {leader, cellv1.GroupAction_GROUP_ACTION_ADD_LEARNER, follower.id, ""},
		"vote once more":     {leader, cellv1.GroupAction_GROUP_ACTION_PROMOTE, follower.id, ""},
		"transfer to itself": {leader, cellv1.GroupAction_GROUP_ACTION_TRANSFER, leader.id, ""},
	} {
		if f := call(x.node, x.action, x.id); f.Reason != x.reason {
			t.Errorf("%s: %v %q, want %q", name, f, f.Reason, x.reason)
		}
	}
	if st := c.membersOf(GroupID); len(st.Voters) != 3 || len(st.Learners) != 0 {
		t.Errorf("voters %v, learners %v", st.Voters, st.Learners)
	}
	// A promotion may not turn a stranger into a voter, caught up or not.
	if err := membersHere(leader.cell.Group(), cellv1.GroupAction_GROUP_ACTION_PROMOTE, "node-9"); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("promoting a stranger: %v", err)
	}
	// One change at a time, in a group and in the cell.
	if !leader.members.begin(GroupID) {
		t.Fatal("a change is still going on")
	}
	if f := call(leader, cellv1.GroupAction_GROUP_ACTION_ADD_LEARNER, "node-9"); f.Reason != "CHANGE_IN_PROGRESS" {
		t.Errorf("a second change of the group: %v", f)
	}
	leader.members.end(GroupID)
	leader.members.nodes.Lock()
	if _, err := leader.members.AddNode(testContext(t), testNode1("node-9")); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a second node at a time: %v", err)
	}
	if err := leader.members.RemoveNode(testContext(t), follower.id); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a second removal at a time: %v", err)
	}
	leader.members.nodes.Unlock()
}

func TestRemoveNode_LastVoterStays(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 1)
	c.ready()
	n := c.leader()
	if err := removeNode(testContext(t), c, n.id, n.id); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("removed the only node: %v", err)
	}
	if err := membersHere(n.cell.Group(), cellv1.GroupAction_GROUP_ACTION_REMOVE, n.id); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("removed the last voter: %v", err)
	}
}

func TestBehind_OnlyALearnerThatCaughtUpGetsAVote(t *testing.T) {
	t.Parallel()
	start := group.Status{CommitIndex: 1000, AppliedIndex: 990} // The last ten were no-ops.
	now := group.Status{CommitIndex: 1000 + lagEntriesMax}
	for name, c := range map[string]struct {
		commit, applied uint64
		ok              bool
	}{
		"exactly there":     {1000, 990, true},
		"further":           {1100, 1100, true},
		"not applied":       {1000, 989, false},
		"not committed":     {999, 990, false},
		"just joined":       {0, 0, false},
		"knows only commit": {1200, 0, false},
	} {
		if why := behind(start, now, &cellv1.GroupStatus{CommitIndex: c.commit, AppliedIndex: c.applied}); (why == "") != c.ok {
			t.Errorf("%s: %q", name, why)
		}
	}
	now.CommitIndex++
	if behind(start, now, &cellv1.GroupStatus{CommitIndex: 1000, AppliedIndex: 990}) == "" {
		t.Error("a learner that fell behind meanwhile would vote")
	}
}
