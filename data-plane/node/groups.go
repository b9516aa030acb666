package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/cluster"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/notify"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/server"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
)

// firstShard is the raft group number of the first shard of a cell.
const firstShard = cell.GroupID + 1

// groupSet is the raft groups of this node; it grows while the node starts.
type groupSet struct {
	mu     sync.RWMutex // Guards the rest.
	groups map[uint32]*group.Group
	shards map[uint32]*cluster.Shard
	ends   map[uint32]context.CancelFunc // Of what runs beside a shard.
	opened chan struct{}                 // Closed once every shard is open.
}

func newGroupSet() *groupSet {
	return &groupSet{groups: make(map[uint32]*group.Group), shards: make(map[uint32]*cluster.Shard), ends: make(map[uint32]context.CancelFunc), opened: make(chan struct{})}
}

// Group implements cell.Groups.
func (s *groupSet) Group(id uint32) *group.Group {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.groups[id]
}

// all is the groups that are open now, in the order of their ids. Of what IDs names, any may be
// gone by the time that it is looked up.
func (s *groupSet) all() []*group.Group {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.groups), func(a, b *group.Group) int { return cmp.Compare(a.ID(), b.ID()) })
}

// IDs implements cell.Groups: ascending.
func (s *groupSet) IDs() []uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	ids := make([]uint32, 0, len(s.groups))
	for id := range s.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (s *groupSet) add(g *group.Group, sh *cluster.Shard, end context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[g.ID()] = g
	if sh != nil {
		s.shards[g.ID()], s.ends[g.ID()] = sh, end
	}
}

func (s *groupSet) remove(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.ends[id]; end != nil {
		end()
	}
	delete(s.groups, id)
	delete(s.shards, id)
	delete(s.ends, id)
}

func (n *Node) shardList() []*cluster.Shard {
	n.groups.mu.RLock()
	defer n.groups.mu.RUnlock()
	var out []*cluster.Shard
	for _, s := range n.groups.shards {
		out = append(out, s)
	}
	return out
}

// openCell starts the meta group, which knows everything else about the cell.
func (n *Node) openCell() error {
	var shards []uint32
	var records []*cellv1.Node
	for i := range n.cfg.Shards {
		shards = append(shards, firstShard+uint32(i))
	}
	r := n.folderRecord()
	for _, k := range r.Nodes {
		records = append(records, k.node())
	}
	if !r.First {
		shards, records = nil, nil // The cell already has its first entry.
	}
	c, err := cell.Open(n.state.Group(cell.GroupID), n.log.Group(cell.GroupID), n.mux.Group(cell.GroupID), cell.Options{
		CellID: r.CellID, Replaced: r.Replaced, NodeID: n.cfg.ID, Bootstrap: n.bootstrap(), Shards: shards, Nodes: records,
		Timings: n.timings(), Clock: n.cfg.Clock, ClockPeers: n.clockPeers(), Health: n.fitness, Logger: n.logger, Fatal: n.cfg.Fatal, AcceptLoss: n.cfg.AcceptLoss, Alone: n.cfg.alone(),
		RaiseVersion: n.cfg.alone() || n.cfg.Formation != nil,
		Suspect:      n.suspect(), Crashed: func(index uint64) { n.quarantine.crashed(cell.GroupID, index) },
		Committed: n.committedIn(cell.GroupID), LogBytes: n.logShare,
	})
	if err != nil {
		return storageError(fmt.Errorf("open the cell's meta group: %w", err))
	}
	n.cell = c
	n.groups.add(c.Group(), nil, nil)
	c.Group().Dispute(n.quarantine.disputed(cell.GroupID))
	urls := make(map[string]string)
	for id, p := range n.peers {
		urls[id] = p.APIURL
	}
	n.cellPeers = cell.NewPeers(c, n.signer, n.transport, urls)
	n.members = cell.NewMembership(c, n.groups, n.cellPeers)
	n.membership.Store(n.members)
	n.cluster = cluster.New(c, n.cellPeers, n.groups.shard, n.groups.opened)
	n.cluster.LeaveOut(n.quarantine.leader)
	n.opened.Store(c)
	return nil
}

