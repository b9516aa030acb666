package cell

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

const (
	// heartbeatEvery is how often a watcher is told that the stream is alive;
	// proxies consider a state stale after 60 s without that.
	heartbeatEvery = 5 * time.Second
	// retryEvery paces what a leader repeats until it works.
	retryEvery = 200 * time.Millisecond
)

// Options of a Cell.
type Options struct {
	// CellID is the id the cell was formed with.
	CellID string
	// Replaced are the ids that the cell had before recoveries, the newest last.
	Replaced []string
	NodeID   string
	// Bootstrap lists the first voters by node id; used only on the first start.
	// A node that joins later has none.
	Bootstrap []string
	// Shards of the cluster, recorded by the first leader if none are.
	Shards []uint32
	// Nodes are the records of the first voters, recorded with the shards.
	Nodes   []*cellv1.Node
	Timings group.Timings
	Clock   group.Clock
	// ClockPeers compares Clock with the other nodes' clocks; nil if there are
	// no others.
	ClockPeers group.ClockPeers
	// Health says whether this node should lead; nil means always.
	Health *health.Health
	Logger *slog.Logger
	// Fatal ends the process; it must not return. Nil panics.
	Fatal func(error)
	// Alone and AcceptLoss are those of group.Options.
	Alone      bool
	AcceptLoss bool
	// RaiseVersion raises the cell's version without being asked, as soon as all nodes can.
	RaiseVersion bool
	// Speaks, Suspect and Crashed are those of group.Options.
	Speaks  cellversion.Range
	Suspect func()
	Crashed func(index uint64)
	// Committed and LogBytes are those of group.Options.
	Committed func(node string) (uint64, bool)
	LogBytes  func() uint64
	// HeartbeatEvery replaces the default in tests.
	HeartbeatEvery time.Duration
	// ForgetEvery replaces the default in tests.
	ForgetEvery time.Duration
}

// Cell is the running meta group of this node.
type Cell struct {
	group     *group.Group
	machine   *Machine
	id        string
	replaced  []string
	nodeID    string
	health    *health.Health
	heartbeat time.Duration
	// forgetEvery is how often the leader looks for records to end.
	forgetEvery time.Duration
	logger      *slog.Logger
	watchers    *watchers
	sightings   *sightings
	readings    *readings

	ending  chan struct{} // Closed by EndWatches.
	endOnce sync.Once
	wg      sync.WaitGroup
}

// Transport carries the raft traffic of the cell's group. TellCommitted has the other nodes know at once
// that everything up to index is committed; it does not block.
type Transport interface {
	group.Transport
	TellCommitted(index uint64)
}

// Open starts the meta group's replica on this node.
func Open(store *statedb.Group, log group.LogStore, trans Transport, o Options) (*Cell, error) {
	if store.ID() != GroupID {
		return nil, fmt.Errorf("the meta group is group %d, not %d", GroupID, store.ID())
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.HeartbeatEvery == 0 {
		o.HeartbeatEvery = heartbeatEvery
	}
	o.Speaks = cmp.Or(o.Speaks, cellversion.Supported())
	if o.ForgetEvery == 0 {
		o.ForgetEvery = forgetEvery
	}
	first, err := firstEntry(o)
	if err != nil {
		return nil, err
	}
	machine := NewMachine(store)
	machine.speaks = o.Speaks
	g, err := group.Open(store, log, trans, machine, group.Options{
		NodeID: o.NodeID, Bootstrap: o.Bootstrap, Timings: o.Timings, Clock: o.Clock, ClockPeers: o.ClockPeers, Health: o.Health,
		Logger: o.Logger, Fatal: o.Fatal, AcceptLoss: o.AcceptLoss, Alone: o.Alone,
		CellVersion: func() cellversion.Version { return machine.View().Version() }, Speaks: o.Speaks,
		Suspect: o.Suspect, Crashed: o.Crashed, Committed: o.Committed, LogBytes: o.LogBytes,
		OnCommit: trans.TellCommitted, // Who changes something waits until every node knows of it.
	})
	if err != nil {
		return nil, fmt.Errorf("open meta group: %w", err)
	}
	c := &Cell{group: g, machine: machine, id: o.CellID, replaced: o.Replaced, nodeID: o.NodeID, health: o.Health, heartbeat: o.HeartbeatEvery, forgetEvery: o.ForgetEvery, logger: o.Logger, watchers: newWatchers(), sightings: newSightings(), readings: newReadings(), ending: make(chan struct{})}
	g.Lead(func(ctx context.Context, ready func()) {
		ready()
		c.recordShards(ctx, first)
		var others sync.WaitGroup
		if o.RaiseVersion {
			others.Go(func() { c.raiseByItself(ctx) })
		}
		c.forgetDeleted(ctx)
		others.Wait()
	})
	c.wg.Go(c.followersReturn)
	return c, nil
}

// firstEntry is the first entry of a cell without shards, validated at start and
// not when a leader proposes it.
func firstEntry(o Options) (*cellv1.ApplyRequest, error) {
	if len(o.Shards) == 0 {
		return nil, nil
	}
	req := &cellv1.ApplyRequest{Changes: []*cellv1.Change{{Change: &cellv1.Change_Shards{Shards: &cellv1.Shards{Ids: o.Shards}}}}}
	for _, n := range o.Nodes {
		req.Changes = append(req.Changes, &cellv1.Change{Change: &cellv1.Change_Node{Node: n}})
	}
	// A new cell has no older program to go back to.
	req.Changes = append(req.Changes, versionChange(max(newest(o.Nodes), o.Speaks.Lowest)))
	if err := validate(req); err != nil {
		return nil, fmt.Errorf("first entry of the cell: %w", err)
	}
	return req, nil
}

// recordShards runs once in each term, until the shards are recorded.
func (c *Cell) recordShards(ctx context.Context, first *cellv1.ApplyRequest) {
	for first != nil && len(c.View().Shards()) == 0 {
		_, err := c.propose(ctx, first)
		if err == nil || ctx.Err() != nil {
			return
		}
		c.logger.Warn("record the cell's shards", "err", err)
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return
		}
	}
}

