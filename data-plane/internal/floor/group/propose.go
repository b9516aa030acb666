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

// Proposal is an entry on its way. It belongs to one goroutine.
type Proposal struct {
	future  raft.ApplyFuture
	group   *Group
	entry   *byte // The first of its bytes, by which the machine's word on it is told.
	told    *told
	failed  chan struct{} // Nil, or closed once raft says that the entry failed,
	failure error         // and why; read after failed is closed.
	refused error         // It never went on its way.
}

// Outcome is what came of applying an entry here.
type Outcome struct {
	Result    any
	Index     uint64
	Committed time.Time // When it began to be applied.
}

// Propose hands an entry to raft, stamped with now (from Now). The caller must
// Wait on the result; the entry itself can not be taken back.
func (g *Group) Propose(now Times, payload []byte) *Proposal {
	version := g.Version()
	if err := g.fsm.speaks.Check(version); err != nil {
		return &Proposal{refused: err}
	}
	e := envelope{version: version, stamp: now, payload: payload}
	// Behind an entry on its way the digest would say nothing.
	if g.unchecked.Add(1) >= checkEvery && g.fsm.proposed.none() {
		g.unchecked.Store(0)
		e.check = true
		e.checkIndex, e.checkDigest = g.fsm.status()
	}
	entry := e.encode()
	if len(entry) > transport.EntryBytesMax {
		return &Proposal{refused: fault.New(fault.TooLarge, "",
			"what this call writes takes %d bytes in the log, and at most %d fit into one entry; split it", len(entry), transport.EntryBytesMax)}
	}
	p := &Proposal{group: g, entry: &entry[0], told: g.fsm.proposed.expect(&entry[0])}
	p.future = g.raft.Apply(entry, enqueueTimeout)
	return p
}

// Committed blocks until the entry is committed and its turn to be applied has come, or until its
// fate is unknown; it reports which. What is proposed from then on is stored while the entry is
// applied, and doesn't hold it up.
func (p *Proposal) Committed() bool {
	if p.refused != nil {
		return false
	}
	_, err := await(p, p.told.committed)
	return err == nil
}

// Wait blocks until the entry is applied here or its fate is unknown.
func (p *Proposal) Wait() (Outcome, error) {
	if p.refused != nil {
		return Outcome{}, p.refused
	}
	defer p.group.fsm.proposed.forget(p.entry)
	o, err := await(p, p.told.outcome)
	p.group.watchTransfer(err)
	if err != nil {
		p.group.unsure.Add(1) // Before it is forgotten.
		return Outcome{}, proposeFault(err)
	}
	return o, nil
}

// await waits for what the machine says of an entry: that is one hand-over from one goroutine
// to another, of the few that a commit consists of, and two less than raft's future is. What
// else becomes of the entry only the future says, so it is asked too if the machine doesn't
// say anything soon.
func await[T any](p *Proposal, said <-chan T) (word T, err error) {
	soon := time.NewTimer(appliedSoon)
	defer soon.Stop()
	for {
		changed := p.group.health.Changed()
		if p.group.health.Silent() {
			return word, errSilenced
		}
		select {
		case word = <-said:
			return word, nil
		case <-soon.C:
			p.askRaft()
		case <-p.failed:
			return word, p.failure
		case <-changed:
		case <-p.group.dead:
			return word, raft.ErrRaftShutdown
		}
	}
}

// askRaft begins to wait for an error of the future. Where there is none, the machine has spoken. The
// entry may be waited for more than once, so what raft said stays.
func (p *Proposal) askRaft() {
	if p.failed != nil {
		return
	}
	failed := make(chan struct{})
	p.failed = failed
	go func() {
		if err := p.future.Error(); err != nil {
			p.failure = err
			close(failed)
		}
	}()
}

// proposed are the entries that were proposed here and are waited for, by their first byte: raft
// hands to a leader's machine the bytes that were proposed.
type proposed struct {
	mu      sync.Mutex // Guards waiting.
	waiting map[*byte]*told
}

