package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// LogStore is what a group needs of the node's log: entries and stable values.
type LogStore interface {
	raft.LogStore
	raft.StableStore
	// StoreLogsAnd stores entries and a stable number in one batch, so that the number
	// costs no sync of its own and is never newer on disk than the entries.
	StoreLogsAnd(logs []*raft.Log, key []byte, value uint64) error
	// NewestWithin is how many of the newest entries occupy at most so many bytes.
	NewestWithin(bytes uint64) (entries uint64, err error)
	// Compact removes from the disk what was deleted.
	Compact(ctx context.Context) error
}

// Transport carries the group's raft traffic. Bind gives it the replica's raft so
// that heartbeats of another term stay off the fast path (R3).
type Transport interface {
	raft.Transport
	Bind(r transport.Raft)
}

// Timings of a group; the zero value takes the defaults.
type Timings struct {
	// Heartbeat is the heartbeat and election timeout; the leader's lease is half.
	Heartbeat time.Duration
	// Commit is how long the leader waits before it tells followers the last
	// commit when nothing else is sent: once to twice as long, and each look costs four
	// wake-ups for every follower of every group.
	Commit time.Duration
}

const (
	defaultHeartbeat = 500 * time.Millisecond
	// A single voter has nobody to wait for.
	soloHeartbeat = 40 * time.Millisecond
	defaultCommit = 500 * time.Millisecond
	// A barrier or membership change that takes longer than this is given up and
	// tried again or reported.
	changeTimeout = 10 * time.Second
	lastEntryWait = time.Second
	// transferSlack is how much longer than it can last a transfer may seem to (see transferStuck).
	transferSlack = time.Second
	// refusalGap lies between refusals that are not of one transfer. While one never ends, a new
	// term's barrier is refused every barrierPause.
	refusalGap = time.Second
	// appliedSoon is how long a proposer waits for the machine alone.
	appliedSoon = 5 * time.Millisecond
	// enqueueTimeout bounds the wait for raft's own queue, not for the commit (P9).
	enqueueTimeout = 5 * time.Second

	snapshotBytes     = 64 << 20  // State is synced and the log cut once this much was applied.
	trailingBytes     = 256 << 20 // Of the log that stay whoever is there,
	trailingEntries   = 65536     // and at most so many entries.
	snapshotPoll      = time.Second
	snapshotThreshold = 65536
	// checkEvery: one entry in so many carries the leader's digest, or the next that follows no other at once.
	checkEvery = 32
)

// HeartbeatOf is the heartbeat that t means.
func HeartbeatOf(t Timings) time.Duration { return cmp.Or(t.Heartbeat, defaultHeartbeat) }

// Options of a replica.
type Options struct {
	NodeID string
	// Bootstrap lists the first members, by node id; used only if the replica is empty.
	Bootstrap []string
	Timings   Timings
	Clock     Clock
	// ClockPeers say whether the wall clock is right. Nil: there is no other node to ask.
	ClockPeers ClockPeers
	// Health says whether this node should lead; nil means always.
	Health *health.Health
	Logger *slog.Logger
	// Fatal ends the process; it must not return. Nil panics.
	Fatal func(error)
	// Alone: the group has this one member and never gets another, so that an
	// election has nobody to wait for.
	Alone bool
	// AcceptLoss starts although the log lost entries that the state has seen
	// (relaxed mode after an operating system crash).
	AcceptLoss bool
	// CellVersion is the version of the cell as this node knows it; nil: it knows none but
	// that of the group's own entries.
	CellVersion func() cellversion.Version
	// Suspect is called, and must not block, when an entry carries another digest than this
	// replica's: its members should be compared. Nil ends the node instead.
	Suspect func()
	// OnCommit is called, and must not block, with the index up to which entries are known here to be
	// committed, before they are applied. Nil: nobody asked.
	OnCommit func(index uint64)
	// Crashed is called with the index of an entry that could not be applied because the
	// machine panicked, before Fatal. It returns when that is durable. Nil: nobody counts.
	Crashed func(index uint64)
	// Speaks is what the program speaks; the zero value is cellversion.Supported.
	Speaks cellversion.Range

	// Committed is the highest index that a node has said to have committed in this group. Nil:
	// nobody said anything.
	Committed func(node string) (index uint64, known bool)
	// LogBytes is how much of the log may stay for a voter that lags or is away. Nil: what
	// stays anyway.
	LogBytes func() uint64

	commitBytes   int           // For tests; 0 means commitBytesMax.
	trailingBytes uint64        // Likewise.
	callMax       time.Duration // Likewise; 0 means transport.CallMax.
}

