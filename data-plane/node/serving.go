package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/admission"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/cluster"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/server"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

type tlsConfig = tls.Config

func (n *Node) newServer() *server.Server {
	return server.New(n.logger, time.Now, router{n.cluster}, n.authenticator(), server.Options{
		Version: n.cfg.Version, Signer: n.signer, Transport: n.transport,
		Health: n.health, Cluster: n.status, OtherOrigins: n.cfg.Access == Keys,
		Admission: admission.New(admission.Options{Weight: n.weight}), Weight: n.weight,
		Connections: n.conns,
	})
}

// weight is the share of a tenant when the node is overloaded, as its plan says.
func (n *Node) weight(tenant string) int64 {
	rec, _ := n.cell.View().TenantByID(tenant)
	return rec.GetLimits().GetWeight()
}

// router translates cluster's answers for the server.
type router struct{ c *cluster.Cluster }

func (r router) Route(ns job.Namespace) (server.Placement, error) {
	p, err := r.c.Route(ns)
	return placement(p), err
}

func (r router) WaitLeader(ctx context.Context, ns job.Namespace) (server.Placement, error) {
	p, err := r.c.WaitLeader(ctx, ns)
	return placement(p), err
}

func placement(p cluster.Placement) server.Placement {
	return server.Placement{Local: p.Service, Views: p.Views, Bulk: p.Bulk, LeaderURL: p.LeaderURL, Silent: p.Silent, Index: p.Index}
}

func (n *Node) authenticator() server.Authenticator {
	switch n.cfg.Access {
	case Open:
		return &local{node: n, limit: n.cfg.PayloadBytesMax}
	case Keys:
		return limited{server.NewKeyAuth(cellKeys{n}, time.Now), n.cfg.PayloadBytesMax}
	default:
		return server.NewSigned(n.signer, n.wall, func() string { return n.folderRecord().CellID }, n.noteRefusal, n.logger)
	}
}

// noteRefusal notes what a caller may not do, for its tenant's audit log.
func (n *Node) noteRefusal(c queue.Caller, p permission.Permission, name string) {
	n.cell.NoteRefusal(cell.Refusal{Tenant: c.Tenant, Namespace: c.Namespace, Principal: c.Principal, Permission: p, Queue: name}, c.Peer)
}

// limited sets the payload limit of a server without plans.
type limited struct {
	server.Authenticator
	bytesMax int
}

func (l limited) Authenticate(r *http.Request) (*server.Principal, error) {
	p, err := l.Authenticator.Authenticate(r)
	if err == nil {
		p.Caller.PayloadBytesMax = l.bytesMax
	}
	return p, err
}

// health reports whether this process works and whether it can take work.
func (n *Node) health(context.Context) server.Health {
	h := server.Health{Working: !n.dog.Stalled(), RaftState: "follower"}
	if err := n.log.Err(); err != nil {
		h.Working, h.Reason = false, "the raft log failed: "+err.Error()
		return h
	}
	if !h.Working {
		h.Reason = "the disk doesn't respond"
		return h
	}
	if n.fitness.Has(health.ShuttingDown) {
		h.Reason = "shutting down"
		return h
	}
	if n.opened.Load() == nil {
		h.Reason = n.waitsFor()
		return h
	}
	if n.fitness.Has(health.Clock) {
		h.Reason = n.clockStatus().Detail
		return h
	}
	for _, g := range n.groups.all() {
		if g.Leading() {
			h.RaftState = "leader"
		}
		leader := g.Leader()
		if leader == "" {
			h.Reason = n.leaderless()
			return h
		}
		h.Leader, _ = n.cellPeers.URL(leader)
	}
	h.Reason = n.quarantine.String()
	select {
	case <-n.groups.opened: // What is left out is served by sending calls on.
	default:
		h.Reason = cmp.Or(h.Reason, "the shards aren't open yet")
		return h
	}
	h.Ready = true
	return h
}

// leaderless says why a group has no leader, where that is known.
func (n *Node) leaderless() string {
	if far, ok := n.mux.TooFar(); ok {
		return "a group has no leader: " + far.String()
	}
	return "a group has no leader"
}

