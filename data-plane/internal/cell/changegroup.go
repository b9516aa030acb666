package cell

import (
	"context"
	"slices"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// changeHere changes a group that this node leads. A change that is already made
// writes no log entry.
func (m *Membership) changeHere(ctx context.Context, req *cellv1.ChangeGroupRequest) error {
	g := m.group(req.GetGroup())
	if g == nil || !g.Leading() {
		return fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "this node doesn't lead group %d", req.GetGroup())
	}
	anybody := req.GetAction() == cellv1.GroupAction_GROUP_ACTION_TRANSFER && req.GetNodeId() == ""
	if !anybody && !isNodeID(req.GetNodeId()) {
		return fault.InvalidFields([]fault.Field{{Path: "node_id", Message: "isn't a node id"}})
	}
	switch req.GetAction() {
	case cellv1.GroupAction_GROUP_ACTION_TRANSFER:
		return m.transferHere(ctx, g, req.GetNodeId())
	case cellv1.GroupAction_GROUP_ACTION_PROMOTE:
		if slices.Contains(g.Status().Voters, req.GetNodeId()) {
			return nil
		}
		if err := m.waitCaughtUp(ctx, g, req.GetNodeId()); err != nil {
			return err
		}
	}
	if !m.begin(g.ID()) {
		return busy("the group's members are already being changed")
	}
	defer m.end(g.ID())
	return membersHere(g, req.GetAction(), req.GetNodeId())
}

func membersHere(g *group.Group, action cellv1.GroupAction, nodeID string) error {
	st := g.Status()
	voter, learner := slices.Contains(st.Voters, nodeID), slices.Contains(st.Learners, nodeID)
	switch action {
	case cellv1.GroupAction_GROUP_ACTION_ADD_LEARNER:
		if voter || learner {
			return nil
		}
		return g.AddLearner(nodeID)
	case cellv1.GroupAction_GROUP_ACTION_PROMOTE:
		if voter {
			return nil
		}
		if !learner {
			// The library would add it as a voter at once.
			return fault.New(fault.Conflict, "NOT_A_LEARNER", "node %s isn't a learner of group %d", nodeID, g.ID())
		}
		return g.Promote(nodeID)
	case cellv1.GroupAction_GROUP_ACTION_REMOVE:
		if !voter && !learner {
			return nil
		}
		if voter && len(st.Voters) == 1 {
			return fault.New(fault.Conflict, "NO_QUORUM_LEFT", "%s is the last voter of group %d", nodeID, g.ID())
		}
		return g.Remove(nodeID)
	}
	return fault.InvalidFields([]fault.Field{{Path: "action", Message: "isn't an action"}})
}

// transferHere: one transfer in flight per node, never repeated here (R5). Without
// toNode the best successor is taken.
func (m *Membership) transferHere(ctx context.Context, g *group.Group, toNode string) error {
	st := g.Status()
	if toNode == m.cell.NodeID() {
		return nil
	}
	if toNode != "" && !slices.Contains(st.Voters, toNode) {
		return fault.New(fault.Conflict, "NOT_A_VOTER", "node %s has no vote in group %d", toNode, g.ID())
	}
	if len(st.Voters) == 1 {
		return fault.New(fault.Conflict, "NO_QUORUM_LEFT", "group %d has no other voter", g.ID())
	}
	nodes := m.Nodes(ctx)
	if toNode == "" {
		// With none known the library picks: an operator asked for the transfer.
		toNode, _ = newCandidates(nodes, m.cell.NodeID()).pick(g.ID(), health.Unfit)
	} else if causes := causesOf(statusOf(nodes, toNode)); health.LevelOf(causes) > m.cell.health.Level() {
		return fault.New(fault.Conflict, "NODE_UNFIT", "node %s can't lead right now: %s", toNode, health.Text(causes))
	}
	return m.transferTo(g, toNode)
}

// transferTo hands over, unless another transfer is under way.
func (m *Membership) transferTo(g *group.Group, toNode string) error {
	if !m.transfers.TryLock() {
		return busy("this node is already handing over another group")
	}
	defer m.transfers.Unlock()
	return g.Transfer(toNode)
}

// waitCaughtUp returns once the learner has applied what its leader had applied at
// the start, and is then at most lagEntriesMax behind. It compares applied indexes
// only: raft's no-ops never reach a state, so the applied index may never reach the
// commit index.
func (m *Membership) waitCaughtUp(ctx context.Context, g *group.Group, nodeID string) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpWait)
	defer cancel()
	start := g.Status()
	for {
		learner, why := m.learnerStatus(ctx, g.ID(), nodeID)
		if why == "" {
			if why = behind(start, g.Status(), learner); why == "" {
				return nil
			}
		}
		if !g.Leading() {
			return fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "this node doesn't lead group %d", g.ID())
		}
		if pause(ctx, catchUpPoll) != nil {
			return fault.New(fault.Conflict, reasonNotCaughtUp, "node %s can't vote in group %d yet: %s", nodeID, g.ID(), why)
		}
	}
}

func (m *Membership) learnerStatus(ctx context.Context, id uint32, nodeID string) (*cellv1.GroupStatus, string) {
	n, ok := m.cell.View().NodeByID(nodeID)
	if !ok {
		return nil, "the cell has no record of this node"
	}
	s := m.ask(ctx, n)
	if !s.GetReachable() {
		return nil, s.GetError()
	}
	st := groupOf(s, id)
	if st == nil || st.GetRole() == "stopped" {
		return nil, "it hasn't opened the group yet"
	}
	return st, ""
}

// behind says what a learner still misses, or "".
func behind(start, now group.Status, learner *cellv1.GroupStatus) string {
	switch {
	case learner.GetAppliedIndex() < start.AppliedIndex || learner.GetCommitIndex() < start.CommitIndex:
		return "it hasn't caught up with the leader yet"
	case learner.GetCommitIndex()+lagEntriesMax < now.CommitIndex:
		return "it's too far behind the leader"
	}
	return ""
}

// begin takes a group for one change.
func (m *Membership) begin(id uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changing[id] {
		return false
	}
	m.changing[id] = true
	return true
}

func (m *Membership) end(id uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.changing, id)
}
