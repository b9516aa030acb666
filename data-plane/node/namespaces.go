package node

import (
	"context"
	"sync"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// namespaces gives one shard the cell's records of its namespaces.
type namespaces struct {
	node  *Node
	shard uint32

	mu      sync.Mutex // Guards the rest.
	deleted []job.Namespace
	ends    uint64 // cell.View.Ends of deleted.
}

// Deleted implements shard.Namespaces.
func (s *namespaces) Deleted() []job.Namespace {
	v := s.node.cell.View()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted == nil || s.ends != v.Ends() {
		s.deleted, s.ends = append([]job.Namespace{}, v.Deleted(s.shard)...), v.Ends()
	}
	return s.deleted
}

// Known implements shard.Namespaces.
func (s *namespaces) Known(ns job.Namespace) bool {
	_, known := s.node.cell.View().NamespaceByID(ns)
	return known
}

// Retention implements shard.Namespaces.
func (s *namespaces) Retention(ns job.Namespace) retention.Policy { return s.node.retention(ns) }

// Changed implements shard.Namespaces.
func (s *namespaces) Changed() <-chan struct{} { return s.node.cell.Changed() }

// Swept implements shard.Namespaces.
func (s *namespaces) Swept(ctx context.Context, ns job.Namespace) error {
	return s.node.members.Swept(ctx, ns)
}

// removeModels removes the read models of deleted namespaces from this node's disk,
// whoever leads their shards.
func (n *Node) removeModels() {
	var seen uint64
	for first := true; n.loopCtx.Err() == nil; first = false {
		changed, v := n.cell.Changed(), n.cell.View()
		if first && v.Index() > 0 {
			n.removeOtherModels(v)
		}
		if first || v.Ends() != seen {
			seen = v.Ends()
			n.retireModels(v)
		}
		select {
		case <-changed:
		case <-n.loopCtx.Done():
		}
	}
}

func (n *Node) removeOtherModels(v *cell.View) {
	known := func(ns job.Namespace) bool { _, ok := v.NamespaceByID(ns); return ok }
	if err := n.models.RemoveOthers(known); err != nil {
		n.logger.Warn("can't remove the lists of old deleted namespaces", "err", err)
	}
}

func (n *Node) retireModels(v *cell.View) {
	for _, shard := range v.Shards() {
		for _, ns := range v.Deleted(shard) {
			if err := n.models.Retire(ns); err != nil {
				n.logger.Warn("can't remove the lists of a deleted namespace", "namespace", ns, "err", err)
			}
		}
	}
}
