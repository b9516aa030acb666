package cell

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
)

const (
	// lagEntriesMax is how many entries a learner may be behind when it becomes a
	// voter: less than one append of raft (256 entries).
	lagEntriesMax = 200
	// catchUpWait is how long one promotion waits for the learner before it answers
	// "not yet"; the caller asks again.
	catchUpWait = 2 * time.Second
	catchUpPoll = 50 * time.Millisecond
	// changeWait bounds the search for a group's leader; only the caller bounds how
	// long a joining node may take to catch up.
	changeWait = 30 * time.Second
)

// ReasonNodeIDUsed: the id belongs to a removed node or to another folder.
const ReasonNodeIDUsed = "NODE_ID_USED"

// reasonNotCaughtUp: the learner gets no vote yet.
const reasonNotCaughtUp = "NOT_CAUGHT_UP"

// Groups is the raft groups of this node; the meta group may be among them.
type Groups interface {
	// Group is nil for a group that is not open here.
	Group(id uint32) *group.Group
	IDs() []uint32
}

// Membership changes who belongs to the raft groups of the cell. Node changes run
// on the meta group's leader, each change of a group on that group's leader; all
// steps may be repeated, so an interrupted change is resumed by asking again.
type Membership struct {
	cell   *Cell
	groups Groups
	peers  *Peers
	logger *slog.Logger
	audit  ReadAudit                  // Nil where there are no shards to read.
	scrub  func() *cellv1.Scrub       // May be nil.
	ready  func(context.Context) bool // May be nil.
	ample  func() bool                // May be nil.
	// readings is nil like audit.
	readings ReadReadings

	quarantine Quarantine    // Nil where nothing is left out.
	pace       Pace          // Nil: as fast as it goes.
	suspects   chan struct{} // Wakes CompareDigests; one place.
	settledMu  sync.Mutex    // Guards settled.
	// settled is where all members of a group were found equal.
	settled map[uint32]group.Mark

	nodes     sync.Mutex // Held by AddNode and RemoveNode: one node at a time.
	transfers sync.Mutex // Held by a transfer: one in flight per node (R5).
	mu        sync.Mutex // Guards changing.
	changing  map[uint32]bool
}

// NewMembership changes the members of c's groups, reaching other nodes by peers.
func NewMembership(c *Cell, groups Groups, peers *Peers) *Membership {
	return &Membership{cell: c, groups: groups, peers: peers, logger: c.logger, changing: make(map[uint32]bool), suspects: make(chan struct{}, 1), settled: make(map[uint32]group.Mark)}
}

// ServeScrub makes status say what the last reading of all files found.
func (m *Membership) ServeScrub(last func() *cellv1.Scrub) { m.scrub = last }

// ServeAmple makes status say whether this node's disks are far from full.
func (m *Membership) ServeAmple(ample func() bool) { m.ample = ample }

// ServeReady makes a node that asks for this one's status hear what /readyz says.
func (m *Membership) ServeReady(ready func(context.Context) bool) { m.ready = ready }

// group is this node's replica, or nil.
func (m *Membership) group(id uint32) *group.Group {
	if id == GroupID {
		return m.cell.Group()
	}
	return m.groups.Group(id)
}

// all lists every group of the cell, the meta group first: a joining node learns
// from it which shards to open.
func (m *Membership) all() []uint32 { return append([]uint32{GroupID}, m.cell.View().Shards()...) }

// AddNode records n and makes it a voter of every group, one after the other: a
// learner first, a voter when it has caught up. It reports whether there was
// anything to do. If it fails, the node is left a harmless member; call it again.
func (m *Membership) AddNode(ctx context.Context, n *cellv1.Node) (added bool, err error) {
	if !m.nodes.TryLock() {
		return false, busy("another node is already being added or removed")
	}
	defer m.nodes.Unlock()
	if _, err := encode(nodeChange(n)); err != nil {
		return false, err
	}
	if old, ok := m.cell.View().NodeByID(n.GetId()); !ok || !proto.Equal(old, n) {
		if _, err := m.cell.Apply(ctx, nodeChange(n)); err != nil {
			return false, err
		}
	}
	for _, id := range m.all() {
		joined, err := m.join(ctx, id, n.GetId())
		added = added || joined
		if err != nil {
			return added, err
		}
	}
	return added, nil
}

// AdmitNode records a node that wants to join, with its folder, before any node
// exchanges raft messages with it. It refuses an id that was used with another
// folder (R11).
func (m *Membership) AdmitNode(ctx context.Context, n *cellv1.Node) error {
	if n.GetFolderId() == "" {
		return fault.InvalidFields([]fault.Field{{Path: "node.folder_id", Message: "is required for a node that joins"}})
	}
	_, err := m.cell.Apply(ctx, nodeChange(n))
	return err
}

