package cell

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// statusTimeout is how long a node may take to answer before it counts as not
// reachable: two heartbeats of a leader, doubled.
const statusTimeout = 2 * time.Second

// Self is the status of each group on this node.
func (m *Membership) Self() *cellv1.NodeStatus {
	s := &cellv1.NodeStatus{Node: &cellv1.Node{Id: m.cell.NodeID()}, Reachable: true}
	if n, ok := m.cell.View().NodeByID(m.cell.NodeID()); ok {
		s.Node = proto.CloneOf(n)
	}
	s.Node.LowestVersion, s.Node.HighestVersion = m.cell.machine.speaks.Lowest, m.cell.machine.speaks.Highest // The record may not say so yet.
	for _, id := range m.local() {
		if g := m.group(id); g != nil {
			s.Groups = append(s.Groups, groupStatus(g.Status()))
		}
	}
	if m.quarantine != nil {
		s.Groups = append(s.Groups, m.quarantine.Quarantined()...)
	}
	for _, g := range s.GetGroups() {
		if reason := reasonOf(g); reason != "" {
			s.Causes = append(s.Causes, &cellv1.HealthCause{Reason: string(reason), Detail: fmt.Sprintf("group %d: %s", g.GetGroup(), g.GetDetail())})
		}
	}
	for _, c := range m.cell.health.Causes() {
		s.Causes = append(s.Causes, &cellv1.HealthCause{Reason: string(c.Reason), Detail: c.Detail})
	}
	s.Secrets = m.peers.secrets()
	if m.scrub != nil {
		s.Scrub = m.scrub()
	}
	s.AmpleDisks = m.ample != nil && m.ample()
	return s
}

// Roles of a replica that does not serve.
const (
	roleQuarantined = "quarantined"
	roleDisputed    = "disputed"
)

func reasonOf(g *cellv1.GroupStatus) health.Reason {
	switch g.GetRole() {
	case roleQuarantined:
		return health.GroupQuarantined
	case roleDisputed:
		return health.GroupDisputed
	}
	if g.GetDetail() != "" {
		return health.PeerBehind
	}
	return ""
}

// local lists the groups this node has, the meta group first.
func (m *Membership) local() []uint32 {
	ids := slices.Clone(m.groups.IDs())
	if !slices.Contains(ids, GroupID) {
		ids = append(ids, GroupID)
	}
	slices.Sort(ids)
	return ids
}

func groupStatus(s group.Status) *cellv1.GroupStatus {
	return &cellv1.GroupStatus{
		Group: s.Group, Role: s.Role, LeaderId: s.Leader, Term: s.Term,
		LastIndex: s.LastIndex, CommitIndex: s.CommitIndex, AppliedIndex: s.AppliedIndex,
		Digest: s.Digest, DigestIndex: s.DigestIndex, Voters: s.Voters, Learners: s.Learners, Version: s.Version, Detail: s.Detail,
	}
}

// Nodes asks every node with a record what it is doing, all at once.
func (m *Membership) Nodes(ctx context.Context) []*cellv1.NodeStatus {
	nodes := m.cell.View().Nodes()
	out := make([]*cellv1.NodeStatus, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() { out[i] = m.ask(ctx, n) })
	}
	asked.Wait()
	return out
}

// ask never fails: a node that does not answer is reported as not reachable.
func (m *Membership) ask(ctx context.Context, n *cellv1.Node) *cellv1.NodeStatus {
	if n.GetId() == m.cell.NodeID() {
		return m.Self()
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	client, url := m.peers.of(n)
	res, err := client.GetNodeStatus(ctx, connect.NewRequest(&cellv1.GetNodeStatusRequest{}))
	if err != nil {
		return unreachable(n, Fault(err))
	}
	s := res.Msg.GetStatus()
	if s.GetNode().GetId() != n.GetId() {
		return &cellv1.NodeStatus{Node: n, Error: "another node answers at " + url + ": " + s.GetNode().GetId()}
	}
	known := proto.CloneOf(n)
	known.LowestVersion, known.HighestVersion = s.GetNode().GetLowestVersion(), s.GetNode().GetHighestVersion()
	s.Node, s.Reachable = known, true
	return s
}

// unreachable is the status of a node that did not give its own. A node that refuses
// the call because its clock is off cannot say so itself.
func unreachable(n *cellv1.Node, why *fault.Error) *cellv1.NodeStatus {
	s := &cellv1.NodeStatus{Node: n, Error: why.Error()}
	if why.Reason == wordClockSkew {
		s.Causes = []*cellv1.HealthCause{{Reason: string(health.Clock), Detail: why.Message}}
	}
	return s
}

// causesOf is what keeps a node from leading, as it said.
func causesOf(s *cellv1.NodeStatus) []health.Cause {
	var out []health.Cause
	for _, c := range s.GetCauses() {
		out = append(out, health.Cause{Reason: health.Reason(c.GetReason()), Detail: c.GetDetail()})
	}
	return out
}

// groupOf is one group's part of a node's status, or nil.
func groupOf(s *cellv1.NodeStatus, id uint32) *cellv1.GroupStatus {
	for _, g := range s.GetGroups() {
		if g.GetGroup() == id {
			return g
		}
	}
	return nil
}
