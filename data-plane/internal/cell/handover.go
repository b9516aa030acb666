package cell

import (
	"context"
	"math/rand/v2"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// handOverEvery is the mean pause between two checks whether a node should give up
// a group: a transfer that does not work is never repeated in a tight loop (R5).
const handOverEvery = time.Second

// KeepFit hands over groups that another node can lead better, until ctx ends.
func (m *Membership) KeepFit(ctx context.Context) {
	for ctx.Err() == nil {
		changed := m.cell.health.Changed()
		if m.cell.health.Level() == health.Fit {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		m.HandOver(ctx)
		look := time.NewTimer(handOverEvery/2 + rand.N(handOverEvery))
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
		}
		look.Stop()
	}
}

// HandOver gives each group that this node leads to a voter of a better level,
// one after the other. It keeps those that no other node can lead better.
func (m *Membership) HandOver(ctx context.Context) {
	// A silent node cannot transfer; its groups elect by themselves.
	if m.cell.health.Silent() || !m.leadsAny() {
		return
	}
	next := newCandidates(m.Nodes(ctx), m.cell.NodeID())
	for _, id := range m.local() {
		g := m.group(id)
		if g == nil || !g.Leading() || ctx.Err() != nil {
			continue
		}
		to, ok := next.pick(id, m.cell.health.Level())
		if !ok {
			continue
		}
		m.logger.Info("hand leadership over", "group", id, "to", to, "why", m.cell.health.String())
		if err := m.transferTo(g, to); err != nil {
			m.logger.Warn("hand leadership over", "group", id, "to", to, "err", err)
		}
	}
}

func (m *Membership) leadsAny() bool {
	for _, id := range m.local() {
		if g := m.group(id); g != nil && g.Leading() {
			return true
		}
	}
	return false
}

// candidates are the nodes, with what they said of themselves, to choose from when one
// of them gives up its groups.
type candidates struct {
	nodes []*cellv1.NodeStatus
	from  string
	leads map[string]int
}

func newCandidates(nodes []*cellv1.NodeStatus, from string) *candidates {
	s := &candidates{nodes: nodes, from: from, leads: make(map[string]int)}
	for _, n := range nodes {
		for _, g := range n.GetGroups() {
			if g.GetRole() == "leader" {
				s.leads[n.GetNode().GetId()]++
			}
		}
	}
	return s
}

// pick chooses a group's next leader: the best level below limit, then the node
// that leads fewest, then the first in the records.
func (s *candidates) pick(id uint32, limit health.Level) (string, bool) {
	best, bestLevel := "", limit
	for _, n := range s.nodes {
		to, level := n.GetNode().GetId(), health.LevelOf(causesOf(n))
		if to == s.from || !n.GetReachable() || !mayLead(s.nodes, s.from, to, id) {
			continue
		}
		if level < bestLevel || best != "" && level == bestLevel && s.leads[to] < s.leads[best] {
			best, bestLevel = to, level
		}
	}
	if best != "" {
		s.leads[best]++
	}
	return best, best != ""
}

// statusOf is a node's status, or nil.
func statusOf(nodes []*cellv1.NodeStatus, id string) *cellv1.NodeStatus {
	for _, n := range nodes {
		if n.GetNode().GetId() == id {
			return n
		}
	}
	return nil
}
