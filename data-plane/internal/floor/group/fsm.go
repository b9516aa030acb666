package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Entry is one committed command entry as the Machine sees it.
type Entry struct {
	Index uint64
	// Now is calendar time, Lease lease time in Unix nanoseconds. Both strictly increase
	// from entry to entry (INV-19).
	Now     time.Time
	Lease   int64
	Version cellversion.Version // Of the cell. It never goes back either.
	Payload []byte              // Valid only during Apply.
}

// Machine is the deterministic part of a group. Its methods are called by one
// goroutine at a time, in log order.
type Machine interface {
	// Apply runs one entry. All its changes go through txn, all its reads too;
	// it reads no clock and no random source (law 2). The result reaches the
	// proposer. An error is a failure of storage or an entry this version does
	// not understand: the node stops (never skips). What it stores hangs on the entry's
	// version of the cell, not on what this program could do. A leader applies an entry
	// before it is committed: nobody may see anything of it before Committed.
	Apply(txn *statedb.Txn, e Entry) (any, error)
	// Committed is called after the batch that contains index was committed.
	Committed(index uint64)
	// Reset drops everything derived from the store: at start, after the state was
	// replaced by a snapshot, and when an entry that was applied is not committed.
	Reset() error
}

// ErrDiverged: this replica's state at an index differs from the leader's.
var ErrDiverged = errors.New("state diverged from the leader")

// fsm adapts a Machine to raft.BatchingFSM.
type fsm struct {
	store   *statedb.Group
	machine Machine
	clock   Clock
	// fatal ends the node; it does not return.
	fatal func(error)
	// suspect is called when a proposer's digest differs; nil: there is nobody to ask.
	suspect     func()
	crashed     func(index uint64) // See Options.Crashed.
	commitBytes int                // Of entries in one commit: see commitBytesMax.
	speaks      cellversion.Range

	// turn is held by whoever has the machine or changes the state. No mutex: virtual time stands still while
	// somebody waits for one.
	turn   chan struct{}
	ahead  *ahead         // Nil: nothing was applied ahead. Under turn.
	aheads sync.WaitGroup // Of the goroutines that do.

	// covering is held by whoever writes the covered note; taken before turn.
	covering  chan struct{}
	installed uint64 // Index of the last state received since the start. Under covering.

	mu      sync.RWMutex // Guards applied; write also while the state changes.
	applied applied
	at      time.Duration // When applied.now was, by the monotonic clock.
	// changedAt is the last index known to have changed the digest.
	changedAt uint64

	onCommit func(index uint64) // See Options.OnCommit.
	proposed proposed           // Entries of this replica's that are waited for.

	marks marks // Digests to compare with other replicas'.

	appliedIndex atomic.Uint64 // Copy of applied.index for readers.
	position     atomic.Pointer[position]
	version      atomic.Uint32 // Copy of applied.version for readers.
	bytes        atomic.Uint64 // Log bytes applied since start.
	busy         atomic.Int64  // Nanoseconds spent applying since start.
	changed      Notifier      // Fires when appliedIndex moves.
}

var _ raft.BatchingFSM = (*fsm)(nil)

// Apply is never called: hashicorp/raft prefers ApplyBatch.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// commitBytesMax bounds the entries of one Pebble commit, unless a single one is larger.
// What they write, two or three times as much, stays below half a memtable, beyond
// which Pebble makes a batch a table of its own.
const commitBytesMax = 4 << 20

// ApplyBatch applies the entries in order. Raft bounds their number only, so they are
// committed in parts; each leaves the state at an entry, as a batch of its own would.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	f.proposed.committed(logs)
	if f.onCommit != nil {
		f.onCommit(logs[len(logs)-1].Index)
	}
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	results := make([]any, 0, len(logs))
	for len(logs) > 0 {
		n := applicable(logs, f.commitBytes)
		part := f.applyPart(logs[:n])
		f.proposed.applied(logs[:n], part)
		results = append(results, part...)
		logs = logs[n:]
	}
	return results
}

// applicable is how many of the entries go into one commit of so many bytes.
func applicable(logs []*raft.Log, bytesMax int) int {
	bytes := 0
	for i, l := range logs {
		if bytes += len(l.Data); bytes > bytesMax && i > 0 {
			return i
		}
	}
	return len(logs)
}

