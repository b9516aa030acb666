package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/transport"
)

// LogStore is what a group needs of the node's log: entries and stable values.
type LogStore interface {
	raft.LogStore
	raft.StableStore
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
	// commit when nothing else is sent.
	Commit time.Duration
}

const (
	defaultHeartbeat = 500 * time.Millisecond
	// A single voter has nobody to wait for.
	soloHeartbeat = 40 * time.Millisecond
	defaultCommit = 50 * time.Millisecond
	// A barrier or membership change that takes longer than this is given up and
	// tried again or reported.
	changeTimeout = 10 * time.Second
	lastEntryWait = time.Second
	// A transfer lasts at most one election timeout (R5).
	transferStuck = 10 * time.Second
	// enqueueTimeout bounds the wait for raft's own queue, not for the commit (P9).
	enqueueTimeout = 5 * time.Second

	maxAppendEntries  = 256
	snapshotBytes     = 64 << 20 // State is synced and the log cut once this much was applied.
	trailingBytes     = 256 << 20
	trailingEntries   = 65536
	trailingMin       = 1024
	snapshotPoll      = time.Second
	snapshotThreshold = 65536
	// checkEvery: one entry in so many carries the leader's digest.
	checkEvery = 32
)

// Options of a replica.
type Options struct {
	NodeID string
	// Bootstrap lists the first members, by node id; used only if the replica is empty.
	Bootstrap []string
	Timings   Timings
	Clock     Clock
	Logger    *slog.Logger
	// Fatal ends the process; it must not return. Nil panics.
	Fatal func(error)
	// Alone: the group has this one member and never gets another, so that an
	// election has nobody to wait for.
	Alone bool
	// AcceptLoss starts although the log lost entries that the state has seen
	// (relaxed mode after an operating system crash).
	AcceptLoss bool
}

// Group is a running replica.
type Group struct {
	id     uint32
	nodeID string
	raft   *raft.Raft
	fsm    *fsm
	log    LogStore
	trans  Transport
	clock  *leaderClock
	logger *slog.Logger
	fatal  func(error)

	notify    chan bool             // Won and lost leadership, from raft.
	seen      chan raft.Observation // Other replicas' leadership, from raft.
	stop      chan struct{}
	dead      chan struct{} // Closed when raft has stopped.
	stopOnce  sync.Once
	wg        sync.WaitGroup // lead, contact and snapshot loops.
	reload    sync.Mutex     // Held while raft's settings are read and changed.
	proposals atomic.Uint64
	// transferring is when a proposal was first refused because of a transfer, Unix
	// nanoseconds; 0 after any other outcome.
	transferring atomic.Int64

	leadSet chan struct{}                           // Closed by Lead, after onLead is set.
	onLead  func(ctx context.Context, ready func()) // Read only after leadSet.
	ready   atomic.Bool                             // Leader, and the barrier of this term has passed.
	moved   notifier                                // Fires when leadership changes anywhere we can see.
}

var (
	// ErrLogLost: the log ends before what the state has applied.
	ErrLogLost = errors.New("the raft log lost entries that the state has already applied")
	// ErrLogGap: the log starts after what the state still needs.
	ErrLogGap = errors.New("the raft log starts after the entries that the state needs next")
)