// Group is a running replica.
type Group struct {
	id     uint32
	nodeID string
	raft   *raft.Raft
	fsm    *fsm
	log    *truncationGuard // As raft sees it: nothing that was applied can be cut off.
	trans  Transport
	clock  *leaderClock
	peers  ClockPeers
	health *health.Health
	logger *slog.Logger
	fatal  func(error)
	// cellVersion is that of Options.
	cellVersion func() cellversion.Version

	committed     func(node string) (index uint64, known bool) // Those of Options.
	logBytes      func() uint64
	trailingBytes uint64
	behind        atomic.Pointer[string] // Which voters need the whole state; nil or empty: none.

	disputed atomic.Pointer[string] // Why it must not serve; nil or empty: it may.
	disputes chan struct{}          // Wakes watchLeadership; one place.

	notify    chan bool             // Won and lost leadership, from raft.
	seen      chan raft.Observation // Other replicas' leadership, from raft.
	isNew     bool                  // It had neither a log nor state.
	began     applied               // The state at the start.
	started   chan struct{}         // Closed when raft is there.
	stop      chan struct{}
	dead      chan struct{} // Closed when raft has stopped.
	stopOnce  sync.Once
	wg        sync.WaitGroup // lead, contact and snapshot loops.
	reload    sync.Mutex     // Held while raft's settings are read and changed.
	unchecked atomic.Uint64  // Entries proposed since one carried the digest.
	// unsure counts entries that may still be on their way although nobody waits for them any
	// more; sure is how many of them a barrier has passed.
	unsure, sure  atomic.Uint64
	transferStuck time.Duration // See the function.
	// transferring is when a proposal was first refused because of a transfer, Unix
	// nanoseconds; 0 after any other outcome. refused is when the last one was.
	transferring, refused atomic.Int64

	leadSet chan struct{}                           // Closed by Lead, after onLead is set.
	onLead  func(ctx context.Context, ready func()) // Read only after leadSet.
	ready   atomic.Bool                             // Leader, and the barrier of this term has passed.
	moved   Notifier                                // Fires when leadership changes anywhere we can see.
}

var (
	// ErrLogLost: the log ends before what the state has applied.
	ErrLogLost = errors.New("the raft log lost entries that the state has already applied")
	// ErrCutApplied: the leader's log differs from what this replica has applied.
	ErrCutApplied = errors.New("entries that the state has applied would be cut off the raft log")
	// ErrCrashed: applying an entry panicked.
	ErrCrashed = errors.New("applying an entry panicked")
	// ErrLogGap: the log starts after what the state still needs.
	ErrLogGap = errors.New("the raft log starts after the entries that the state needs next")
)

// Open starts the replica: it proves that log and state fit together, resumes in
// place and joins the group.
func Open(store *statedb.Group, log LogStore, trans Transport, machine Machine, o Options) (*Group, error) {
	o = withDefaults(o)
	g := &Group{
		id: store.ID(), nodeID: o.NodeID, trans: trans,
		clock:  &leaderClock{clock: o.Clock, trusted: o.ClockPeers.Trusted},
		peers:  o.ClockPeers,
		health: o.Health,
		logger: o.Logger.With("group", store.ID()),
		fatal:  o.Fatal, cellVersion: o.CellVersion,
		committed: o.Committed, logBytes: o.LogBytes, trailingBytes: o.trailingBytes,
		transferStuck: transferStuck(o),
		disputes:      make(chan struct{}, 1),
		notify:        make(chan bool, 16), seen: make(chan raft.Observation, 16), started: make(chan struct{}), stop: make(chan struct{}), dead: make(chan struct{}), leadSet: make(chan struct{}),
	}
	g.fsm = &fsm{turn: make(chan struct{}, 1), covering: make(chan struct{}, 1), store: store, machine: machine, clock: o.Clock, fatal: o.Fatal, suspect: o.Suspect, crashed: o.Crashed, onCommit: o.OnCommit, commitBytes: o.commitBytes, speaks: o.Speaks}
	strict := strictLog{log, store.ID(), o.Fatal}
	if err := g.recover(strict, o.AcceptLoss); err != nil {
		return nil, fmt.Errorf("group %d: %w", g.id, err)
	}
	var err error
	if g.log, err = newTruncationGuard(g, strict); err != nil {
		return nil, fmt.Errorf("group %d: %w", g.id, err)
	}
	if err := g.start(o); err != nil {
		return nil, fmt.Errorf("start raft of group %d: %w", g.id, err)
	}
	g.wg.Add(3)
	go g.watchLeadership()
	go g.watchContact()
	go g.cutLog()
	return g, nil
}