// shard is nil for a group that is not a shard, and until the shard is open.
func (s *groupSet) shard(id uint32) *cluster.Shard {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.shards[id]
}

// openShards starts every shard of the cell on this node. A node that forms the
// cell knows them; a node that joins learns them from the meta group, which it can
// only follow once a member has taken it in.
func (n *Node) openShards(ctx context.Context) error {
	if r := n.folderRecord(); !r.First && n.cfg.Join != "" {
		if err := n.join(ctx); err != nil {
			return err
		}
	}
	shards, err := n.shardIDs(ctx)
	if err != nil {
		return err
	}
	for _, id := range shards {
		if _, out := n.quarantine.out(id); out {
			continue
		}
		if err := n.openShard(id); err != nil {
			return fmt.Errorf("open shard %d: %w", id, err)
		}
	}
	close(n.groups.opened)
	return nil
}

func (n *Node) shardIDs(ctx context.Context) ([]uint32, error) {
	if recorded := n.cell.View().Shards(); len(recorded) > 0 {
		return recorded, nil
	}
	if n.folderRecord().First {
		var ids []uint32
		for i := range n.cfg.Shards {
			ids = append(ids, firstShard+uint32(i))
		}
		return ids, nil
	}
	ids, err := n.cell.WaitShards(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for the cell's shards: %w", err)
	}
	return ids, nil
}

func (n *Node) openShard(id uint32) error {
	store, hub := n.state.Group(id), notify.New()
	machine := state.New(store, nil)
	machine.RingOnCommit(hub.Notify)
	g, err := group.Open(store, n.log.Group(id), n.mux.Group(id), machine, group.Options{
		NodeID: n.cfg.ID, Bootstrap: n.bootstrap(), Timings: n.timings(), Clock: n.cfg.Clock, ClockPeers: n.clockPeers(), Health: n.fitness,
		Logger: n.logger, Fatal: n.cfg.Fatal, AcceptLoss: n.cfg.AcceptLoss, Alone: n.cfg.alone(),
		CellVersion: n.CellVersion,
		Suspect:     n.suspect(), Crashed: func(index uint64) { n.quarantine.crashed(id, index) },
		Committed: n.committedIn(id), LogBytes: n.logShare,
	})
	if err != nil {
		return storageError(err)
	}
	model := readmodel.NewProjector(n.models, store, hub, n.logger)
	s := shard.New(g, store, shard.Options{
		Logger: n.logger, Fatal: n.cfg.Fatal, Plan: queue.Plan, Namespaces: &namespaces{node: n, shard: id},
		LeaderWait: server.LeaderWait, Weight: n.weightOf, Held: n.held, EventsRead: model.Read, Nap: n.cfg.Nap,
	})
	service := queue.New(s, queue.Rules{Limits: n.planLimits, Keeps: n.retention, AuditsReads: n.auditsReads})
	views := queue.NewViews(service, model, hub)
	bulk := queue.NewBulk(views, n.logger)
	g.Dispute(n.quarantine.disputed(id))
	ctx, end := context.WithCancel(n.loopCtx)
	n.groups.add(g, &cluster.Shard{Shard: s, Service: service, Views: views, Bulk: bulk}, end)
	n.loops.Go(func() { n.project(ctx, g, model) })
	n.loops.Go(func() { bulk.Run(ctx) })
	n.loops.Go(func() { s.Erase(ctx) })
	return nil
}

// suspect has the members' digests compared; nil for a node alone, which has nobody to ask.
func (n *Node) suspect() func() {
	if n.cfg.alone() {
		return nil
	}
	return func() {
		if m := n.membership.Load(); m != nil { // Entries are applied before it is there; the loop looks anyway.
			m.Suspect()
		}
	}
}

