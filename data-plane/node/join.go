package node

import (
	"context"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

const (
	joinTimeout = 5 * time.Minute // One attempt; a large state takes a while to copy.
	joinPause   = time.Second
)

// askToJoin asks until the cell says that this node is a member of every group.
// Each call resumes where the last one stopped.
func (n *Node) askToJoin(client cellv1connect.CellServiceClient, self *cellv1.Node) {
	for n.loopCtx.Err() == nil {
		ctx, cancel := context.WithTimeout(n.loopCtx, joinTimeout)
		_, err := client.AddNode(ctx, connect.NewRequest(&cellv1.AddNodeRequest{Node: self}))
		cancel()
		if err == nil {
			n.logger.Info("joined the cell", "by", n.cfg.Join)
			return
		}
		n.logger.Warn("not in every group yet; retrying", "err", err)
		select {
		case <-time.After(joinPause):
		case <-n.loopCtx.Done():
		}
	}
}
