package group

import (
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// truncationGuard wraps raft's log. It stops the node instead of truncating entries that
// the state has applied. Applied entries were committed, and raft never takes a
// committed entry back; a leader who asks for it was elected by nodes that have
// forgotten. What is on disk then may be the only full copy.
//
// The state is not synced, so after a power loss it is behind what it had applied.
// The log therefore records the applied index too, in the batch of the next entries.
type truncationGuard struct {
	LogStore
	applied func() uint64 // Of the state as it is now.
	before  uint64        // Noted in the log when this replica started.
	covered func() (uint64, error)
	fatal   func(from, last uint64)

	noted atomic.Uint64 // Highest note that is durable.
	seen  uint64        // Applied at the last call of noteRest.
}

// appliedNote is the stable value with a lower bound of the applied index.
var appliedNote = []byte("applied")

func newTruncationGuard(g *Group, log LogStore) (*truncationGuard, error) {
	before, err := log.GetUint64(appliedNote)
	if err != nil {
		return nil, fmt.Errorf("read how far the state was: %w", err)
	}
	l := &truncationGuard{
		LogStore: log, applied: g.AppliedIndex, before: before, fatal: g.cannotCut,
		covered: func() (uint64, error) { return coveredIndex(g.fsm.store) },
	}
	l.noted.Store(before)
	return l, nil
}

// everApplied is the highest applied index, power losses included.
func (l *truncationGuard) everApplied() uint64 { return max(l.applied(), l.before) }

// StoreLog stores one entry.
func (l *truncationGuard) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs stores entries and, at no sync of its own, how far the state is.
func (l *truncationGuard) StoreLogs(logs []*raft.Log) error {
	applied := l.everApplied()
	if err := l.StoreLogsAnd(logs, appliedNote, applied); err != nil {
		return err
	}
	l.raise(applied)
	return nil
}

// noteRest notes what was applied before the previous call and was not followed by
// an entry that would have carried the note. One goroutine calls it now and then.
func (l *truncationGuard) noteRest() error {
	seen := l.seen
	l.seen = l.everApplied()
	if seen <= l.noted.Load() {
		return nil
	}
	if err := l.SetUint64(appliedNote, l.seen); err != nil {
		return fmt.Errorf("note how far the state is: %w", err)
	}
	l.raise(l.seen)
	return nil
}

func (l *truncationGuard) raise(to uint64) {
	for old := l.noted.Load(); old < to && !l.noted.CompareAndSwap(old, to); old = l.noted.Load() {
	}
}

// DeleteRange deletes a prefix, which is compaction, or a suffix above what was
// applied. A log that ends before the applied index lies below an installed snapshot,
// and nothing of it counts any more.
func (l *truncationGuard) DeleteRange(from, to uint64) error {
	first, err := l.FirstIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	last, err := l.LastIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	applied := l.everApplied()
	if to < last || from > applied || last < applied {
		return l.LogStore.DeleteRange(from, to)
	}
	covered, err := l.covered()
	if err != nil {
		return err
	}
	if from == first && to <= covered { // Compaction of the whole log.
		return l.LogStore.DeleteRange(from, to)
	}
	l.fatal(from, last)
	return ErrCutApplied
}

func (g *Group) cannotCut(from, last uint64) {
	g.fatal(fmt.Errorf("group %d: %w: the leader wants entries %d to %d replaced, and %d was applied; keep this folder: it may be the only one that has them",
		g.id, ErrCutApplied, from, last, g.log.everApplied()))
}
