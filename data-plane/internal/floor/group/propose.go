package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// Now are the leader's times for the next entry.
func (g *Group) Now() Times { return g.clock.read() }

// Standstill is how long calendar time stands still, as far as the last reading knew:
// the wall was set back and has to catch up first.
func (g *Group) Standstill() time.Duration { return g.clock.standstill() }

// Version is that of the cell under which the next entry of this replica is applied at
// least. A replica that leads has applied what came before its term, so what it knows of
// its group, and of the cell, never goes back.
func (g *Group) Version() cellversion.Version {
	return max(g.cellVersion(), g.fsm.version.Load(), g.fsm.speaks.Lowest)
}

// Proposal is an entry on its way.
type Proposal struct {
	future  raft.ApplyFuture
	group   *Group
	entry   *byte        // The first of its bytes, by which the machine's outcomes are told.
	outcome chan outcome // Holds one.
	refused error        // It never went on its way.
}

// Propose hands an entry to raft, stamped with now (from Now). The caller must
// Wait on the result; the entry itself can not be taken back.
func (g *Group) Propose(now Times, payload []byte) Proposal {
	version := g.Version()
	if err := g.fsm.speaks.Check(version); err != nil {
		return Proposal{refused: err}
	}
	e := envelope{version: version, stamp: now, payload: payload}
	if g.proposals.Add(1)%checkEvery == 0 {
		e.check = true
		e.checkIndex, e.checkDigest = g.fsm.status()
	}
	entry := e.encode()
	if len(entry) > transport.EntryBytesMax {
		return Proposal{refused: fault.New(fault.TooLarge, "",
			"what this call writes takes %d bytes in the log, and at most %d fit into one entry; split it", len(entry), transport.EntryBytesMax)}
	}
	p := Proposal{group: g, entry: &entry[0], outcome: g.fsm.proposed.expect(&entry[0])}
	p.future = g.raft.Apply(entry, enqueueTimeout)
	return p
}

// Wait blocks until the entry is applied here or its fate is unknown. It returns
// the machine's result and the entry's index.
func (p Proposal) Wait() (any, uint64, error) {
	if p.refused != nil {
		return nil, 0, p.refused
	}
	defer p.group.fsm.proposed.forget(p.entry)
	if o, ok := p.applied(); ok {
		p.group.watchTransfer(nil)
		return o.result, o.index, nil
	}
	err := p.group.await(p.future)
	p.group.watchTransfer(err)
	if err != nil {
		return nil, 0, proposeFault(err)
	}
	return p.future.Response(), p.future.Index(), nil
}

// applied waits for what the machine says of the entry: that is one hand-over from one
// goroutine to another, of the few that a commit consists of, and two less than the future
// is. What else becomes of an entry only the future says, so this ends soon.
func (p Proposal) applied() (outcome, bool) {
	soon := time.NewTimer(appliedSoon)
	defer soon.Stop()
	changed := p.group.health.Changed()
	if p.group.health.Silent() {
		return outcome{}, false
	}
	select {
	case o := <-p.outcome:
		return o, true
	case <-soon.C:
	case <-changed:
	case <-p.group.dead:
	}
	return outcome{}, false
}

// outcome is what came of applying an entry here.
type outcome struct {
	result any
	index  uint64
}

// proposed are the entries that were proposed here and are waited for, by their first byte: raft
// hands to a leader's machine the bytes that were proposed.
type proposed struct {
	mu      sync.Mutex // Guards waiting.
	waiting map[*byte]chan outcome
}

func (p *proposed) expect(entry *byte) chan outcome {
	ch := make(chan outcome, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = make(map[*byte]chan outcome)
	}
	p.waiting[entry] = ch
	return ch
}

func (p *proposed) forget(entry *byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, entry)
}

// tell hands the outcomes of applied entries to who waits for them.
func (p *proposed) tell(logs []*raft.Log, results []any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return
	}
	for i, l := range logs {
		if len(l.Data) == 0 {
			continue
		}
		if ch := p.waiting[&l.Data[0]]; ch != nil {
			delete(p.waiting, &l.Data[0])
			ch <- outcome{results[i], l.Index}
		}
	}
}

// errSilenced: the node may not speak as a leader (R4). The entry may be committed
// all the same, later or by another leader.
var errSilenced = errors.New("this node's disk or clock does not let it lead")

// await is f's outcome, or why nobody should wait for it: a raft that is shut down
// forgets what it had not looked at yet, and one that is stuck in a write answers
// when the disk does.
func (g *Group) await(f raft.Future) error {
	answered := make(chan error, 1)
	go func() { answered <- f.Error() }()
	for {
		changed := g.health.Changed()
		if g.health.Silent() {
			return errSilenced
		}
		select {
		case err := <-answered:
			return err
		case <-changed:
		case <-g.dead:
			return raft.ErrRaftShutdown
		}
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
	last := g.refused.Swap(now)
	if time.Duration(now-last) > refusalGap || g.transferring.CompareAndSwap(0, now) {
		g.transferring.Store(now) // Another transfer: while one never ends, all is refused.
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
		return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "the shard is changing its leader; nothing was done, try again")
	default:
		return unknownOutcome(err)
	}
}

func notLeader() error {
	return fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "this node is not the leader of the shard")
}

func unknownOutcome(err error) error {
	return fault.New(fault.UnknownOutcome, "UNKNOWN_OUTCOME",
		"the call may or may not have taken effect (%v); repeat it with the same idempotency key or lease token", err)
}

// CatchUp waits until every entry that this leader proposed before is applied here. It
// writes to the log.
func (g *Group) CatchUp() error {
	if err := g.await(g.raft.Barrier(changeTimeout)); err != nil {
		return proposeFault(err)
	}
	return nil
}

// VerifyLeader confirms with a quorum that this replica still leads. Read first,
// verify, then answer (R22).
func (g *Group) VerifyLeader() error {
	if err := g.await(g.raft.VerifyLeader()); err != nil {
		return notLeader()
	}
	return nil
}