func nodeChange(n *cellv1.Node) *cellv1.ApplyRequest {
	return &cellv1.ApplyRequest{Changes: []*cellv1.Change{{Change: &cellv1.Change_Node{Node: n}}}}
}

// join brings a node into one group.
func (m *Membership) join(ctx context.Context, id uint32, nodeID string) (bool, error) {
	st, err := m.leaderStatus(ctx, id)
	if err != nil {
		return false, err
	}
	if slices.Contains(st.GetVoters(), nodeID) {
		return false, nil
	}
	if err := m.change(ctx, id, cellv1.GroupAction_GROUP_ACTION_ADD_LEARNER, nodeID); err != nil {
		return false, err
	}
	for {
		err := m.change(ctx, id, cellv1.GroupAction_GROUP_ACTION_PROMOTE, nodeID)
		if err == nil {
			m.logger.Info("node joined", "group", id, "node", nodeID)
			return true, nil
		}
		if f := fault.As(err); f == nil || f.Reason != reasonNotCaughtUp || ctx.Err() != nil {
			return true, err
		}
		m.logger.Info("node is catching up", "group", id, "node", nodeID, "why", err)
		// The promotion itself has waited; this only bounds how often a dead learner is asked for.
		if err := pause(ctx, retryEvery); err != nil {
			return true, err
		}
	}
}

// RemoveNode takes a node out of every group and forgets it; its id never comes
// back. Refused when what is left of a group would have no reachable quorum.
func (m *Membership) RemoveNode(ctx context.Context, nodeID string) error {
	if !m.nodes.TryLock() {
		return busy("another node is already being added or removed")
	}
	defer m.nodes.Unlock()
	if !isNodeID(nodeID) {
		return fault.InvalidFields([]fault.Field{{Path: "node_id", Message: "isn't a node id"}})
	}
	if err := m.checkRemoval(ctx, nodeID); err != nil {
		return err
	}
	if nodeID == m.cell.NodeID() {
		// A node that leaves the meta group cannot record that it left.
		if err := m.TransferLeadership(ctx, GroupID, ""); err != nil {
			return err
		}
		return m.cell.notLeader()
	}
	// The meta group last: while the node follows it, it knows its peers.
	for _, id := range slices.Backward(m.all()) {
		if err := m.leave(ctx, id, nodeID); err != nil {
			return err
		}
	}
	_, err := m.cell.Apply(ctx, &cellv1.ApplyRequest{Changes: []*cellv1.Change{{Change: &cellv1.Change_RemoveNodeId{RemoveNodeId: nodeID}}}})
	return err
}

// leave takes a node out of one group.
func (m *Membership) leave(ctx context.Context, id uint32, nodeID string) error {
	st, err := m.leaderStatus(ctx, id)
	if err != nil {
		return err
	}
	if !slices.Contains(st.GetVoters(), nodeID) && !slices.Contains(st.GetLearners(), nodeID) {
		return nil
	}
	if st.GetLeaderId() == nodeID {
		if err := m.TransferLeadership(ctx, id, ""); err != nil {
			return err
		}
	}
	if err := m.change(ctx, id, cellv1.GroupAction_GROUP_ACTION_REMOVE, nodeID); err != nil {
		return err
	}
	m.logger.Info("node left", "group", id, "node", nodeID)
	return nil
}

// checkRemoval asks every group before the first is changed.
func (m *Membership) checkRemoval(ctx context.Context, nodeID string) error {
	nodes := m.Nodes(ctx)
	for _, id := range m.all() {
		st, err := m.leaderStatus(ctx, id)
		if err != nil {
			return err
		}
		if err := quorumWithout(id, nodeID, st.GetVoters(), nodes); err != nil {
			return err
		}
	}
	return nil
}

func quorumWithout(id uint32, nodeID string, voters []string, nodes []*cellv1.NodeStatus) error {
	if !slices.Contains(voters, nodeID) {
		return nil
	}
	rest, reachable := 0, 0
	for _, v := range voters {
		if v == nodeID {
			continue
		}
		rest++
		if serves(nodes, v, id) {
			reachable++
		}
	}
	if reachable < rest/2+1 {
		return fault.New(fault.Conflict, "NO_QUORUM_LEFT",
			"without %s, only %d of the %d remaining voters of group %d can be reached; bring nodes back or add one first", nodeID, reachable, rest, id)
	}
	return nil
}

