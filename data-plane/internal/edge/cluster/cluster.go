// Package cluster routes: it knows which shard holds a namespace, whether this
// node leads it, and where the leader is otherwise. It holds no jobs and decides
// nothing; the table of namespaces is the cell's (package cell), leadership is
// the groups' own.
package cluster

import (
	"context"

	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Shard is one shard of this node with its use cases.
type Shard struct {
	*shard.Shard
	Service *queue.Service
	Views   *queue.Views
	Bulk    *queue.Bulk
}

// Placement says who serves a namespace at this moment.
type Placement struct {
	// Service is nil when this node does not lead the namespace's shard.
	Service *queue.Service
	// Views and Bulk are set where Service is.
	Views *queue.Views
	Bulk  *queue.Bulk
	// LeaderURL is the leader's API base URL, if it is known and not this node.
	LeaderURL string
	// Silent: this node cannot know who leads; another can.
	Silent bool
	// Index is how far this node's replica of the shard is.
	Index uint64
}

// Cluster routes for one node.
type Cluster struct {
	cell   *cell.Cell
	peers  *cell.Peers
	shards func(id uint32) *Shard
	opened <-chan struct{}
	// leftOut reports a shard that takes no part on this node; nil: there is none.
	leftOut func(id uint32) (leader string, out bool)
}

// LeaveOut sets which shards take no part on this node, and which node was last seen
// to lead them, or "".
func (c *Cluster) LeaveOut(out func(id uint32) (leader string, out bool)) { c.leftOut = out }

// New makes the router over this node's shards; shards answers nil for one that
// is not open here (yet), and opened is closed once all are.
func New(c *cell.Cell, peers *cell.Peers, shards func(id uint32) *Shard, opened <-chan struct{}) *Cluster {
	return &Cluster{cell: c, peers: peers, shards: shards, opened: opened}
}

// Route answers from memory. A namespace this node has not heard of yet has no
// known leader: whoever signed the caller's identity had heard of it.
func (c *Cluster) Route(ns job.Namespace) (Placement, error) {
	s, err := c.shardOf(ns)
	if s == nil {
		return c.elsewhere(ns), err
	}
	p := Placement{Index: s.Group().AppliedIndex(), Silent: s.Group().Silent()}
	if s.Group().Leading() {
		p.Service, p.Views, p.Bulk = s.Service, s.Views, s.Bulk
		return p, nil
	}
	if leader := s.Group().Leader(); leader != "" && leader != c.cell.NodeID() {
		p.LeaderURL, _ = c.peers.URL(leader)
	}
	return p, nil
}

// elsewhere is the placement of a namespace whose shard this node does not have open.
func (c *Cluster) elsewhere(ns job.Namespace) Placement {
	rec, ok := c.cell.View().NamespaceByID(ns)
	if !ok || c.leftOut == nil {
		return Placement{}
	}
	leader, out := c.leftOut(rec.GetShard())
	if !out {
		return Placement{}
	}
	url, known := c.peers.URL(leader)
	return Placement{LeaderURL: url, Silent: !known}
}

func (c *Cluster) shardOf(ns job.Namespace) (*Shard, error) {
	rec, ok := c.cell.View().NamespaceByID(ns)
	if !ok {
		return nil, nil
	}
	if rec.GetDeleted() {
		return nil, fault.New(fault.NotFound, "NOT_FOUND", "the namespace was deleted")
	}
	return c.shards(rec.GetShard()), nil
}

// WaitLeader returns as soon as the namespace's shard has a leader, here or
// elsewhere. When ctx ends first, or this node's raft may be stuck, it returns what is
// known, without an error.
func (c *Cluster) WaitLeader(ctx context.Context, ns job.Namespace) (Placement, error) {
	select {
	case <-c.opened:
	case <-ctx.Done():
		return c.Route(ns)
	}
	for {
		changed, moved := c.cell.Changed(), c.moved(ns)
		p, err := c.Route(ns)
		if err != nil || p.Service != nil || p.LeaderURL != "" || p.Silent {
			return p, err
		}
		select {
		case <-changed:
		case <-moved:
		case <-ctx.Done():
			return p, nil
		}
	}
}

// moved fires when another node may lead the namespace's shard; never while it is
// not known which shard that is.
func (c *Cluster) moved(ns job.Namespace) <-chan struct{} {
	s, err := c.shardOf(ns)
	if s == nil || err != nil {
		return nil
	}
	return s.Group().LeadershipChanged()
}