// told is the machine's word on an entry. Each channel holds one.
type told struct {
	at        time.Time // When it was committed.
	committed chan struct{}
	outcome   chan Outcome
}

func (p *proposed) expect(entry *byte) *told {
	t := &told{committed: make(chan struct{}, 1), outcome: make(chan Outcome, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = make(map[*byte]*told)
	}
	p.waiting[entry] = t
	return t
}

// none of this replica's entries is on its way.
func (p *proposed) none() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) == 0
}

// has reports whether somebody waits for the entry.
func (p *proposed) has(l *raft.Log) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(l.Data) > 0 && p.waiting[&l.Data[0]] != nil
}

func (p *proposed) forget(entry *byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, entry)
}

// each calls f for those of the entries that are waited for.
func (p *proposed) each(logs []*raft.Log, f func(i int, t *told)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return
	}
	for i, l := range logs {
		if len(l.Data) == 0 {
			continue
		}
		if t := p.waiting[&l.Data[0]]; t != nil {
			f(i, t)
		}
	}
}

// committed tells who waits for the entries that they are about to be applied.
func (p *proposed) committed(logs []*raft.Log) {
	now := time.Now()
	p.each(logs, func(_ int, t *told) {
		t.at = now
		t.committed <- struct{}{}
	})
}

// applied hands the outcomes of the entries to who waits for them.
func (p *proposed) applied(logs []*raft.Log, results []any) {
	p.each(logs, func(i int, t *told) {
		delete(p.waiting, &logs[i].Data[0])
		t.outcome <- Outcome{results[i], logs[i].Index, t.at}
	})
}

// errSilenced: the node may not speak as a leader (R4). The entry may be committed
// all the same, later or by another leader.
var errSilenced = errors.New("this node's disk or clock does not let it lead")

// outcomeOf is f's error, or why nobody should wait for it: a raft that is shut down
// forgets what it had not looked at yet, and one that is stuck in a write answers
// when the disk does.
func (g *Group) outcomeOf(f raft.Future) error {
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

// transferStuck is longer than any transfer that ends: it takes up to an election timeout until the
// other has caught up, then the call that has it elected, which nothing cuts short and a node that
// hangs lets run out, and up to one more election timeout until the other leads.
func transferStuck(o Options) time.Duration {
	return o.callMax + 2*o.Timings.Heartbeat + transferSlack
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
	if since := time.Duration(now - g.transferring.Load()); since > g.transferStuck {
		g.fatal(fmt.Errorf("group %d: a leadership transfer has not ended for %s", g.id, since))
	}
}

// ProposeAndWait proposes with the current time and waits as long as ctx allows;
// an outcome not seen in time is unknown, not failed (R8, R9).
func (g *Group) ProposeAndWait(ctx context.Context, payload []byte) (any, uint64, error) {
	if !g.Leading() {
		return nil, 0, notLeader()
	}
	type fate struct {
		Outcome
		err error
	}
	ch := make(chan fate, 1)
	p := g.Propose(g.Now(), payload)
	go func() {
		o, err := p.Wait()
		ch <- fate{o, err}
	}()
	select {
	case f := <-ch:
		return f.Result, f.Index, f.err
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
// writes to the log only if one is on its way, or its fate is unknown: a group in which
// nothing happens leaves the disk alone.
func (g *Group) CatchUp() error {
	none, unsure := g.fsm.proposed.none(), g.unsure.Load() // In this order.
	if none && g.sure.Load() == unsure {
		return nil // The barrier of the term is for entries of earlier ones.
	}
	if err := g.outcomeOf(g.raft.Barrier(changeTimeout)); err != nil {
		return proposeFault(err)
	}
	g.sure.Store(unsure)
	return nil
}

// VerifyLeader confirms with a quorum that this replica still leads. Read first,
// verify, then answer (R22).
func (g *Group) VerifyLeader() error {
	if err := g.outcomeOf(g.raft.VerifyLeader()); err != nil {
		return notLeader()
	}
	return nil
}
