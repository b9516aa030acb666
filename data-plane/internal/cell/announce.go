package cell

import (
	"context"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Announce makes n this node's record: after a start on other ports the cell must
// learn where the node is now. It returns when this node has applied such a record,
// when the cell refuses it, or when ctx ends. A node that is not a member yet waits
// for AddNode.
func (m *Membership) Announce(ctx context.Context, n *cellv1.Node) error {
	for {
		moved, elected := m.cell.Changed(), m.cell.Group().LeadershipChanged()
		old, known := m.cell.View().NodeByID(n.GetId())
		if known && proto.Equal(old, n) {
			return nil
		}
		if known || m.votes() {
			if err := m.announce(ctx, n); err != nil && !again(err) {
				return err
			}
		}
		paced, cancel := context.WithTimeout(ctx, retryEvery)
		select {
		case <-moved:
		case <-elected:
		case <-paced.Done():
		}
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (m *Membership) votes() bool {
	return slices.Contains(m.cell.Group().Status().Voters, m.cell.NodeID())
}

// announce asks all nodes, not just the leader: if all restarted together, the
// leader may be at an address that no state has yet.
func (m *Membership) announce(ctx context.Context, n *cellv1.Node) error {
	if m.cell.Group().Leading() {
		_, err := m.cell.Apply(ctx, nodeChange(n))
		return err
	}
	err := noLeader(GroupID)
	for _, url := range m.peers.everywhere(n.GetId()) {
		ctx, cancel := context.WithTimeout(ctx, leaderWait)
		_, callErr := m.peers.at(url).Apply(ctx, connect.NewRequest(nodeChange(n)))
		cancel()
		if callErr == nil {
			return nil
		}
		f := Fault(callErr)
		m.logger.Debug("announce this node", "to", url, "err", f)
		if f.Code == fault.Conflict {
			return f // The id was removed from the cell: no other node will say otherwise.
		}
		err = f
	}
	return err
}