// part is what one Pebble commit has.
type part struct {
	txn   *statedb.Txn
	next  applied // With the entries so far.
	last  uint64  // The last command entry: see changedAt.
	bytes int     // Of the entries.
	marks []Mark
}

func (f *fsm) newPart() *part {
	return &part{txn: f.store.NewTxn(), next: f.applied, last: f.changedAt}
}

// applyPart applies the entries in order within one Pebble commit. Entries at or below
// the applied index were applied before a restart and are skipped.
func (f *fsm) applyPart(logs []*raft.Log) []any {
	began := time.Now()
	defer func() { f.busy.Add(int64(time.Since(began))) }()
	f.mu.Lock()
	defer f.mu.Unlock()
	results := make([]any, len(logs))
	var p *part
	if a := f.takeAhead(logs[0]); a != nil {
		p, results[0] = a.part, a.result
	} else {
		p = f.newPart()
	}
	for i, l := range logs {
		if l.Index > p.next.index {
			results[i] = f.applyOne(p, l)
		}
	}
	if p.next.index == f.applied.index {
		f.check(p.txn.Discard())
		return results
	}
	f.commit(p)
	return results
}

// commit makes a part the state.
func (f *fsm) commit(p *part) {
	f.check(p.txn.SetApplied(appliedKey(f.store), p.next.encode()))
	f.check(p.txn.Commit())
	f.bytes.Add(uint64(p.bytes))
	for _, m := range p.marks {
		f.marks.add(m)
	}
	f.changedAt = p.last
	f.publish(p.next)
	f.machine.Committed(p.next.index)
}

func (f *fsm) check(err error) {
	if err != nil {
		f.fatal(fmt.Errorf("commit group %d: %w", f.store.ID(), err))
	}
}

func (f *fsm) publish(a applied) {
	if a.now != f.applied.now { // Else a command is as long ago as it was.
		_, f.at = f.clock.Now()
	}
	f.applied = a
	f.version.Store(a.version)
	f.position.Store(&position{a.index, a.digest, f.changedAt})
	f.appliedIndex.Store(a.index)
	f.changed.Fire()
}

// applyOne applies one more entry in a part.
func (f *fsm) applyOne(p *part, l *raft.Log) any {
	res, err := f.applyLog(p, l)
	if err != nil {
		f.fatal(fmt.Errorf("apply entry %d of group %d: %w", l.Index, f.store.ID(), err))
	}
	p.next.index, p.next.term = l.Index, l.Term
	p.bytes += len(l.Data)
	return res
}

func (f *fsm) applyLog(p *part, l *raft.Log) (any, error) {
	switch l.Type {
	case raft.LogConfiguration:
		p.next.configIndex = l.Index
		p.next.config = append([]byte(nil), l.Data...)
		return nil, nil
	case raft.LogCommand:
		p.last = l.Index
		return f.applyCommand(p, l)
	default:
		return nil, fmt.Errorf("unexpected log type %d", l.Type)
	}
}

func (f *fsm) applyCommand(p *part, l *raft.Log) (any, error) {
	e, err := decodeEnvelope(l.Data)
	if err != nil {
		return nil, err
	}
	a := &p.next
	// The check was taken when the proposer stood at checkIndex; if other entries
	// came between (a lost proposal of an earlier term), it says nothing.
	if e.check && e.checkIndex == a.index && e.checkDigest != a.digest && !f.ask() {
		return nil, fmt.Errorf("%w: at index %d digest is %016x, the leader's is %016x", ErrDiverged, a.index, a.digest, e.checkDigest)
	}
	a.now, a.version = a.now.after(e.stamp), max(a.version, e.version)
	if err := f.speaks.Check(a.version); err != nil {
		return nil, err
	}
	res, err := f.run(p.txn, Entry{
		Index: l.Index, Now: time.Unix(0, a.now.Calendar).UTC(), Lease: a.now.Lease, Version: a.version, Payload: e.payload,
	})
	if err != nil {
		return nil, err
	}
	a.digest, err = p.txn.EndEntry(a.digest, l.Index)
	if e.check && err == nil {
		p.marks = append(p.marks, Mark{l.Index, a.digest})
	}
	return res, err
}

// run applies an entry. A panic ends the process as any failure does, and is counted: an
// entry that does it again is not met a third time (R7).
func (f *fsm) run(txn *statedb.Txn, e Entry) (any, error) {
	defer func() {
		if p := recover(); p != nil {
			if f.crashed != nil {
				f.crashed(e.Index)
			}
			f.fatal(fmt.Errorf("%w: group %d, entry %d: %v\n%s", ErrCrashed, f.store.ID(), e.Index, p, debug.Stack()))
		}
	}()
	return f.machine.Apply(txn, e)
}