func withDefaults(o Options) Options {
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	if o.ClockPeers == nil {
		o.ClockPeers = nobodyElse{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
	if o.CellVersion == nil {
		o.CellVersion = func() cellversion.Version { return 0 }
	}
	o.Speaks = cmp.Or(o.Speaks, cellversion.Supported())
	if o.Committed == nil {
		o.Committed = func(string) (uint64, bool) { return 0, false }
	}
	if o.LogBytes == nil {
		o.LogBytes = func() uint64 { return trailingBytes }
	}
	o.trailingBytes = cmp.Or(o.trailingBytes, trailingBytes)
	o.commitBytes = cmp.Or(o.commitBytes, commitBytesMax)
	o.callMax = cmp.Or(o.callMax, transport.CallMax)
	o.Timings.Heartbeat = HeartbeatOf(o.Timings)
	if o.Timings.Commit == 0 {
		o.Timings.Commit = defaultCommit
	}
	return o
}

// recover loads the applied record and checks it against the log: a
// violation is reported, never repaired by guessing (law 3).
func (g *Group) recover(log LogStore, acceptLoss bool) error {
	a, err := loadApplied(g.fsm.store)
	if err != nil {
		return err
	}
	if err := g.fsm.speaks.Check(a.version); err != nil {
		return err
	}
	first, err := log.FirstIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	last, err := log.LastIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	covered, err := coveredOf(g.fsm.store, a)
	if err != nil {
		return err
	}
	if a.index > max(last, covered) {
		if !acceptLoss {
			return fmt.Errorf("%w: applied %d, log ends at %d", ErrLogLost, a.index, last)
		}
		// The state holds everything up to a.index; the log goes on from there.
		if last > 0 {
			if err := log.DeleteRange(first, last); err != nil {
				return fmt.Errorf("drop outrun log: %w", err)
			}
		}
		last = 0
	}
	if last > 0 && first > a.index+1 {
		return fmt.Errorf("%w: applied %d, log starts at %d", ErrLogGap, a.index, first)
	}
	if err := g.fsm.machine.Reset(); err != nil {
		return fmt.Errorf("load machine: %w", err)
	}
	g.fsm.changedAt = a.index
	g.fsm.publish(a)
	g.began = a
	return nil
}

// coveredIndex is up to where the state is known to be durable without the log:
// the last snapshot, made here or received.
func coveredIndex(store *statedb.Group) (uint64, error) {
	b, err := store.Covered()
	if errors.Is(err, statedb.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read covered note: %w", err)
	}
	note, err := decodeApplied(b)
	return note.index, err
}

// coveredOf is how much of a state the covered note speaks for: nothing if that one never came, since
// the note is written before a received state is installed.
func coveredOf(store *statedb.Group, a applied) (uint64, error) {
	covered, err := coveredIndex(store)
	if covered > a.index {
		covered = 0
	}
	return covered, err
}

func (g *Group) start(o Options) error {
	snaps := &snapshots{fsm: g.fsm, firstIndex: g.log.FirstIndex, sending: g.sending, incoming: make(map[string]*received)}
	exists, err := raft.HasExistingState(g.log, g.log, snaps)
	if err != nil {
		return err
	}
	cfg := g.config(o)
	g.isNew = !exists
	if !exists && len(o.Bootstrap) > 0 {
		var members raft.Configuration
		for _, id := range o.Bootstrap {
			members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
		}
		if err := raft.BootstrapCluster(cfg, g.log, g.log, snaps, g.trans, members); err != nil {
			return err
		}
	}
	g.raft, err = raft.NewRaft(cfg, g.fsm, aheadLog{g.log, g.fsm}, g.log, snaps, g.trans)
	if err != nil {
		return err
	}
	close(g.started)
	g.trans.Bind(g.raft)
	g.raft.RegisterObserver(raft.NewObserver(g.seen, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	}))
	return nil
}

func (g *Group) config(o Options) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.NodeID)
	c.HeartbeatTimeout = o.Timings.Heartbeat
	if o.Alone {
		c.HeartbeatTimeout = soloHeartbeat
	}
	c.ElectionTimeout = c.HeartbeatTimeout
	c.LeaderLeaseTimeout = c.HeartbeatTimeout / 2
	c.CommitTimeout = o.Timings.Commit
	c.BatchApplyCh = true
	c.MaxAppendEntries = transport.MessageEntriesMax
	c.SnapshotThreshold = snapshotThreshold
	c.TrailingLogs = trailingEntries
	c.NoSnapshotRestoreOnStart = true
	c.ShutdownOnRemove = true
	c.NoLegacyTelemetry = true
	c.NotifyCh = g.notify
	c.Logger = newLogger(g.logger)
	return c
}

// New reports whether this replica had neither a log nor state when it started.
func (g *Group) New() bool { return g.isNew }

// ID is the raft group's number.
func (g *Group) ID() uint32 { return g.id }

// AppliedIndex is how far the state is.
func (g *Group) AppliedIndex() uint64 { return g.fsm.appliedIndex.Load() }

// Applying is how much time this replica has spent applying entries since it was opened.
func (g *Group) Applying() time.Duration { return time.Duration(g.fsm.busy.Load()) }

// WaitApplied blocks until the applied index reaches index.
func (g *Group) WaitApplied(ctx context.Context, index uint64) error {
	return g.fsm.waitApplied(ctx, index)
}

// Shutdown stops the replica and waits until it has. An entry under way gets a
// moment to be committed. The stores stay open.
func (g *Group) Shutdown() error {
	err := error(nil)
	g.stopOnce.Do(func() {
		close(g.stop)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.wg.Wait()
		}()
		select {
		case <-ended:
		case <-time.After(lastEntryWait):
		}
		err = g.raft.Shutdown().Error()
		g.fsm.endAhead()
		close(g.dead)
		<-ended
		g.moved.Fire()
	})
	return err
}
