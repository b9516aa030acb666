package cell

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// spreadEvery is the mean pause between two looks at who leads what. Each look
// moves at most one leadership, so that a transfer that does not work is never
// repeated in a tight loop (R5).
const spreadEvery = 20 * time.Second

// settleEvery is the mean pause after the start, until the leaders were even once. It grows on a
// node that doesn't lead the meta group.
const settleEvery = 250 * time.Millisecond

// Spread keeps the leaders of the shards evenly spread over the nodes, while this
// node leads the meta group, until ctx ends. every is the mean pause; 0 is the default.
// After the start, when one node may have won everything, it looks sooner, so that
// leaders move before callers have come rather than while they work.
func (m *Membership) Spread(ctx context.Context, every time.Duration) {
	if every == 0 {
		every = spreadEvery
	}
	mean := min(settleEvery, every)
	for {
		// Between half and one and a half of it, so that cells started together do
		// not stay in step.
		if pause(ctx, mean/2+rand.N(mean)) != nil {
			return
		}
		if !m.cell.Group().Leading() {
			mean = min(2*mean, every) // As its start goes by.
			continue
		}
		nodes, shards := m.Nodes(ctx), m.cell.View().Shards()
		move, ok := nextMove(nodes, shards)
		if !ok {
			if allLed(nodes, shards) {
				mean = every
			}
			continue
		}
		m.logger.Info("spread leaders", "group", move.group, "from", move.from, "to", move.to)
		if err := m.TransferLeadership(ctx, move.group, move.to); err != nil {
			m.logger.Warn("spread leaders", "group", move.group, "to", move.to, "err", err)
			mean = every
		}
	}
}

// Even reports whether every shard has a leader and Spread would move none of them.
func (m *Membership) Even(ctx context.Context) bool {
	nodes, shards := m.Nodes(ctx), m.cell.View().Shards()
	_, move := nextMove(nodes, shards)
	return !move && allLed(nodes, shards)
}

func allLed(nodes []*cellv1.NodeStatus, shards []uint32) bool {
	led := make(map[uint32]bool)
	for _, s := range nodes {
		for _, g := range s.GetGroups() {
			if g.GetRole() == "leader" {
				led[g.GetGroup()] = true
			}
		}
	}
	return !slices.ContainsFunc(shards, func(id uint32) bool { return !led[id] })
}

type leaderMove struct {
	group    uint32
	from, to string
}

// nextMove picks one shard to move from the node that leads most to the one that
// leads fewest, if that is more even. Only nodes of the best level get shards,
// so that a node with a full disk does not get back what it gave away. Ties go by
// id, so that the same statuses give the same move.
func nextMove(nodes []*cellv1.NodeStatus, shards []uint32) (leaderMove, bool) {
	leads, level, best := make(map[string][]uint32), make(map[string]health.Level), health.Unfit
	for _, s := range nodes {
		if !s.GetReachable() {
			continue
		}
		id := s.GetNode().GetId()
		leads[id], level[id] = nil, health.LevelOf(causesOf(s))
		best = min(best, level[id])
		for _, g := range s.GetGroups() {
			if g.GetRole() == "leader" && slices.Contains(shards, g.GetGroup()) {
				leads[id] = append(leads[id], g.GetGroup())
			}
		}
	}
	ids := make([]string, 0, len(leads))
	for id := range leads {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		if d := len(leads[a]) - len(leads[b]); d != 0 {
			return d
		}
		if a < b {
			return -1
		}
		return 1
	})
	for _, from := range slices.Backward(ids) {
		for _, to := range ids {
			if len(leads[from])-len(leads[to]) < 2 {
				break // Those after it lead even more.
			}
			if level[to] > best || level[to] == health.Unfit {
				continue
			}
			for _, shard := range leads[from] {
				if mayLead(nodes, from, to, shard) {
					return leaderMove{shard, from, to}, true
				}
			}
		}
	}
	return leaderMove{}, false
}

// mayLead reports whether to votes in the shard and is close behind its leader.
func mayLead(nodes []*cellv1.NodeStatus, from, to string, shard uint32) bool {
	var leader, next *cellv1.GroupStatus
	for _, s := range nodes {
		switch s.GetNode().GetId() {
		case from:
			leader = groupOf(s, shard)
		case to:
			next = groupOf(s, shard)
		}
	}
	return slices.Contains(leader.GetVoters(), to) && next.GetRole() == "follower" &&
		next.GetCommitIndex()+lagEntriesMax >= leader.GetCommitIndex()
}