// Group is the meta group's replica on this node.
func (c *Cell) Group() *group.Group { return c.group }

// ID is the cell's id.
func (c *Cell) ID() string { return c.id }

// NodeID is this node's raft server id.
func (c *Cell) NodeID() string { return c.nodeID }

// View is what this node has applied; any node may be behind the leader.
func (c *Cell) View() *View { return c.machine.View() }

// Changed returns a channel that is closed when the view next moves. Take it
// before looking at View.
func (c *Cell) Changed() <-chan struct{} { return c.machine.Changed() }

// State is the whole of View as a message, with the cell that it is of.
func (c *Cell) State() *cellv1.State { return c.name(c.View().State()) }

// name writes into a state, if there is one, which cell it is of.
func (c *Cell) name(s *cellv1.State) *cellv1.State {
	if s != nil {
		s.CellId, s.ReplacedCells = c.id, c.replaced
	}
	return s
}

// WaitShards blocks until the cell's shards are recorded here and returns them.
func (c *Cell) WaitShards(ctx context.Context) ([]uint32, error) {
	for {
		moved := c.Changed()
		if s := c.View().Shards(); len(s) > 0 {
			return s, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, fault.New(fault.Unavailable, "NO_SHARDS", "the cell has no shards yet; try again")
		}
	}
}

// Apply writes desired state: every change of the request or none. Only the
// leader can; its own View has the changes when Apply returns, and shares the
// response's records: do not change them. An unknown outcome is settled by applying
// the same again; with a source, STALE_GENERATION then means that it had happened.
func (c *Cell) Apply(ctx context.Context, req *cellv1.ApplyRequest) (*cellv1.ApplyResponse, error) {
	if !c.group.Leading() {
		return nil, c.notLeader()
	}
	if _, err := c.WaitShards(ctx); err != nil {
		return nil, err
	}
	return c.propose(ctx, req)
}

func (c *Cell) propose(ctx context.Context, req *cellv1.ApplyRequest) (*cellv1.ApplyResponse, error) {
	if err := allowed(req, c.group.Version()); err != nil {
		return nil, err
	}
	payload, err := encode(req)
	if err != nil {
		return nil, err
	}
	res, _, err := c.group.ProposeAndWait(ctx, payload)
	if err != nil {
		return nil, err
	}
	switch res := res.(type) {
	case *cellv1.ApplyResponse:
		return res, nil
	case *fault.Error:
		return nil, res
	default:
		return nil, fmt.Errorf("the meta group answered a %T", res)
	}
}

// encode makes the entry and refuses what not every replica could apply.
func encode(req *cellv1.ApplyRequest) ([]byte, error) {
	payload, err := marshal(req)
	if err != nil {
		return nil, fault.New(fault.Invalid, "VALIDATION_ERROR", "the change set can't be encoded: %v", err)
	}
	if len(payload) > entryBytesMax {
		return nil, fault.New(fault.TooLarge, "TOO_LARGE", "the change set has %d bytes, but one call can have at most %d; split it", len(payload), entryBytesMax)
	}
	// As every replica will read it: a nil record inside a change is an empty one.
	again, err := decode(payload)
	if err != nil {
		return nil, fault.New(fault.Invalid, "VALIDATION_ERROR", "the change set can't be decoded: %v", err)
	}
	return payload, validateAsked(again)
}

// newestIndex is the index of the last write; only the leader knows it.
func (c *Cell) newestIndex(context.Context, *cellv1.GetIndexRequest) (*cellv1.GetIndexResponse, error) {
	if !c.group.Leading() {
		return nil, c.notLeader()
	}
	res := &cellv1.GetIndexResponse{}
	if err := c.machine.readControl(res); err != nil {
		return nil, err
	}
	res.Index, res.CellId, res.ReplacedCells = c.View().Index(), c.id, c.replaced
	return res, nil
}

func (c *Cell) notLeader() error {
	f := fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "this node doesn't lead the cell")
	if n, ok := c.View().NodeByID(c.group.Leader()); ok {
		f.Leader = n.GetApiUrl()
	}
	return f
}

// EndWatches ends every watch and lets none begin, so that a server that waits for
// its calls can stop. It may be called more than once.
func (c *Cell) EndWatches() { c.endOnce.Do(func() { close(c.ending) }) }

// Shutdown ends the watches and stops the replica. The stores stay open.
func (c *Cell) Shutdown() error {
	c.EndWatches()
	c.wg.Wait()
	if err := c.group.Shutdown(); err != nil {
		return fmt.Errorf("stop meta group: %w", err)
	}
	return nil
}
