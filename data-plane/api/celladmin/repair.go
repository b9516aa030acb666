package celladmin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

// ErrNoSource: nobody knows from which node a state could be copied.
var ErrNoSource = errors.New("the group has no leader to copy from: name a node that has the right state")

// Repair lets a node's replica of a group that is quarantined or disputed take part again,
// with the state of the node from, or of the group's leader if from is empty. With keep, the replica
// keeps the state it has.
func (c *Client) Repair(ctx context.Context, nodeID string, group uint32, from string, keep bool) (*cellv1.RepairGroupResponse, error) {
	nodes, leader, err := c.leaderOf(ctx, group, from == "" && !keep)
	if err != nil {
		return nil, err
	}
	url, err := urlOf(nodes, nodeID)
	if err != nil {
		return nil, err
	}
	in := &cellv1.RepairGroupRequest{Group: group}
	if !keep {
		if from = cmp.Or(from, leader); from == "" || from == nodeID {
			return nil, ErrNoSource
		}
		if in.FromUrl, err = urlOf(nodes, from); err != nil {
			return nil, err
		}
	}
	res, err := cellv1connect.NewFormationServiceClient(c.http, url).RepairGroup(ctx, connect.NewRequest(in))
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}

// electionWait is how long a leader is waited for.
const electionWait = 5 * time.Second

// leaderOf asks for the nodes, and again while a leader is wanted and none is there.
func (c *Client) leaderOf(ctx context.Context, group uint32, wanted bool) (nodes []*cellv1.NodeStatus, leader string, err error) {
	for limit := time.Now().Add(electionWait); ; {
		if nodes, err = c.Nodes(ctx); err != nil {
			return nil, "", err
		}
		if leader = leaderOf(nodes, group); leader != "" || !wanted || time.Now().After(limit) || !pause(ctx) {
			return nodes, leader, nil
		}
	}
}

func urlOf(nodes []*cellv1.NodeStatus, id string) (string, error) {
	for _, n := range nodes {
		if n.GetNode().GetId() == id {
			return n.GetNode().GetApiUrl(), nil
		}
	}
	return "", connect.NewError(connect.CodeNotFound, fmt.Errorf("the cell has no node %s", id))
}

func leaderOf(nodes []*cellv1.NodeStatus, group uint32) string {
	for _, n := range nodes {
		for _, g := range n.GetGroups() {
			if g.GetGroup() == group && g.GetRole() == "leader" {
				return n.GetNode().GetId()
			}
		}
	}
	return ""
}