// serves reports whether a node was reached and takes part in a group.
func serves(nodes []*cellv1.NodeStatus, nodeID string, id uint32) bool {
	for _, s := range nodes {
		if s.GetNode().GetId() != nodeID || !s.GetReachable() {
			continue
		}
		g := groupOf(s, id)
		return g != nil && g.GetRole() != "stopped" && g.GetRole() != roleQuarantined
	}
	return false
}

// TransferLeadership moves a group's leadership to a voter; with an empty toNode
// the library picks the most up-to-date one.
func (m *Membership) TransferLeadership(ctx context.Context, id uint32, toNode string) error {
	if !slices.Contains(m.all(), id) {
		return fault.New(fault.NotFound, "GROUP_NOT_FOUND", "the cell has no group %d", id)
	}
	return m.change(ctx, id, cellv1.GroupAction_GROUP_ACTION_TRANSFER, toNode)
}

// change sends a change to the group's leader, and looks for the leader again when
// it moved. Everything but a transfer may be repeated, also when the outcome is
// unknown.
func (m *Membership) change(ctx context.Context, id uint32, action cellv1.GroupAction, nodeID string) error {
	req := &cellv1.ChangeGroupRequest{Group: id, Action: action, NodeId: nodeID}
	retry := again
	if action == cellv1.GroupAction_GROUP_ACTION_TRANSFER {
		retry = notLed // A transfer that went wrong is not repeated in a tight loop (R5).
	}
	return m.onLeader(ctx, id, retry,
		func(ctx context.Context) error { return m.changeHere(ctx, req) },
		func(ctx context.Context, leader cellv1connect.CellServiceClient) error {
			_, err := leader.ChangeGroup(ctx, connect.NewRequest(req))
			return err
		})
}

// onLeader runs a call on a group's leader, here or there.
func (m *Membership) onLeader(ctx context.Context, id uint32, retry func(error) bool, here func(context.Context) error,
	there func(context.Context, cellv1connect.CellServiceClient) error,
) error {
	return m.withLeader(ctx, id, retry, func(ctx context.Context, leader string) error {
		if leader == m.cell.NodeID() {
			return here(ctx)
		}
		client, ok := m.peers.node(leader)
		if !ok {
			return noLeader(id)
		}
		if err := there(ctx, client); err != nil {
			return Fault(err)
		}
		return nil
	})
}

// carried is a call that goes no further than the node that gets it.
func carried[T any](msg *T) *connect.Request[T] {
	req := connect.NewRequest(msg)
	req.Header().Set(headerCarried, "1")
	return req
}

// leaderStatus asks a group's leader for its status.
func (m *Membership) leaderStatus(ctx context.Context, id uint32) (*cellv1.GroupStatus, error) {
	var st *cellv1.GroupStatus
	err := m.withLeader(ctx, id, again, func(ctx context.Context, leader string) error {
		url, ok := m.peers.URL(leader)
		if !ok && leader != m.cell.NodeID() {
			return noLeader(id)
		}
		st = groupOf(m.ask(ctx, &cellv1.Node{Id: leader, ApiUrl: url}), id)
		if st.GetRole() != "leader" {
			return noLeader(id)
		}
		return nil
	})
	return st, err
}

// withLeader calls f with a group's leader, and again while retry says that another
// try may succeed.
func (m *Membership) withLeader(ctx context.Context, id uint32, retry func(error) bool, f func(ctx context.Context, leader string) error) error {
	patience, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	for {
		err := noLeader(id)
		if leader := m.leaderOf(ctx, id); leader != "" {
			err = f(ctx, leader)
		}
		if err == nil || !retry(err) {
			return err
		}
		if pause(patience, retryEvery) != nil {
			return err
		}
	}
}

func notLed(err error) bool { return fault.CodeOf(err) == fault.NotLeader }

func again(err error) bool {
	switch fault.CodeOf(err) {
	case fault.NotLeader, fault.Unavailable, fault.UnknownOutcome:
		return true
	}
	return false
}

// leaderOf asks this node's replica, or else all nodes.
func (m *Membership) leaderOf(ctx context.Context, id uint32) string {
	if g := m.group(id); g != nil {
		if leader := g.Leader(); leader != "" {
			return leader
		}
	}
	for _, s := range m.Nodes(ctx) {
		if groupOf(s, id).GetRole() == "leader" {
			return s.GetNode().GetId()
		}
	}
	return ""
}

func noLeader(id uint32) error {
	return fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "can't reach a leader of group %d; try again", id)
}

func busy(what string) error {
	return fault.New(fault.Unavailable, "CHANGE_IN_PROGRESS", "%s; try again", what)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait: %w", ctx.Err())
	}
}