// project keeps the shard's read models while this node leads it.
func (n *Node) project(ctx context.Context, g *group.Group, model *readmodel.Projector) {
	for ctx.Err() == nil {
		moved := g.LeadershipChanged()
		if !g.Leading() {
			select {
			case <-moved:
			case <-ctx.Done():
			}
			continue
		}
		term, end := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			model.Run(term)
		}()
		for g.Leading() && ctx.Err() == nil {
			select {
			case <-moved:
				moved = g.LeadershipChanged()
			case <-ctx.Done():
			}
		}
		end()
		<-ended
	}
}

// join asks a member of the cell to add this node. It returns once the member has
// begun; the rest happens while the node catches up.
func (n *Node) join(ctx context.Context) error {
	client := cell.NewClient(n.signer, n.cell.ID(), n.cfg.ID, n.transport, n.cfg.Join)
	n.loops.Go(func() { n.askToJoin(client, n.self()) })
	return ctx.Err()
}

// retention is what a namespace keeps of what has ended.
func (n *Node) retention(ns job.Namespace) retention.Policy {
	v := n.cell.View()
	rec, _ := v.NamespaceByID(ns)
	tenant, _ := v.TenantByID(rec.GetTenantId())
	return retention.Of(tenant.GetLimits(), rec.GetRetention())
}

// auditsReads reports whether a namespace's tenant wants people's reads of payloads in its audit
// log.
func (n *Node) auditsReads(ns job.Namespace) bool {
	v := n.cell.View()
	rec, _ := v.NamespaceByID(ns)
	tenant, _ := v.TenantByID(rec.GetTenantId())
	return tenant.GetAuditPayloadReads()
}

// weightOf is the weight of a namespace's tenant.
func (n *Node) weightOf(ns job.Namespace) int64 {
	rec, ok := n.cell.View().NamespaceByID(ns)
	if !ok {
		return 0
	}
	return n.weight(rec.GetTenantId())
}

// planLimits is what the plan of a namespace's tenant allows in each of its namespaces.
func (n *Node) planLimits(ns job.Namespace) queue.PlanLimits {
	return planLimitsIn(n.cell.View(), ns)
}

func planLimitsIn(v *cell.View, ns job.Namespace) queue.PlanLimits {
	rec, ok := v.NamespaceByID(ns)
	if !ok {
		return queue.PlanLimits{}
	}
	tenant, _ := v.TenantByID(rec.GetTenantId())
	l := tenant.GetLimits()
	out := queue.PlanLimits{
		PerSecond: l.GetEnqueuePerSecond(), Burst: l.GetEnqueueBurst(), OpenJobs: l.GetOpenJobsMax(), StoredBytes: l.GetStoredBytesMax(),
	}
	if h := l.GetHold(); h != nil {
		out.Hold = queue.PlanHold{Dispatch: h.GetDispatch(), Enqueue: h.GetEnqueue(), Limit: h.GetLimit(), Value: h.GetValue()}
		if h.GetUntilNs() > 0 {
			out.Hold.Until = time.Unix(0, h.GetUntilNs())
		}
	}
	return out
}

// held is until when, as the cell's state is now, no attempt begins in a namespace.
func (n *Node) held() func(job.Namespace) int64 {
	v := n.cell.View()
	return func(ns job.Namespace) int64 {
		l := planLimitsIn(v, ns)
		return l.Hold.HeldUntil()
	}
}

// followHolds tells the shards that what plans hold back may have changed, as soon as the
// cell's state has.
func (n *Node) followHolds() {
	for n.loopCtx.Err() == nil {
		moved := n.cell.Changed()
		for _, s := range n.shardList() {
			s.Shard.HoldsMoved()
		}
		select {
		case <-moved:
		case <-n.loopCtx.Done():
		}
	}
}

// committedIn is how far the other nodes have said they are in a group.
func (n *Node) committedIn(id uint32) func(node string) (uint64, bool) {
	return func(node string) (uint64, bool) { return n.peerState.Committed(node, id) }
}

// logShare is how much of each group's log may stay for nodes that lag or are away: all
// groups together stay within the budget.
func (n *Node) logShare() uint64 { return n.cfg.LogBytesMax / uint64(max(1, len(n.groups.IDs()))) }
