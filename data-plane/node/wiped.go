package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
)

// ErrWiped: the node's directory is empty, but the cell remembers the node.
var ErrWiped = errors.New("this node's directory is empty, but it has been part of the cell")

const askTimeout = 500 * time.Millisecond

// refuseWiped keeps a node that lost its disk from voting under its old id: it
// would confirm again, with an empty log, what it has forgotten (R11). Nodes that
// do not answer cannot tell; on the first start of a cell nobody does.
func (n *Node) refuseWiped(ctx context.Context) error {
	last, err := n.log.Group(cell.GroupID).LastIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	if last > 0 {
		return nil
	}
	var others []string
	for id, p := range n.peers {
		if id != n.cfg.ID {
			others = append(others, p.APIURL)
		}
	}
	if n.cfg.Join != "" {
		others = append(others, n.cfg.Join)
	}
	for _, url := range others {
		if n.remembered(ctx, url) {
			return fmt.Errorf("%w: take its id out with `corvo-cloud cell remove-node %s`, then start it with a new id and --join", ErrWiped, n.cfg.ID)
		}
	}
	return nil
}

// remembered asks the node at url whether the cell has seen this one before.
func (n *Node) remembered(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	res, err := cell.NewClient(n.signer, n.cfg.ID, n.transport, url).GetState(ctx, connect.NewRequest(&cellv1.GetStateRequest{}))
	if err != nil {
		return false
	}
	for _, rec := range res.Msg.GetState().GetNodes() {
		if rec.GetId() == n.cfg.ID {
			return rec.GetStarted()
		}
	}
	return false
}

// WaitAnnounced blocks until the cell has recorded that this node has been up.
func (n *Node) WaitAnnounced(ctx context.Context) error {
	for {
		changed := n.cell.Changed()
		if rec, ok := n.cell.View().NodeByID(n.cfg.ID); ok && rec.GetStarted() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