// status answers the operator.
func (n *Node) status() wire.ClusterStatus {
	log := n.log.Metrics()
	st := wire.ClusterStatus{
		Mode: "cluster", NodeID: n.cfg.ID, Shards: len(n.shardList()), RaftNoSync: n.cfg.Relaxed,
		SyncDelayMS: float64(n.cfg.SyncDelay) / float64(time.Millisecond), LogCommits: log.Commits, LogSyncs: log.Syncs,
		Clock: n.clockStatus(), Scrub: n.scrubStatus(),
	}
	voters := make(map[string]bool)
	for _, g := range n.groups.all() {
		s := g.Status()
		gs := wire.GroupStatus{
			ID: g.ID(), State: s.Role, LeaderID: s.Leader, Term: s.Term,
			AppliedIndex: s.AppliedIndex, CommitIndex: s.CommitIndex, LastIndex: s.LastIndex,
		}
		gs.LeaderAddr, _ = n.cellPeers.URL(s.Leader)
		gs.ReadModelLagMS = n.listLag(g.ID())
		st.Groups = append(st.Groups, gs)
		for _, v := range s.Voters {
			voters[v] = true
		}
	}
	for _, rec := range n.cell.View().Nodes() {
		st.Nodes = append(st.Nodes, wire.NodeStatus{
			ID: rec.GetId(), Address: rec.GetApiUrl(), Voter: voters[rec.GetId()], Self: rec.GetId() == n.cfg.ID,
		})
	}
	return st
}

// listLag is how late the lists of a shard are, if this node leads it.
func (n *Node) listLag(id uint32) *int64 {
	s := n.groups.shard(id)
	if s == nil || !s.Group().Leading() {
		return nil
	}
	lag, err := s.Views.Lag()
	if err != nil {
		n.logger.Debug("it isn't known how far the lists are behind", "shard", id, "err", err)
		return nil
	}
	ms := lag.Milliseconds()
	return &ms
}

// Ready blocks until the node can take work or ctx ends.
func (n *Node) Ready(ctx context.Context) error {
	return pollUntil(ctx, readyPoll, func() bool { return n.health(ctx).Ready && n.localReady() })
}

// NotReady says why the node can't take work now; it is empty if it can.
func (n *Node) NotReady(ctx context.Context) string {
	h := n.health(ctx)
	if h.Ready && n.localReady() {
		return ""
	}
	return cmp.Or(h.Reason, "it isn't ready yet")
}

// Even blocks until the leaders of the shards are evenly spread over the nodes of the
// cell or ctx ends.
func (n *Node) Even(ctx context.Context) error {
	return pollUntil(ctx, evenPoll, func() bool { return n.members.Even(ctx) })
}

func pollUntil(ctx context.Context, every time.Duration, done func() bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

const (
	readyPoll = 5 * time.Millisecond
	evenPoll  = 50 * time.Millisecond // Asks every node.
)

// onStall: the disk doesn't respond. Raft's loop may be stuck in the write, so
// leadership cannot be handed over: the node falls silent, and the others elect
// (R4).
func (n *Node) onStall(op string) {
	n.fitness.Set(health.DiskStalled, op+" doesn't return")
}

func (n *Node) onRecover() { n.fitness.Clear(health.DiskStalled) }

func (n *Node) setIf(holds bool, r health.Reason, detail string) {
	if holds {
		n.fitness.Set(r, detail)
		return
	}
	n.fitness.Clear(r)
}

// followHealth tells the shards what the node's health allows.
func (n *Node) followHealth() {
	for n.loopCtx.Err() == nil {
		changed := n.fitness.Changed()
		n.holdOff()
		select {
		case <-changed:
		case <-n.loopCtx.Done():
		}
	}
}

// probe writes and syncs every five seconds, so that the watchdog notices when the disk of an
// idle node stalls.
func (n *Node) probe() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := n.log.SyncProbe(); err != nil {
				n.logger.Error("the raft log doesn't accept a write", "err", err)
			}
		case <-n.loopCtx.Done():
			return
		}
	}
}

const probeEvery = 5 * time.Second

// announce keeps the cell's record of this node's addresses true.
func (n *Node) announce() {
	err := n.members.Announce(n.loopCtx, n.self())
	if f := fault.As(err); f != nil && f.Reason == cell.ReasonVersion {
		n.end(fmt.Errorf("%w: %s", ErrVersion, f.Message))
		return
	}
	if err != nil && n.loopCtx.Err() == nil {
		n.logger.Error("the cell doesn't accept this node's addresses", "err", err)
	}
}