// ask has the members' digests compared, and reports whether there is anybody to ask.
func (f *fsm) ask() bool {
	if f.suspect == nil {
		return false
	}
	f.suspect()
	return true
}

// Snapshot captures nothing: the state carries its own index. Persist makes it durable.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) { return fsmSnapshot{}, nil }

type fsmSnapshot struct{}

// Persist is called after the library chose (index, term) for the snapshot; the
// sink knows them.
func (fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	m, ok := sink.(*markSink)
	if !ok {
		return fmt.Errorf("snapshot persisted into a %T", sink)
	}
	return m.mark()
}

func (fsmSnapshot) Release() {}

// raise lifts the applied record to (index, term) when entries that never reach
// the FSM (no-ops, barriers) were the last before a snapshot; without it the log
// could be cut above what the record says. Then it makes the state durable and
// notes that it is. It fails if a state beyond index was installed since the library chose it: that
// one's note must stay, or a crash would leave a state that nothing excuses, ahead of its log.
func (f *fsm) raise(index, term uint64) error {
	f.covering <- struct{}{}
	defer func() { <-f.covering }()
	if index < f.installed {
		return fmt.Errorf("a snapshot at %d is older than the state that was installed at %d", index, f.installed)
	}
	if err := f.raiseApplied(index, term); err != nil {
		return err
	}
	// Syncs everything before it too; from here on the log may go up to index.
	return f.store.MarkCovered(applied{index: index, term: term}.encode())
}

func (f *fsm) raiseApplied(index, term uint64) error {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.applied.index >= index {
		return nil
	}
	f.dropAhead()
	next := f.applied
	next.index, next.term = index, term
	txn := f.store.NewTxn()
	if err := errors.Join(txn.SetApplied(appliedKey(f.store), next.encode()), txn.Commit()); err != nil {
		return err
	}
	f.publish(next)
	return nil
}

// Restore installs a received transfer; the reader is the store's own.
func (f *fsm) Restore(rc io.ReadCloser) error {
	if w, wrapped := rc.(raft.ReadCloserWrapper); wrapped {
		rc = w.WrappedReadCloser() // The library counts the bytes of what it restores.
	}
	in, ok := rc.(*received)
	if !ok {
		return fmt.Errorf("restore of group %d from a %T", f.store.ID(), rc)
	}
	f.covering <- struct{}{}
	defer func() { <-f.covering }()
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropAhead()
	if in.meta.Index <= f.applied.index {
		return fmt.Errorf("a snapshot at %d is older than the state of group %d at %d", in.meta.Index, f.store.ID(), f.applied.index)
	}
	// Before the state moves ahead of the log, the log's shortness is excused.
	if err := f.store.MarkCovered(applied{index: in.meta.Index, term: in.meta.Term}.encode()); err != nil {
		return err
	}
	if err := in.data.Install(context.Background()); err != nil {
		return err
	}
	f.installed = in.meta.Index
	a, err := loadApplied(f.store)
	if err != nil {
		return err
	}
	if a.index != in.meta.Index {
		f.fatal(fmt.Errorf("installed state of group %d stands at %d, its metadata says %d", f.store.ID(), a.index, in.meta.Index))
	}
	if err := f.speaks.Check(a.version); err != nil {
		f.fatal(fmt.Errorf("installed state of group %d: %w", f.store.ID(), err))
	}
	if err := f.machine.Reset(); err != nil {
		return fmt.Errorf("reset machine of group %d: %w", f.store.ID(), err)
	}
	f.marks.clear()
	f.changedAt = a.index
	f.publish(a)
	f.machine.Committed(a.index)
	return nil
}

// position is an index, the digest there, and changedAt.
type position struct{ index, digest, changed uint64 }

// status returns index and digest that belong together. It does not wait for a commit:
// operators ask for it when a disk stalls.
func (f *fsm) status() (index, digest uint64) {
	p := f.position.Load()
	return p.index, p.digest
}

// waitApplied blocks until the applied index reaches index.
func (f *fsm) waitApplied(ctx context.Context, index uint64) error {
	for {
		moved := f.changed.Wait()
		if f.appliedIndex.Load() >= index {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