// Open starts the replica: it proves that log and state fit together, resumes in
// place and joins the group.
func Open(store *statedb.Group, log LogStore, trans Transport, machine Machine, o Options) (*Group, error) {
	o = withDefaults(o)
	g := &Group{
		id: store.ID(), nodeID: o.NodeID, log: log, trans: trans,
		clock:  &leaderClock{clock: o.Clock},
		logger: o.Logger.With("group", store.ID()),
		fatal:  o.Fatal,
		notify: make(chan bool, 16), seen: make(chan raft.Observation, 16), stop: make(chan struct{}), dead: make(chan struct{}), leadSet: make(chan struct{}),
	}
	g.fsm = &fsm{store: store, machine: machine, fatal: o.Fatal}
	if err := g.recover(o.AcceptLoss); err != nil {
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
	if o.Timings.Heartbeat == 0 {
		o.Timings.Heartbeat = defaultHeartbeat
	}
	if o.Timings.Commit == 0 {
		o.Timings.Commit = defaultCommit
	}
	return o
}

// recover loads the applied record and checks it against the log: a
// violation is reported, never repaired by guessing (law 3).
func (g *Group) recover(acceptLoss bool) error {
	a, err := loadApplied(g.fsm.store)
	if err != nil {
		return err
	}
	first, err := g.log.FirstIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	last, err := g.log.LastIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	covered, err := g.coveredIndex()
	if err != nil {
		return err
	}
	if a.index > max(last, covered) {
		if !acceptLoss {
			return fmt.Errorf("%w: applied %d, log ends at %d", ErrLogLost, a.index, last)
		}
		// The state holds everything up to a.index; the log goes on from there.
		if last > 0 {
			if err := g.log.DeleteRange(first, last); err != nil {
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
	g.fsm.publish(a)
	return nil
}

// coveredIndex is up to where the state is known to be durable without the log:
// the last snapshot, made here or received.
func (g *Group) coveredIndex() (uint64, error) {
	b, err := g.fsm.store.Covered()
	if errors.Is(err, statedb.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read covered note: %w", err)
	}
	note, err := decodeApplied(b)
	return note.index, err
}

func (g *Group) start(o Options) error {
	snaps := &snapshots{fsm: g.fsm, incoming: make(map[string]*received)}
	exists, err := raft.HasExistingState(g.log, g.log, snaps)
	if err != nil {
		return err
	}
	cfg := g.config(o)
	if !exists && len(o.Bootstrap) > 0 {
		var members raft.Configuration
		for _, id := range o.Bootstrap {
			members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
		}
		if err := raft.BootstrapCluster(cfg, g.log, g.log, snaps, g.trans, members); err != nil {
			return err
		}
	}
	g.raft, err = raft.NewRaft(cfg, g.fsm, g.log, g.log, snaps, g.trans)
	if err != nil {
		return err
	}
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
	c.MaxAppendEntries = maxAppendEntries
	c.SnapshotThreshold = snapshotThreshold
	c.TrailingLogs = trailingEntries
	c.NoSnapshotRestoreOnStart = true
	c.ShutdownOnRemove = true
	c.NoLegacyTelemetry = true
	c.NotifyCh = g.notify
	c.Logger = newLogger(g.logger)
	return c
}

// ID is the raft group's number.
func (g *Group) ID() uint32 { return g.id }

// Lead sets what to do while this replica leads: f runs after the barrier of
// each won term (R22), calls ready once it can serve, and must return soon after
// its context ends. Every user of a group calls Lead exactly once; until ready is
// called the replica does not count as leading.
func (g *Group) Lead(f func(ctx context.Context, ready func())) {
	g.onLead = f
	close(g.leadSet)
}

// watchLeadership runs one term after the other; it ends with Shutdown.
func (g *Group) watchLeadership() {
	defer g.wg.Done()
	var current *term
	for {
		select {
		case won := <-g.notify:
			switch {
			case won && current == nil:
				current = g.beginTerm()
			case !won && current != nil:
				g.endTerm(current)
				current = nil
			}
			g.moved.fire()
		case <-g.seen:
			g.moved.fire()
		case <-g.stop:
			if current != nil {
				g.endTerm(current)
			}
			return
		}
	}
}

// term is one stretch of leadership.
type term struct {
	cancel context.CancelFunc
	done   chan struct{} // Closed when its goroutine has ended.
}

func (g *Group) beginTerm() *term {
	ctx, cancel := context.WithCancel(context.Background())
	t := &term{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		g.runTerm(ctx)
	}()
	return t
}

func (g *Group) endTerm(t *term) {
	g.ready.Store(false)
	t.cancel()
	<-t.done
}

func (g *Group) runTerm(ctx context.Context) {
	if !g.barrier(ctx) {
		return
	}
	g.fsm.mu.RLock()
	floor := g.fsm.applied.now
	g.fsm.mu.RUnlock()
	g.clock.restart(floor)
	select {
	case <-g.leadSet:
	case <-ctx.Done():
		return
	}
	g.onLead(ctx, func() {
		g.ready.Store(true)
		g.moved.fire()
	})
	<-ctx.Done()
	g.ready.Store(false)
}

// Leading reports whether this replica leads and has passed its barrier.
func (g *Group) Leading() bool { return g.ready.Load() }

// Leader is the node id of the leader as this replica knows it, or "".
func (g *Group) Leader() string {
	_, id := g.raft.LeaderWithID()
	return string(id)
}

// LeadershipChanged returns a channel that is closed at the next change this
// replica notices. Take it before looking at Leader.
func (g *Group) LeadershipChanged() <-chan struct{} { return g.moved.wait() }

// Now is the leader's time for the next entry, Unix nanoseconds.
func (g *Group) Now() int64 { return g.clock.read() }

// Proposal is an entry on its way.
type Proposal struct {
	future raft.ApplyFuture
	group  *Group
}

// Propose hands an entry to raft, stamped with now (from Now). The caller must
// Wait on the result; the entry itself can not be taken back.
func (g *Group) Propose(now int64, payload []byte) Proposal {
	e := envelope{stamp: now, payload: payload}
	if g.proposals.Add(1)%checkEvery == 0 {
		e.check = true
		e.checkIndex, e.checkDigest = g.fsm.status()
	}
	return Proposal{g.raft.Apply(e.encode(), enqueueTimeout), g}
}

// Wait blocks until the entry is applied here or its fate is unknown. It returns
// the machine's result and the entry's index.
func (p Proposal) Wait() (any, uint64, error) {
	// A raft that is shut down forgets the entries it had not looked at yet.
	answered := make(chan error, 1)
	go func() { answered <- p.future.Error() }()
	select {
	case err := <-answered:
		p.group.watchTransfer(err)
		if err != nil {
			return nil, 0, proposeFault(err)
		}
		return p.future.Response(), p.future.Index(), nil
	case <-p.group.dead:
		return nil, 0, proposeFault(raft.ErrRaftShutdown)
	}
}

// watchTransfer ends the node when a leader refuses writes because of a transfer
// that is over: interrupted by a step-down, the library never forgets it, and only
// a restart helps (R5, hashicorp/raft#696).
func (g *Group) watchTransfer(err error) {
	if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		g.transferring.Store(0)
		return
	}
	now := time.Now().UnixNano()
	if g.transferring.CompareAndSwap(0, now) {
		return
	}
	if since := time.Duration(now - g.transferring.Load()); since > transferStuck {
		g.fatal(fmt.Errorf("group %d: a leadership transfer has not ended for %s", g.id, since))
	}
}

// ProposeAndWait proposes with the current time and waits as long as ctx allows;
// an outcome not seen in time is unknown, not failed (R8, R9).
func (g *Group) ProposeAndWait(ctx context.Context, payload []byte) (any, uint64, error) {
	if !g.Leading() {
		return nil, 0, notLeader()
	}
	type outcome struct {
		res   any
		index uint64
		err   error
	}
	ch := make(chan outcome, 1)
	p := g.Propose(g.Now(), payload)
	go func() {
		res, index, err := p.Wait()
		ch <- outcome{res, index, err}
	}()
	select {
	case o := <-ch:
		return o.res, o.index, o.err
	case <-ctx.Done():
		return nil, 0, unknownOutcome(ctx.Err())
	}
}

func proposeFault(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return notLeader()
	case errors.Is(err, raft.ErrEnqueueTimeout), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "the shard is busy changing its leader; nothing was done, try again")
	default:
		return unknownOutcome(err)
	}
}

func notLeader() error {
	return fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "this node does not lead the shard")
}

func unknownOutcome(err error) error {
	return fault.New(fault.UnknownOutcome, "UNKNOWN_OUTCOME",
		"the outcome is not known (%v); repeat the call with the same idempotency key or lease token", err)
}

// VerifyLeader confirms with a quorum that this replica still leads. Read first,
// verify, then answer (R22).
func (g *Group) VerifyLeader() error {
	if err := g.raft.VerifyLeader().Error(); err != nil {
		return notLeader()
	}
	return nil
}

// AppliedIndex is how far the state is.
func (g *Group) AppliedIndex() uint64 { return g.fsm.appliedIndex.Load() }

// WaitApplied blocks until the applied index reaches index.
func (g *Group) WaitApplied(ctx context.Context, index uint64) error {
	return g.fsm.waitApplied(ctx, index)
}

// cutLog makes the state durable and lets raft cut its log once enough bytes
// were applied; entries hold hundreds of jobs, so counting entries would not bound anything.
func (g *Group) cutLog() {
	defer g.wg.Done()
	tick := time.NewTicker(snapshotPoll)
	defer tick.Stop()
	var lastBytes, lastIndex uint64
	for {
		select {
		case <-tick.C:
		case <-g.stop:
			return
		}
		bytes, index := g.fsm.bytes.Load(), g.AppliedIndex()
		if bytes-lastBytes < snapshotBytes {
			continue
		}
		if err := g.snapshot(bytes-lastBytes, index-lastIndex); err != nil {
			g.logger.Warn("snapshot", "err", err)
			continue
		}
		lastBytes, lastIndex = bytes, index
	}
}

func (g *Group) snapshot(bytes, entries uint64) error {
	keep := min(max(trailingBytes/max(bytes/max(entries, 1), 1), trailingMin), trailingEntries)
	g.reload.Lock()
	rc := raft.ReloadableConfig{
		TrailingLogs: keep, SnapshotInterval: 2 * time.Minute, SnapshotThreshold: snapshotThreshold,
		HeartbeatTimeout: g.raft.ReloadableConfig().HeartbeatTimeout, ElectionTimeout: g.raft.ReloadableConfig().ElectionTimeout,
	}
	err := g.raft.ReloadConfig(rc)
	g.reload.Unlock()
	if err != nil {
		return fmt.Errorf("set trailing logs: %w", err)
	}
	return g.Snapshot()
}

// Snapshot makes the state durable and lets raft cut its log.
func (g *Group) Snapshot() error {
	if err := g.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("snapshot group %d: %w", g.id, err)
	}
	return nil
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
		close(g.dead)
		<-ended
		g.moved.fire()
	})
	return err
}
